"""Two hundred people who open the link in the same moment: nobody meets an error page."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ConfabServer, start_confab
from webapp.participant.simulated import StudyClient

pytestmark = pytest.mark.slow

N_PEOPLE = 200
N_THREADS = 6


@pytest.fixture
def small_server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Start a server with few threads and little patience, so that many are turned away."""
    env = {"CONFAB_PLUGINS": "tests.plugin_bots", "CONFAB_WEB_THREADS": str(N_THREADS), "CONFAB_WEB_WAIT_S": "1"}
    yield from start_confab(tmp_path, vector_cache, env, with_demo=False)


async def connections_at_most(server: ConfabServer, over: asyncio.Event) -> int:
    """Return the most connections to the server's database seen at once; 0 where that is SQLite."""
    if not server.env.get("DATABASE_URL"):
        return 0
    import psycopg2

    most = 0
    connection = psycopg2.connect(server.env["DATABASE_URL"])
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid()"
                )
                most = max(most, cursor.fetchone()[0])
                await asyncio.sleep(0.05)
    finally:
        connection.close()
    return most


async def test_two_hundred_arrive_at_once_and_all_are_let_in(small_server: ConfabServer) -> None:
    server = small_server
    server.add_study("crowd", ["test-quick"])
    people = [StudyClient(server.url, "crowd") for _ in range(N_PEOPLE)]
    statuses: list[int] = []

    async def note(answer: object) -> None:
        statuses.append(answer.status_code)  # type: ignore[attr-defined]

    for person in people:
        person.http.event_hooks["response"].append(note)
    over = asyncio.Event()
    watching = asyncio.ensure_future(connections_at_most(server, over))
    try:
        chats = await asyncio.gather(*(person.start() for person in people))
    finally:
        over.set()
        await asyncio.gather(*(person.close() for person in people))
    assert set(statuses) <= {200, 302, 503}
    assert len(set(chats)) == N_PEOPLE
    assert sum(person.n_turned_away for person in people) == statuses.count(503) > 0
    # Of the web process the pages' and the sockets' threads, /healthz and its signs of life; of the bot host its own
    # and its signs of life.
    assert await watching <= N_THREADS + 4 + 2 + 4 + 1
    count = "from webapp.conversations.models import Conversation; print(Conversation.objects.count())"
    assert server.shell(count).strip() == str(N_PEOPLE)
    assert "too many clients" not in (server.data_dir / "web.log").read_text()
