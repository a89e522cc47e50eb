"""The dashboard in a real browser: plots, keys, the reader, try-it, jobs and the admin, under the policy."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible, no_blank_below
from tests.conftest import ConfabServer, start_confab
from webapp.dashboard.urls import urlpatterns

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BOTS = {"alpha": [6, 7, 6, 5], "beta": [4, 4, 5, 3], "gamma": [2, 1, 2, 3]}


def prepare(server: ConfabServer, folder: Path) -> None:
    """Make a researcher, and an imported study of three bots with ratings and metrics."""
    server.shell(
        "from django.contrib.auth import get_user_model;"
        "get_user_model().objects.create_superuser('res', password='a-long-password')"
    )
    records = [
        {
            "dialogue_id": f"{bot}{i}",
            "bot": bot,
            "turns": [
                {"speaker": "human", "text": "I love gardens"},
                {"speaker": "bot", "text": "What do you grow?", "vote": 1},
                {"speaker": "human", "text": "<b>Roses</b>, sadly they died"},
                {"speaker": "bot", "text": "Oh no, that is sad", "vote": -1},
            ],
            "ratings": [{"rater": f"r{i}", "quality": quality, "fluency": 4 + i % 2}],
        }
        for bot, qualities in BOTS.items()
        for i, quality in enumerate(qualities)
    ]
    file = folder / "ratings.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    server.manage("import_conversations", str(file), "--study", "imported", "--scale", "1:7")
    server.manage("compute_metrics", "--study", "imported", "--metrics", "sentiment,words", "--inline")
    server.shell(
        "from webapp.results.benchmark import benchmark_ask;"
        "from webapp.jobs.engine import run_job;"
        "from webapp.studies.models import Study;"
        "run_job(benchmark_ask(metrics=['words_bot', 'repetition'], study=Study.objects.get()))"
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Start one prepared server for all tests here, because it takes seconds to prepare."""
    folder = tmp_path_factory.mktemp("lab")
    for server in start_confab(folder, vector_cache, with_demo=False):
        prepare(server, folder)
        yield server


SIGNED_IN: dict[str, Any] = {}
"""Cookies of whoever signed in first, by the server's address."""


def sign_in(page: Page, server: ConfabServer) -> None:
    """Open the dashboard as `res`: first by the password page, then by the cookies of that time."""
    page.context.add_cookies(SIGNED_IN.get(server.url, []))
    page.goto(f"{server.url}/dashboard/")
    if page.locator("#id_username").count():
        page.fill("#id_username", "res")
        page.fill("#id_password", "a-long-password")
        page.locator("input[type=submit]").click()
        expect(page.get_by_role("heading", name="Studies")).to_be_visible()
        SIGNED_IN[server.url] = page.context.cookies()
    expect(page.get_by_role("heading", name="Studies")).to_be_visible()


