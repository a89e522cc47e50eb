"""Live numbers of a study: who is where, and what is settled."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from evaluation.analysis.comparisons import compare
from tests.builders import (
    fail_reply,
    make_annotated,
    make_conversation,
    make_pairwise,
    make_participant,
    make_rating,
    make_study,
)
from webapp.conversations import services as conversation_services
from webapp.conversations.models import Conversation
from webapp.insights.live_page import LiveRoom, live_room
from webapp.insights.live_progress import now_rounded
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_add
from webapp.studies.items import item_add
from webapp.studies.models import OrderState, Outcome, Study
from webapp.studies.recruitment.links import step_reached
from webapp.studies.services import task_end, task_open

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    """Empty the cache before and after: numbers of another test's study must not answer for these."""
    cache.clear()
    yield
    cache.clear()


def room(study: Study, **fields: Any) -> LiveRoom:
    return live_room(study, **{"include_synthetic": False, "now": now_rounded(), **fields})


def at(conversation: Conversation, step: str) -> Conversation:
    """Let somebody look at a step."""
    step_reached(task=conversation.task, step=step)
    return conversation


def test_two_that_are_compared_are_settled_by_who_is_preferred() -> None:
    study = make_pairwise("p", n_items=30, n_in_task=10)
    for _person in range(12):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item"):
            answers = dict.fromkeys(("quality", "fluency", "relatedness", "empathy"), 0)
            rating_add(task=task, target=slot.item, answers={**answers, "quality": 1})
    assert room(study).orders == []
    run_job(Job.objects.get(kind="order"))
    order, *others = room(study).orders
    assert (order.key, order.n_told_apart, order.n_pairs) == ("quality", 1, 1)
    [sentence] = order.sentences
    assert (sentence.lead, sentence.rest) == ("a and b", "are clearly different; a is better.")
    assert others[0].sentences[0].lead == "a and b"
    assert "would be needed to show a difference of 0.20" in others[0].sentences[0].rest, "all said the same"


def test_items_are_settled_by_the_contexts_that_both_answered() -> None:
    study = make_annotated("n", n_items=2)
    for number in range(2, 12):
        item_add(
            study=study,
            key=f"i{number}",
            context=[f"hi {number // 2}"],
            responses=[{"model": "ab"[number % 2], "text": f"reply {number}"}],
        )
    for _person in range(16):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item"):
            model = slot.item.responses[0]["model"]
            answers = dict.fromkeys(("fluency", "diversity", "contingency", "empathy"), 4)
            quality = 6 if model == "a" else 2
            rating_add(task=task, target=slot.item, answers={**answers, "quality": quality})
    room(study)
    run_job(Job.objects.get(kind="order"))
    order, *_others = room(study).orders
    assert (order.key, order.n_told_apart) == ("quality", 1)
    assert order.sentences[0].rest == "are clearly different; a is better."
    result = OrderState.objects.get().found
    # Each item has four ratings and each person rates three items: at least 6 * 4 / 3 people rated each bot.
    assert result["unit"] == "things", "six contexts are fewer than a bot's raters"
    # Other pages count by the same test.
    assert compare(study_ratings(study)).n_told_apart == 1


def test_somebody_who_failed_a_check_has_not_left() -> None:
    study = make_study("s")
    conversation = at(make_conversation(study), "chat")
    task_end(task=conversation.task, outcome=Outcome.FAILED_CHECK)
    stages = {stage.name: stage for stage in room(study).people.stages}
    assert (stages["chat"].ended, stages["chat"].n_left, stages["chat"].share) == (1, 0, None)


def test_people_are_counted_once_and_a_large_study_not_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study("s", pay_each=1.0)
    link = {"platform": "prolific", "external_id": "p1"}
    lost = at(make_conversation(study, **link, recruitment={"SESSION_ID": "s1"}), "chat")
    fail_reply(lost)
    conversation_services.conversation_finish_failed(conversation=lost)
    again = make_conversation(study, n_exchanges=3, **link, recruitment={"SESSION_ID": "s2"})
    make_rating(at(at(again, "chat"), "form"))
    at(make_conversation(study, is_synthetic=True), "chat")
    totals = room(study).people.totals
    assert (totals.agreed, totals.done, totals.reached) == (1, 1, {"chat": 1, "form": 1})
    assert totals.ended == {"": 0, "chat": 0, "form": 0}, "who has finished has not ended early"
    assert totals.outcomes == {"rated": 1, "bot_failed": 1}
    with_scripts = room(study, include_synthetic=True)
    assert (with_scripts.people.n_agreed, with_scripts.money.people) == (2, 2.0)
    monkeypatch.setattr("webapp.insights.live_progress.LARGE", 0)
    monkeypatch.setattr("webapp.insights.live_progress._REUSED_FOR", 10_000)
    assert room(study).people.n_agreed == 1
    make_conversation(study)
    known = room(study).people
    assert (known.n_agreed, known.n_inside) == (1, 1), "who is inside is always read"
