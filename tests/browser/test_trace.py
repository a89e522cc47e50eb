"""Reasoning and tool calls in the chat: above the reply as they come, opened by a person, and there after a reload."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import begin, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(("width", "choice"), [(360, "folded"), (1366, "shown")])
def test_steps_stand_above_the_reply_and_within_the_page(
    new_page: Callable[..., Any], test_bots_server: ConfabServer, width: int, choice: str
) -> None:
    page = new_page(width, 800)
    begin(page, test_bots_server, study(test_bots_server, f"trace-{choice}", ["test-slow"], trace=choice))
    say(page, "hi")
    box = page.locator("#log .trace")
    expect(box.locator("summary")).to_be_visible()
    assert replies(page).count() == 0  # the steps come before the reply is complete
    result = box.locator(".trace-text").last
    expect(result).to_be_visible() if choice == "shown" else expect(result).to_be_hidden()
    expect(replies(page)).to_have_text("Reply 1: one two three four five six seven eight nine ten eleven twelve")
    page.reload()
    expect(replies(page)).to_have_count(1)
    if choice == "folded":
        box.locator("summary").focus()
        page.keyboard.press("Enter")
    expect(result).to_be_visible()
    expect(box.locator("li").first).to_contain_text("I look up <b>words</b>.")
    expect(box.locator(".trace-failed").last).to_be_visible()
    for one in ("document.documentElement", "document.querySelector('#log')"):
        assert page.evaluate(f"{one}.scrollWidth <= {one}.clientWidth")
    assert box.get_attribute("aria-live") == "off"
    accessible(page)
