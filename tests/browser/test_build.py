"""A newcomer signs in, builds a chat study, goes through it and opens it, and never sees Django's admin."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import no_sideways_scroll
from tests.browser.test_participant import choose, replies, say
from tests.conftest import ConfabServer, start_confab
from webapp.studies.protocols.base import protocols

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_CLICKS = 22


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Start a server with nothing but its administrator."""
    for server in start_confab(tmp_path_factory.mktemp("lab"), vector_cache, with_demo=False):
        server.shell(
            "from django.contrib.auth import get_user_model;"
            "[get_user_model().objects.create_superuser(name, password='a-long-password') "
            "for name in ('new', 'r.lee')]"
        )
        # New studies take their contact from this one.
        server.add_study("earlier", ["eliza"], state="draft", contact="lab@example.org")
        yield server


@pytest.fixture(scope="module")
def signed_in(lab: ConfabServer, chromium: Any) -> Any:
    """Sign in once; return what a browser knows of it."""
    context = chromium.new_context()
    sign_in(context.new_page(), lab)
    state = context.storage_state()
    context.close()
    return state


class Newcomer:
    """Clicks, and counts the clicks."""

    def __init__(self, page: Page) -> None:
        self.page, self.n_clicks, self.seen = page, 0, set[str]()
        page.on("framenavigated", lambda frame: self.seen.add(frame.url))

    def click(self, role: Any, name: str | re.Pattern[str], page: Page | None = None) -> None:
        (page or self.page).get_by_role(role, name=name).first.click()
        self.n_clicks += 1


def sign_in(page: Page, server: ConfabServer, name: str = "new") -> None:
    page.goto(f"{server.url}/dashboard/studies/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Studies", exact=True)).to_be_visible()


def saved(page: Page) -> None:
    """Wait until the last change is stored."""
    expect(page.locator("[data-saved]")).to_contain_text("Saved")
    expect(page.locator("[data-saved]")).not_to_have_class(re.compile("is-bad"))


def test_a_newcomer_builds_tries_and_opens_a_chat_study(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    page = new_page()
    sign_in(page, lab)
    person = Newcomer(page)
    person.n_clicks = 1

    person.click("link", "New study")
    name = f"Everyday talk, {uuid4().hex[:6]}"
    page.get_by_label("Name").fill(name)
    expect(page.get_by_label("Key")).to_have_value(name.lower().replace(", ", "-").replace(" ", "-"))
    person.click("button", "Create the draft")

    # Bots: ticked ones are stored at once, and one line is asked of all.
    expect(page.get_by_role("heading", name="Which bots do participants talk to?")).to_be_visible()
    expect(page.locator("[data-step=bots]")).to_contain_text("none chosen")
    person.click("checkbox", "Eliza (rules)")
    person.click("checkbox", "Parrot (control)")
    expect(page.locator("[data-step=bots]")).to_contain_text("2 chosen")
    page.get_by_role("button", name="Ask all").click()
    expect(page.locator("[data-bot=parrot] [data-said]")).to_have_text("I had a rough day at work.")
    page.get_by_label("Search bots").fill("smol")
    expect(page.locator("[data-bot=hred-demo]")).to_be_hidden()
    expect(page.locator("[data-bot=parrot]")).to_be_visible()  # a chosen one stays
    page.get_by_role("button", name="Long").click()
    page.locator("details:has(#id_min_exchanges) > summary").click()
    expect(page.get_by_label("Maximum messages")).to_have_value("40")
    page.get_by_label("Minimum messages").fill("1")
    page.get_by_label("Minimum messages").blur()
    saved(page)
    expect(page.get_by_role("button", name="Long")).to_have_attribute("aria-pressed", "false")
    person.click("button", "Next: Texts")

    # A text of the phone opens its field, by a click or by its button.
    phone = page.frame_locator(".phone iframe:not(.coming)")
    phone.locator("h1[data-field=title]").click()
    expect(page.get_by_label("Title on the first page")).to_be_focused()
    phone.locator("ul[data-field=consent_points] .preview-edit").first.press("Enter")
    expect(page.locator("[name=consent_points]")).to_be_focused()

    # Texts: a mistake is told at its field and nothing is stored until it is mended.
    title = page.get_by_label("Title on the first page")
    title.fill("")
    title.blur()
    expect(page.locator("[data-saved]")).to_have_class(re.compile("is-bad"))
    expect(page.locator("[data-field=title] .field-error")).to_be_visible()
    title.fill("Talk with a program")
    title.blur()
    expect(page.locator("[data-field=title] .field-error")).to_have_count(0)
    saved(page)
    person.click("button", "Next: Questions")
    person.click("button", "Next: Participants and pay")
    page.get_by_label("Pay per task").fill("1.60")
    page.get_by_label("Chats per bot").fill("40")
    page.get_by_label("Chats per bot").blur()
    expect(page.locator("[data-live-part]")).to_contain_text("= £128; £12.00 an hour")
    person.click("button", "Next: Check and open")

    # The study stays closed until somebody has gone through it; the button says so.
    expect(page.get_by_text("You have not tested the study")).to_be_visible()
    opener = page.get_by_role("button", name="Open study")
    expect(opener).to_have_attribute("aria-disabled", "true")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-announce]")).to_contain_text("1 thing is left")
    with page.context.expect_page() as opened:
        person.click("link", "Go through the study")
    tried = opened.value
    person.click("checkbox", re.compile("I agree"), tried)
    person.click("button", "Continue", tried)
    person.click("button", "Start chatting", tried)
    tried.wait_for_url("**/chat/**")
    say(tried, "Hello there")
    expect(replies(tried)).to_have_count(1)
    rate = tried.locator("#rate")
    expect(rate).not_to_have_attribute("aria-disabled", "true")
    rate.click()
    tried.wait_for_url("**/rate/")
    for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(tried, question, 5)
        person.n_clicks += 1
    person.click("button", "Save and finish", tried)
    person.n_clicks += 1  # to the form
    tried.wait_for_url("**/done/")

    page.reload()
    expect(page.get_by_text("The study was tested from start to end.")).to_be_visible()
    person.click("button", "Open study")
    expect(page.get_by_text("The study is open. Send its link to participants.")).to_be_visible()
    assert not [url for url in person.seen if "/admin/" in url]
    assert person.n_clicks <= MOST_CLICKS, person.n_clicks


