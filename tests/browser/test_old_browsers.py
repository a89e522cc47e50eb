"""Browsers that lack something: a script that cannot be loaded or read, no script, no dialogs, no cookies."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.test_participant import begin, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAYS = ("Continue on another device", "Write to the researchers", "Withdraw and delete my answers")


@pytest.fixture
def old_page(chromium: Any) -> Any:
    """Make pages whose scripts may fail: a test of its own says what must be shown then."""
    contexts: list[BrowserContext] = []

    def make(**options: Any) -> Page:
        context = chromium.new_context(viewport={"width": 390, "height": 800}, locale="en-GB", **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        return context.new_page()

    yield make
    for context in contexts:
        context.close()


def unreadable(route: Route) -> None:
    route.fulfill(content_type="text/javascript", body="class A { #x@() {} }")


def shows_ways(page: Page) -> None:
    exits = page.locator(".exits")
    for way in WAYS:
        expect(exits.get_by_role("link", name=way)).to_be_visible()
    expect(exits.get_by_text("Stop and leave")).to_be_visible()


def begin_without_script(page: Page, server: ConfabServer, key: str) -> None:
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile("/(chat|task)/"))


@pytest.mark.parametrize("fails", [unreadable, lambda route: route.abort()], ids=["unreadable", "blocked"])
def test_a_module_that_fails_is_seen_before_consent(
    test_bots_server: ConfabServer, old_page: Callable[..., Page], fails: Any
) -> None:
    server, page = test_bots_server, old_page()
    key = study(server, "no-module", ["test-quick"])
    page.route("**/participant/time*.js", fails)
    with page.expect_response("**/script-failed/**"):
        page.goto(f"{server.url}/s/{key}/")
    expect(page.locator("#unfit")).to_contain_text("may not work in your browser")
    expect(page.get_by_role("button", name="Continue")).to_be_disabled()


@pytest.mark.parametrize(("protocol", "script"), [("chat", "chat"), ("arena", "arena"), ("picks", "arena")])
def test_a_chat_page_whose_script_fails_shows_the_ways_on(
    test_bots_server: ConfabServer, old_page: Callable[..., Page], protocol: str, script: str
) -> None:
    server, page = test_bots_server, old_page()
    key = study(server, f"stuck-{protocol}", ["test-quick", "parrot"], protocol=protocol)
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.route(f"**/participant/{script}*.js", unreadable)
    with page.expect_response("**/script-failed/**"):
        page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert").filter(has_text="could not start in your browser")).to_be_visible()
    shows_ways(page)


def test_a_script_that_does_nothing_is_noticed_within_8_seconds(
    test_bots_server: ConfabServer, old_page: Callable[..., Page]
) -> None:
    page = old_page()
    key = study(test_bots_server, "silent", ["test-quick"])
    page.clock.install()
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.route("**/participant/chat*.js", lambda route: route.fulfill(content_type="text/javascript", body="throw 1"))
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/chat/**")
    page.clock.fast_forward(8_000)
    shows_ways(page)


def test_scripts_that_may_be_missing_do_no_harm(test_bots_server: ConfabServer, old_page: Callable[..., Page]) -> None:
    page = old_page()
    key = study(test_bots_server, "less", ["test-quick"])
    for name in ("report", "images", "condition"):
        page.route(re.compile(rf"/participant/{name}(\.\w+)?\.js"), lambda route: route.abort())
    begin(page, test_bots_server, key)
    say(page, "Hello there")
    expect(replies(page)).to_have_count(1)
    expect(page.locator(".exits")).to_be_hidden()
    page.get_by_role("link", name="Report this reply").click()
    page.wait_for_url("**/report/**")


def test_without_script_the_consent_page_says_so_and_the_chat_keeps_its_ways_out(
    test_bots_server: ConfabServer, old_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    for protocol in ("chat", "arena", "picks"):
        page = old_page(java_script_enabled=False)
        key = study(server, f"no-script-{protocol}", ["test-quick", "parrot"], protocol=protocol)
        page.goto(f"{server.url}/s/{key}/")
        expect(page.get_by_text("The chat in this study needs JavaScript.")).to_be_visible()
        begin_without_script(page, server, key)
        shows_ways(page)
        expect(page.locator(".foot a")).to_be_visible()
        page.locator(".exits").get_by_role("link", name="Withdraw and delete my answers").click()
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Delete permanently").click()
        expect(page.get_by_role("heading", name="All your data have been deleted.")).to_be_visible()


def test_a_browser_without_dialogs_and_request_submit(
    test_bots_server: ConfabServer, old_page: Callable[..., Page]
) -> None:
    """Safari 15.0: <dialog> is an element without meaning."""
    server, page = test_bots_server, old_page()
    page.add_init_script(
        "delete HTMLFormElement.prototype.requestSubmit; delete HTMLDialogElement.prototype.showModal;"
        "delete HTMLDialogElement.prototype.close; delete window.HTMLDialogElement;"
    )
    key = study(server, "safari", ["test-quick"], protocol="marked_chat", min_exchanges=1)
    begin(page, server, key)
    assert page.locator("dialog:visible").count() == 0
    page.get_by_role("button", name="Help").click()
    expect(page.locator("#help")).to_be_visible()
    page.locator("#help").get_by_role("button", name="Close").click()
    expect(page.locator("#help")).to_be_hidden()
    say(page, "Hello there")
    expect(replies(page)).to_have_count(1)
    page.locator("#rate").click()
    expect(page).not_to_have_url(re.compile(r"/chat/[^/]+/$"))


def test_a_translated_page_is_stored_and_replies_are_left_alone(
    test_bots_server: ConfabServer, old_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    for setting, mark in (("forbid", "no"), ("allow", None)):
        page = old_page()
        key = study(server, f"translated-{setting}", ["test-quick"], browser_translation=setting)
        begin(page, server, key)
        say(page, "Hello there")
        expect(replies(page)).to_have_count(1)
        assert [bubble.get_attribute("translate") for bubble in page.locator("#log .bubble").all()] == [mark] * 2
        with page.expect_response("**/translated/**") as answer:
            page.evaluate("document.documentElement.classList.add('translated-ltr')")
        assert answer.value.status == 204
