"""A paid study with two chatbots in a row, come to from Prolific, played in Chromium to its codes and scenarios."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import SIZES, choose, no_sideways_scroll, replies, say, study
from tests.builders import BLUE, BY_PROLIFIC
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

QUESTIONS = [
    {
        "key": "quality",
        "title": "How good was the chat?",
        "kind": "scale",
        "low": 1,
        "high": 5,
        "labels": {"1": "bad", "5": "good"},
    },
    BLUE,
]


def make_row(server: ConfabServer, bots: list[str], **fields: Any) -> tuple[str, str]:
    """Make a paid study with two chats in a row; return its key and the link that Prolific gives."""
    key = study(
        server,
        "row",
        bots,
        **{
            "min_exchanges": 1,
            "bots_in_a_row": 2,
            "after": QUESTIONS,
            "pay_each": 2,
            "misses_allowed": 0,
            **BY_PROLIFIC,
            **fields,
        },
    )
    return key, f"{server.url}/s/{key}/?PROLIFIC_PID=anna&STUDY_ID=st&SESSION_ID=se"


def start(page: Page, link: str) -> None:
    """Agree and start, or be led back to the open task."""
    page.goto(link)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start chatting").click()
    page.wait_for_url("**/chat/**")
    expect(page.locator("#log")).to_have_attribute("aria-live", "polite")


def rate(page: Page, colour: str) -> None:
    """Go to the form, answer it and save."""
    page.locator("#rate").click()
    page.wait_for_url("**/rate/")
    no_sideways_scroll(page)
    choose(page, "quality", 4)
    page.get_by_label(colour).check()
    page.get_by_role("button", name=re.compile("^Save and")).click()


def ended(page: Page, code: str, heading: str) -> None:
    """Check what the last page says, and where its button leads."""
    page.wait_for_url("**/done/")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.locator("#code")).to_have_text(code)
    link = page.get_by_role("link", name="Return to Prolific")
    expect(link).to_have_attribute("href", re.compile(rf"[?&]cc={code}$"))
    no_sideways_scroll(page)


def pay_says(server: ConfabServer, key: str, page: Page) -> list[list[str]]:
    """Open the study's people as a researcher; return each visit's outcome, code and next step from the table."""
    server.shell(
        "from django.contrib.auth import get_user_model;U = get_user_model().objects;"
        "U.filter(username='res').exists() or U.create_superuser('res', password='a-long-password')"
    )
    page.goto(f"{server.url}/dashboard/studies/{key}/people/")
    page.get_by_label("Name").fill("res")
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Sign in").click()
    rows = page.locator(".people-list tbody tr")
    expect(rows.first).to_be_visible()
    no_sideways_scroll(page)
    assert rows.locator("th").all_inner_texts() == ["anna"]
    return [[" ".join(row.locator("td").nth(n).inner_text().split()) for n in (1, 6, 7)] for row in rows.all()]


def test_two_chats_are_rated_the_second_in_another_browser(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key, link = make_row(test_bots_server, ["test-quick", "eliza"])
    page = new_page(*SIZES[0])
    start(page, link)
    say(page, "Hello")
    expect(replies(page)).to_have_count(1)
    first = page.url
    rate(page, "Blue")
    page.wait_for_url(lambda url: "/chat/" in url and "/rate/" not in url and url != first)
    expect(page.locator("#log .msg-you")).to_have_count(0)
    no_sideways_scroll(page)

    elsewhere = new_page(*SIZES[0])
    start(elsewhere, link)
    assert elsewhere.url == page.url
    say(elsewhere, "Hello again")
    expect(replies(elsewhere)).to_have_count(1)
    rate(elsewhere, "Blue")
    ended(elsewhere, "RATED1", "Thank you. Everything is saved.")
    again = new_page(*SIZES[0])
    again.goto(link)
    expect(again.locator("#code")).to_have_text("RATED1")
    assert pay_says(test_bots_server, key, new_page()) == [["Done", "RATED1", "Approve £2.00"]]


def test_a_missed_check_in_the_first_chat_ends_after_the_second(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key, link = make_row(test_bots_server, ["test-quick", "eliza"])
    page = new_page(*SIZES[0])
    start(page, link)
    for colour in ("Red", "Blue"):
        say(page, "Hello")
        expect(replies(page)).to_have_count(1)
        before = page.url
        rate(page, colour)
        page.wait_for_url(lambda url, before=before: "/rate/" not in url and url != before)
    ended(page, "CHECK1", "This is the end of the study for you.")
    assert pay_says(test_bots_server, key, new_page()) == [["Failed the check", "CHECK1", "Look"]]


def test_a_chatbot_that_fails_ends_it_early_with_pay(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key, link = make_row(test_bots_server, ["test-quick", "test-failing"])
    page = new_page(*SIZES[1])
    start(page, link)
    say(page, "Hello")
    failed = page.locator(".msg-failed")
    expect(replies(page).or_(failed).first).to_be_visible()
    if not failed.is_visible():
        # The other one came first: it is rated, and the failing one is next.
        before = page.url
        rate(page, "Blue")
        page.wait_for_url(lambda url: "/rate/" not in url and url != before)
        say(page, "Hello")
    expect(failed).to_contain_text("your messages are saved and you will be paid", ignore_case=True)
    no_sideways_scroll(page)
    elsewhere = new_page(*SIZES[1])
    start(elsewhere, link)
    assert elsewhere.url == page.url
    elsewhere.get_by_role("button", name="Finish early and get paid").click()
    ended(elsewhere, "FAILED1", "Thank you. Everything is saved.")
    assert pay_says(test_bots_server, key, new_page()) == [["Bot failed", "FAILED1", "Approve £2.00"]]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_scenario_is_open_first_and_at_hand_in_each_chat(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int, height: int
) -> None:
    scenarios = {"You plan a weekend in Rome.", "Your parcel is broken."}
    levels = [{"key": f"s{number}", "scenario": text} for number, text in enumerate(sorted(scenarios))]
    factors = [{"key": "scenario", "varies": "within", "levels": levels}]
    _key, link = make_row(test_bots_server, ["test-quick", "eliza"], factors=factors)
    page, seen = new_page(width, height), []
    start(page, link)
    for _number in (1, 2):
        panel, texts = page.locator("#condition"), page.locator(".condition-texts dd")
        expect(page.locator("#log")).to_have_attribute("aria-live", "polite")
        expect(texts).to_be_visible()
        seen.append(texts.inner_text())
        no_sideways_scroll(page)
        accessible(page)
        say(page, "Hello")
        expect(replies(page)).to_have_count(1)
        if width < 700:  # it folds, and opens above the log, which keeps half of its height
            expect(texts).to_be_hidden()
            folded = page.locator("#log").bounding_box()
            panel.locator("summary").click()
            opened = page.locator("#log").bounding_box()
            assert folded
            assert opened
            assert folded["height"] / 2 < opened["height"] < folded["height"]
        expect(texts).to_be_visible()
        if width < 700:
            panel.locator("summary").click()
        page.locator("#rate").click()
        choose(page, "quality", 4)
        page.locator("label", has_text="Blue").click()
        page.get_by_role("button", name=re.compile("^Save and")).click()
    assert set(seen) == scenarios


def test_the_scenario_is_folded_where_the_window_is_low(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    levels = [{"key": "s0", "scenario": "You plan a weekend in Rome."}, {"key": "s1", "scenario": "You are lost."}]
    factors = [{"key": "scenario", "varies": "within", "levels": levels}]
    _key, link = make_row(test_bots_server, ["test-quick", "eliza"], factors=factors)
    page = new_page(683, 425)
    start(page, link)
    expect(page.locator("#condition")).to_be_visible()
    expect(page.locator(".condition-texts dd")).to_be_hidden()
    log, hint = page.locator("#log").bounding_box(), page.locator(".no-turns").bounding_box()
    assert log
    assert hint
    assert hint["y"] + hint["height"] <= log["y"] + log["height"]
    page.locator("#condition summary").click()
    expect(page.locator(".condition-texts dd")).to_be_visible()