CLICKS = {
    "annotate": 7,
    "arena": 8,
    "chat": 8,
    "choose": 6,
    "dialogues": 7,
    "marked_chat": 8,
    "pairwise": 7,
    "picks": 8,
    "reference": 7,
    "survey": 8,
}
"""From the list of studies to an open study, by protocol; the way through it as a participant goes by keys."""
SAME_PAGE = {"aspects": "annotate", "majority": "annotate", "turns": "marked_chat"}
"""Protocols whose participants see the page of another one, which is built and answered by keys here."""
OWN_FILE = {
    "best_worst": "test_best_worst.py",
    "criteria": "test_criteria.py",
    "error_spans": "test_markdown.py",
    "rank_three": "test_ranking.py",
}
"""Protocols whose page is answered in a browser by another file; they are built like `annotate` or `dialogues`."""
LEAST = {
    "Minimum messages": "1",
    "Items per participant": "1",
    "Pairs per participant": "1",
    "Comparisons per participant": "1",
    "Replies per conversation": "1",
}
"""Settings that make the way through a study short."""
FOCUSED = """() => {
  const at = document.activeElement;
  const words = (one) => (one?.textContent ?? "").replace(/\\s+/g, " ").trim();
  const named = (at.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => words(document.getElementById(id)));
  const labels = [...(at.labels ?? [])].map(words);
  return {
    tag: at.tagName, type: at.type ?? "", role: at.getAttribute("role") ?? "", id: at.id, field: at.name ?? "",
    value: at.value ?? "", checked: Boolean(at.checked), primary: at.classList.contains("button-primary"),
    form: at.form?.id ?? "", classes: [...at.classList],
    name: [at.getAttribute("aria-label"), ...named, ...labels, at.innerText].filter(Boolean).join(" ").trim(),
  };
}"""


