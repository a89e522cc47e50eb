"""Replies in Markdown: through the socket, on pages of participants and researchers, for metrics and in exports."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.test import Client

import chatbots
from chatbots.bots.base import BotDefaults
from chatbots.registry import bots
from tests.builders import exchange, make_conversation, make_items, make_rating, make_study, signed_in
from tests.webapp.conversations.frames import frames_of
from tests.webapp.participant.conftest import begin, policy, started
from webapp.conversations.models import Conversation
from webapp.conversations.pacing import FRAME_EVERY_S
from webapp.conversations.selectors import conversations_for_metrics, history, reply_state
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db

REPLY = "Use **two** eggs:\n\n- [one](https://a.example)\n- `two`\n\n![x](https://b.example/c.png)"
HTML = (
    "<p>Use <strong>two</strong> eggs:</p>\n<ul>\n<li>one (https://a.example)</li>\n<li><code>two</code></li>\n</ul>\n"
    "<p>x (https://b.example/c.png)</p>\n"
)
LINK = '<a href="https://a.example" target="_blank" rel="noopener noreferrer nofollow">one</a>'


def talked(key: str = "s", reply: str = REPLY, **fields: Any) -> Conversation:
    """Make a chat of a Markdown study that has one reply, to a message with marks of its own."""
    conversation = make_conversation(make_study(key, min_exchanges=1, format="markdown", **fields))
    exchange(conversation, "I *like* **eggs**", reply)
    conversation.refresh_from_db()
    return conversation


def test_history_has_html_of_replies_alone_and_the_source() -> None:
    conversation = talked()
    human, bot = history(conversation.pk).turns
    assert human == {"turn": 0, "speaker": "human", "text": "I *like* **eggs**", "vote": 0}
    assert bot == {"turn": 1, "speaker": "bot", "text": REPLY, "vote": 0, "html": HTML}
    assert reply_state(conversation.pk, 1).html == HTML
    assert LINK in history(talked("open", links="open").pk).turns[1]["html"]


def test_plain_studies_are_as_before() -> None:
    conversation = make_conversation(make_study("plain", min_exchanges=1))
    exchange(conversation, "hi", REPLY)
    assert history(conversation.pk).turns[1] == {"turn": 1, "speaker": "bot", "text": REPLY, "vote": 0}
    [value] = conversations_for_metrics(Conversation.objects.filter(pk=conversation.pk))
    assert value.turns[1].text == REPLY


def test_pages_of_the_chat_show_markdown_and_load_nothing(browser: Client) -> None:
    study = make_study("s", min_exchanges=1, format="markdown")
    conversation = begin(browser)
    page = browser.get(f"/chat/{conversation.pk}/")
    assert page.status_code == 200
    assert 'data-format="markdown"' in page.content.decode()
    assert 'id="tpl-copy"' in page.content.decode()
    exchange(conversation, "I *like* **eggs**", REPLY)
    page = browser.get(f"/chat/{conversation.pk}/rate/")
    assert page.status_code == 200
    assert f'<div class="bubble markdown" dir="auto" translate="no">{HTML}</div>' in page.content.decode()
    assert "I *like* **eggs**" in page.content.decode()
    assert policy(page)["script-src"] == ["'self'"]
    assert policy(page)["img-src"] == ["'self'", "data:"]
    # Another format later is another version of the study: this chat stays as it was shown.
    study_edit(study=study, format="plain")
    assert HTML in browser.get(f"/chat/{conversation.pk}/rate/").content.decode()


@pytest.mark.parametrize("protocol", ["annotate", "pairwise"])
def test_replies_of_items_are_shown_as_markdown(browser: Client, protocol: str) -> None:
    study = make_study("a", protocol=protocol, bots=[], state=Study.State.DRAFT, n_items=1, format="markdown")
    replies = [{"model": model, "text": REPLY} for model in "ab"[: 2 if protocol == "pairwise" else 1]]
    make_items(study, 1, responses=replies, context=["*hi*", "**hello**", "_so_"])
    study_edit(study=study, state=Study.State.COLLECTING)
    page = browser.get(started(browser, "a"))
    assert page.status_code == 200
    html = page.content.decode()
    assert html.count(HTML) == len(replies)
    assert "<p><strong>hello</strong></p>" in html  # of the speaker who replies
    assert "_so_" in html
    assert 'id="tpl-copy"' in html


def test_a_judged_conversation_has_the_format_of_its_own_study(browser: Client) -> None:
    study = make_study("talked", format="markdown")
    for number in range(2):
        conversation = make_conversation(study, n_exchanges=2, entry_nonce=f"n{number}")
        exchange(conversation, "*me*", REPLY)
        conversation.refresh_from_db()
        make_rating(conversation)
    make_study("j", protocol="dialogues", bots=[], dialogues_of="talked")
    page = browser.get(started(browser, "j"))
    assert page.status_code == 200
    assert page.content.decode().count(HTML) == 2
    assert page.content.decode().count("*me*") == 2


def test_the_reader_shows_markdown_and_marks_what_was_searched_for() -> None:
    conversation = talked()
    staff = signed_in(Right.READ)
    page = staff.get(f"/dashboard/studies/s/conversations/?chat={conversation.pk}")
    assert page.status_code == 200
    assert HTML in page.content.decode()
    page = staff.get(f"/dashboard/studies/s/conversations/?chat={conversation.pk}&q=eggs")
    assert page.status_code == 200
    html = page.content.decode()
    assert "<p>Use <strong>two</strong> <mark>eggs</mark>:</p>" in html
    assert not re.search(r"<a[^>]*class=\"turn-text\"[^>]*>(?:(?!</a>).)*<p>", html, re.DOTALL)


def test_metrics_read_the_words_and_exports_have_the_source() -> None:
    conversation = talked()
    [value] = conversations_for_metrics(Conversation.objects.all())
    assert [turn.text for turn in value.turns] == [
        "I *like* **eggs**",
        "Use two eggs:\none\ntwo\nx (https://b.example/c.png)",
    ]
    study, messages = conversation.study, exporter_get("messages")
    at = [column.name for column in messages.columns(study, ExportOptions())].index("text")
    assert [row[at] for row in messages.rows(study, ExportOptions())] == ["I *like* **eggs**", REPLY]


class Essay(BotDefaults):
    """Sends a reply in Markdown line by line, as slowly as frames are sent."""

    kind = "test"
    name = title = "test-essay"

    async def stream(self, context: chatbots.Conversation) -> AsyncIterator[str]:
        """Yield the lines."""
        for line in REPLY.splitlines(keepends=True):
            yield line
            await asyncio.sleep(2 * FRAME_EVERY_S)


@pytest.fixture
def essay() -> Iterator[None]:
    bots.search()
    bots.add(Essay())
    yield
    bots.discard(Essay.name)


@pytest.mark.usefixtures("essay")
@pytest.mark.parametrize(
    "pacing", [{}, {"paces_alike": True, "first_words_s": 0.5, "first_words_spread": 1, "words_per_s": 20}]
)
@pytest.mark.django_db(transaction=True)
async def test_frames_have_blocks_as_they_close_beside_todays(pacing: dict[str, Any]) -> None:
    conversation = await in_database(talked)(reply="First.", bots=[Essay.name], **pacing)
    frames = await frames_of(conversation)
    pieces = [frame for frame in frames if frame["type"] == "token"]
    assert "".join(frame["text"] for frame in pieces) == REPLY
    assert frames[-1] == {
        "type": "reply", "turn": 3, "speaker": "bot", "text": REPLY, "can_rate": True, "html": HTML
    }  # fmt: skip
    blocks = [frame for frame in frames if frame["type"] == "html"]
    assert blocks[0] == {"type": "html", "turn": 3, "offset": 0, "html": HTML[: HTML.index("<ul>")]}
    assert HTML.startswith("".join(frame["html"] for frame in blocks))
