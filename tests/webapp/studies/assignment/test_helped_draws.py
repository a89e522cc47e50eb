"""Draws with the help of a judge: known probabilities, stored with the task, and what keeps a study closed."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction

from evaluation.metrics.registry import metric_get
from tests.builders import make_conversation, make_items, make_participant, make_participants, make_study
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.jobs.selectors.item_scores import item_score_titles
from webapp.studies.helped_draws import helper_freeze, read_item_scores
from webapp.studies.models import Item, Participant, Slot, Study, StudyHelper, Task
from webapp.studies.rubrics import rubric_default
from webapp.studies.services import task_close, task_complete, task_open
from webapp.studies.study_file import study_file_of
from webapp.studies.versions import study_edit
from webapp.transfer.import_scores import scores_import

pytestmark = pytest.mark.django_db
SETTINGS: dict[str, Any] = {"helper": "gpt", "helper_uncertainty": "doubt", "max_conversations_per_participant": 1}


def import_judge(study: Study, folder: Path, scored: int, doubts: dict[int, float] | None = None) -> None:
    """Import a score of the first items, and how uncertain it is."""
    lines = ["id,metric,value"]
    lines += [f"i{n},gpt,{1 + n % 5}\ni{n},doubt,{(doubts or {}).get(n, n % 3)}" for n in range(scored)]
    path = folder / "judge.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    scores_import(path, study=study)


def make_helped(folder: Path, *, n_pool: int = 24, scored: int = 20, **settings: Any) -> Study:
    """Make a collecting study of two bots' items with a judge that helps."""
    study = make_study("h", protocol="annotate", bots=[], state="draft", n_items=4, rubric=rubric_default())
    make_items(study, n_pool)
    import_judge(study, folder, scored)
    return study_edit(study=study, state=Study.State.COLLECTING, **{**SETTINGS, **settings})


def finish_tasks(study: Study, n: int, **fields: Any) -> list[Task]:
    return [task_complete(task=task_open(participant=make_participant(study, **fields))) for _n in range(n)]


def test_the_first_fifteen_raters_get_items_at_random_and_later_ones_by_uncertainty(tmp_path: Path) -> None:
    study = make_helped(tmp_path)
    finish_tasks(study, 14)
    before, after = (task_open(participant=make_participant(study)) for _n in range(2))
    assert not before.slots.exclude(helper=None).exists()
    assert {slot.probability for slot in after.slots.all()} == {2 / 12}, "four of two bots' items, twelve each"
    task_complete(task=before)
    helped = task_open(participant=make_participant(study))
    frozen = study.helpers.get()
    assert {slot.helper for slot in helped.slots.all()} == {frozen}
    for slot in helped.slots.select_related("item"):
        assert slot.item is not None
        share = frozen.weights[str(slot.item_id)]
        assert slot.probability == pytest.approx(2 * share / 12)
        assert slot.weight == pytest.approx(1 / share)
    assert Counter(slot.item.responses[0]["model"] for slot in helped.slots.all()) == {"a": 2, "b": 2}
    rehearsed = task_open(participant=make_participant(study, is_synthetic=True))
    assert not rehearsed.slots.exclude(helper=None).exists(), "no rehearsal has been completed yet"


def test_items_are_drawn_as_often_as_their_probabilities_say(tmp_path: Path) -> None:
    study = make_helped(tmp_path, n_pool=12, scored=12)
    finish_tasks(study, 15)
    people = make_participants(study, 60)
    for person in people:
        task_open(participant=person)
    slots = Slot.objects.filter(helper__isnull=False)
    expected = dict(slots.values_list("item", "probability"))
    drawn = Counter(slots.values_list("item", flat=True))
    assert len(expected) == 12
    assert max(expected.values()) > 1.15 * min(expected.values())
    for item, probability in expected.items():
        assert drawn[item] / 60 == pytest.approx(probability, abs=0.18)


def test_items_without_a_value_get_the_mean_probability(tmp_path: Path) -> None:
    make_helped(tmp_path, n_pool=24, scored=20)
    weights = StudyHelper.objects.get().weights
    unscored = Item.objects.filter(key__in=["i20", "i21", "i22", "i23"]).values_list("pk", flat=True)
    assert {weights[str(pk)] for pk in unscored} == {1.0}
    assert len(set(weights.values())) > 2
    assert sum(weights.values()) == pytest.approx(24)


def test_scores_are_frozen_when_the_study_opens(tmp_path: Path) -> None:
    study = make_helped(tmp_path)
    first = study.helpers.get()
    import_judge(study, tmp_path, 24)
    finish_tasks(study, 1)
    study = study_edit(study=study, minutes=9)
    assert list(study.helpers.all()) == [first], "an open study keeps its scores"
    study = study_edit(study=study_edit(study=study, state="paused"), state="collecting")
    assert len(study.helpers.last().scores) == 24
    assert study.helpers.first().scores == first.scores
    assert helper_freeze(study=study) == study.helpers.last(), "nothing has changed since"


