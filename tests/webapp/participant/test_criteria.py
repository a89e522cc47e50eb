"""Criteria of items: ticked, stored, scored, analysed and exported."""

import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatbots.registry import bots
from evaluation.analysis.bot_means import bot_means
from evaluation.data.formats.base import Skipped
from tests.builders import make_items, make_participant, make_study, signed_in
from tests.evaluation.agreement.judges.test_checklist import Checker
from tests.webapp.participant.conftest import csrf, post, shown, started
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.results.item_results import study_items
from webapp.results.study_data import study_data
from webapp.studies.items import item_add
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Item, Study, Task
from webapp.studies.services import task_open
from webapp.studies.study_file import FileItem, items_of_file
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db
CRITERIA = [
    {"text": "It names a <next> step.", "points": 5},
    {"text": "It is kind.", "points": 3},
    {"text": "It gives a wrong dose.", "points": -8},
]


def make_checklist(key: str = "a", *, n_items: int = 2, **fields: Any) -> Study:
    """Make a collecting study of items with three criteria each."""
    study = make_study(key, protocol="criteria", bots=[], state=Study.State.DRAFT, n_items=n_items, **fields)
    make_items(study, n_items, criteria=CRITERIA)
    return study_edit(study=study, state=Study.State.COLLECTING)


def tick(task: Task, *ticks: list[str]) -> None:
    """Tick these criteria of the task's items, in order."""
    for requested, codes in zip(requested_ratings(task), ticks, strict=True):
        rating_add(task=task, target=requested.target, answers={"criteria": codes})


def send(browser: Client, address: str, codes: list[str], n: str = "1") -> Any:
    return browser.post(address, {"_n": n, "criteria": codes, "csrfmiddlewaretoken": csrf(browser)})


def test_ticks_are_stored_with_their_score_and_can_be_changed(browser: Client) -> None:
    make_checklist()
    entry = shown(browser.get("/s/a/"))
    assert "You read replies of a chatbot and tick which statements are true of them." in entry
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "It names a &lt;next&gt; step." in page
    assert page.count('name="criteria"') == 4
    assert 'name="score"' not in page
    assert not re.search(r"criteria-\d\"[^>]* checked", page)
    assert not {"-8", "+5", "points"} & set(re.sub("<[^>]+>", " ", page.partition("<main")[2]).split())

    assert send(browser, address, ["0"]).status_code == 302
    rating = Rating.objects.get()
    assert (rating.answers, rating.other_answers) == ({"score": 62}, {"criteria": [1, 0, 0]})
    again = shown(browser.get(f"{address}?n=1"))
    assert re.search(r'id="criteria-0" value="0"[^>]* checked', again)
    assert not re.search(r'id="criteria-none" value="_none"[^>]* checked', again)
    send(browser, address, ["_none"])
    changed = Rating.objects.get()
    assert (changed.answers, changed.other_answers) == ({"score": 0}, {"criteria": [0, 0, 0]})
    assert RatingRevision.objects.get().other_answers == rating.other_answers
    assert re.search(r'id="criteria-none" value="_none"[^>]* checked', shown(browser.get(f"{address}?n=1")))
    assert send(browser, address, ["0", "1"], n="2").url.endswith("/done/")
    assert sorted(Rating.objects.values_list("answers__score", flat=True)) == [0, 100]
    assert Task.objects.get().outcome == "rated"
    send(browser, address, ["2"], n="2")
    assert Rating.objects.count() == 2


@pytest.mark.parametrize(
    ("codes", "summary", "words"),
    [
        ([], "1 answer is missing.", "Tick every statement that is true, or “None of these”."),
        (
            ["0", "_none"],
            "1 answer is missing or invalid.",
            "“None of these” cannot be combined with others. Untick one.",
        ),
        (["3"], "1 answer is missing or invalid.", "There is no statement 3. Tick those on the page."),
        (["x" * 5000], "1 answer is missing or invalid.", f"There is no statement {'x' * 20}. Tick"),
    ],
)
def test_other_answers_are_refused_and_kept_on_the_page(
    browser: Client, codes: list[str], summary: str, words: str
) -> None:
    make_checklist()
    address = started(browser, "a")
    page = shown(send(browser, address, codes))
    assert summary in page
    assert words in page
    assert 'href="#criteria-0"' in page
    assert bool(re.search(r'id="criteria-0"[^>]* checked', page)) == ("0" in codes)
    assert not Rating.objects.exists()


def test_a_tick_with_a_nul_is_refused(browser: Client) -> None:
    make_checklist()
    address = started(browser, "a")
    browser.get(address)
    assert send(browser, address, ["0\0"]).status_code == 400
    assert not Rating.objects.exists()


