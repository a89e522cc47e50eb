"""Pages are done by a bounded number of threads; the others wait in line, and not for ever."""

import asyncio
import json
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from webapp.core.thread_pool import ThreadPooledApp


class Page:
    """An application that reads its request, works in a thread until it may go on, and answers."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.threads: list[str] = []
        self.at_work = 0
        self.most_at_work = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        await sync_to_async(self._work)(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    def _work(self, path: str) -> None:
        self.threads.append(threading.current_thread().name)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        if path == "/slow":
            assert self.may_go_on.wait(30)
        self.at_work -= 1


class Visit:
    """One request: what is still to come from the client, and what it was sent."""

    def __init__(self, pages: ThreadPooledApp, path: str, *, method: str = "GET", whole: bool = True):
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        if whole:
            self.end_body()
        scope = {"type": "http", "path": path, "method": method}
        self.task = asyncio.ensure_future(pages(scope, self.inbox.get, self._send))

    def end_body(self) -> None:
        self.inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def status(self) -> int:
        await asyncio.wait_for(self.task, 30)
        return self.sent[0]["status"]


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_no_more_threads_than_allowed_and_everybody_gets_in() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=3, wait_s=30)
    slow = [Visit(pages, "/slow") for _ in range(3)]
    assert pages.stands_s() == 0
    await until(lambda: page.at_work == 3)
    assert 0 < pages.stands_s() <= pages.stands_s()
    others = [Visit(pages, f"/{n}") for n in range(20)]
    await asyncio.sleep(0)
    assert not any(visit.task.done() for visit in others)
    page.may_go_on.set()
    assert [await visit.status() for visit in slow + others] == [200] * 23
    assert pages.stands_s() == 0
    assert page.most_at_work <= 3
    assert len(set(page.threads)) == 3


async def test_quiet_hours_use_one_thread() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=3, wait_s=30)
    for number in range(5):
        assert await Visit(pages, f"/{number}").status() == 200
    assert len(set(page.threads)) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_who_waits_too_long_is_told_when_to_come_back(method: str) -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=1, wait_s=0.05)
    slow = Visit(pages, "/slow")
    await until(lambda: page.at_work == 1)
    late = Visit(pages, "/late", method=method)
    assert await late.status() == 503
    headers = dict(late.sent[0]["headers"])
    assert int(headers[b"retry-after"]) > 0
    body = late.sent[1]["body"].decode()
    assert len(body.encode()) == int(headers[b"content-length"])
    assert ('http-equiv="refresh"' in body) is (method == "GET")
    page.may_go_on.set()
    assert await slow.status() == 200
    assert await Visit(pages, "/late", method=method).status() == 200


async def test_a_program_that_waits_too_long_is_told_so_as_programs_are() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=1, wait_s=0.05)
    slow = Visit(pages, "/slow")
    await until(lambda: page.at_work == 1)
    late = Visit(pages, "/api/v1/me")
    assert await late.status() == 503
    headers = dict(late.sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"application/json")
    error = json.loads(late.sent[1]["body"])["error"]
    assert error["code"] == "busy"
    assert headers[b"retry-after"].decode() in error["message"]
    page.may_go_on.set()
    assert await slow.status() == 200


async def test_static_files_and_health_wait_for_nobody() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=1, wait_s=30)
    slow = Visit(pages, "/slow")
    await until(lambda: page.at_work == 1)
    assert await Visit(pages, "/static/core/confab.css").status() == 200
    assert await Visit(pages, "/healthz").status() == 200
    page.may_go_on.set()
    assert await slow.status() == 200


async def test_a_static_file_asked_for_before_a_page_was_answered_is_served() -> None:
    pages = ThreadPooledApp(Page(), n_threads=1, wait_s=30)
    files: list[Visit] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await Page()(scope, receive, send)
        # As uvicorn does with what a connection has brought meanwhile.
        files.append(Visit(pages, "/static/core/confab.css", whole=False))

    assert await Visit(ThreadPooledApp(page, n_threads=1, wait_s=30), "/").status() == 200
    files[0].end_body()
    assert await files[0].status() == 200


async def test_who_sends_slowly_holds_no_thread() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=1, wait_s=30)
    dawdler = Visit(pages, "/dawdler", method="POST", whole=False)
    assert await Visit(pages, "/quick").status() == 200
    dawdler.end_body()
    assert await dawdler.status() == 200


async def test_who_leaves_the_line_or_is_cancelled_takes_no_thread_with_them() -> None:
    page = Page()
    pages = ThreadPooledApp(page, n_threads=1, wait_s=30)
    slow = Visit(pages, "/slow")
    await until(lambda: page.at_work == 1)
    gone, cancelled = Visit(pages, "/gone"), Visit(pages, "/cancelled")
    await asyncio.sleep(0.01)
    gone.inbox.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(gone.task, 30)
    assert gone.sent == []
    cancelled.task.cancel()
    page.may_go_on.set()
    assert await slow.status() == 200
    assert await Visit(pages, "/next").status() == 200
    assert len(page.threads) == 2
