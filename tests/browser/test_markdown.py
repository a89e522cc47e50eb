"""Replies in Markdown in the chat: whole blocks, code that is copied, and nothing wider than the page."""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import begin, no_sideways_scroll, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG_LINE = "print(" + ", ".join(f"'a long argument number {n}'" for n in range(12)) + ")"
WIDE = "\n".join(["|" + "|".join(f"column_{n}" for n in range(12)) + "|", "|" + "-|" * 12, "|" + "1|" * 12])
MESSAGE = f"""eggs:

- **two** eggs
- a [pan](https://pan.example/p)

```
{LONG_LINE}
```

{WIDE}

> quoted

![none](https://images.example/x.png)

Done."""


def test_a_reply_is_shown_by_blocks_and_scrolls_within_itself(
    new_page: Callable[..., Any], test_bots_server: ConfabServer
) -> None:
    page = new_page(360, 800, color_scheme="light")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    rules = {"format": "markdown", "links": "open", "typing_chars_per_s": 400, "max_message_chars": 5000}
    begin(page, test_bots_server, study(test_bots_server, "md", ["test-quick"], **rules))
    say(page, MESSAGE)
    reply = replies(page)
    expect(reply.get_by_text("Done.")).to_be_visible()
    expect(reply.locator("strong")).to_have_text("two")
    link = reply.get_by_role("link", name="pan")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(link).to_have_attribute("target", "_blank")
    assert not [url for url in requested if "images.example" in url]
    copy = reply.get_by_role("button", name="Copy")
    copy.click()
    # Without the right to write to the clipboard the code is selected.
    expect(reply.locator(".code-block button")).to_have_text(re.compile("Cop"))
    for width, scheme in ((360, "light"), (1366, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert reply.locator("pre").evaluate("node => node.scrollWidth > node.clientWidth")
        for box in ("document.documentElement", "document.querySelector('#log')"):
            assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
        accessible(page)


STORED = """
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.studies.models import Study
from webapp.studies.services import study_create
from webapp.studies.versions import study_edit
chats = study_create(key={key!r}, name={key!r}, bots=["test-quick"], format="markdown")
bot = BotVersion.objects.create(key={key!r}, bot_id={key!r}, title="", kind="", version="")
chat = Conversation.objects.create(source="import", state="completed", study=chats, bot=bot, external_id={key!r})
Turn.objects.create(conversation=chat, index=0, speaker="human", text="How?")
Turn.objects.create(conversation=chat, index=1, speaker="bot", text={message!r})
marked = study_create(key={key!r} + "m", name="m", bots=[], protocol="error_spans", state="draft")
study_edit(study=marked, state="collecting", conversations_of={key!r})
"""


def test_errors_are_marked_in_a_reply_with_code_on_a_phone(
    new_page: Callable[..., Any], test_bots_server: ConfabServer
) -> None:
    key, page = f"spans-{uuid4().hex[:6]}", new_page(360, 740)
    test_bots_server.shell(STORED.format(key=key, message=MESSAGE))
    page.goto(f"{test_bots_server.url}/s/{key}m/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/judge/")
    no_sideways_scroll(page)
    page.get_by_text("Choose the words from lists instead").click()
    for label, option in (("First word", 1), ("Last word", 2), ("What is wrong", 1), ("How bad it is", 3)):
        page.get_by_role("combobox", name=label).select_option(index=option)
    page.get_by_role("button", name="Add this error").click()
    expect(page.locator(".span-list li")).to_have_count(1)
    no_sideways_scroll(page)
    accessible(page)
    page.reload()
    expect(page.locator(".span-list li")).to_have_count(1)


@pytest.mark.parametrize("width", [360, 1366])
def test_reading_begins_at_the_first_line_of_a_long_reply(
    new_page: Callable[..., Any], test_bots_server: ConfabServer, width: int
) -> None:
    page = new_page(width, 640)
    rules = {"format": "markdown", "typing_chars_per_s": 400, "max_message_chars": 5000}
    begin(page, test_bots_server, study(test_bots_server, f"mdlong{width}", ["test-quick"], **rules))
    say(page, "\n\n".join(f"Paragraph {n}." for n in range(40)))
    reply = replies(page)
    expect(reply.get_by_text("Paragraph 39.", exact=True)).to_be_attached()
    top = "(node) => node.getBoundingClientRect().top - document.querySelector('#log').getBoundingClientRect().top"
    assert 0 <= reply.locator("xpath=ancestor::li").evaluate(top) < 40
    expect(page.locator("#new-reply")).to_be_hidden()
    # Who reads on stays where they are, and the next message is in sight again.
    page.locator("#log").evaluate("node => node.scrollTo(0, node.scrollTop + 500)")
    page.set_viewport_size({"width": width, "height": 600})
    assert reply.locator("xpath=ancestor::li").evaluate(top) < -400
    say(page, "A short one")
    expect(page.locator(".msg-you").last).to_be_in_viewport()
    expect(replies(page)).to_have_count(2)
    expect(replies(page).last).to_be_in_viewport()


def test_a_wide_table_uses_the_width_of_a_phone(new_page: Callable[..., Any], test_bots_server: ConfabServer) -> None:
    page = new_page(360, 740)
    rules = {"format": "markdown", "typing_chars_per_s": 400, "max_message_chars": 5000}
    begin(page, test_bots_server, study(test_bots_server, "mdwide", ["test-quick"], **rules))
    say(page, f"columns:\n\n{WIDE}")
    bubble = replies(page)
    expect(bubble.locator("table")).to_be_visible()
    width = "node => node.getBoundingClientRect().width"
    assert bubble.evaluate(width) > page.locator("#log ol").evaluate(width) - 2
