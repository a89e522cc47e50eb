"""Rows that tests begin with are those that the services write."""

from typing import Any

import pytest

from tests.builders import exchange, make_conversation, make_participants, make_study
from webapp.bots.models import BotHealth
from webapp.conversations.models import Conversation, ReplyFailure, Turn, Typing
from webapp.studies.models import Participant

pytestmark = pytest.mark.django_db
OWN = {"id", "conversation_id", "created_at", "updated_at", "participant_id", "slot_id", "seed"}
"""Columns that are another in every row."""


def rows(result: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in OWN} for row in result.values()]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_exchanges_in_one_statement_are_those_of_the_services(n: int) -> None:
    study = make_study(bots=["eliza"])
    one_by_one = make_conversation(study)
    for number in range(n):
        exchange(one_by_one, f"message {number}", f"reply {number}")
    health = rows(BotHealth.objects.all())
    BotHealth.objects.all().delete()
    at_once = make_conversation(study, n_exchanges=n)

    expected, result = (
        rows(Turn.objects.filter(conversation=chat).order_by("index")) for chat in (one_by_one, at_once)
    )
    for turn, like in zip(result, expected, strict=True):
        for name in ("client_id", "latency_ms"):  # whatever they are
            assert (turn.pop(name) is None) == (like.pop(name) is None)
    assert result == expected
    assert len(result) == 2 * n
    chats = (Conversation.objects.filter(pk=chat.pk) for chat in (one_by_one, at_once))
    expected, result = map(rows, chats)
    assert result == expected
    assert result[0]["n_exchanges"] == n
    now = rows(BotHealth.objects.all())
    for row in (*now, *health):
        row.pop("answered_at")
        row.pop("answer_s")
    assert now == health
    assert not Typing.objects.exists()
    assert not ReplyFailure.objects.exists()
    times = list(Turn.objects.filter(conversation=at_once).values_list("created_at", flat=True))
    assert times == sorted(times)


def test_participants_in_one_statement_are_those_of_the_services() -> None:
    make_participants(make_study(), 3)
    first, *others = rows(Participant.objects.all())
    assert others == [first] * 2
