"""Chats in networks that let no WebSocket through: a proxy that rejects upgrades, and one that cuts sockets soon."""

import contextlib
import select
import socket
from collections.abc import Callable, Iterator
from threading import Thread, Timer
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_participant import begin, choose, replies, say, study
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CUT_AFTER_S = 0.3
REJECTED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """TCP proxy that rejects WebSocket upgrades, or cuts the sockets after `cut_after_s`."""

    def __init__(self, server: ConfabServer, cut_after_s: float | None = None) -> None:
        self.target = (urlsplit(server.url).hostname, urlsplit(server.url).port)
        self.cut_after_s = cut_after_s
        self.n_upgrades = 0
        self.paths: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self.listener.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head = client.recv(65536)
            self.paths.append(head.split(b" ", 2)[1].decode() if head else "")
            is_upgrade = b"upgrade: websocket" in head.lower()
            self.n_upgrades += is_upgrade
            if is_upgrade and self.cut_after_s is None:
                client.sendall(REJECTED)
                return
            if not is_upgrade:  # one request for each connection, so that each head is seen
                head = head.replace(b"Connection: keep-alive", b"Connection: close")
            with socket.create_connection(self.target) as server:
                if is_upgrade:
                    timer = Timer(self.cut_after_s or 0, client.shutdown, [socket.SHUT_RDWR])
                    timer.daemon = True
                    timer.start()
                server.sendall(head)
                self._pass_on(client, server)

    @staticmethod
    def _pass_on(client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        while True:
            for side in select.select([client, server], [], [])[0]:
                data = side.recv(65536)
                if not data:
                    return
                other[side].sendall(data)


@pytest.fixture
def proxy(test_bots_server: ConfabServer) -> Iterator[Callable[..., Proxy]]:
    proxies: list[Proxy] = []

    def make(cut_after_s: float | None = None) -> Proxy:
        proxies.append(Proxy(test_bots_server, cut_after_s))
        return proxies[-1]

    yield make
    for one in proxies:
        one.listener.close()


def finish(page: Page) -> None:
    """Rate the chat and see the code."""
    page.locator("#rate").click()
    page.wait_for_url("**/rate/")
    for key in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(page, key, 4)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    expect(page.locator("#code")).to_be_visible()


def enter(page: Page, proxy: Proxy, key: str, is_chat: bool = True) -> None:
    page.goto(f"{proxy.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/chat/**" if is_chat else "**/task/**")


def test_a_network_that_rejects_sockets(
    test_bots_server: ConfabServer, proxy: Callable[..., Proxy], new_page: Callable[..., Any]
) -> None:
    """The whole way: said on the page what is wrong and what helps, then chat, vote, reload, rate."""
    key, network, page = study(test_bots_server, "blocked", ["test-quick"]), proxy(), new_page(390, 800)
    page.clock.install()
    enter(page, network, key)
    exits = page.locator(".exits")
    page.clock.fast_forward(5_000)
    expect(exits).to_contain_text("Your network seems to block live connections.")
    for link in ("Continue on another device", "Write to the researchers", "Withdraw and delete my answers"):
        expect(exits.get_by_role("link", name=link)).to_be_visible()
    expect(exits.get_by_text("Stop and leave")).to_be_visible()
    assert "Keep writing; your messages are sent" not in page.locator("main").inner_text()
    say(page, "Hello there")
    page.clock.fast_forward(10_000)
    page.clock.resume()
    expect(page.locator("#log")).to_have_attribute("aria-live", "polite")
    expect(replies(page)).to_have_count(1)
    page.get_by_role("button", name="Thumbs up").first.click()
    expect(page.get_by_role("button", name="Thumbs up").first).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#status")).to_have_text("Vote saved.")
    n_before = network.n_upgrades
    page.reload()
    expect(replies(page)).to_have_count(1)
    expect(page.get_by_role("button", name="Thumbs up").first).to_have_attribute("aria-pressed", "true")
    say(page, "And again")
    expect(replies(page)).to_have_count(2)
    assert network.n_upgrades == n_before, "a tab that knows its network tries no socket again"
    finish(page)


def test_a_network_that_cuts_sockets(
    test_bots_server: ConfabServer, proxy: Callable[..., Proxy], new_page: Callable[..., Any]
) -> None:
    key, network, page = study(test_bots_server, "cut", ["test-slow"]), proxy(CUT_AFTER_S), new_page()
    enter(page, network, key)
    say(page, "Hello there")
    expect(replies(page)).to_have_count(1)
    say(page, "And again")
    expect(replies(page)).to_have_count(2)
    expect(page.locator("#log .msg-you")).to_have_count(2)
    assert any(path.endswith("/messages/") for path in network.paths)
    assert network.n_upgrades == 3
    finish(page)


def test_two_chats_side_by_side(
    test_bots_server: ConfabServer, proxy: Callable[..., Proxy], new_page: Callable[..., Any]
) -> None:
    key = study(test_bots_server, "blocked-picks", ["test-quick", "parrot"], protocol="picks")
    network, page = proxy(0), new_page()
    enter(page, network, key, is_chat=False)
    for number, text in enumerate(("Hello there", "And again"), start=1):
        say(page, text)
        page.get_by_role("button", name="Pick reply 1").click()
        expect(page.locator(".round.settled")).to_have_count(number)
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")


def test_a_browser_that_forbids_sockets(test_bots_server: ConfabServer, new_page: Callable[..., Any]) -> None:
    key, page = study(test_bots_server, "no-sockets", ["test-quick"]), new_page()
    page.add_init_script("window.WebSocket = class { constructor() { throw new DOMException('', 'SecurityError'); } }")
    begin(page, test_bots_server, key)
    say(page, "Hello there")
    expect(replies(page)).to_have_count(1)
