"""Questions in the builder, in a real browser: the phone beside them follows every change, and stores nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.test_participant import no_sideways_scroll, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def builder(server: ConfabServer, new_page: Callable[..., Page], key: str, step: str, **options: Any) -> Page:
    """Return a page of the builder, signed in."""
    server.shell(
        "from django.contrib.auth import get_user_model;U = get_user_model();"
        "U.objects.filter(username='res').exists() or U.objects.create_superuser('res', password='a-long-password')"
    )
    page = new_page(**options)
    address = f"{server.url}/dashboard/studies/{key}/build/{step}/"
    page.goto(address)
    page.fill("[name=username]", "res")
    page.fill("[name=password]", "a-long-password")
    page.press("[name=password]", "Enter")
    page.wait_for_url(address)
    return page


def phone(page: Page) -> FrameLocator:
    return page.frame_locator(".phone iframe:not(.coming)")


def asked(page: Page) -> Locator:
    """Return the questions in the phone."""
    return phone(page).locator(".likert legend, fieldset.asked > legend, div.asked > label")


def card(page: Page, number: int) -> Locator:
    return page.locator("[data-list=after] > [data-card]").nth(number - 1)


def opened(page: Page, number: int) -> Locator:
    """Open a question; return it."""
    result = card(page, number)
    result.locator("summary").first.click()
    return result


def counted(server: ConfabServer) -> str:
    return server.shell(
        "from django.apps import apps;print({m._meta.label: m._base_manager.count() for m in apps.get_models()"
        " if m._meta.managed and m._meta.app_label in ('studies', 'conversations', 'ratings', 'bots')})"
    ).strip()


def test_the_phone_follows_questions_that_are_edited(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    key = study(server, "phone", ["test-quick"], state="draft")
    page = builder(server, new_page, key, "questions", width=1280, height=1000)
    expect(asked(page)).to_have_count(5)
    opened(page, 3)
    expect(phone(page).locator(".preview-edited")).to_contain_text("How varied were the replies")
    page.get_by_label("Question", exact=True).nth(2).fill("Did it repeat itself?")
    expect(phone(page).locator(".preview-edited legend")).to_contain_text("Did it repeat itself?")
    # The focus stays where it is written, while the page beside it is loaded again.
    expect(card(page, 3).locator("[name$=-title]")).to_be_focused()

    # By buttons, announced; the focus stays on the button.
    up = card(page, 3).get_by_role("button", name="Move up")
    up.press("Enter")
    said = page.locator("[data-announce]")
    expect(said).to_have_text("Number 3 is now second of five.")
    expect(card(page, 2).get_by_role("button", name="Move up")).to_be_focused()
    expect(asked(page).nth(1)).to_contain_text("Did it repeat itself?")
    card(page, 1).get_by_role("button", name="Move up").press("Enter")
    expect(said).to_have_text("It is already the first.")
    for button in page.locator(".q-moves button").all():
        box = button.bounding_box()
        assert box["height"] >= 44
        assert box["width"] >= 44

    # By drag.
    card(page, 2).locator("summary").first.click()  # closed again
    grip = card(page, 5).locator("[data-grip]").bounding_box()
    first = card(page, 1).bounding_box()
    page.mouse.move(grip["x"] + 18, grip["y"] + 26)
    page.mouse.down()
    page.mouse.move(grip["x"] + 18, first["y"] + 60, steps=8)
    page.mouse.move(grip["x"] + 18, first["y"] + 4, steps=4)
    page.mouse.up()
    expect(said).to_have_text("Number 5 is now first of five.")
    expect(asked(page).nth(0)).to_contain_text("How empathetic was the chatbot")

    # Added, worded, deleted, brought back.
    page.get_by_role("button", name="One choice").first.click()
    expect(asked(page)).to_have_count(6)
    page.keyboard.type("Would you come back?")
    expect(phone(page).locator(".preview-edited")).to_contain_text("Would you come back?")
    card(page, 6).get_by_label("Answers to choose from").fill("Yes\nNo\nPerhaps")
    expect(phone(page).get_by_role("radio", name="Perhaps")).to_be_visible()
    card(page, 6).get_by_label("Answers to choose from").fill("Yes")
    expect(card(page, 6).locator(".has-error")).to_contain_text("must be two or more")
    card(page, 6).get_by_label("Answers to choose from").fill("Yes\nNo")
    expect(card(page, 6).locator(".has-error")).to_have_count(0)
    card(page, 6).get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    expect(asked(page)).to_have_count(5)
    page.get_by_role("button", name="Undo").click()
    expect(asked(page)).to_have_count(6)

    # Before the task: the folded list says how many there are.
    page.get_by_text("Before the task").click()
    before = page.locator("[data-questions=questions]")
    before.get_by_role("button", name="Several choices").click()
    expect(before.locator("[data-summary]")).to_have_text("1 question")
    expect(page.locator("[data-preview-tabs] [aria-current]").last).to_have_text("Questions before")
    expect(phone(page).get_by_role("heading", name="About you")).to_be_visible()
    page.get_by_role("link", name="Rate", exact=True).click()
    expect(asked(page)).to_have_count(6)

    # Other points, with words at each.
    opened(page, 2)
    card(page, 2).get_by_label("Points").select_option("1:4")
    card(page, 2).get_by_label("Words between").select_option("all")
    card(page, 2).get_by_label("Words under 3").fill("quite good")
    expect(phone(page).get_by_text("quite good")).to_be_visible()
    page.reload()
    expect(card(page, 2).locator("[data-pill]")).to_have_text("1 to 4")
    expect(asked(page)).to_have_count(6)


def test_nothing_that_is_done_in_the_phone_is_stored(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    key = study(server, "inert", ["test-quick"], min_exchanges=3, max_exchanges=9)
    page = builder(server, new_page, key, "texts", width=1280, height=1000)
    before = counted(server)
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    shown = phone(page)
    shown.get_by_role("checkbox").check()
    shown.get_by_role("button", name="Continue").click()
    shown.get_by_role("button", name="Start chatting").click()
    # The tabs go along with whoever goes on in the phone.
    tabs = page.get_by_role("navigation", name="Step of the preview")
    expect(tabs.locator("[aria-current]")).to_have_text("Chat")
    expect(shown.locator(".msg-bot .votes")).to_have_count(3)  # the last reply of the sample came by itself
    shown.get_by_role("textbox").fill("Hello from the builder")
    shown.get_by_role("textbox").press("Enter")
    expect(shown.locator(".msg-you").last).to_contain_text("Hello from the builder")
    expect(shown.locator(".msg-bot .votes")).to_have_count(4)
    shown.get_by_role("link", name="Rate").click()
    expect(tabs.locator("[aria-current]")).to_have_text("Rate")
    shown.get_by_role("radio").first.check(force=True)
    shown.get_by_role("button", name="Save and finish").click()
    expect(tabs.locator("[aria-current]")).to_have_text("Done")
    expect(shown.get_by_role("heading", name="Thank you")).to_be_visible()
    page.get_by_label("Theme of the preview").select_option("dark")
    expect(shown.locator("html[data-theme=dark]")).to_be_attached()
    # A field that is edited is shown where people read it.
    page.get_by_label("Pay as shown to participants").fill("£2.50 a chat")
    expect(shown.locator(".preview-edited")).to_contain_text("£2.50 a chat")
    expect(page.get_by_label("Pay as shown to participants")).to_be_focused()
    assert sockets == []
    assert counted(server) == before


def test_on_a_phone_the_preview_takes_the_whole_screen(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "full", ["test-quick"], state="draft")
    page = builder(test_bots_server, new_page, key, "questions", width=360, height=740)
    no_sideways_scroll(page)
    expect(page.get_by_title("The participant's page")).not_to_be_visible()
    page.get_by_role("link", name="View as participant").click()
    frame = page.get_by_title("The participant's page")
    expect(frame).to_be_visible()
    assert frame.bounding_box()["width"] >= 320
    expect(asked(page)).to_have_count(5)
    page.keyboard.press("Escape")
    expect(frame).not_to_be_visible()
    expect(page.get_by_role("link", name="View as participant")).to_be_focused()


def test_questions_are_edited_without_script(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "plain", ["test-quick"], state="draft")
    page = builder(test_bots_server, new_page, key, "questions", java_script_enabled=False)
    page.get_by_role("button", name="Free text").first.click()
    opened(page, 6).get_by_label("Question", exact=True).fill("Anything else?")
    card(page, 6).get_by_label("Question", exact=True).press("Enter")
    expect(card(page, 6)).to_contain_text("Anything else?")
    card(page, 6).get_by_role("button", name="Move up").click()
    expect(card(page, 5)).to_contain_text("Anything else?")
    opened(page, 5).get_by_role("button", name="Delete").click()
    expect(page.get_by_text("“Anything else?” was deleted.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(card(page, 5)).to_contain_text("Anything else?")
    expect(asked(page)).to_have_count(6)
