"""Two stored conversations on a phone: tabs, what is not read yet, and both below one another without script."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import no_sideways_scroll
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CHATS = """
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.studies.models import Study
from webapp.studies.services import study_create
from webapp.studies.versions import study_edit
study = study_create(key={key!r}, name={key!r}, bots=[], protocol="dialogues", state="draft")
for name in ("one", "two"):
    made = {key!r} + name
    bot = BotVersion.objects.create(key=made, bot_id=made, title="", kind="", version="")
    for number in range(2):
        chat = Conversation.objects.create(
            source="import", state="completed", study=study, bot=bot, external_id=name + str(number)
        )
        Turn.objects.bulk_create(
            Turn(conversation=chat, index=i, speaker=("human", "bot")[i % 2], text="Words of a line " * 6)
            for i in range(12)
        )
study_edit(study=study, state="collecting")
"""


def begin(page: Page, server: ConfabServer) -> None:
    key = f"dialogues-{uuid4().hex[:6]}"
    server.shell(CHATS.format(key=key))
    page.goto(f"{server.url}/s/{key}/")
    page.wait_for_load_state()
    page.get_by_role("checkbox").check()
    go_on = page.get_by_role("button", name="Continue")
    if go_on.is_visible():  # with script: the instructions are a second page
        go_on.click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/judge/")


def answer(page: Page) -> None:
    page.get_by_role("radio", name="Chatbot B").check()
    page.get_by_label("Why? A few words are enough.").fill("It asks me things.")


def test_on_a_phone_both_are_opened_before_the_next_pair(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page(360, 740)
    begin(page, test_bots_server)
    no_sideways_scroll(page)
    a, b = page.get_by_role("tab").all()
    expect(a).to_have_attribute("aria-selected", "true")
    expect(b).to_contain_text("not read yet")
    expect(page.locator("#talk-B")).to_be_hidden()
    answer(page)
    page.reload()
    expect(page.get_by_role("radio", name="Chatbot B")).to_be_checked()
    expect(page.get_by_label("Why? A few words are enough.")).to_have_value("It asks me things.")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("alert")).to_have_text("Open conversation B first.")
    expect(page.get_by_role("alert")).to_be_in_viewport()
    expect(b).to_be_focused()
    accessible(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#talk-B")).to_be_visible()
    expect(page.locator("#talk-A")).to_be_hidden()
    expect(b).not_to_contain_text("not read yet")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Pair 2 of 2")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("radio", name="Chatbot B")).to_be_checked()
    expect(page.get_by_role("tab").last).not_to_contain_text("not read yet")
    no_sideways_scroll(page)


def test_side_by_side_both_are_read_and_nothing_is_refused(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page(1280, 800)
    begin(page, test_bots_server)
    no_sideways_scroll(page)
    boxes = [page.locator(f"#talk-{side}").bounding_box() for side in "AB"]
    assert boxes[0]["y"] == boxes[1]["y"]
    expect(page.get_by_role("tab")).to_have_count(0)
    page.locator("#talk-B .dialogue-log").focus()
    expect(page.locator("#talk-B .dialogue-log")).to_be_focused()
    answer(page)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Pair 2 of 2")).to_be_visible()


def test_without_script_both_stand_below_one_another(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page(360, 740, java_script_enabled=False)
    begin(page, test_bots_server)
    expect(page.locator("#talk-A")).to_be_visible()
    expect(page.locator("#talk-B")).to_be_visible()
    answer(page)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Pair 2 of 2")).to_be_visible()
