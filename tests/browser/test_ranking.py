"""Three replies put in order in a real browser: dragged, by buttons and by keys, on a phone, and without script."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import sign_in
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
for number, one in enumerate(items_sample(protocols.get("rank_three"))):
    one["responses"][0]["text"] = "https://example.org/" + "longer-than-a-line" * 5
    items_import(study=study, lines=[(1, FileItem.model_validate(one))])
study_edit(study=study, state="collecting")
"""
STORED = """
import json
from webapp.ratings.models import Rating
for rating in Rating.objects.filter(task__participant__study__key={key!r}).order_by("pk"):
    shown = rating.task.payload["shown"][str(rating.item_id)]
    print("STORED", "".join("ABC"[shown.index(rating.answers[f"rank_{{place}}"])] for place in (1, 2, 3)))
"""


STAFF = """
from django.contrib.auth import get_user_model
users = get_user_model().objects
users.filter(username="res").exists() or users.create_superuser("res", password="a-long-password")
"""


def begin(page: Page, server: ConfabServer, *, script: bool = True, language: str = "en") -> str:
    texts = {} if language == "en" else {"language": language}
    key = study(server, "ranks", [], protocol="rank_three", state="draft", n_items=2, **texts)
    server.shell(ITEMS.format(key=key))
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    if script:
        page.locator("button.button-primary:visible").first.click()
    page.locator("button.button-primary:visible").last.click()
    page.wait_for_url("**/judge/")
    return key


def stored(server: ConfabServer, key: str) -> list[str]:
    return [line.split()[1] for line in server.shell(STORED.format(key=key)).splitlines() if line.startswith("STORED")]


def order(page: Page) -> str:
    sides = page.locator("#ranking > li").evaluate_all("all => all.map((one) => one.dataset.side)")
    return "".join(sides).upper()


def picture(page: Page, name: str) -> None:
    """Keep a picture of the whole page if someone wants to look at it."""
    if folder := os.environ.get("RANKING_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def handle(page: Page, letter: str) -> Locator:
    return page.get_by_role("button", name=f"Move Reply {letter}", exact=True)


def drag(page: Page, letter: str, onto: str, *, part: float) -> None:
    """Drag a text by its handle to this part of another one's height."""
    start, target = handle(page, letter).bounding_box(), page.locator(f"li[data-side={onto.lower()}]").bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(start["x"] + start["width"] / 2, target["y"] + target["height"] * part, steps=12)


def test_texts_are_dragged_moved_by_buttons_and_by_keys(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page(1100, 900)
    key = begin(page, test_bots_server)
    status = page.get_by_role("status").filter(has_text="order").or_(page.locator("#ranking-state"))
    expect(page.get_by_role("heading", name="Put the texts in order")).to_be_visible()
    expect(page.locator("#ranking-rows")).to_be_hidden()
    expect(status).to_have_text("The order shown is random. Change it, or keep it if you agree.")
    assert order(page) == "ABC"
    accessible(page)
    no_sideways_scroll(page)
    picture(page, "desktop-first")

    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("alert")).to_contain_text("1 answer is missing.")
    expect(page.get_by_role("group", name="Which text is the best")).to_have_accessible_description(
        "Drag a text by its handle, or move it with its buttons. On the handle, the arrow keys move it, too. "
        "Put the texts in order, or keep the order shown."
    )
    accessible(page)
    picture(page, "desktop-missing")
    page.get_by_role("link", name="Go to question 1").click()
    expect(page.get_by_role("list", name="Your order")).to_be_focused()

    drag(page, "A", "C", part=0.8)
    picture(page, "desktop-drag")
    page.mouse.up()
    assert order(page) == "BCA"
    expect(status).to_have_text("Reply A is now in place 3 of 3.")
    expect(page.get_by_role("button", name="Keep this order")).to_be_hidden()
    page.get_by_role("button", name="Move Reply C up").click()
    assert order(page) == "CBA"
    expect(status).to_have_text("Reply C is now in place 1 of 3.")
    expect(page.get_by_role("button", name="Move Reply C up")).to_be_focused()
    handle(page, "B").press("ArrowDown")
    assert order(page) == "CAB"
    expect(handle(page, "B")).to_be_focused()
    handle(page, "B").press("Home")
    assert order(page) == "BCA"
    expect(status).to_have_text("Reply B is now in place 1 of 3.")

    drag(page, "A", "B", part=0.1)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert order(page) == "BCA", "Escape puts it back"
    page.reload()
    expect(status).to_have_text("This is your order.")
    assert order(page) == "BCA", "the draft is kept"
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Comparison 2 of 2")).to_be_visible()
    page.get_by_role("button", name="Keep this order").click()
    expect(status).to_have_text("You keep this order.")
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_text("Comparison 1 of 2")).to_be_visible()
    assert order(page) == "BCA", "the stored order is shown"
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    assert stored(test_bots_server, key) == ["BCA", "ABC"]


