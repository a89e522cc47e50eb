"""A study whose people judge items: the same tables, comparisons and pages as one of chats."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evaluation.analysis.comparisons import bot_means, compare
from tests.builders import make_annotated, make_participant, signed_in
from tests.markup import flat
from webapp.core.rights import Right
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import ratings_counted, study_ratings
from webapp.ratings.services import rating_add
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Study
from webapp.studies.services import task_open, task_withdraw
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
KEYS = ("quality", "fluency", "diversity", "contingency", "empathy")


def judge(study: Study, *, good: str = "a", n: int | None = None, **fields: Any) -> None:
    """Let somebody judge their items; replies of the model `good` get 6, the others 2."""
    task = task_open(participant=make_participant(study, **fields))
    for judgement in requested_ratings(task)[:n]:
        [slot] = judgement.slots
        model = slot.item.responses[0]["model"]
        answers = dict.fromkeys(KEYS, 6.0 if model == good else 2.0)
        rating_add(task=task, target=slot.item, answers=answers)


@pytest.fixture(scope="module")
def judged(rows_of_file: None) -> Study:
    """Make a study in which eight people judged three items each of two models."""
    study = make_annotated()
    for _ in range(8):
        judge(study)
    return study


@pytest.fixture
def study(judged: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=judged.pk)


def test_ratings_of_items_are_one_table_with_the_model_as_bot(study: Study) -> None:
    ratings = study_ratings(study)
    assert len(ratings) == 24
    assert set(ratings.bots) == {"a", "b"}
    assert ratings.n_conversations == 6, "items stand where conversations do"
    assert ratings.n_raters == 8
    assert set(ratings.conversation) == {f"i{n}" for n in range(6)}
    assert all(unit.startswith("p ") for unit in ratings.unit), "a person's ratings belong together"
    assert bot_means(ratings).intervals("a")["quality"].mean == 6
    assert len(compare(ratings, plans=False).pairs) == 1


def test_what_was_judged_counts_and_what_was_withdrawn_does_not(study: Study) -> None:
    judge(study, n=1)
    judge(study, is_synthetic=True)
    left = task_open(participant=make_participant(study))
    [first, *_rest] = requested_ratings(left)
    rating_add(task=left, target=first.slots[0].item, answers=dict.fromkeys(KEYS, 3.0))
    assert ratings_counted(study).count() == 26
    task_withdraw(task=left)
    assert ratings_counted(study).count() == len(study_ratings(study)) == 25
    assert ratings_counted(study, include_synthetic=True).count() == 28


def test_a_summary_counts_items_and_leads_with_the_better_model(study: Study) -> None:
    summary = bot_summary(study)
    assert [bot.bot.bot_id for bot in summary.bots] == ["a", "b"]
    assert [bot.n_conversations for bot in summary.bots] == [3, 3]
    assert summary.n_ratings == 24
    assert summary.bots[0].intervals["quality"].mean == 6


def test_models_without_a_name_are_one_bot(study: Study) -> None:
    study.items.update(responses=[{"text": "x"}])
    assert study_ratings(study).bots == ("(no model named)",)
    assert [bot.bot.bot_id for bot in bot_summary(study).bots] == ["(no model named)"]


@pytest.mark.parametrize("page", ["", "results/", "results/why/", "results/prediction/", "conversations/", "report/"])
def test_pages_show_it(study: Study, page: str) -> None:
    client = signed_in(*Right)
    shown = client.get(f"/dashboard/studies/{study.key}/{page}")
    assert shown.status_code == 200, page


def test_the_overview_counts_items_and_asks_for_no_chatbot(study: Study) -> None:
    client = signed_in(*Right)
    overview = flat(client.get(f"/dashboard/studies/{study.key}/").content.decode())
    for model in ("a", "b"):
        assert re.search(rf'{model}</th><td class="number">3</td><td class="number">12</td>', overview)
    assert "Participants cannot get a chatbot" not in overview
    assert "cannot give participants a chatbot" not in client.get("/dashboard/").content.decode()


def test_every_kind_of_target_is_exported(study: Study) -> None:
    exporter = exporter_get("ratings")
    options = ExportOptions()
    names = [column.name for column in exporter.columns(study, options)]
    rows = [dict(zip(names, row, strict=True)) for row in exporter.rows(study, options)]
    assert len(rows) == exporter.count(study, options) == 24
    for row in rows:
        assert (row["target"], row["conversation"], row["turn"]) == ("item", None, None)
        assert row["quality"] == (6 if row["bot"] == "a" else 2)
        assert row["item"] in {f"i{n}" for n in range(6)}
        assert row["study"] == study.key
