"""Many Starts at once: one browser begins one chat, and a study takes in exactly whom it wants."""

import asyncio
import re
from collections import Counter

import httpx
import pytest

from tests.conftest import ConfabServer

pytestmark = pytest.mark.slow
AT_ONCE = 30  # PostgreSQL has a hundred connections for everybody


async def form_fields(browser: httpx.AsyncClient, path: str) -> dict[str, str]:
    """Open the link and agree: what the form would send."""
    page = await browser.get(path)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    assert "_entry" in hidden, page.text[:2000]
    return {**hidden, "consent": "on"}


def counts(server: ConfabServer, study: str) -> list[int]:
    """Count participants, tasks and conversations of the study."""
    printed = server.shell(
        "from webapp.studies.models import Participant, Task;"
        "from webapp.conversations.models import Conversation;"
        f"print(Participant.objects.filter(study__key={study!r}).count(),"
        f" Task.objects.filter(participant__study__key={study!r}).count(),"
        f" Conversation.objects.filter(study__key={study!r}).count())"
    )
    return [int(number) for number in printed.split()]


@pytest.mark.parametrize(
    ("key", "query", "wanted"),
    [("plain", "", 0), ("last", "", 1), ("id", "?PROLIFIC_PID=p1", 0), ("mturk", "?workerId=w", 1)],
)
async def test_ten_starts_of_one_new_browser_are_one_chat(
    bare_server: ConfabServer, key: str, query: str, wanted: int
) -> None:
    bare_server.add_study(key, ["eliza", "parrot"], n_conversations_wanted=wanted)
    async with httpx.AsyncClient(base_url=bare_server.url, timeout=60) as browser:
        fields = await form_fields(browser, f"/s/{key}/{query}")
        cookie = {"Cookie": f"csrftoken={browser.cookies['csrftoken']}"}
        async with httpx.AsyncClient(base_url=bare_server.url, timeout=60) as clicks:
            answers = await asyncio.gather(
                *(
                    # Cookies by hand: no click may know of the session that another one was given.
                    clicks.send(clicks.build_request("POST", f"/s/{key}/start/", data=fields, headers=cookie))
                    for _ in range(10)
                )
            )
    assert Counter(answer.status_code for answer in answers) == {302: 10}
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert await asyncio.to_thread(counts, bare_server, key) == [1, 1, 1]


async def test_two_hundred_starts_fill_a_quota_of_fifty_exactly(bare_server: ConfabServer) -> None:
    bare_server.add_study("quota", ["eliza", "parrot"], n_conversations_wanted=50)
    gate = asyncio.Semaphore(AT_ONCE)
    limits = httpx.Limits(max_keepalive_connections=0)

    async def form(browser: httpx.AsyncClient) -> dict[str, str]:
        async with gate:
            return await form_fields(browser, "/s/quota/")

    async def start(browser: httpx.AsyncClient, fields: dict[str, str]) -> int:
        async with gate:
            return (await browser.post("/s/quota/start/", data=fields)).status_code

    certificates = httpx.create_ssl_context()  # read once, not two hundred times
    browsers = [
        httpx.AsyncClient(base_url=bare_server.url, timeout=60, limits=limits, verify=certificates) for _ in range(200)
    ]
    try:
        forms = await asyncio.gather(*map(form, browsers))
        statuses = Counter(await asyncio.gather(*map(start, browsers, forms)))
    finally:
        await asyncio.gather(*(browser.aclose() for browser in browsers))
    assert statuses == {302: 50, 409: 150}
    assert await asyncio.to_thread(counts, bare_server, "quota") == [50, 50, 50], "nobody else is kept"
