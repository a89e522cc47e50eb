"""Criteria ticked in a real browser: by finger on a phone, by keys on a desk, and kept over a reload."""

import os
from collections.abc import Callable
from pathlib import Path

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
samples = items_sample(protocols.get("criteria"))[:2]
samples[0]["criteria"][1]["text"] = "https://example.org/" + "longer-than-a-line" * 5
items_import(study=study, lines=[(1, FileItem.model_validate(one)) for one in samples])
study_edit(study=study, state="collecting")
"""
STORED = """
from webapp.ratings.models import Rating
for rating in Rating.objects.filter(task__participant__study__key={key!r}).order_by("pk"):
    print("STORED", *rating.other_answers["criteria"])
"""


def begin(page: Page, server: ConfabServer, **texts: str) -> str:
    key = study(server, "ticks", [], protocol="criteria", state="draft", n_items=2, **texts)
    server.shell(ITEMS.format(key=key))
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.locator("button.button-primary:visible").first.click()
    page.locator("button.button-primary:visible").last.click()
    page.wait_for_url("**/judge/")
    return key


def picture(page: Page, name: str) -> None:
    """Keep a picture of the whole page if someone wants to look at it."""
    if folder := os.environ.get("CRITERIA_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("width", [390, 1366])
def test_criteria_are_ticked_and_nothing_is_lost(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int
) -> None:
    page = new_page(width, 844)
    key = begin(page, test_bots_server)
    boxes, none = page.locator("input[name=criteria]"), page.get_by_role("checkbox", name="None of these")
    accessible(page)
    no_sideways_scroll(page)
    for label in page.locator("#marking label").all():
        assert label.bounding_box()["height"] >= 44
    picture(page, f"{width}-first")

    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("alert")).to_contain_text("1 answer is missing.")
    expect(page.get_by_role("group", name="Which of these statements")).to_have_accessible_description(
        "“None of these” clears the others. Tick every statement that is true, or “None of these”."
    )
    accessible(page)
    picture(page, f"{width}-missing")
    page.get_by_role("link", name="Go to question 1").click()
    expect(boxes.nth(0)).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(boxes.nth(0)).to_be_checked()
    expect(boxes.nth(1)).to_be_checked()
    page.reload()
    expect(boxes.nth(0)).to_be_checked()
    expect(boxes.nth(1)).to_be_checked()
    none.check()
    expect(boxes.nth(0)).not_to_be_checked()
    expect(page.locator("#marks-status")).to_have_text("The other statements are cleared.")
    boxes.nth(2).check()
    expect(none).not_to_be_checked()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Reply 2 of 2")).to_be_visible()
    none.check()
    page.get_by_role("link", name="Back").click()
    expect(boxes.nth(2)).to_be_checked()
    page.get_by_role("button", name="Next").click()
    expect(none).to_be_checked()
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    lines = test_bots_server.shell(STORED.format(key=key)).splitlines()
    assert [line for line in lines if line.startswith("STORED")] == ["STORED 0 0 1", "STORED 0 0 0"]


@pytest.mark.parametrize(("language", "words"), [("de", "Aussagen"), ("ar", "العبارات")])
def test_the_page_speaks_the_language_of_the_study(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], language: str, words: str
) -> None:
    page = new_page(390, 844)
    begin(page, test_bots_server, language=language)
    text = page.locator("main").inner_text()
    assert words in text
    assert "None of these" not in text
    accessible(page)
    no_sideways_scroll(page)
    picture(page, language)
