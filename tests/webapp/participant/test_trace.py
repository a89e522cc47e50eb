"""Reasoning and tool calls of a reply: in frames, on pages, in exports and metrics, as a study says."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.test import Client

import chatbots
from chatbots.bots.base import BotDefaults
from chatbots.registry import bots
from chatbots.trace import CallDelta, TraceStep, current_trace
from evaluation.metrics.registry import metric_get
from tests.builders import exchange, make_conversation, make_rating, make_study, signed_in
from tests.webapp.conversations.frames import frames_of
from tests.webapp.participant.conftest import begin, started
from webapp.conversations.erasure import turns_texts
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import conversation_value, conversations_for_metrics, history, reply_state
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db

STEPS = [
    TraceStep(kind="reasoning", text="Look it up <b>."),
    TraceStep(kind="tool", name="search", arguments='{"q": "tea"}', text="Green tea.", failed=True, seconds=0.5),
]
TRACE = [step.model_dump() for step in STEPS]


def talked(key: str = "s", trace: str = "folded", **fields: Any) -> Conversation:
    """Make a chat with one reply that has a trace."""
    conversation = make_conversation(make_study(key, min_exchanges=1, trace=trace, **fields))
    exchange(conversation, "tea?", "Drink it.")
    Turn.objects.filter(conversation=conversation, speaker="bot").update(trace=TRACE)
    conversation.refresh_from_db()
    return conversation


def test_history_and_pages_have_the_trace_as_the_study_says(browser: Client) -> None:
    for choice in ("hidden", "folded", "shown"):
        conversation = talked(choice, choice)
        expected = [] if choice == "hidden" else TRACE
        assert history(conversation.pk).turns[1].get("trace", []) == expected
        assert reply_state(conversation.pk, 1).trace == expected
        make_study(f"c-{choice}", min_exchanges=1, trace=choice)
        chat = begin(browser, f"c-{choice}")
        exchange(chat, "tea?", "Drink it.")
        Turn.objects.filter(conversation=chat, speaker="bot").update(trace=TRACE)
        page = browser.get(f"/chat/{chat.pk}/")
        assert page.status_code == 200
        assert ('id="tpl-trace"' in page.content.decode()) is (choice != "hidden")
        page = browser.get(f"/chat/{chat.pk}/rate/")
        assert page.status_code == 200
        html = page.content.decode()
        assert ("Look it up &lt;b&gt;." in html) is (choice != "hidden")
        assert ('<details class="trace" aria-live="off" open>' in html) is (choice == "shown")


def test_a_withheld_reply_shows_no_trace() -> None:
    conversation = talked()
    Turn.objects.filter(conversation=conversation, speaker="bot").update(withheld_text="Bad.")
    assert "trace" not in history(conversation.pk).turns[1]


def test_raters_see_the_trace_where_the_chats_study_shows_it(browser: Client) -> None:
    study = make_study("talked", min_exchanges=1, trace="folded")
    for number in range(2):
        conversation = make_conversation(study, n_exchanges=2, entry_nonce=f"n{number}")
        Turn.objects.filter(conversation=conversation, speaker="bot").update(trace=TRACE)
        make_rating(conversation)
    make_study("j", protocol="dialogues", bots=[], dialogues_of="talked")
    page = browser.get(started(browser, "j"))
    assert page.status_code == 200
    assert page.content.decode().count("Green tea.") == Turn.objects.filter(speaker="bot").count()


def test_researchers_read_export_and_measure_what_people_were_not_shown() -> None:
    conversation = talked(trace="hidden")
    staff = signed_in(Right.READ)
    page = staff.get(f"/dashboard/studies/s/conversations/?chat={conversation.pk}")
    assert page.status_code == 200
    assert "Green tea." in page.content.decode()
    messages = exporter_get("messages")
    at = [column.name for column in messages.columns(conversation.study, ExportOptions())].index("trace")
    assert [row[at] for row in messages.rows(conversation.study, ExportOptions())] == [[], TRACE]
    [value] = conversations_for_metrics(Conversation.objects.all())
    assert [list(turn.trace) for turn in value.turns] == [[], STEPS]
    assert not any(turn.trace for turn in conversation_value(conversation).turns)  # what a bot is given
    table = metric_get("tool_calls").compute([value, chatbots.Conversation.from_texts(["a", "b"], id="none")])
    assert table.conversations.loc[value.id].to_dict() == {
        "n_tool_calls": 1, "n_failed_tool_calls": 1, "tool_call_seconds": 0.5
    }  # fmt: skip
    assert table.conversations.loc["none"].isna().all()
    assert table.reasons["n_tool_calls"] == "no reply of the conversation has a tool call"


def test_the_end_of_retention_empties_the_trace() -> None:
    conversation = talked()
    kind = turns_texts()
    kind.blank(conversation.study, kind.rows(conversation.study))
    assert set(map(str, Turn.objects.values_list("trace", flat=True))) == {"[]"}


class Thinker(BotDefaults):
    """Thinks, calls a tool and replies, each a moment after the other."""

    kind = "test"
    name = title = "test-thinker"

    async def stream(self, context: chatbots.Conversation) -> AsyncIterator[str]:
        """Yield the reply."""
        trace = current_trace()
        trace.think("Look it up <b>.")
        trace.call([CallDelta(index=0, name="search", arguments='{"q": "tea"}')])
        trace.call([CallDelta(index=0, result="Green tea.", failed=True)])
        trace.close()
        yield "Drink it."


@pytest.fixture
def thinker() -> Iterator[None]:
    bots.search()
    bots.add(Thinker())
    yield
    bots.discard(Thinker.name)


@pytest.mark.usefixtures("thinker")
@pytest.mark.parametrize("choice", ["hidden", "folded"])
@pytest.mark.django_db(transaction=True)
async def test_a_frame_tells_of_each_step_before_the_reply(choice: str) -> None:
    conversation = await in_database(talked)("s", choice, bots=[Thinker.name])
    *before, last = await frames_of(conversation)
    stored = await in_database(lambda: Turn.objects.get(conversation=conversation, index=3).trace)()
    assert [{**step, "seconds": None} for step in stored] == [{**step, "seconds": None} for step in TRACE]
    told = [frame for frame in before if frame["type"] == "trace"]
    if choice == "hidden":
        assert not told
        assert last == {"type": "reply", "turn": 3, "speaker": "bot", "text": "Drink it.", "can_rate": True}
    else:
        assert told == [{"type": "trace", "turn": 3, "number": n, "step": step} for n, step in enumerate(stored)]
        assert last["trace"] == stored
    assert "".join(frame["text"] for frame in before if frame["type"] == "token") == "Drink it."


@pytest.mark.usefixtures("thinker")
@pytest.mark.parametrize(
    "fields",
    [
        {"paces_alike": True, "first_words_s": 0.5, "first_words_spread": 1, "words_per_s": 20},
        {"reply_filters": {"phrases": "withhold"}, "filter_phrases": ["green tea"]},
    ],
)
@pytest.mark.django_db(transaction=True)
async def test_paced_and_filtered_replies_tell_no_step_before_the_reply(fields: dict[str, Any]) -> None:
    conversation = await in_database(talked)("s", "shown", bots=[Thinker.name], **fields)
    *before, last = await frames_of(conversation)
    assert "trace" not in {frame["type"] for frame in before}
    if "reply_filters" in fields:  # the trace says what the filter withholds
        assert last["text"] == "This reply was blocked."
        assert "trace" not in last
    else:
        assert [step["kind"] for step in last["trace"]] == ["reasoning", "tool"]
