"""Confab below a path: pages of participants and researchers behind a proxy that keeps or strips the path."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import ConfabServer, start_confab
from webapp.participant.simulated import StudyClient, frames_until, say

pytestmark = pytest.mark.slow
PREFIX = "/lab/confab"


@pytest.fixture
def server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    yield from start_confab(tmp_path, vector_cache, {"CONFAB_PATH_PREFIX": "lab/confab/"}, with_demo=False)


def addresses(page: str) -> list[str]:
    """Return every address on a page that leads to this host."""
    matches = re.findall(r'(?:href|src|action|data-ws|data-rate|data-live|data-try)="(/[^"]*)"', page)
    return [address for address in matches if not address.startswith("//")]


async def test_everything_lies_below_the_prefix(server: ConfabServer) -> None:
    server.add_study("s", ["parrot"])
    server.shell(
        "from django.contrib.auth import get_user_model; "
        "get_user_model().objects.create_superuser('admin', password='pa-ss-word')"
    )
    doors = StudyClient(server.url + PREFIX, "s")
    try:
        await doors.start()
        chat = await doors.http.get(f"{server.url}{PREFIX}/chat/{doors.conversation_id}/")
        assert f'data-ws="{PREFIX}/ws/chat/{doors.conversation_id}/"' in chat.text
        assert all(cookie.path == f"{PREFIX}/" for cookie in doors.http.cookies.jar)
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            assert (await say(socket, "hello"))[-1]["text"]
        assert await doors.rate(lambda name, choices: choices[-1])
    finally:
        await doors.close()

    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=30) as staff:
        # The login comes back to where it was asked for, with the prefix in all of its addresses.
        login = staff.get(f"{PREFIX}/dashboard/")
        assert login.url.path == f"{PREFIX}/login/"
        assert login.url.params["next"] == f"{PREFIX}/dashboard/"
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', login.text)
        page = staff.post(
            str(login.url),
            data={
                "csrfmiddlewaretoken": token[1],
                "username": "admin",
                "password": "pa-ss-word",
                "next": f"{PREFIX}/dashboard/",
            },
            headers={"Referer": str(login.url)},
        )
        assert page.url.path == f"{PREFIX}/dashboard/"
        for path in ("/dashboard/", "/dashboard/studies/s/", "/dashboard/imports/", "/admin/", "/s/s/"):
            # A proxy that takes the prefix off gets the same page; the browser's cookies are those of the prefix.
            cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in staff.cookies.jar)
            for asked in (f"{PREFIX}{path}", path):
                page = staff.get(asked, headers={"Cookie": cookies}, follow_redirects=False)
                assert page.status_code == 200, asked
                outside = [a for a in addresses(page.text) if not a.startswith(f"{PREFIX}/")]
                assert outside == [], asked
        styles = [a for a in addresses(page.text) if a.endswith(".css")]
        assert styles
        for style in styles:
            assert staff.get(style).status_code == 200
            assert staff.get(style.removeprefix(PREFIX)).status_code == 200
        for path in ("/healthz", f"{PREFIX}/healthz"):
            assert staff.get(path).status_code == 200
        assert staff.get("/elsewhere/dashboard/").status_code == 404
