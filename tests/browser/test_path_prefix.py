"""Confab below a path, in a real browser: a chat over the socket, its rating, and a dashboard page with its scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, Response, expect

from tests.browser.test_dashboard import sign_in
from tests.browser.test_participant import begin, choose, replies, say, study
from tests.conftest import ConfabServer, start_confab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PREFIX = "/lab/confab"


class Below:
    """A server as its visitors know it, with the path in its address, and the key of its study."""

    def __init__(self, server: ConfabServer, key: str) -> None:
        self.server = server
        self.key = key
        self.url = f"{server.url}{PREFIX}"


@pytest.fixture
def below(tmp_path: Path, vector_cache: Path) -> Iterator[Below]:
    for server in start_confab(tmp_path, vector_cache, {"CONFAB_PATH_PREFIX": PREFIX}, with_demo=False):
        key = study(server, "way", ["parrot"], max_exchanges=3)
        server.shell(
            "from django.contrib.auth import get_user_model;"
            "get_user_model().objects.create_superuser('res', password='a-long-password')"
        )
        yield Below(server, key)


def test_a_chat_a_rating_and_the_dashboard(below: Below, new_page: Callable[..., Page]) -> None:
    asked: list[str] = []
    failed: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    def note_answer(response: Response) -> None:
        if response.status >= 400:
            failed.append(f"{response.status} {response.url}")

    def watched() -> Page:
        page = new_page()
        page.on("request", note)
        page.on("response", note_answer)
        page.on("websocket", lambda socket: asked.append(socket.url.replace("ws:", "http:")))
        return page

    page = watched()
    begin(page, below, below.key)
    for number, text in enumerate(("Hello there", "And again"), start=1):
        say(page, text)
        expect(replies(page)).to_have_count(number)
    page.locator("#rate").click()
    page.wait_for_url(f"{below.url}/**/rate/")
    for key in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(page, key, 5)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url(f"{below.url}/**/done/")
    expect(page.locator("#code")).to_be_visible()

    staff = watched()
    sign_in(staff, below)
    staff.goto(f"{below.url}/dashboard/studies/{below.key}/bots/")
    expect(staff.locator("#figure-bots svg").first).to_be_visible()
    staff.locator("#figure-bots svg .mark").first.hover()

    assert failed == []
    here = [url for url in asked if url.startswith(below.server.url)]
    assert any("/ws/chat/" in url for url in here)
    assert [url for url in here if not url.startswith(f"{below.url}/")] == []
