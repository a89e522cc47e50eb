"""The arena in a real browser: two streams in one log, the choice, a lost connection and a chatbot that fails."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import no_sideways_scroll, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ARENA = {"protocol": "arena", "min_exchanges": 1}


def begin(page: Page, server: ConfabServer, key: str, step: str = "arena") -> None:
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url(f"**/{step}/")


def choices(page: Page) -> Any:
    return page.get_by_role("group", name="Which chatbot is better?")


def test_two_chatbots_answer_and_one_is_chosen(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    bots = ["test-slow", "test-quick"]
    key = study(test_bots_server, "arena", bots, **ARENA, reveals_bots=True)
    page = new_page(360, 800)
    begin(page, test_bots_server, key)
    expect(page.get_by_text("Comparison 1 of 1")).to_be_visible()
    no_sideways_scroll(page, 1280)
    closed = choices(page).get_by_role("radio", name="A is better")
    expect(closed).to_have_attribute("aria-disabled", "true")
    say(page, "Hello both")
    # One streams while the other is complete, and nothing can be chosen yet.
    expect(page.locator(".round .msg-bot[aria-busy=true]")).to_have_count(1)
    expect(page.get_by_text("You can choose once both have answered.")).to_be_visible()
    closed.focus()
    page.keyboard.press("1")
    expect(closed).not_to_be_checked()
    expect(page.locator(".round .msg-bot[aria-busy=true]")).to_have_count(0)
    expect(page.locator("#read-aloud p")).to_have_count(2)
    assert [text[:10] for text in page.locator("#read-aloud p").all_text_contents()] == ["Chatbot A:", "Chatbot B:"]
    # Nothing is lost by a reload.
    page.reload()
    expect(page.locator(".round .msg-bot .bubble")).to_have_count(2)
    expect(page.get_by_text("Hello both", exact=True)).to_have_count(1)
    expect(page.get_by_text("Choose, or keep writing.")).to_be_visible()
    choices(page).get_by_role("radio", name="They are equal").focus()
    page.keyboard.press("4")
    chosen = choices(page).get_by_role("radio", name="B is better")
    expect(chosen).to_be_checked()
    expect(page.locator("#composer")).to_be_hidden()
    page.get_by_role("button", name="keep writing").click()
    expect(page.locator("#text")).to_be_focused()
    expect(chosen).not_to_be_checked()
    say(page, "One more")
    expect(page.locator("#read-aloud p")).to_have_count(2)
    page.keyboard.press("Tab")
    choices(page).get_by_role("radio", name="Both are bad").check()
    no_sideways_scroll(page, 1280)
    accessible(page)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    expect(page.get_by_role("heading", name="The chatbots you compared")).to_be_visible()
    told = page.locator(".revealed li").text_content()
    assert "Slow" in told
    assert "Quick" in told


@pytest.mark.parametrize(("protocol", "n_openings"), [("arena", 2), ("picks", 1)])
def test_an_opening_stands_before_the_messages_and_is_no_reply(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], protocol: str, n_openings: int
) -> None:
    levels = [{"key": key, "opening": f"Hello, {key}."} for key in ("one", "two")]
    factors = [{"key": "greeting", "levels": levels}]
    settings = {"protocol": protocol, "n_comparisons": 1, "min_exchanges": 2, "max_exchanges": 2, "factors": factors}
    page = new_page(360, 740)
    key = study(test_bots_server, f"{protocol}-opening", ["test-quick", "parrot"], **settings)
    begin(page, test_bots_server, key, protocol)
    rounds, left = page.locator(".round"), page.locator("#choice-words")
    shown = page.locator(".round .msg-bot:visible")
    expect(shown).to_have_count(n_openings)
    expect(shown.last).to_contain_text("Hello, ")
    expect(page.locator(".pick")).to_have_count(0)
    expect(left).to_contain_text("after 2 more messages")
    for number in (1, 2):
        say(page, f"Message {number}")
        here = rounds.nth(number)
        expect(here.locator(".msg-you .bubble")).to_have_text(f"Message {number}")
        expect(here.locator(".msg-bot .bubble:visible")).to_have_count(2)
        if protocol == "picks":
            here.get_by_role("button", name="Pick reply 2").click()
            expect(here.locator(".msg-bot .bubble:visible")).to_have_count(1)
        if number == 1:
            expect(left).to_contain_text("after 1 more message")
        page.reload()
        expect(rounds).to_have_count(number + 1)
        expect(rounds.nth(number)).to_contain_text(f"Message {number}")
        expect(shown.first).to_contain_text("Hello, ")
    expect(page.locator("#composer")).to_be_hidden()
    no_sideways_scroll(page)
    accessible(page)


def test_a_chatbot_that_fails_is_not_named_and_another_pair_goes_on(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    bots = ["test-failing", "test-quick", "parrot", "generic"]
    key = study(test_bots_server, "arena-failing", bots, **ARENA, n_comparisons=4)
    page = new_page(360, 740)
    begin(page, test_bots_server, key)
    while True:
        say(page, "Hello both")
        failed = page.get_by_text("One chatbot did not answer.", exact=True)
        complete = page.get_by_text("Choose, or keep writing.")
        expect(failed.or_(complete).filter(visible=True)).to_have_count(1)
        if failed.is_visible():
            break
        choices(page).get_by_role("radio", name="They are equal").check()
        page.get_by_role("button", name="Save and continue").click()
        expect(page.locator(".round")).to_have_count(0)
    no_sideways_scroll(page)
    expect(page.get_by_text("fails on purpose")).to_have_count(0)
    # Both places look alike, so that nobody sees whose fault it was; after a reload too.
    shown = page.locator(".round .msg-bot:visible")
    expect(shown).to_have_count(0)
    page.reload()
    expect(failed).to_be_visible()
    expect(page.get_by_text("Hello both", exact=True)).to_be_visible()
    expect(shown).to_have_count(0)
    # The reply that was there waits for the other one.
    mend = test_bots_server.data_dir / "mended"
    mend.touch()
    page.get_by_role("button", name="Try again").click()
    expect(shown).to_have_count(2)
    expect(complete).to_be_visible()
    assert all(text.strip() for text in shown.locator(".bubble").all_text_contents())
    mend.unlink()
    say(page, "Hello once more")
    expect(failed).to_be_visible()
    expect(shown).to_have_count(2)
    page.get_by_role("button", name="New pair").click()
    expect(page.locator(".round")).to_have_count(0)
    say(page, "Hello again")
    expect(page.get_by_text("Choose, or keep writing.")).to_be_visible()


def test_what_was_written_offline_reaches_both(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    bots = ["test-quick", "test-slow"]
    key = study(test_bots_server, "arena-offline", bots, **ARENA, counts_typing=True)
    page = new_page()
    begin(page, test_bots_server, key)
    page.wait_for_load_state()
    page.locator("#text").press_sequentially("Hello botj")
    page.locator("#text").press("Backspace")
    page.locator("#text").press_sequentially("h", delay=30)
    page.locator("#text").press("Enter")
    expect(page.get_by_text("Choose, or keep writing.")).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_text("Reconnecting…", exact=True)).to_be_visible()
    say(page, "Are you there?")
    expect(page.get_by_text("Waiting to send")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("Reconnecting…", exact=True)).to_be_hidden()
    expect(page.locator(".round")).to_have_count(2)
    expect(page.get_by_text("Choose, or keep writing.")).to_be_visible()
    expect(page.locator(".round .msg-bot:visible")).to_have_count(4)
    # Both chats know how the message was typed.
    counted = test_bots_server.shell(
        "from webapp.conversations.models import Typing as T; "
        f"rows = T.objects.filter(turn__conversation__study__key='{key}', turn__text='Hello both'); "
        "print(sorted(rows.values_list('turn__conversation__slot__side', 'keystrokes', 'pastes', 'deletions')))"
    )
    assert counted.strip() == "[('A', 11, 0, 1), ('B', 11, 0, 1)]"


def test_a_pair_ends_with_its_time(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    rules = {"protocol": "arena", "min_exchanges": 3, "least_minutes": 1, "most_minutes": 2}
    key = study(test_bots_server, "arena-time", ["test-quick", "test-slow"], **rules)
    page = new_page(360, 800)
    page.clock.install()
    begin(page, test_bots_server, key)
    say(page, "Hello both")
    page.clock.run_for(500)
    expect(page.locator(".round .msg-bot .bubble")).to_have_count(2)
    expect(page.locator("#choice-words")).to_have_text("You can choose after 2 more messages.")
    page.clock.fast_forward(121_000)
    expect(page.locator("#time-left")).to_have_text("The time for this chat is up.")
    expect(page.locator("#composer")).to_be_hidden()
    expect(choices(page).get_by_role("radio", name="A is better")).not_to_have_attribute("aria-disabled", "true")
    no_sideways_scroll(page, 1280)
    accessible(page)
