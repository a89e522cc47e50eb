"""Items: from a file, in sets that are told apart and taken out, and who gets which in pairwise studies."""

import gzip
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import make_items, make_pairwise, make_participant, make_study
from webapp.conversations.imported_sets import imported_set_remove, imported_sets
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.ratings.services import rating_add
from webapp.studies.items import gold_store, item_set_remove, item_sets, origin_of_file, study_item_sets
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Item, Participant, Slot, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.rubrics import rubric_default
from webapp.studies.selectors import study_refusal
from webapp.studies.services import task_close, task_open
from webapp.studies.study_file import FileItem, items_of_file, items_sample
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store

pytestmark = pytest.mark.django_db


def line(number: Any, **fields: Any) -> str:
    values = {
        "id": number,
        "source": "grade",
        "context": ["hello", "hi"],
        "response": f"reply {number}",
        "reference": "good day",
        "model": "m",
        "ratings": [{"coherence": 3}],
        "scale": [1, 5],
    }
    return json.dumps({**values, **fields})


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(path: Path, key: str = "s") -> dict[str, Any]:
    out = StringIO()
    call_command("import_items", str(path), "--study", key, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", protocol="annotate", bots=[], state="draft")


def test_items_are_stored_as_the_file_has_them(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress((line("a") + "\n" + line(7, reference=None)).encode()))
    assert run(path) == {"items": 2, "unchanged": 0, "skipped": []}
    first, second = study.items.order_by("pk")
    assert (first.key, first.context, first.reference) == ("grade/a", ["hello", "hi"], "good day")
    assert first.responses == [{"model": "m", "text": "reply a"}]
    assert (second.key, second.reference) == ("grade/7", None)


def test_the_same_file_again_changes_nothing(study: Study, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *(line(n) for n in range(1200)), line(3))
    assert run(path)["items"] == 1200
    assert run(path) == {"items": 0, "unchanged": 1201, "skipped": []}
    other = make_study("other", protocol="annotate", bots=[], state="draft")
    assert run(path, "other")["items"] == other.items.count() == 1200


def test_what_is_stored_is_not_changed_under_people(study: Study, tmp_path: Path) -> None:
    run(write(tmp_path / "x.jsonl", line(1)))
    result = run(write(tmp_path / "y.jsonl", line(1, response="another"), line(2), line(2, context=[])))
    assert result["items"] == 1
    assert [one["line"] for one in result["skipped"]] == [1, 3]
    assert "is already in the study with different texts" in result["skipped"][0]["reason"]
    assert "is already in line 2 with different texts" in result["skipped"][1]["reason"]
    assert study.items.get(key="grade/1").responses[0]["text"] == "reply 1"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "must be a mapping"),
        ('{"id": "x"}', "response is missing"),
        (line(1, response=" "), "it must not be blank"),
        (line(1, response="a\x00b"), "U+0000"),
        (line(1, context="hello"), "context"),
        (line(1, context=[1], model=5), "2 mistakes"),
        (line(True), "id"),
        (line("x" * 200), "206 characters together"),
    ],
)
def test_a_bad_line_is_told_by_number_and_reason(study: Study, tmp_path: Path, bad: str, reason: str) -> None:
    result = run(write(tmp_path / "x.jsonl", line("good"), "", bad, line("too")))
    assert result["items"] == 2
    [skipped] = result["skipped"]
    assert skipped["line"] == 3
    assert reason in skipped["reason"]


