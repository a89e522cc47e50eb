"""Replies rated beside a known one with a score: which is better first, then the questions that fit the item."""

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

import confab
from tests.builders import make_items, make_participant, make_staff, make_study
from tests.webapp.participant.conftest import post, shown, started
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.ratings.services import rating_add
from webapp.results.compute import PARTS
from webapp.results.study_data import study_data
from webapp.studies.models import Study, Task
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.writers import write_file

pytestmark = pytest.mark.django_db
QUESTIONS = [
    {"key": key, "title": f"{key}?", "kind": "scale", "low": 1, "high": 5}
    for key in ("relevance", "fluency", "emotional_awareness", "personality_awareness")
]
ONLY_OF = {"emotional_awareness": ["empathetic"], "personality_awareness": ["persona"]}
GOOD = {"relevance": "5", "fluency": "5", "personality_awareness": "5"}


def make_referenced(key: str = "a", *, n_items: int = 2, **fields: Any) -> Study:
    study = make_study(
        key,
        protocol="reference",
        bots=[],
        state="draft",
        **{"n_items": n_items, "after": QUESTIONS, "asked_only_of": ONLY_OF, **fields},
    )
    make_items(
        study,
        n_items,
        reference="You earned that smile.",
        reference_score=4,
        task="persona",
        panel={"persona": ["i run.", "i have a dog."], "topic": "running"},
    )
    return study_edit(study=study, state=Study.State.COLLECTING)


def test_the_first_page_says_how_many_questions_each_text_has(browser: Client) -> None:
    check = {"key": "check", "title": "Please choose 2", "kind": "scale", "low": 1, "high": 5}
    study = make_referenced()
    assert "answer 4 questions about each text" in shown(browser.get("/s/a/")), "three and which is better"
    study.items.filter(pk=study.items.earliest("pk").pk).update(task="")
    assert "answer 3 to 4 questions about each text" in shown(browser.get("/s/a/"))
    study_edit(study=study, after=[*QUESTIONS, {**check, "expected": [2]}])
    assert "answer 3 to 5 questions about each text" in shown(browser.get("/s/a/"))
    study_edit(study=study, after=QUESTIONS, asked_only_of={})
    assert "answer 5 questions about each text" in shown(browser.get("/s/a/"))


def test_all_of_it_is_stored_and_a_changed_score_too(browser: Client) -> None:
    make_referenced()
    address = started(browser, "a")
    post(browser, address, _n="1", direction="better", reference_score="4", **GOOD)
    scored = dict.fromkeys(("relevance", "fluency", "personality_awareness"), 5)
    assert Rating.objects.get().answers == {**scored, "direction": 1}, "4 is what it was"
    post(browser, address, _n="2", direction="worse", reference_score="3", **dict.fromkeys(GOOD, "2"))
    last = Rating.objects.order_by("pk").last()
    assert (last.answers["direction"], last.answers["reference_score"]) == (-1, 3)
    assert Task.objects.get().outcome == "rated"


def test_a_changed_score_stands_there_in_words_when_somebody_comes_back(browser: Client) -> None:
    make_referenced()
    address = started(browser, "a")
    post(browser, address, _n="1", direction="better", reference_score="3", **GOOD)
    page = shown(browser.get(f"{address}?n=1"))
    assert "You set it to 3" in page
    assert re.search(r'value="better" checked', page)
    assert re.search(r'id="reference_score-3" value="3" checked', page)


def test_a_contradiction_is_asked_about_once_and_both_may_be_kept(browser: Client) -> None:
    make_referenced()
    address = started(browser, "a")
    page = shown(post(browser, address, _n="1", direction="worse", **GOOD))
    assert "You chose “Worse” but rated it higher than the reference reply. Keep both answers, or change one." in page
    assert "Error:" not in page, "a question, no mistake"
    assert 'name="_asked" value="1"' in page
    assert re.search(r'value="worse" checked', page)
    assert not Rating.objects.exists()
    answered = post(browser, address, _n="1", _asked="1", direction="worse", **GOOD)
    assert answered.status_code == 302
    assert Rating.objects.get().answers["kept_both"] == 1
    assert "Keep both" not in shown(browser.get(f"{address}?n=1"))
    again = post(browser, f"{address}?n=1", _n="1", direction="better", **GOOD)
    assert again.status_code == 302
    assert "kept_both" not in Rating.objects.get().answers


@pytest.mark.parametrize(
    ("direction", "score", "words"),
    [
        ("better", "2", "You chose “Better” but rated it lower"),
        ("same", "1", "You chose “Same” but rated it much lower"),
        ("same", "4", ""),
        ("better", "4", ""),
    ],
)
def test_what_contradicts(browser: Client, direction: str, score: str, words: str) -> None:
    make_referenced()
    address = started(browser, "a")
    answered = post(browser, address, _n="1", direction=direction, **dict.fromkeys(GOOD, score))
    assert answered.status_code == (200 if words else 302)
    if words:
        assert words in shown(answered)


