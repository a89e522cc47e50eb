"""One journey in Firefox, from consent to the code; skipped where it is not installed."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_networks import finish
from tests.browser.test_participant import begin, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_chat_goes_its_whole_way_in_firefox(firefox: Any, test_bots_server: ConfabServer) -> None:
    key = study(test_bots_server, "firefox", ["test-slow"])
    context = firefox.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    begin(page, test_bots_server, key)
    for number, text in enumerate(("Hello there", "\u0645\u0631\u062d\u0628\u0627"), start=1):
        say(page, text)
        expect(replies(page)).to_have_count(number)
    alignments = page.locator("#log .bubble").evaluate_all("all => all.map((one) => getComputedStyle(one).textAlign)")
    assert set(alignments) == {"start"}, "mixed directions: each bubble begins where its own text begins"
    page.get_by_role("button", name="Thumbs up").first.click()
    expect(page.get_by_role("button", name="Thumbs up").first).to_have_attribute("aria-pressed", "true")
    finish(page)
    context.close()
    assert errors == []