class ByKeys:
    """Goes the whole way of a study with nothing but keys, as somebody does who uses no pointer.

    Attributes:
        seen: steps of the pages, in order.
    """

    def __init__(self, page: Page) -> None:
        self.page, self.seen = page, [""]

    def go(self) -> None:
        """Go from the first page to the code."""
        for _page in range(25):
            self.page.wait_for_load_state()
            step = self.page.url.split("?")[0].rstrip("/").rpartition("/")[2]
            self.seen.append(step)
            if step == "done":
                return
            no_sideways_scroll(self.page)
            talk = self.page.locator("#text")
            if talk.count():
                self._talk()
            else:
                self._answer()
        raise AssertionError(f"no end after {self.seen}")

    def _talk(self) -> None:
        """Write one message, wait for the answers, and go on."""
        text = self.page.locator("#text")
        expect(self.page.locator("[role=log], .rounds").first).to_be_visible()
        text.focus()
        self.page.keyboard.type("Hello there")
        self.page.keyboard.press("Enter")
        if "/arena/" in self.page.url:
            expect(self.page.get_by_text("Choose, or keep writing.")).to_be_visible()
            self._answer()
            return
        if "/picks/" in self.page.url:
            expect(self.page.locator(".pick")).to_have_count(3)
            self._tab(lambda at: at["name"].startswith("Pick reply 1"))
            self.page.keyboard.press("Enter")
            expect(self.page.get_by_text("Finish, or keep writing.")).to_be_visible()
            self._answer()
            return
        expect(replies(self.page)).to_have_count(1)
        expect(self.page.locator("#rate")).not_to_have_attribute("aria-disabled", "true")
        self._tab(lambda at: at["id"] == "rate")
        self._leave()

    def _tab(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Tab to such an element; everything on the way to it has a name."""
        for _tab in range(80):
            self.page.keyboard.press("Tab")
            at = self.page.evaluate(FOCUSED)
            assert at["tag"] == "BODY" or at["name"], at
            if is_it(at):
                return at
        raise AssertionError(f"the keys do not lead there on {self.page.url}")

    def _answer(self) -> None:
        """Answer what the keys come to and press the page's own button."""
        n_boxes = 0
        while True:
            at = self._tab(lambda at: at["tag"] != "BODY")
            if at["type"] == "radio" and not at["checked"]:
                self.page.keyboard.press("ArrowRight" if at["field"] == "worst" else "Space")
            elif at["id"] == "ranking-keep" and "is-done" not in at["classes"]:
                self.page.keyboard.press("Enter")
            elif at["role"] == "tab":
                self.page.keyboard.press("ArrowRight")
            elif at["field"] == "chosen" and n_boxes < 4:
                n_boxes += 1
                self.page.keyboard.press("Space")
            elif at["value"] == "_none" or at["field"] == "consent":
                self.page.keyboard.press("Space")
            elif at["tag"] == "TEXTAREA" and at["form"] != "composer":
                self.page.keyboard.type("It asks good questions.")
            elif at["primary"] and at["tag"] == "BUTTON" and at["form"] != "composer":
                break
        if at["id"] == "continue":
            self.page.keyboard.press("Enter")
            expect(self.page.get_by_role("heading", name="How it works")).to_be_focused()
            self._tab(lambda at: at["id"] == "start")
        self._leave()

    def _leave(self) -> None:
        """Press the focused control and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")


def test_each_protocol_is_answered_in_a_browser() -> None:
    assert CLICKS.keys() | SAME_PAGE.keys() | OWN_FILE.keys() == set(protocols.names())
    for name, same in SAME_PAGE.items():
        page, other = protocols.get(name).page, protocols.get(same).page
        assert (page.template, page.sheet) == (other.template, other.sheet), (name, same)
    for name, file in OWN_FILE.items():
        assert name in Path(__file__).with_name(file).read_text(encoding="utf-8")


@pytest.mark.parametrize("protocol", list(CLICKS))
def test_a_newcomer_builds_and_opens_every_protocol(
    lab: ConfabServer, signed_in: Any, new_page: Callable[..., Any], protocol: str
) -> None:
    """With what Confab ships; the survey is gone through by a rehearsal, the others by keys at phone width."""
    page = new_page(storage_state=signed_in)
    page.goto(f"{lab.url}/dashboard/studies/")
    person = Newcomer(page)
    person.click("link", "New study")
    page.get_by_label("Name").fill(f"All of {protocol} {uuid4().hex[:6]}")
    page.locator(f"[name=protocol][value={protocol}]").check()
    person.click("button", "Create the draft")
    person.n_clicks += 1  # the protocol
    if protocols.get(protocol).gives == "bots":
        person.click("checkbox", "Eliza (rules)")
        person.click("checkbox", "Parrot (control)")
        expect(page.locator("[data-step=bots]")).to_contain_text("2 chosen")
    elif protocol != "choose":
        person.click("button", re.compile("Use the sample"))
        expect(page.get_by_role("heading", name=re.compile(r"^\d+ (items|conversations) to rate$"))).to_be_visible()
    for label, value in LEAST.items():
        if (field := page.get_by_label(label, exact=True)).count():
            if not field.is_visible():  # chat settings beyond the presets
                page.locator("details:has(#id_min_exchanges) > summary").click()
            field.fill(value)
            field.blur()
            saved(page)
    person.click("link", re.compile("Check and open"))
    if protocol == "survey":
        lab.start_worker()
        page.locator("summary", has_text="Rehearse").click()
        person.n_clicks += 1
        page.get_by_label("Number of participants").fill("1")
        person.click("button", "Start")
        expect(page.locator("[data-over='1']")).to_be_visible(timeout=60_000)
        expect(page.get_by_text("1 of 1 scripted participants finished.")).to_be_visible()
        page.go_back()
    else:
        with page.context.expect_page() as opened:
            person.click("link", "Go through the study")
        tried = opened.value
        tried.set_viewport_size({"width": 360, "height": 740})
        ByKeys(tried).go()
        expect(tried.locator("#code")).to_be_visible()
        tried.close()
    page.reload()
    person.click("button", "Open study")
    expect(page.get_by_text("The study is open. Send its link to participants.")).to_be_visible()
    assert not [url for url in person.seen if "/admin/" in url]
    assert person.n_clicks <= CLICKS[protocol], person.n_clicks


def test_two_people_edit_one_study(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    key = f"both-{uuid4().hex[:6]}"
    lab.add_study(key, ["eliza"], state="draft")
    mine, theirs = new_page(), new_page()
    sign_in(mine, lab)
    sign_in(theirs, lab, "r.lee")
    for page in (mine, theirs):
        page.goto(f"{lab.url}/dashboard/studies/{key}/build/texts/")
    title = theirs.get_by_label("Title on the first page")
    title.fill("Theirs")
    title.blur()
    expect(theirs.locator("[data-saved]")).to_contain_text("as version")
    theirs.wait_for_function("document.querySelector('[data-saved] time').dataset.version")
    theirs.reload()
    expect(title).to_have_value("Theirs")
    by_label = mine.get_by_label("Title on the first page")
    by_label.fill("Mine")
    by_label.blur()
    expect(mine.get_by_text("r.lee saved version", exact=False)).to_be_visible()
    expect(mine.locator("[data-conflict] td").first).to_have_text("Theirs")
    mine.get_by_role("button", name=re.compile("Save mine as version")).click()
    expect(by_label).to_have_value("Mine")
    expect(mine.locator("[data-conflict]")).to_have_count(0)
    mine.reload()
    expect(by_label).to_have_value("Mine")


def test_every_step_fits_its_window(lab: ConfabServer, new_page: Callable[..., Any], signed_in: Any) -> None:
    page = new_page(360, 740, storage_state=signed_in)
    key = f"fit-{uuid4().hex[:6]}"
    lab.add_study(key, ["eliza", "parrot"], state="draft")
    for path in ("new", *(f"{key}/build/{step}" for step in ("bots", "texts", "questions", "pay", "check"))):
        page.goto(f"{lab.url}/dashboard/studies/{path}/")
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            no_sideways_scroll(page)


def test_without_script_a_step_is_saved_by_its_button(lab: ConfabServer, new_page: Callable[..., Any]) -> None:
    key = f"plain-{uuid4().hex[:6]}"
    lab.add_study(key, ["eliza"], state="draft")
    page = new_page(java_script_enabled=False)
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/{key}/build/texts/")
    page.get_by_label("Title on the first page").fill("Without script")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_label("Title on the first page")).to_have_value("Without script")
    page.goto(f"{lab.url}/dashboard/studies/{key}/build/texts/")
    expect(page.get_by_label("Title on the first page")).to_have_value("Without script")


MOST_CLICKS_TO_SCENARIOS = 6


def test_a_newcomer_makes_two_scenarios(lab: ConfabServer, signed_in: Any, new_page: Callable[..., Any]) -> None:
    page = new_page(1366, 768, storage_state=signed_in)
    page.goto(f"{lab.url}/dashboard/studies/")
    person = Newcomer(page)

    person.click("link", "New study")
    page.get_by_label("Name").fill(f"Scenarios, {uuid4().hex[:6]}")
    person.click("button", "Create the draft")
    person.click("checkbox", "Eliza (rules)")
    person.click("checkbox", "Parrot (control)")
    expect(page.locator("[data-step=bots]")).to_contain_text("2 chosen")
    person.click("link", "Conditions")
    expect(page.get_by_role("button", name="Add a factor")).to_have_count(1)  # the next waits for the first
    person.click("button", "Add a factor")
    expect(page.locator("[data-live-part]")).to_contain_text("4 cells.")
    assert person.n_clicks == MOST_CLICKS_TO_SCENARIOS, person.n_clicks

    # What is written is stored and shown in the phone; what is wrong is told at its field.
    card = page.locator("[data-list=levels1] > [data-card]").nth(1)
    card.locator("summary").first.click()
    card.get_by_label("Scenario").fill("Your train is late.")
    card.get_by_label("Scenario").blur()
    saved(page)
    expect(page.locator(".phone-screen iframe").first).to_have_attribute("src", re.compile("level=1.2"))
    page.get_by_label("Name in exports").first.fill("bot")
    page.get_by_label("Name in exports").first.blur()
    expect(page.locator("[data-field=factor1_key] .field-error")).to_contain_text("name of a column")
    page.get_by_label("Name in exports").first.fill("story")
    page.get_by_label("Conversations wanted per cell").fill("20")
    page.get_by_label("Conversations wanted per cell").blur()
    expect(page.locator("[data-live-part]")).to_contain_text("80 conversations in total.")
    for width in (390, 1366):
        page.set_viewport_size({"width": width, "height": 800})
        no_sideways_scroll(page)
        accessible(page)