def test_a_score_is_computed_and_never_sent() -> None:
    task = task_open(participant=make_participant(make_checklist()))
    target = requested_ratings(task)[0].target
    for answers, wrong in (({"criteria": ["0"], "score": 100}, {"score"}), ({"criteria": "0"}, {"criteria"})):
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=target, answers=answers)
        assert set(refused.value.details["errors"]) == wrong


def test_results_exports_and_package(tmp_path: Path) -> None:
    study = make_checklist()
    plans = [(["0"], ["2"]), (["0", "1"], ["_none"]), (["0"], ["2"]), (["1"], ["_none"])]
    for ticks in plans:
        task = task_open(participant=make_participant(study))
        by_key = dict(zip(("i0", "i1"), ticks, strict=True))
        tick(task, *(by_key[one.slots[0].item.key] for one in requested_ratings(task)))
    data = study_data(study)
    results = study_items(data).criteria
    assert results is not None
    assert [row.text for row in results.criteria] == [CRITERIA[n]["text"] for n in (2, 1, 0)]
    kind = results.criteria[1]
    # Two of four tick it for the first reply, nobody for the second: 4 of 6 pairs differ, of 12.
    assert (kind.met.mean, kind.n_items, kind.n_raters) == (2 / 8, 2, 4)
    assert kind.differing == pytest.approx(4 / 12)
    staff = signed_in(*Right)
    page = shown(staff.get(reverse("dashboard:study_why", args=["a"]), {"part": "items"}))
    assert "Agreement on each criterion" in page
    assert "Two people give different answers to 31 % of a reply’s criteria." in page
    assert "It names a &lt;next&gt; step." in page

    means = bot_means(data.ratings).rows
    assert means["a", "score"].interval.mean == pytest.approx((62 + 100 + 62 + 38) / 4)
    assert means["b", "score"].interval.mean == 0

    ratings = table_of(study, "ratings", ExportOptions())
    names = [column.name for column in ratings.columns]
    rows = [dict(zip(names, row, strict=True)) for row in ratings.rows]
    assert [row["criteria"] for row in rows] == [one.other_answers["criteria"] for one in Rating.objects.order_by("id")]
    ticked = table_of(study, "criterion_ticks", ExportOptions())
    names = [column.name for column in ticked.columns]
    rows = [dict(zip(names, row, strict=True)) for row in ticked.rows]
    assert len(rows) == 8 * 3
    assert sum(row["met"] for row in rows if row["item"] == "i0" and row["criterion"] == 0) == 3
    assert {(row["text"], row["points"]) for row in rows} == {(one["text"], one["points"]) for one in CRITERIA}

    for_raters = table_of(study, "for_raters", ExportOptions())
    assert for_raters.columns[-1].name == "criteria"
    assert [row[-1] for row in for_raters.rows] == [[criterion["text"] for criterion in CRITERIA]] * 2

    call_command("export", "--study", "a", "--what", "package", "--output", str(tmp_path / "a.zip"))
    call_command("import_conversations", str(tmp_path / "a.zip"), "--study", "b")
    back = Study.objects.get(key="b")
    assert list(back.items.order_by("key").values_list("criteria", flat=True)) == [CRITERIA] * 2
    assert study_items(study_data(back)).criteria == results

    rating = Rating.objects.filter(item__study=back).order_by("pk")[0]
    Rating.objects.filter(pk=rating.pk).update(other_answers={"criteria": [1, 0]})
    changed = study_items(study_data(back)).criteria
    assert changed is not None
    assert (changed.n_without_ticks, changed.overall.met.n) == (1, 7 * 3)
    assert len(list(table_of(back, "criterion_ticks", ExportOptions()).rows)) == 7 * 3
    page = shown(staff.get(reverse("dashboard:study_why", args=["b"]), {"part": "items"}))
    assert "Ratings left out because they have no ticks that fit their item: 1." in page


def test_items_without_criteria_are_reported(tmp_path: Path) -> None:
    study = make_study("a", protocol="criteria", bots=[], state=Study.State.DRAFT, n_items=1)
    file = tmp_path / "items.jsonl"
    file.write_text(
        '{"id": "1", "response": "Hi.", "criteria": [{"text": "It is kind.", "points": 2}]}\n'
        '{"id": "2", "response": "Hi."}\n'
        '{"id": "3", "response": "Hi.", "criteria": [{"text": "a\\u0000b", "points": 2}]}\n'
        '{"id": "1", "response": "Hi.", "criteria": [{"text": "It is kind.", "points": 3}]}\n'
        '{"id": "4", "response": "Hi.", "criteria": [{"text": "It is kind.", "points": 3}], "gold": {"score": [9]}}\n'
    )
    report = items_import(study=study, lines=items_of_file(file))
    assert report.items == 1
    assert [(line.line, line.reason.split(";")[0]) for line in report.skipped if isinstance(line, Skipped)] == [
        (2, "criteria is missing"),
        (3, "criteria[0].text is 'a\\x00b'"),
        (4, "id '1' is already in line 1 with different texts"),
        (5, "gold: this study cannot have gold items"),
    ]
    assert FileItem.from_row(Item.objects.get()).to_plain()["criteria"] == [{"text": "It is kind.", "points": 2}]
    make_items(study, 1)
    with pytest.raises(ValidationError, match="Items without criteria: 1, for example “i0”"):
        study_edit(study=study, state=Study.State.COLLECTING)
    Item.objects.filter(key="i0").delete()
    study_edit(study=study, state=Study.State.COLLECTING)


