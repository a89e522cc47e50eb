"""The questions before the task in a real browser: without script, by keyboard, on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_participant import no_sideways_scroll, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
QUESTIONS = [
    {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["18 to 29", "30+"]},
    {
        "key": "languages",
        "title": "Which of these languages do you speak at home or at work, however little?",
        "kind": "choices",
        "options": ["English", "Danish", "W" * 90],
    },
    {"key": "job", "title": "What do you do?", "kind": "text", "required": False},
]


@pytest.mark.parametrize("script", [True, False])
def test_questions_are_answered_by_keyboard_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], script: bool
) -> None:
    key = study(test_bots_server, "asking", ["test-quick"], questions=QUESTIONS)
    page = new_page(360, 740, java_script_enabled=script)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    if script:
        page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start chatting").click()
    page.wait_for_url("**/questions/")
    expect(page.get_by_role("heading", name="About you")).to_be_visible()
    expect(page.locator("nav.steps [aria-current=step]")).to_contain_text("About")
    expect(page.get_by_role("group", name="How old are you?")).to_be_visible()
    no_sideways_scroll(page)
    page.get_by_label("What do you do?").fill("A baker")
    page.get_by_role("button", name="Continue").press("Enter")
    summary = page.get_by_role("alert").filter(has_text="2 answers are missing")
    expect(summary).to_be_visible()
    if script:
        expect(page.locator("#summary")).to_be_focused()
        expect(page.get_by_role("button", name="Help", exact=True)).to_be_visible()
    expect(page.get_by_label("What do you do?")).to_have_value("A baker")
    group = page.get_by_role("group", name="Which of these languages")
    expect(group).to_have_accessible_description("Please answer this question.")
    no_sideways_scroll(page)
    page.get_by_role("radio", name="30+").press("Space")
    page.get_by_role("checkbox", name="Danish").press("Space")
    for box in (page.get_by_role("radio", name="30+"), page.get_by_role("checkbox", name="Danish")):
        expect(box).to_be_checked()
    for label in page.locator(".asked .agree").all():
        assert label.bounding_box()["height"] >= 44
    page.get_by_role("button", name="Continue").press("Enter")
    page.wait_for_url("**/chat/**")
