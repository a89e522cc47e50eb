"""From Home to a link that participants can open: clicks and fields are counted."""

import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import no_sideways_scroll
from tests.chatbots.endpoint_server import chunk
from tests.conftest import ConfabServer, start_confab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_CLICKS, MOST_FIELDS = 9, 4
KEY = "sk-right"


class Endpoint(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint with a key."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["Authorization"] == f"Bearer {KEY}"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if is_known:
            self.wfile.write(chunk("Hello there.") + chunk(finish="stop") + b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Write nothing to the console."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Start a server with nothing but its administrator and a worker."""
    for server in start_confab(tmp_path_factory.mktemp("first"), vector_cache, with_demo=False):
        server.shell(
            "from django.contrib.auth import get_user_model;"
            "get_user_model().objects.create_superuser('new', password='a-long-password')"
        )
        server.start_worker()
        yield server


class Newcomer:
    """Counts clicks and filled fields."""

    def __init__(self, page: Page) -> None:
        self.page, self.n_clicks, self.n_fields = page, 0, 0

    def click(self, role: Any, name: str | re.Pattern[str]) -> None:
        self.page.get_by_role(role, name=name).first.click()
        self.n_clicks += 1

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)
        self.n_fields += 1


def facts(lab: ConfabServer, page: Page) -> str:
    """Return what the database holds of the page's study: its state, bots, scripted people and people."""
    key = page.url.rstrip("/").split("/")[-2]
    return lab.shell(
        "from webapp.studies.models import Study;"
        f"study = Study.objects.get(key={key!r}); people = study.participants;"
        "print(study.state, len(study.bots), people.filter(is_synthetic=True).count(),"
        "people.filter(is_synthetic=False).count())"
    ).strip()


def test_from_home_to_an_open_link(lab: ConfabServer, endpoint: str, new_page: Callable[..., Any]) -> None:
    page = new_page(1366, 850)
    page.goto(f"{lab.url}/dashboard/")
    page.get_by_label("Name").fill("new")
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Sign in").click()
    person = Newcomer(page)

    person.click("link", "Start")
    expect(page.get_by_role("heading", name="Start")).to_be_visible()
    accessible(page)
    no_sideways_scroll(page)
    person.fill("Address (base_url)", endpoint)
    person.fill("Model", "m")
    person.fill("Key", KEY)
    person.fill("Contact", "lab@example.org")
    person.click("button", "Make the study")

    # The draft and the bot are stored, and nothing that may cost money runs without a click.
    ask = page.get_by_text("which may cost money")
    expect(ask).to_be_visible(timeout=60_000)
    expect(page.get_by_text("8 scripted people request up to 56 replies from m")).to_be_visible()
    assert facts(lab, page) == "draft 1 0 0"
    accessible(page)
    here = page.url
    page.reload()
    person.click("button", "Rehearse with 8 scripted people")
    expect(page.get_by_text("8 of 8 scripted participants finished.")).to_be_visible(timeout=120_000)
    board = page.get_by_role("region", name="Ratings by bot")
    expect(board.locator("tbody tr")).to_have_count(1, timeout=60_000)
    expect(page.locator(".first-chat")).to_have_count(3)
    expect(page.get_by_text("Hello there.").first).to_be_visible()
    expect(page.frame_locator(".phone iframe").get_by_role("heading").first).to_be_visible()
    assert facts(lab, page) == "draft 1 8 0"
    accessible(page)
    no_sideways_scroll(page)
    person.click("button", "Open study")
    expect(page.get_by_text("Anyone with the link can take part.")).to_be_visible()
    assert (person.n_clicks, person.n_fields) <= (MOST_CLICKS, MOST_FIELDS)
    assert person.n_fields <= MOST_FIELDS
    # Scripted people are gone from the leaderboard.
    expect(page.get_by_text("No ratings yet.")).to_be_visible()
    assert page.url == here
    accessible(page)

    # The link works in a browser that has never been here, and what it stores is on the page.
    participant = new_page(390, 844)
    participant.goto(page.locator("[data-first-link]").inner_text())
    expect(participant.get_by_text("lab@example.org").first).to_be_attached()
    participant.get_by_role("checkbox").check()
    participant.get_by_role("button", name="Continue").click()
    participant.get_by_role("button", name="Start chatting").click()
    expect(participant.locator("#log")).to_have_attribute("aria-live", "polite")
    participant.locator("#text").fill("Hello")
    participant.get_by_role("button", name="Send").click()
    expect(participant.locator("#log .votes")).to_have_count(1)
    assert facts(lab, page) == "collecting 1 8 1"


def test_a_wrong_key_is_named_and_the_draft_survives(
    lab: ConfabServer, endpoint: str, new_page: Callable[..., Any]
) -> None:
    page = new_page(390, 844)
    page.goto(f"{lab.url}/dashboard/start/")
    page.get_by_label("Name").fill("new")
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Sign in").click()
    person = Newcomer(page)
    person.fill("Address (base_url)", endpoint)
    person.fill("Model", "other")
    person.fill("Key", "sk-wrong")
    page.get_by_label("Contact", exact=True).fill("lab@example.org")
    page.get_by_role("button", name="Make the study").click()
    expect(page.locator(".banner-bad")).to_contain_text("other did not reply", timeout=90_000)
    expect(page.get_by_text("Check the address, the model and the key")).to_be_visible()
    expect(page.get_by_role("button", name="Test again")).to_be_visible()
    accessible(page)
    no_sideways_scroll(page)
    page.get_by_role("link", name="Change other").click()
    expect(page.get_by_role("heading", name="other").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Test again")).to_be_visible()
