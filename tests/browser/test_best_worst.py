"""The best and the worst of four replies in a real browser: on a phone, by keyboard, without script."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import no_sideways_scroll, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ITEMS = """
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.study_file import FileItem, items_sample
from webapp.studies.versions import study_edit
study = Study.objects.get(key={key!r})
for one in items_sample(protocols.get("best_worst")):
    one["responses"][0]["text"] = "https://example.org/" + "longer-than-a-line" * 5
    items_import(study=study, lines=[(1, FileItem.model_validate(one))])
study_edit(study=study, state="collecting")
"""


@pytest.mark.parametrize("script", [True, False])
def test_best_and_worst_are_chosen_by_keyboard_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], script: bool
) -> None:
    key = study(test_bots_server, "ends", [], protocol="best_worst", state="draft", n_items=1)
    test_bots_server.shell(ITEMS.format(key=key))
    page = new_page(360, 740, java_script_enabled=script)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    if script:
        page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/judge/")
    expect(page.get_by_role("heading", name="Read all four texts")).to_be_visible()
    for letter in "ABCD":
        expect(page.get_by_role("region", name=f"Reply {letter}")).to_be_visible()
    for letter in "ABCD":
        for end in ("Best", "Worst"):
            card = page.get_by_role("region", name=f"Reply {letter}")
            radio = card.get_by_role("radio", name=f"{end} Reply {letter}")
            assert radio.bounding_box()["height"] >= 44
    no_sideways_scroll(page)
    if script:
        accessible(page)
    best_b, worst_b = (page.get_by_role("radio", name=f"{end} Reply B") for end in ("Best", "Worst"))
    best_b.press("Space")
    worst_b.press("Space")
    if script:
        expect(best_b).not_to_be_checked()
    page.get_by_role("button", name="Save and finish").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("1 answer is missing")
    if script:
        expect(page.locator("#summary")).to_be_focused()
        accessible(page)
        best_b.press("Space")
    else:
        expect(worst_b).to_have_accessible_description(re.compile("You chose this text as the best one as well."))
    no_sideways_scroll(page)
    worst_c = page.get_by_role("radio", name="Worst Reply C")
    worst_c.press("Space")
    worst_c.press("ArrowRight")
    expect(page.get_by_role("radio", name="Worst Reply D")).to_be_checked()
    expect(best_b).to_be_checked()
    page.get_by_role("button", name="Save and finish").press("Enter")
    page.wait_for_url("**/done/")


CHATS = """
from django.core.management import call_command
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.studies.models import Study
from webapp.studies.versions import study_edit
source = Study.objects.get(key={source!r})
for letter in "pqrs":
    bot = BotVersion.objects.create(key=f"talk-{{letter}}", bot_id=f"talk-{{letter}}", title="", kind="", version="")
    chat = Conversation.objects.create(study=source, bot=bot, state="completed", source="import")
    Turn.objects.bulk_create(
        Turn(conversation=chat, index=n, speaker=("human", "bot")[n % 2], text=f"line {{n}} of {{letter}}" + ", so" * 9)
        for n in range(20)
    )
call_command("make_items", "--study", {key!r}, "--from-study", {source!r}, "--inline")
study_edit(study=Study.objects.get(key={key!r}), state="collecting")
"""


def test_four_whole_chats_are_read_to_their_end_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    source = study(test_bots_server, "talks", [], protocol="turns", state="draft")
    key = study(test_bots_server, "ends-of-chats", [], protocol="best_worst", state="draft", n_items=1)
    test_bots_server.shell(CHATS.format(key=key, source=source))
    page = new_page(360, 740)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/judge/")
    for letter in "ABCD":
        log = page.get_by_role("group", name=f"Conversation {letter}")
        assert log.bounding_box()["height"] <= 0.6 * 740 + 1, "scrolls by itself"
        last = log.get_by_text("line 19 of")
        log.press("End")
        expect(last).to_be_in_viewport()
    no_sideways_scroll(page)
    accessible(page)
    page.get_by_role("radio", name="Best Conversation C").press("Space")
    page.get_by_role("radio", name="Worst Conversation A").press("Space")
    page.get_by_role("button", name="Save and finish").press("Enter")
    page.wait_for_url("**/done/")