def test_the_builder_offers_items_with_criteria_alone() -> None:
    make_study("a", protocol="criteria", bots=[], state=Study.State.DRAFT)
    staff = signed_in(*Right)
    address = reverse("dashboard:study_build_step", args=["a", "bots"])
    page = shown(staff.get(address))
    assert "One item per line, as JSON: id, context, response, criteria." in page
    assert "Items cannot be drawn from conversations here" in page
    staff.post(reverse("dashboard:study_items", args=["a"]), {"_sample": "1"})
    assert Item.objects.count() == Item.objects.exclude(criteria=[]).count() == 12
    with pytest.raises(Refused, match="every item of a needs criteria"):
        job_create(kind="items", payload={"study": "a", "of_study": "a", "bots": []})


def test_longest_criteria_fit(browser: Client) -> None:
    longest = [{"text": f"{n:02} " + "ü" * 497, "points": 100} for n in range(40)]
    study = make_study("a", protocol="criteria", bots=[], state=Study.State.DRAFT, n_items=1)
    item = {"id": "x" * 200, "response": "Hi.", "criteria": longest}
    assert items_import(study=study, lines=[(1, FileItem.model_validate(item))]).items == 1
    study_edit(study=study, state=Study.State.COLLECTING)
    address = started(browser, "a")
    assert shown(browser.get(address)).count("ü" * 497) == 40
    assert post(browser, address, _n="1", criteria=[str(n) for n in range(40)]).status_code == 302
    assert Rating.objects.get().answers == {"score": 100}


@pytest.fixture
def checker() -> Iterator[Checker]:
    bot = Checker()
    bots.add(bot)
    yield bot
    bots.discard("checker")


def test_a_judge_is_shown_beside_people(checker: Checker) -> None:
    study = make_study("a", protocol="criteria", bots=[], state=Study.State.DRAFT, n_items=3)
    criteria = [{"text": "It is kind.", "points": 3}, {"text": "It is wrong.", "points": -2}]
    for number, text in enumerate(("kind", "wrong", "a secret")):
        item_add(study=study, key=f"i{number}", context=[], responses=[{"text": text}], criteria=criteria)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for codes in (["0"], ["0"], ["1"]):
        tick(task_open(participant=make_participant(study)), codes, codes, codes)
    with pytest.raises(CommandError, match="unknown judge 'x'"):
        call_command("judge_criteria", "--study", "a", "--judge", "x")
    out = StringIO()
    call_command("judge_criteria", "--study", "a", "--judge", "judge_checker", stdout=out)
    assert "checked the criteria of 2 items." in out.getvalue()
    assert "1 without an answer: the judge refused to answer." in out.getvalue()
    job = Job.objects.get()
    assert job.result["ticks"] == {"i0": [1, 0], "i1": [0, 1]}

    results = study_items(study_data(study)).criteria
    assert results is not None
    overall, *each = results.judges
    assert (overall.n_items, overall.same.n) == (2, 12)
    # Two of three people agree with the judge on the first item, one of three on the second.
    assert overall.same.mean == pytest.approx(6 / 12)
    assert [row.same.mean for row in each] == pytest.approx([0.5, 0.5])
    page = shown(signed_in(*Right).get(reverse("dashboard:study_why", args=["a"]), {"part": "items"}))
    assert "Judges and people on each criterion" in page
    assert page.count("checker, standard prompt") == 3

    # The item was removed, and imported again with other criteria, after the judge had checked it.
    Item.objects.filter(key="i0").update(created_at=timezone.now())
    again = study_items(study_data(study)).criteria
    assert again is not None
    assert again.judges[0].n_items == 1
    Job.objects.create(
        kind="criteria", study=study, payload={"study": "a", "judge": "b"}, state="done", result=job.result
    )
    both = study_items(study_data(study)).criteria
    assert both is not None
    assert {row.judge for row in both.judges} == {
        f"checker, standard prompt ({name})" for name in ("b", "judge_checker")
    }
    make_study("other", protocol="annotate", bots=[], state=Study.State.DRAFT)
    with pytest.raises(CommandError, match="participants do not tick criteria in other"):
        call_command("judge_criteria", "--study", "other", "--judge", "judge_checker")