def test_a_second_attempt_gets_unseen_items_and_a_retry_the_same_task(tmp_path: Path) -> None:
    study = make_helped(tmp_path)
    person = make_participant(study)
    left = task_open(participant=person)
    assert task_open(participant=person) == left
    task_close(task=left, state=Task.State.EXPIRED)
    again = task_open(participant=person)
    items = [*left.slots.values_list("item", flat=True), *again.slots.values_list("item", flat=True)]
    assert len(set(items)) == len(items) == 8


def test_a_participant_who_has_seen_drawn_items_gets_others_without_a_probability(tmp_path: Path) -> None:
    study = make_helped(tmp_path, n_pool=8, scored=8)
    person = make_participant(study)
    for _n in range(2):
        task_close(task=task_open(participant=person), state=Task.State.EXPIRED)
    slots = Slot.objects.filter(task__participant=person)
    assert slots.values("item").distinct().count() == 8
    assert slots.count() == 8
    assert all((slot.probability is None) == (slot.weight is None) for slot in slots)


@pytest.mark.parametrize(
    "fields",
    [
        {"probability": 0.0, "weight": 1.0},
        {"probability": 1.2, "weight": 1.0},
        {"probability": 0.5},
        {"weight": 1.0},
        {"probability": 0.5, "weight": 0.0},
    ],
)
def test_the_database_refuses_impossible_probabilities(tmp_path: Path, fields: dict[str, float]) -> None:
    study = make_helped(tmp_path)
    task = task_open(participant=make_participant(study))
    helper = study.helpers.get()
    for extra in ({}, {"helper": helper}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Slot.objects.create(task=task, order=50, item=study.items.first(), **fields, **extra)
    with pytest.raises(IntegrityError), transaction.atomic():
        Slot.objects.create(task=task, order=50, bot_id="eliza", probability=0.5, weight=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Slot.objects.create(task=task, order=50, item=study.items.first(), helper=helper)


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"helper": "nobody"}, "helper", "All 24 items lack a value by “nobody”"),
        ({"helper_uncertainty": "nobody"}, "helper_uncertainty", "All 24 items lack a value by “nobody”"),
        ({"helper": ""}, "helper_uncertainty", "Choose the judge"),
        ({"raters_wanted": 3}, "raters_wanted", "Enter 0"),
        ({"raters_most": 3}, "raters_most", "Enter 0"),
        ({"max_conversations_per_participant": 0}, "max_conversations_per_participant", "only one task"),
        ({"n_items": 25}, "n_items", "has only 12"),
        ({"protocol": "pairwise"}, "helper", "does not rate replies one by one"),
    ],
)
def test_a_study_whose_probabilities_would_be_unknown_does_not_open(
    tmp_path: Path, settings: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        make_helped(tmp_path, **settings)
    assert words in refused.value.message_dict[field][0]


def test_metrics_of_the_conversations_that_items_were_drawn_from_can_help(tmp_path: Path) -> None:
    chat = make_conversation(make_study("chats"), n_exchanges=3)
    study = make_study("h", protocol="annotate", bots=[], state="draft", rubric=rubric_default())
    item, new_reply = make_items(study, 2)
    Item.objects.filter(pk=item.pk).update(key=f"{chat.pk}/3", conversation=chat, origin={"turn": 3})
    Item.objects.filter(pk=new_reply.pk).update(key=f"{chat.pk}/3/eliza", conversation=chat, origin={"turn": 3})
    metric = metric_get("words")
    version = MetricVersion.objects.create(key=metric.identity.key, name=metric.name, version=metric.identity.version)
    column = next(column.name for column in metric.columns if column.level == "turn")
    MetricResult.objects.create(conversation=chat, metric=version, turns={column: [1, 2, 3, 4.5, 5, 6]})
    assert column in item_score_titles(study)
    assert read_item_scores(study, column).scores == {item.pk: 4.5}
    assert version.key in read_item_scores(study, column).identity
    assert read_item_scores(study, "nothing").scores == {}


def test_the_setting_is_in_the_study_file_and_in_the_plan(tmp_path: Path) -> None:
    study = make_helped(tmp_path)
    assert study_file_of(study).helping.helper == "gpt"
    assert study.plans.get().document["helper"] == ["gpt", "doubt"]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_participants_who_start_at_once_get_different_draws(tmp_path: Path) -> None:
    study = make_helped(tmp_path)
    people, barrier = make_participants(study, 6), threading.Barrier(6)

    def start(person: Participant) -> None:
        barrier.wait(timeout=30)
        task_open(participant=Participant.objects.get(pk=person.pk))
        connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start, people))
    drawn = Counter(Slot.objects.filter(probability__isnull=False).values_list("item", flat=True))
    assert set(drawn.values()) == {1}, "six tasks of four items cover all 24 once"