def test_what_cannot_be_done_is_one_line(study: Study, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no study 'nope'"):
        run(write(tmp_path / "x.jsonl", line(1)), "nope")
    with pytest.raises(CommandError, match="there is no file"):
        run(tmp_path / "none.jsonl")


def test_queries_do_not_grow_with_the_lines_of_a_batch(
    study: Study, tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    path = write(tmp_path / "x.jsonl", *(line(n) for n in range(500)))
    with django_assert_max_num_queries(17):  # SQLite takes so many rows a query that the fields times the rows fit
        run(path)


def test_a_second_reply_makes_an_item_for_comparisons(tmp_path: Path) -> None:
    study = make_study("p", protocol="pairwise", bots=[], state="draft")
    second = {"second_response": "another reply", "second_model": "n"}
    path = write(tmp_path / "pairs.jsonl", line(1, **second), line(2, second_response=" "))
    out = StringIO()
    call_command("import_items", str(path), "--study", "p", "--json", stdout=out)
    document = json.loads(out.getvalue())
    assert document["items"] == 1
    assert "second_response" in document["skipped"][0]["reason"]
    item = study.items.get()
    assert item.responses == [{"model": "m", "text": "reply 1"}, {"model": "n", "text": "another reply"}]
    study_edit(study=study, state=Study.State.COLLECTING)


def test_two_files_whose_lines_name_no_data_set_are_two_sets(study: Study, tmp_path: Path) -> None:
    for name in ("easy", "hard"):
        run(write(tmp_path / f"{name}.jsonl", line(f"{name}-1", source=None)))
    run(write(tmp_path / "named.jsonl", line("x", source="grade")))
    assert study_item_sets(study) == {"easy-1": "easy.jsonl", "hard-1": "hard.jsonl", "grade/x": "grade"}


def given(study: Study, *, is_synthetic: bool, **what: object) -> Slot:
    """Give somebody an item or a conversation."""
    person = make_participant(study, is_synthetic=is_synthetic)
    task = Task.objects.create(participant=person, version=study.version, kind="judge")
    return Slot.objects.create(task=task, **what)


def test_sets_are_told_apart_and_taken_out_but_for_what_people_were_given() -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft")
    sample = [FileItem.model_validate(one) for one in items_sample(protocols.get("annotate"))]
    items_import(study=study, lines=enumerate(sample))
    make_items(study, 3)
    replies = [{"model": "m", "text": "yes"}]
    for key, origin in (
        ("grade/1", {}),
        ("chat/4/a", {"of_study": "talks"}),
        ("run/1/b", {"run": 7}),
        ("one", {"file": "monday.jsonl"}),
    ):
        Item.objects.create(study=study, key=key, responses=replies, origin=origin)
    assert [(item_set.name, item_set.n, item_set.n_given) for item_set in item_sets(study)] == [
        ("file", 3, 0),
        ("file:grade", 1, 0),
        ("file:monday.jsonl", 1, 0),
        ("run:7", 1, 0),
        ("sample", len(sample), 0),
        ("study:talks", 1, 0),
    ]

    mine, rehearsed, repeated = Item.objects.filter(key__startswith="example-").order_by("pk")[:3]
    given(study, is_synthetic=False, item=mine)
    given(study, is_synthetic=True, item=rehearsed)
    again = Item.objects.create(study=study, key="again", purpose="repeat", original=repeated, responses=replies)
    given(study, is_synthetic=False, item=again)
    Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING)
    with pytest.raises(ValidationError, match="Pause the study first"):
        item_set_remove(study=study, name="sample")
    Study.objects.filter(pk=study.pk).update(state=Study.State.PAUSED)
    assert item_set_remove(study=study, name="sample") == (len(sample) - 2, 2)
    assert [item_set.n_given for item_set in item_sets(study) if item_set.kind == "sample"] == [2]
    assert not Participant.objects.filter(is_synthetic=True).exists(), "its rehearsal went along"
    assert item_set_remove(study=study, name="file:grade") == (1, 0)
    with pytest.raises(ValidationError, match="removed already"):
        item_set_remove(study=study, name="file:grade")
    assert study.items.count() == 2 + 1 + 3 + 3


def test_another_file_of_the_same_name_is_another_set(tmp_path: Path) -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft")
    path = tmp_path / "items.jsonl"
    for key in ("a", "b", "a"):
        path.write_text(json.dumps({"id": key, "context": ["hi"], "response": "yes"}))
        origin = origin_of_file(study, path.name, path)
        items_import(study=study, lines=items_of_file(path), origin=origin)
    assert [(item_set.name, item_set.n) for item_set in item_sets(study)] == [
        ("file:items.jsonl", 1),
        ("file:items.jsonl (2)", 1),
    ]
    path.write_text("\n".join(json.dumps({"id": key, "context": ["hi"], "response": "yes"}) for key in "bc"))
    origin = origin_of_file(study, path.name, path)
    items_import(study=study, lines=items_of_file(path), origin=origin)
    assert [(item_set.name, item_set.n) for item_set in item_sets(study)][2:] == [("file:items.jsonl (3)", 1)]


def test_gold_items_of_what_is_not_asked_any_more_are_named() -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft", n_gold=1)
    [item] = make_items(study, 1)
    key = study.rubric.dimensions.first().key
    gold_store(item=item, expected={key: [1]})
    study_edit(study=study, n_gold=1)
    Item.objects.filter(pk=item.pk).update(expected={"warmth": [1]})
    with pytest.raises(ValidationError, match="Gold item “i0”: “warmth” has an expected answer"):
        study_edit(study=study, n_gold=2)
    study_edit(study=study, n_gold=0)


def test_conversations_are_taken_out_but_for_those_that_something_hangs_on() -> None:
    study = make_study("s", protocol="turns", bots=[], state="draft")
    records_store(study=study, records=conversations_sample())
    mine, rehearsed, drawn = Conversation.objects.order_by("external_id")[:3]
    given(study, is_synthetic=False, conversation=mine)
    given(study, is_synthetic=True, conversation=rehearsed)
    other = make_study("o", protocol="annotate", bots=[], state="draft")
    replies = [{"model": "m", "text": "yes"}]
    Item.objects.create(study=other, key="1", responses=replies, conversation=drawn)
    [result] = imported_sets(study)
    assert (result.name, result.n, result.n_given) == ("sample", 6, 2)
    assert imported_set_remove(study=study, name="sample") == (4, 2)
    assert {*study.conversations.all()} == {mine, drawn}
    assert not Participant.objects.filter(is_synthetic=True).exists()


SAME = dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), 0)


