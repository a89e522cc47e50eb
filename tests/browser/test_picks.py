"""Picks in a real browser: two replies, one of which is picked, also by keys, after a reload and where a bot fails."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import no_sideways_scroll, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PICKS = {"protocol": "picks", "min_exchanges": 2, "n_comparisons": 1}


def begin(page: Page, server: ConfabServer, key: str) -> None:
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/picks/")


def test_the_chat_goes_on_with_what_is_picked(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "picks", ["test-quick", "parrot"], **PICKS, reveals_bots=True)
    page = new_page(360, 800)
    begin(page, test_bots_server, key)
    shown = page.locator(".round .msg-bot:visible")
    say(page, "Hello both")
    expect(page.get_by_role("button", name="Pick reply 1")).to_be_visible()
    expect(shown).to_have_count(2)
    page.locator("#text").fill("Too early")
    page.locator("#composer").evaluate("form => form.requestSubmit()")
    expect(page.locator("#alert")).to_contain_text("Pick a reply first.")
    no_sideways_scroll(page, 1280)
    page.reload()
    expect(page.get_by_role("button", name="They are equal")).to_be_visible()
    words = shown.nth(1).locator(".bubble").text_content()
    page.get_by_role("button", name="Pick reply 2").press("Enter")
    expect(shown).to_have_count(1)
    expect(shown.locator(".bubble")).to_have_text(words)
    expect(page.locator("#text")).to_have_value("Too early")
    page.reload()
    expect(shown).to_have_count(1)
    say(page, "One more")
    page.get_by_role("button", name="They are equal").click()
    expect(shown).to_have_count(2)
    expect(page.get_by_text("Finish, or keep writing.")).to_be_visible()
    accessible(page)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    expect(page.locator(".revealed li")).to_contain_text("They were")


def test_a_bot_that_fails_gives_way_to_the_other(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "picks-failing", ["test-failing", "test-quick"], **PICKS)
    page = new_page(360, 740)
    begin(page, test_bots_server, key)
    for number in range(1, 3):
        say(page, f"Hello {number}")
        expect(page.locator(".round .msg-bot:visible")).to_have_count(number)
        expect(page.locator(".pick")).to_have_count(0)
    expect(page.locator("#failed")).to_be_hidden()
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