@pytest.mark.parametrize("script", [True, False])
def test_texts_are_put_in_order_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], script: bool
) -> None:
    page = new_page(390, 844, java_script_enabled=script)
    key = begin(page, test_bots_server, script=script)
    no_sideways_scroll(page)
    picture(page, f"phone-{'script' if script else 'plain'}")
    for number, letters in ((1, "BCA"), (2, "CAB")):
        if script:
            accessible(page)
            for button in page.locator("#ranking button:visible").all():
                assert button.bounding_box()["height"] >= 44
            for place, letter in enumerate(letters):
                for _press in range(order(page).index(letter) - place):
                    page.get_by_role("button", name=f"Move Reply {letter} up").tap()
            assert order(page) == letters
        else:
            for place, letter in enumerate(letters, start=1):
                row = page.get_by_role("group", name=f"Place {place}", exact=True)
                row.get_by_role("radio", name=f"Reply {letter}").check(force=True)
        page.get_by_role("button", name="Next" if number == 1 else "Save and finish").click()
        if number == 1:
            expect(page.get_by_text("Comparison 2 of 2")).to_be_visible()
    page.wait_for_url("**/done/")
    assert stored(test_bots_server, key) == ["BCA", "CAB"]


def test_a_text_is_dragged_with_a_finger(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(390, 844)
    begin(page, test_bots_server)
    touch = page.context.new_cdp_session(page)

    def send(kind: str, y: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": start["x"] + 20, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    handle(page, "C").scroll_into_view_if_needed()
    start = handle(page, "C").bounding_box()
    middle = start["y"] + start["height"] / 2
    over = page.locator("li[data-side=b]").bounding_box()
    scrolled = page.evaluate("scrollY")
    send("touchStart", middle)
    for part in (0.9, 0.6, 0.3):
        send("touchMove", over["y"] + part * over["height"])
    assert page.evaluate("scrollY") == scrolled, "the page does not scroll under the finger"
    picture(page, "phone-drag")
    send("touchEnd", 0)
    assert order(page) == "ACB"
    expect(page.locator("#ranking-state")).to_have_text("Reply C is now in place 2 of 3.")


@pytest.mark.parametrize("language", ["de", "ar"])
def test_the_page_speaks_the_language_of_the_study(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], language: str
) -> None:
    page = new_page(390, 844)
    begin(page, test_bots_server, language=language)
    words = page.locator("main").inner_text()
    for english in ("Keep", "order", "Drag", "Place"):
        assert english not in words
    page.locator("[data-move=down]").first.tap()
    assert order(page) == "BAC"
    assert "Reply" not in page.locator("#ranking-state").inner_text()
    accessible(page)
    no_sideways_scroll(page)
    picture(page, f"phone-{language}")


@pytest.mark.parametrize("width", [1280, 390])
def test_rehearsed_rankings_are_on_the_leaderboard(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int
) -> None:
    key = study(test_bots_server, "ranked", [], protocol="rank_three", state="draft", n_items=4)
    test_bots_server.shell(ITEMS.format(key=key))
    test_bots_server.shell(STAFF)
    rehearsed = test_bots_server.manage("rehearse", "--study", key, "--people", "12", "--url", test_bots_server.url)
    assert "12" in rehearsed.stdout
    page = new_page(width, 844)
    sign_in(page, test_bots_server)
    page.goto(f"{test_bots_server.url}/dashboard/studies/{key}/results/?synthetic=1")
    expect(page.get_by_text("Plackett–Luce strength with 95").first).to_be_visible()
    no_sideways_scroll(page)
    picture(page, f"results-{width}")
    page.goto(f"{test_bots_server.url}/dashboard/studies/{key}/results/?synthetic=1&part=pairs")
    table = page.get_by_role("table", name="Ranked replies by bot").or_(page.locator("#ranking table")).first
    expect(table).to_contain_text("Mean place")
    accessible(page)
    no_sideways_scroll(page)
    picture(page, f"pairs-{width}")
