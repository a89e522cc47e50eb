"""Messages that a content filter of a bot's provider refused: stored, marked, not sent again, no failure of the bot."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chatbots.bots.base import ContentRefused
from tests.webapp.participant.test_socket import Page, answer, started
from webapp.bots.models import BotHealth
from webapp.conversations import selectors, services
from webapp.conversations.models import Conversation, ReplyFailure
from webapp.core.database import in_database
from webapp.insights.leaderboard import count_refusals
from webapp.participant import consumers
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages look replies up at once: no host tells of its replies here."""
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.05)


def refuse(conversation_id: str) -> None:
    """Fail the due reply as a bot host does whose bot met a content filter."""
    error, lease = ContentRefused("the filter said no"), uuid.uuid4()
    assert services.reply_claim(conversation_id=conversation_id, lease=lease, lease_s=30)
    services.reply_fail(
        conversation_id=conversation_id,
        lease=lease,
        error=str(error),
        is_trouble=error.is_trouble,
        is_content=error.is_content,
    )


def exported(what: str) -> list[dict[str, Any]]:
    table = table_of(Study.objects.get(), what, ExportOptions())
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


async def next_news(page: Page) -> dict[str, Any]:
    """Return the next frame but the refused message, which a page that has just opened may hear of twice."""
    while (frame := await page.hears())["type"] == "turn" and frame["turn"] == 0:
        pass
    return frame


async def say_refused(page: Page, text: str = "make a bomb") -> dict[str, Any]:
    """Write a message that is refused; return the frame that says so to a page that opens then."""
    await page.says(text, str(uuid.uuid4()))
    while (stored := await page.hears())["type"] != "turn":
        assert stored["reason"] == "content", "the page hears of the refusal before"
    conversation_id = await in_database(lambda: str(Conversation.objects.get().pk))()
    await in_database(refuse)(conversation_id)
    return stored


async def test_a_refused_message_stays_marked_and_another_one_is_answered() -> None:
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await say_refused(page)
    again = await Page(conversation_id, cookies).open()
    frame = await next_news(again)
    assert (frame["code"], frame["reason"], frame["turn"]) == ("bot_failed", "content", 1)
    assert frame["can"] == ["rewrite", "finish"]
    assert frame["can_rate"] is False, "it counts for no minimum"
    await again.socket.send_to('{"type": "retry"}')
    assert (await next_news(again))["type"] == "history"
    assert (await next_news(again))["reason"] == "content", "it is not sent again"

    await again.says("hello", str(uuid.uuid4()))
    stored = await next_news(again)
    assert (stored["type"], stored["turn"]) == ("turn", 2), "the number of the reply that never came stays free"
    row = await in_database(selectors.chats_under_way().get)(pk=conversation_id)
    context = await in_database(selectors.conversation_remembered)(row)
    assert [turn.text for turn in context.turns] == ["hello"]
    await in_database(answer)(conversation_id)
    reply = await next_news(again)
    assert (reply["type"], reply["turn"], reply["can_rate"]) == ("reply", 3, True)
    history = await in_database(selectors.history)(uuid.UUID(conversation_id))
    assert [turn.get("refused", False) for turn in history.turns] == [True, False, False]
    assert history.failure is None


async def test_refusals_are_counted_and_are_no_failures_of_the_bot() -> None:
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await say_refused(page)
    await say_refused(page, "make two bombs")
    await page.says("hello", str(uuid.uuid4()))
    while (stored := await page.hears())["type"] != "turn":
        assert stored["reason"] == "content"
    assert stored["turn"] == 4
    await in_database(answer)(conversation_id)

    def look() -> None:
        assert not ReplyFailure.objects.exists()
        assert not BotHealth.objects.filter(n_failed__gt=0).exists()
        (row,) = count_refusals(Study.objects.get())
        assert (row.n_refused, row.n_messages) == (2, 3)
        messages = exported("messages")
        assert [(m["turn"], m["refused"]) for m in messages] == [(0, True), (2, True), (4, False), (5, False)]
        (chat,) = exported("conversations")
        assert (chat["n_refused"], chat["n_exchanges"]) == (2, 1)
        assert [turn["text"] for turn in chat["turns"]] == ["hello", "Here I am."]

    await in_database(look)()


async def test_a_chat_whose_message_was_refused_can_be_ended() -> None:
    conversation_id, cookies = await in_database(started)()
    page = await Page(conversation_id, cookies).open()
    await say_refused(page)

    def end() -> Conversation:
        services.conversation_finish_failed(conversation=Conversation.objects.get())
        return Conversation.objects.get()

    assert (await in_database(end)()).state == Conversation.State.ENDED
