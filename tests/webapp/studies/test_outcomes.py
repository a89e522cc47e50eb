"""Outcome, code and link of a chat: what its person is shown, and what exports say."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import fail_reply, make_conversation, make_rating, make_study
from webapp.conversations import services
from webapp.conversations.models import Conversation
from webapp.studies.models import Study, Task
from webapp.studies.outcomes import (
    Ending,
    ending_of,
    endings_of,
    tasks_with_endings,
)

pytestmark = pytest.mark.django_db
PROLIFIC = {"platform": "prolific", "external_id": "p1", "recruitment": {"SESSION_ID": "s1"}}
LINK = "https://app.prolific.com/submissions/complete?cc="


def rated(study: Study, **who: object) -> Ending:
    conversation = make_conversation(study, n_exchanges=3, **who)
    return ended(make_rating(conversation).rating.conversation)


def bot_failed(study: Study, **who: object) -> Ending:
    conversation = make_conversation(study, **who)
    fail_reply(conversation)
    services.conversation_finish_failed(conversation=conversation)
    return ended(conversation)


def withdrawn(study: Study, **who: object) -> Ending:
    conversation = make_conversation(study, n_exchanges=1, **who)
    services.conversation_withdraw(conversation=conversation)
    return ended(conversation)


def ended(conversation: Conversation) -> Ending:
    ending = ending_of(Task.objects.get(slots__chat=conversation))
    assert ending is not None
    return ending


def test_every_outcome_has_its_own_code_of_prolific() -> None:
    study = make_study(
        prolific_rated="RATED1", prolific_bot_failed="FAILED1", prolific_withdrawn="GONE1"
    )
    for end, outcome, code in (
        (rated, "rated", "RATED1"),
        (bot_failed, "bot_failed", "FAILED1"),
        (withdrawn, "withdrawn", "GONE1"),
    ):
        ending = end(study, **{**PROLIFIC, "external_id": outcome})
        assert (ending.outcome, ending.code, ending.link) == (outcome, code, LINK + code)
        assert ending.ended_at is not None


def test_a_failed_bot_without_a_code_of_its_own_pays_as_rated_and_withdrawing_does_not() -> None:
    study = make_study(prolific_rated="RATED1")
    assert bot_failed(study, **PROLIFIC).code == "RATED1"
    ending = withdrawn(study)
    assert (ending.code, ending.link) == ("", "")


def test_a_completion_link_of_prolific_gives_its_code() -> None:
    study = make_study(completion_url=LINK + "C1ABC")
    assert (rated(study).code, rated(study).link) == ("C1ABC", LINK + "C1ABC")
    assert bot_failed(study).code == "C1ABC"


def test_an_address_elsewhere_is_a_link_without_code_and_a_placeholder_takes_ours() -> None:
    elsewhere = rated(make_study(completion_url="https://panel.example/back?study=7"))
    assert (elsewhere.code, elsewhere.link) == ("", "https://panel.example/back?study=7")
    filled = rated(make_study("t", completion_url="https://panel.example/back?code={code}"))
    assert filled.code == filled.task.completion_code
    assert filled.link == f"https://panel.example/back?code={filled.code}"


def test_without_link_the_code_is_ours_and_mechanical_turk_never_sees_prolifics() -> None:
    plain = rated(make_study())
    assert plain.code == plain.task.completion_code
    assert plain.link == ""
    for number, fields in enumerate(({"prolific_rated": "R1"}, {"completion_url": LINK + "R1"})):
        worker = rated(make_study(f"m{number}", **fields), platform="mturk", external_id="w")
        assert (worker.code, worker.link) == (worker.task.completion_code, "")


def test_open_swapped_and_left_chats_have_no_ending() -> None:
    conversation = make_conversation(make_study())
    participant = conversation.participant
    assert endings_of(participant) == []
    fail_reply(conversation)
    other = services.conversation_swap(conversation=conversation)
    assert endings_of(participant) == []
    Task.objects.filter(slots__chat=other).update(state=Task.State.EXPIRED)
    assert endings_of(participant) == []
    services.conversation_withdraw(conversation=other)
    assert [ending.outcome for ending in endings_of(participant)] == ["withdrawn"]


def test_endings_of_many_people_take_one_query() -> None:
    study = make_study()
    for _ in range(3):
        rated(study)
        bot_failed(study)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = [ending_of(a) for a in tasks_with_endings(Task.objects.order_by("pk"))]
    assert len(found) == 6
    assert len(queries) == 1