@pytest.mark.parametrize(
    ("answers", "key"),
    [
        ({"direction": 2}, "direction"),
        ({}, "direction"),
        ({"direction": 1, "reference_score": 6}, "reference_score"),
        ({"direction": 1, "relevance": 6}, "relevance"),
        ({"direction": 1, "emotional_awareness": 4}, "emotional_awareness"),
    ],
)
def test_the_service_and_the_database_refuse_what_is_on_no_scale(answers: dict[str, Any], key: str) -> None:
    task = task_open(participant=make_participant(make_referenced()))
    item = task.slots.all()[0].item
    good = dict.fromkeys(GOOD, 5)
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=item, answers={**good, **answers})
    assert key in refused.value.details["errors"]
    rating = rating_add(task=task, target=item, answers={**good, "direction": 1}).rating
    if key != "emotional_awareness" and answers:
        with pytest.raises(IntegrityError), transaction.atomic():
            Rating.objects.filter(pk=rating.pk).update(answers=answers)


def test_only_items_with_a_scored_reference_are_given_and_none_is_refused() -> None:
    study = make_referenced(n_items=3)
    make_items_without = study.items.filter(key="i0")
    make_items_without.update(reference_score=None)
    task = task_open(participant=make_participant(study))
    assert {slot.item.key for slot in task.slots.all()} == {"i1", "i2"}
    bare = make_study("b", protocol="reference", bots=[], state="draft", after=QUESTIONS)
    make_items(bare, 1)
    with pytest.raises(ValidationError, match="reference with a score"):
        study_edit(study=bare, state=Study.State.COLLECTING)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"asked_only_of": {"wit": ["persona"]}}, "asked_only_of", "is not a question of this study"),
        ({"weights_study": "a"}, "weights_study", "no other study"),
        ({"weights_study": "nowhere"}, "weights_study", "no other study"),
        ({"after": [{**QUESTIONS[0], "key": "direction"}], "asked_only_of": {}}, "after", "another key"),
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_referenced(**fields)
    assert words in " ".join(refused.value.message_dict[field])


def rate(study: Study, *directions: int, score: int = 5) -> None:
    """Let one person rate the study's items, saying this of them in turn."""
    task = task_open(participant=make_participant(study))
    for slot, direction in zip(task.slots.order_by("order"), directions, strict=True):
        answers = {**dict.fromkeys(GOOD, score), "direction": direction}
        rating_add(task=task, target=slot.item, answers=answers)


def test_the_result_tells_what_was_said_and_how_far_scores_keep_to_it(client: Client) -> None:
    study = make_referenced()
    rate(study, 1, 1)
    rate(study, -1, 1)
    rate(study, 0, 0, score=4)
    data = study_data(study)
    assert data is not None
    beside = PARTS["items"].make(data, None).beside
    assert (beside.n_ratings, beside.n_kept_rule, beside.n_contradicting) == (6, 5, 1)
    assert sum(bot.n_ratings for bot in beside.bots) == 6
    client.force_login(make_staff(Right.READ))
    address = reverse("dashboard:study_why", args=[study.key]) + "?part=items"
    page = shown(client.get(address))
    assert "In 5 of 6 ratings the score agrees with" in page
    assert "Comparison with the reference replies" in page
    assert "Question weights" in page


def test_export_and_confab_read_keep_it(tmp_path: Any) -> None:
    study = make_referenced()
    rate(study, 1, -1)
    options = ExportOptions()
    for name in ("items", "ratings"):
        exporter = exporter_get(name)
        columns = exporter.columns(study, options)
        assert all(column.description.endswith((".", "]")) for column in columns)
        for file_format in ("csv", "jsonl", "parquet"):
            file = tmp_path / f"{name}.{file_format}"
            write_file(file, file_format, columns, exporter.rows(study, options))
    for file_format in ("csv", "jsonl", "parquet"):
        read = confab.read(tmp_path / f"items.{file_format}", tmp_path / f"ratings.{file_format}")
        assert len(read) == 2
        assert set(read.bots) == {"a", "b"}
        assert read.dimensions == ("relevance", "fluency", "personality_awareness")
        assert read.ratings["relevance"].tolist() == [5, 5]
        first = read.dialogues[0].conversation
        assert [turn.speaker for turn in first.turns] == ["bot", "human", "bot"]
        assert first.turns[-1].text.startswith("reply")
    exporter = exporter_get("ratings")
    names = [column.name for column in exporter.columns(study, options)]
    rows = [dict(zip(names, row, strict=True)) for row in exporter.rows(study, options)]
    assert [row["direction"] for row in rows] == [1, -1]
    assert rows[0]["kept_both"] is None