def judged(study: Study) -> Task:
    """Let somebody take a task on and judge all of it."""
    task = task_open(participant=make_participant(study))
    for slot in task.slots.all():
        rating_add(task=task, target=slot.item, answers=SAME)
    return task


def test_each_reply_stands_on_each_side_for_half_of_the_people() -> None:
    study = make_pairwise(n_items=3)
    for _person in range(8):
        judged(study)
    for item in study.items.all():
        assert item.slots.count() == 8
        assert item.slots.filter(is_flipped=True).count() == 4


def test_a_side_that_was_lost_with_its_place_is_given_again() -> None:
    study = make_pairwise(n_items=1)
    first = task_open(participant=make_participant(study))
    task_close(task=first, state=Task.State.EXPIRED)
    for _person in range(2):
        judged(study)
    sides = Slot.objects.exclude(task=first).values_list("is_flipped", flat=True)
    assert sorted(sides) == [False, True]


def test_items_get_the_people_that_are_wanted_and_more_only_to_fill_up_a_task() -> None:
    study = make_pairwise(n_items=3, n_in_task=2, raters_wanted=2, raters_most=3)
    for _person in range(3):
        judged(study)
    assert sorted(item.slots.count() for item in study.items.all()) == [2, 2, 2]
    late = make_participant(study)
    refusal = study_refusal(study, late)
    assert refusal.code == "full"
    with pytest.raises(Refused) as refused:
        task_open(participant=late)
    assert refused.value.code == "full"
    study_edit(study=study, raters_wanted=3)
    study.refresh_from_db()
    assert study_refusal(study, late) is None


def test_the_last_task_is_filled_up_but_never_beyond_the_most() -> None:
    study = make_pairwise(n_items=3, n_in_task=2, raters_wanted=1, raters_most=2)
    for _person in range(2):
        judged(study)
    assert sorted(item.slots.count() for item in study.items.all()) == [1, 1, 2]


def test_scripted_people_take_nobodys_place() -> None:
    study = make_pairwise(n_items=1, raters_wanted=1)
    for _person in range(2):
        task_open(participant=make_participant(study, is_synthetic=True))
    assert task_open(participant=make_participant(study)).slots.count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"raters_least": 6, "raters_wanted": 5}, "raters_least"),
        ({"raters_wanted": 9, "raters_most": 8}, "raters_most"),
        ({"raters_least": 9, "raters_most": 8}, "raters_most"),
    ],
)
def test_numbers_of_people_that_cannot_be_are_refused(fields: dict[str, int], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("p", bots=[], protocol="pairwise", state="draft", **fields)
    assert list(refused.value.message_dict) == [field]


@pytest.mark.parametrize(
    "fields",
    [
        {"raters_least": 2, "raters_wanted": 3, "raters_most": 0},  # 0: no limit
        {"raters_least": 2, "raters_wanted": 3, "raters_most": 3},
        {"raters_least": 3, "raters_wanted": 3, "raters_most": 4},
    ],
)
def test_numbers_of_people_that_fit_are_taken(fields: dict[str, int]) -> None:
    study = make_study("p", bots=[], protocol="pairwise", state="draft", **fields)
    assert study.values.judging.raters_most == fields["raters_most"]


def test_it_opens_with_items_of_two_replies_each() -> None:
    study = make_study("p", bots=[], protocol="pairwise", state="draft")
    make_items(study, 1)
    with pytest.raises(ValidationError, match="1 items do not have 2 replies each, for example “i0”"):
        study_edit(study=study, state=Study.State.COLLECTING)


def test_a_draft_that_becomes_a_comparison_asks_its_questions_and_back() -> None:
    study = make_study("p", state="draft")
    study_edit(study=study, protocol="pairwise")
    study.refresh_from_db()
    params = {dimension.key: dimension.scale for dimension in study.rubric.dimensions.all()}
    assert params == dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), (-1, 1))
    study_edit(study=study, protocol="chat")
    study.refresh_from_db()
    assert study.rubric.dimensions.count() == 5


def test_questions_on_another_scale_are_refused() -> None:
    with pytest.raises(ValidationError, match="uses a scale from -1 to 1, but “quality” has a different one"):
        make_study("p", bots=[], protocol="pairwise", state="draft", rubric=rubric_default())
