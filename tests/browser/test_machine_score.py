"""A participant who pastes and leaves the page, a rehearsal beside, and the machine score of both."""

import os
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import sign_in
from tests.browser.test_participant import begin, choose, no_sideways_scroll, replies, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_pastes_and_leaving_the_page_make_the_score(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    key = study(server, "signals", ["test-quick"], counts_typing=True, counts_focus=True, max_exchanges=9)
    page = new_page()
    page.goto(f"{server.url}/s/{key}/")
    expect(page.get_by_text("We count how often you leave this page during the chat, to find")).to_be_visible()
    begin(page, server, key)
    page.wait_for_load_state()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    for number in range(3):
        text = f"This is message {number}, which somebody has written elsewhere before."
        page.evaluate("text => navigator.clipboard.writeText(text)", text)
        page.evaluate("dispatchEvent(new Event('blur')); dispatchEvent(new Event('focus'))")
        page.locator("#text").press("ControlOrMeta+v")
        expect(page.locator("#text")).to_have_value(text)
        page.locator("#text").press("Enter")
        expect(replies(page)).to_have_count(number + 1)
    rows = server.shell(
        "from webapp.conversations.models import Typing as T;"
        f"rows = T.objects.filter(turn__conversation__study__key='{key}').order_by('turn');"
        "print(list(rows.values_list('keystrokes', 'pastes', 'focus_losses')))"
    )
    assert rows.strip() == "[(0, 1, 1), (0, 1, 1), (0, 1, 1)]"
    page.locator("#rate").click()
    for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(page, question, 4)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")

    server.manage("rehearse", "--study", key, "--people", "4", "--url", server.url)
    server.shell(
        "from django.contrib.auth import get_user_model as U;"
        "U().objects.filter(username='res').exists() or U().objects.create_superuser('res', password='a-long-password')"
    )
    researcher = new_page(1366, 900)
    sign_in(researcher, server)
    researcher.goto(f"{server.url}/dashboard/studies/{key}/people/?show=flagged")
    expect(researcher.get_by_text("Score 2 of 4 measured signals: 3 of 3 messages were pasted")).to_be_visible()
    researcher.locator(".person-id").click()
    expect(researcher.get_by_text("the page was left before 3 of 3 messages")).to_be_visible()
    researcher.get_by_role("button", name="A person").click()
    expect(researcher.get_by_text("decided on")).to_be_visible()
    accessible(researcher)
    for width in (1366, 390):
        researcher.set_viewport_size({"width": width, "height": 900})
        no_sideways_scroll(researcher)
        if folder := os.environ.get("SHOTS"):
            researcher.screenshot(path=f"{folder}/person{width}.png", full_page=True)
    researcher.goto(f"{server.url}/dashboard/studies/{key}/people/")
    researcher.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    signals = researcher.get_by_role("row").filter(has=researcher.get_by_role("rowheader", name="No typing counts"))
    expect(signals).to_contain_text("4 of 4")
    pasted = researcher.get_by_role("row").filter(has=researcher.get_by_role("rowheader", name="Pastes"))
    expect(pasted).to_contain_text("1 of 1 [.27, 1.00] not known 1 of 1 [.27, 1.00]")
    for width in (1366, 390):
        researcher.set_viewport_size({"width": width, "height": 900})
        no_sideways_scroll(researcher)
        if folder := os.environ.get("SHOTS"):
            researcher.screenshot(path=f"{folder}/people{width}.png", full_page=True)