def no_sideways_scroll(page: Page) -> None:
    """Check that nothing is wider than the window, and no blank page follows below."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{page.url} is {wide} px too wide"
    no_blank_below(page)


def test_a_researcher_looks_around(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page(accept_downloads=True)
    sign_in(page, lab)
    base = f"{lab.url}/dashboard"

    # The plot tells its values on hover and focus, and arrows move between marks.
    page.goto(f"{base}/studies/imported/results/?part=questions")
    marks = page.locator(".figure-wide .mark")
    marks.first.hover()
    tip = page.locator("[data-tip-box]")
    expect(tip).to_contain_text("alpha")
    expect(tip).to_contain_text("Quality 6.00")
    marks.first.focus()
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("beta")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("Fluency")

    # Its table has the same numbers and can be sorted.
    page.locator(".figure-switch").get_by_text("Table").click()
    rows = page.locator(".figure-table tbody tr")
    expect(rows.nth(0)).to_contain_text("6.00")
    expect(page.locator("#figure-bots .figure-plot")).to_be_hidden()
    page.get_by_role("button", name="Quality").click()
    page.get_by_role("button", name="Quality").click()
    expect(rows.nth(0)).to_contain_text("gamma")
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Quality")

    # It can be kept as a picture of its own.
    page.locator(".figure-switch").get_by_text("Plot").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="PDF of Ratings of each bot").click()
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF-")

    # One click leads to the conversations behind a mark, and on to the reader.
    marks.first.click()
    page.wait_for_url("**/conversations/?q=bot:alpha*")
    expect(page.locator("[data-row]")).to_have_count(4)
    expect(page.locator(".turn")).to_have_count(4)
    page.wait_for_load_state()
    expect(page.locator(".utterance").nth(2)).to_have_text("<b>Roses</b>, sadly they died")
    expect(page.locator(".is-chosen .turn-index")).to_have_text("3")  # voted down
    page.locator("summary", has_text="All values of the turn").click()
    page.locator(".is-chosen .turn-text").focus()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator(".is-chosen .turn-index")).to_have_text("1")
    page.keyboard.press("j")
    expect(page.locator(".is-chosen .turn-index")).to_have_text("2")
    expect(page.get_by_role("heading", name="Turn 2")).to_be_visible()
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="Turn 1")).to_be_visible()
    here = page.url
    page.keyboard.press("ArrowRight")
    expect(page).not_to_have_url(here)

    # A file comes down as the button names it.
    page.goto(f"{base}/studies/imported/report/#export")
    page.get_by_text("JSON Lines", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download ratings.jsonl").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 12

    # The theme stays.
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    # The try-it chat answers.
    page.goto(f"{base}/bots/eliza/")
    page.get_by_label("Message").fill("I feel sad")
    page.keyboard.press("Enter")
    expect(page.locator(".try-log .bot")).to_have_count(1)
    expect(page.locator(".try-log .failed")).to_have_count(0)

    # The stock admin, under the same policy; every other page is opened by `test_every_page_fits_its_window`.
    for path in [
        *("", "studies/study/", "studies/study/1/change/", "studies/rubric/1/change/"),
        *("conversations/conversation/", "ratings/rating/", "runs/metricversion/", "bots/botversion/"),
    ]:
        assert page.goto(f"{lab.url}/admin/{path}").status == 200


def test_arrow_keys_go_from_cell_to_cell_of_the_benchmark(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page(390, 844)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/benchmark/")
    links = page.locator("table[data-arrows] td a")
    links.first.focus()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(links.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name=re.compile("vote")).first).to_be_visible()
    no_sideways_scroll(page)
    # A link to the folded form unfolds it.
    page.goto(f"{lab.url}/dashboard/benchmark/")
    page.get_by_role("link", name="Add a data set").press("Enter")
    expect(page.locator("#add summary").first).to_be_focused()
    expect(page.get_by_label("Or a file of rated replies")).to_be_visible()


def test_a_run_is_followed_and_stopped(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page()
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/runs/")
    page.get_by_label("Eliza (rules)").check()
    page.get_by_label("Conversations per bot or pair").fill("3")
    page.get_by_label("Compute all metrics afterwards").uncheck()
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("heading", name="Self-play 1")).to_be_visible()
    expect(page.locator(".page-title .pill")).to_have_text("Waiting")
    # The page follows the worker by itself.
    lab.start_worker()
    expect(page.locator(".page-title .pill")).to_have_text("Done", timeout=60_000)
    expect(page.locator(".big-count")).to_have_text("3")
    lab.kill("worker")

    page.goto(f"{lab.url}/dashboard/runs/?new=1")
    page.get_by_label("Parrot (control)").check()
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url("**/runs/*/")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its results so far are kept, and you can resume it later.")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator(".page-title .pill")).to_have_text("Stopped")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".page-title .pill")).to_have_text("Waiting")


def test_pages_fit_a_phone(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page(360, 740)
    sign_in(page, lab)
    base = f"{lab.url}/dashboard"
    for path in [
        *("system/", "studies/imported/", "studies/imported/report/"),
        *("studies/imported/results/", "studies/imported/results/?by=votes"),
    ]:
        page.goto(f"{base}/{path}")
        no_sideways_scroll(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            accessible(page)
    page.emulate_media(color_scheme="light")
    for path in [
        *("bots/retrieval/", "runs/?new=1", "studies/imported/results/why/?part=agreement"),
        *("studies/imported/results/?against=alpha&against=beta", "studies/imported/results/prediction/?new=1"),
    ]:
        page.goto(f"{base}/{path}")
        no_sideways_scroll(page)
    page.goto(f"{base}/studies/imported/results/?part=questions")
    # One dimension at a time; the plots for wide columns stay away.
    expect(page.locator(".figure-wide")).to_be_hidden()
    expect(page.locator(".variant:visible")).to_have_count(1)
    page.locator(".variant-switch").get_by_text("Fluency").click()
    expect(page.locator(".variant-2")).to_be_visible()
    expect(page.locator(".variant-1")).to_be_hidden()
    page.goto(f"{base}/studies/imported/conversations/")
    expect(page.locator("[data-reader]")).to_be_hidden()
    page.locator("[data-row]").first.click()
    expect(page.locator(".turn").first).to_be_visible()
    expect(page.locator("[data-rows]")).to_be_hidden()
    page.wait_for_load_state()
    no_sideways_scroll(page)
    page.locator(".side-menu summary").click()
    expect(page.locator(".side-menu").get_by_role("link", name="Metrics")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".side-menu nav")).to_be_hidden()


def test_every_page_fits_its_window(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(390, 844)
    sign_in(page, lab)
    routes = [route.pattern for route in urlpatterns if set(route.pattern.converters) <= {"key"}]
    pages = [str(route).replace("<slug:key>", "imported") for route in routes]
    seen = 0
    for path in pages:
        address = f"{lab.url}/dashboard/{path}"
        answer = page.request.get(address, max_redirects=0)
        # Neither a file nor a fragment.
        if answer.status == 200 and answer.text().lstrip().lower().startswith("<!doctype html>"):
            # The response at hand is opened, so that the server does not compute the page twice.
            page.route(address, lambda route, _request, answer=answer: route.fulfill(response=answer))
            page.goto(address)
            page.unroute(address)
            for width, height in ((390, 844), (1366, 768)):
                page.set_viewport_size({"width": width, "height": height})
                no_sideways_scroll(page)
            seen += 1
    assert seen > 20


def test_pages_of_results_are_accessible(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    # Of three rated bots no fit says much, but its page has all its parts.
    fitted = ("fit_hybrid", "--study", "imported", "--features", "words_bot,words_user", "--json")
    assert json.loads(lab.manage(*fitted).stdout)["n_bots"] == 3
    page = new_page(1366, 900)
    sign_in(page, lab)
    study = f"{lab.url}/dashboard/studies/imported"
    # Two conversations beside each other, by the ways of the pages.
    page.goto(f"{study}/conversations/")
    page.get_by_role("link", name="Compare with…").click()
    page.locator("[data-row]").nth(1).click()
    expect(page.get_by_role("heading", name="Two conversations side by side")).to_be_visible()
    accessible(page)
    for address in [
        *(
            "results/prediction/",
            "results/why/?part=correlations",
            "results/why/?part=agreement",
            "report/?part=export",
        ),
        *("../../benchmark/", "../../tokens/"),
    ]:
        page.goto(f"{study}/{address}")
        accessible(page)
        no_sideways_scroll(page)


def test_a_specialist_term_opens_its_explanation_by_keyboard(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(390, 844)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/results/")
    page.get_by_text("How this is computed").first.click()
    term = page.get_by_role("button", name="Holm", exact=True).first
    expect(term.locator("xpath=..")).to_contain_text("fixed-sample test, Holm")
    explanation = page.locator(".term-text:popover-open")
    expect(explanation).to_have_count(0)
    term.focus()
    page.keyboard.press("Enter")
    expect(explanation).to_contain_text("Holm’s correction raises p values")
    box, width = explanation.bounding_box(), page.evaluate("document.documentElement.clientWidth")
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    accessible(page)
    page.keyboard.press("Escape")
    expect(explanation).to_have_count(0)


def test_a_folded_section_is_loaded_when_it_is_opened(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(1366, 900)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/results/why/#agreement")
    mark = page.locator("#figure-spread .figure-wide .mark").first
    mark.hover()
    expect(page.locator("[data-tip-box]")).to_be_visible()
    page.locator("#models > summary").click()
    plot = page.locator("#models figure").first
    expect(plot).to_be_visible()
    expect(page.locator("#models > summary")).to_be_focused()
    accessible(page)
    page.reload()
    expect(plot).to_be_visible()
    page.goto(f"{lab.url}/dashboard/studies/imported/report/")
    expect(page.locator(".button-primary:visible")).to_have_count(1)


def test_the_workbench_is_worked_by_keys(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page()
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/conversations/?q=sort:quality")
    rows, title = page.locator("[data-row]"), page.locator(".bench-title .muted")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    total = page.locator(".list-total strong").inner_text()
    # The range of a number is slid by keys, too; the fields beside the slider say the same.
    narrow = page.locator("summary", has_text="Filter")
    narrow.press("Enter")
    page.get_by_label("Quality, from").press("ArrowRight")
    expect(page.locator("#c-low")).to_have_value("2")
    page.keyboard.press("Escape")
    expect(narrow).to_be_focused()
    # The list is one stop of Tab; arrows go through it, Enter opens beside it.
    expect(page.locator("[data-row][tabindex='0']")).to_have_count(1)
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(title).to_have_text(f"2 of {total}")
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    expect(rows.nth(1)).to_be_focused()
    page.locator(".turn.is-chosen .turn-text").focus()
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text(f"3 of {total}")
    expect(page.locator(".turn.is-chosen .turn-text")).to_be_focused()
    expect(page.locator("[data-announce]")).to_have_text(re.compile(rf"3 of {total}$"))
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="Starred")).to_be_focused()
    page.keyboard.press("t")
    page.keyboard.type("odd one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Tags")).to_contain_text("odd one")
    expect(title).to_have_text(f"3 of {total}")
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type("quality>much")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type('tag:"odd one"')
    page.keyboard.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    accessible(page)
    page.get_by_role("button", name="Starred").click()
    page.get_by_role("button", name="odd one").click()


def test_the_list_is_narrowed_by_choosing_with_keys_on_a_phone(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page(390, 844)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/conversations/?q=is:rated")
    narrow = page.locator("summary", has_text="Filter")
    narrow.press("Enter")
    expect(page.get_by_label("Quality, from")).to_be_visible()
    no_sideways_scroll(page)
    accessible(page)
    # It shows what the search asks for, and tells how many fit before the list changes.
    expect(page.get_by_role("checkbox", name="rated", exact=True)).to_be_checked()
    told = page.locator("[data-total-here]")
    page.get_by_label("Rated by").fill("r2")
    expect(told).to_have_text("3 matching conversations.")
    page.get_by_role("checkbox", name="starred").press("Space")
    expect(told).to_have_text("0 matching conversations.")
    page.get_by_role("checkbox", name="starred").press("Space")
    page.get_by_label("Size", exact=True).fill("2")
    page.get_by_label("Seed").fill("3")
    expect(told).to_have_text("2 matching conversations.")
    # The range of another number stands in the fields as the search asks for it: not at all.
    page.get_by_label("Number", exact=True).select_option("turns")
    expect(page.locator("#c-low")).to_have_value("")
    page.get_by_role("button", name="Apply filters").press("Enter")
    page.wait_for_url("**/conversations/?q=is:rated+rater:r2+sample:2+seed:3")
    expect(page.locator("[data-row]")).to_have_count(2)
    # Whoever narrowed it goes on there, and hears the total.
    expect(narrow).to_be_focused()
    expect(page.locator("[data-announce]")).to_have_text("2 of 12 conversations")
    narrow.press("Enter")
    expect(page.get_by_label("Rated by")).to_have_value("r2")
    expect(page.get_by_label("Seed")).to_have_value("3")
    page.get_by_label("Size", exact=True).fill("many")
    expect(told).to_contain_text("needs a whole number")


def test_tags_and_notes_have_a_column_on_wide_screens_and_a_list(
    lab: ConfabServer, new_page: Callable[..., Any]
) -> None:
    page = new_page(1920, 1080)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/conversations/?q=bot:gamma")
    heading = page.get_by_role("heading", name="Tags and notes")
    turns, notes = page.locator(".bench-talk"), page.locator(".bench-notes")
    expect(heading).to_be_visible()
    notes.get_by_label("Note", exact=True).fill("Says it twice.")
    page.get_by_role("button", name="Add note").press("Enter")
    expect(notes).to_contain_text("Says it twice.")
    notes.get_by_label("Tag", exact=True).fill("loops")
    page.get_by_role("button", name="Add tag").press("Enter")
    expect(notes.get_by_role("list", name="Tags")).to_contain_text("loops")
    boxes = turns.bounding_box(), notes.bounding_box()
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    accessible(page)
    # The column of a conversation that is opened without leaving the page is open, too.
    page.locator("[data-row]").nth(1).click()
    expect(notes.get_by_label("Tag", exact=True)).to_be_visible()
    # Where there is less room they stand above the turns.
    page.set_viewport_size({"width": 1366, "height": 900})
    page.locator("[data-row]").first.click()
    expect(heading).to_be_hidden()
    expect(page.get_by_role("list", name="Tags")).to_contain_text("loops")
    boxes = turns.bounding_box(), notes.bounding_box()
    assert boxes[1]["y"] + boxes[1]["height"] <= boxes[0]["y"]
    page.get_by_role("link", name="Notes", exact=True).press("Enter")
    expect(page.locator(".noted-row")).to_contain_text("Says it twice.")
    accessible(page)
    no_sideways_scroll(page)
    page.locator(".noted-tags a", has_text="loops").press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("[data-line]")).to_have_value("tag:loops")
    # On a phone, in the dark, nothing is too wide or too faint.
    phone = new_page(360, 740, color_scheme="dark")
    sign_in(phone, lab)
    phone.goto(f"{lab.url}/dashboard/studies/imported/conversations/?notes=1")
    no_sideways_scroll(phone)
    accessible(phone)
    page.get_by_role("button", name="loops").click()
    page.get_by_role("button", name="Remove").click()


def test_the_live_room_follows_people_and_pauses_by_keyboard(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = f"live-{uuid4().hex[:6]}"  # new at every try
    lab.add_study(key, ["eliza"])
    page = new_page()
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/{key}/people/")
    expect(page.get_by_text("The link was opened 0 times.")).to_be_visible()
    person = new_page(width=360, height=740)
    person.goto(f"{lab.url}/s/{key}/")
    opened = page.locator(".funnel li").filter(has_text="Link opened")
    expect(opened.locator("strong")).to_have_text("1", timeout=15_000)
    person.get_by_role("checkbox").check()
    person.get_by_role("button", name="Continue").click()
    person.get_by_role("button", name="Start chatting").click()
    person.wait_for_url("**/chat/**")
    expect(page.get_by_text("1 here now")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 active participant can finish. No new ones can start.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".page-title .pill")).to_have_text("Paused")
    page.get_by_role("button", name="Resume").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".page-title .pill")).to_have_text("Collecting")


def test_two_ticks_set_bots_against_each_other_by_keys(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page(1366, 900)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/results/")
    boxes = page.locator(".board input")
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.locator(".board a.board-name").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(boxes.nth(1)).to_be_focused()
    selected = page.get_by_role("button", name="Compare selected")
    expect(selected).to_be_hidden()
    page.keyboard.press("Space")
    selected.press("Enter")
    expect(page.locator("#against")).to_be_focused()
    expect(page.locator("#against h2")).to_contain_text("alpha against beta")
    # A third tick takes the place of the first.
    boxes.nth(2).focus()
    page.keyboard.press("Space")
    selected.press("Enter")
    expect(page.locator("#against h2")).to_contain_text("beta against gamma")
    expect(page.get_by_role("heading", name="Sample conversations")).to_be_visible()
    accessible(page)


def test_the_tour_is_taken_by_keys_left_and_ends_with_a_rehearsal(
    lab: ConfabServer, new_page: Callable[..., Page]
) -> None:
    lab.add_study(f"tour-{uuid4().hex[:6]}", ["eliza"])
    page = new_page(width=360, height=740)
    sign_in(page, lab)
    page.get_by_role("link", name="Show me around").last.press("Enter")
    tour = page.get_by_role("dialog")
    expect(tour.get_by_role("heading")).to_be_focused()
    accessible(page)
    no_sideways_scroll(page)
    for n in range(2, 5):
        tour.get_by_role("button", name="Next").press("Enter")
        expect(tour).to_contain_text(f"{n} of 5")
        expect(tour.get_by_role("heading")).to_be_focused()
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    page.goto(f"{lab.url}/dashboard/tour/")
    expect(tour).to_contain_text("4 of 5")
    tour.get_by_role("button", name="Next").press("Enter")
    tour.get_by_role("button", name="Start a rehearsal").press("Enter")
    expect(page.get_by_text("12 scripted participants are on the way.")).to_be_visible()


class Clicks:
    """Clicks of a researcher, counted."""

    def __init__(self) -> None:
        self.n = 0

    def on(self, target: Any) -> None:
        """Click once."""
        target.click()
        self.n += 1


def test_one_click_opens_the_chats_of_a_number_and_two_more_a_study_that_judges_them(
    lab: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page, clicks = new_page(1366, 850), Clicks()
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/results/")
    # The bar, not its text: the third and worst bot's.
    clicks.on(page.locator(".board .board-row").last.locator(".board-plot a"))
    page.wait_for_url("**/conversations/?q=*")
    assert clicks.n == 1
    expect(page.locator(".list-total")).to_contain_text("4 of 12")
    first = page.locator("[data-row]").first
    expect(first).to_contain_text("Quality 1")
    expect(page.locator(".turn.is-highlighted")).to_contain_text("Voted down")
    accessible(page)
    no_sideways_scroll(page)
    clicks.n = 0
    clicks.on(page.get_by_text("Have people judge these"))
    accessible(page)
    clicks.on(page.get_by_role("button", name="Mark replies", exact=True))
    page.wait_for_url("**/build/questions/")
    assert clicks.n == 2
    expect(page.get_by_text("This draft asks people to judge 4 conversations.")).to_be_visible()


def test_a_ticked_chat_is_excluded_by_keys_and_comes_back(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(390, 844)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/conversations/?q=bot:beta+sort:quality")
    box = page.get_by_role("checkbox", name=re.compile("^Select chat")).first
    box.press("Space")
    expect(page.locator("[data-selected]")).to_have_text("1 chat is selected.")
    no_sideways_scroll(page)
    page.get_by_role("button", name="Exclude").press("Enter")
    expect(page.get_by_text("1 conversation is excluded from all results.")).to_be_visible()
    expect(page.locator(".bench-rows .pill", has_text="Excluded")).to_have_count(1)
    accessible(page)
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_text("1 conversation is included in all results again.")).to_be_visible()
    expect(page.locator(".bench-rows .pill", has_text="Excluded")).to_have_count(0)


def box_of(target: Any) -> dict[str, float]:
    """Return where an element is on the page."""
    box: dict[str, float] = target.evaluate("one => one.getBoundingClientRect().toJSON()")
    return box


def test_filters_are_a_drawer_next_to_the_list(lab: ConfabServer, new_page: Callable[..., Page]) -> None:
    page = new_page(1366, 850)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/imported/conversations/")
    rows, summary = page.locator(".bench-rows"), page.locator("summary", has_text="Filter")
    before = box_of(rows)
    summary.press("Enter")
    sheet, after = box_of(page.locator(".bench-drawer .bench-sheet")), box_of(rows)
    assert abs(after["y"] - before["y"]) < 60, "the list stays where it was"
    assert sheet["x"] + sheet["width"] <= after["x"]
    no_sideways_scroll(page)
    accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    sheet = box_of(page.locator(".bench-drawer .bench-sheet"))
    assert sheet["height"] <= 0.75 * 844
    assert round(sheet["y"] + sheet["height"]) == 844
    expect(page.get_by_role("button", name="Apply filters")).to_be_in_viewport()
    page.get_by_role("button", name="Close").press("Enter")
    expect(summary).to_be_focused()
    expect(page.locator(".bench-drawer .bench-sheet")).to_be_hidden()
