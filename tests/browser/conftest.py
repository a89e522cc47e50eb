"""Chromium, and pages that fail their test on any message about the Content-Security-Policy."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TEST_BOTS, ConfabServer, start_confab

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
"""The one without windows where it is there: a new page costs it a quarter of the CPU, for it makes no tabs and
menus.
"""
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox") or ""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    # What draws without a graphics card needs no process of its own: a tenth less CPU for a page.
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A recruitment platform played by a test frames a server on this machine.
    "--disable-features=LocalNetworkAccessChecks",
]


def accessible(page: Any) -> None:
    """Check the page by axe-core's rules: names, roles, order of headings, contrast and more."""
    from axe_playwright_python.sync_playwright import Axe

    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()


def no_blank_below(page: Any) -> None:
    """Check that the document ends where its body ends: hidden text that escapes a scroller makes it longer."""
    below = page.evaluate(
        "document.documentElement.scrollHeight"
        " - Math.max(innerHeight, Math.ceil(document.body.getBoundingClientRect().bottom + scrollY))"
    )
    assert below <= 0, f"{page.url}: {below} px of blank page below"


@pytest.fixture(scope="package")
def playwright() -> Iterator[Any]:
    """Open Playwright once for all browsers.

    While its synchronous interface is open, the thread has a running event loop, and no asynchronous test could run
    beside it.
    """
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)  # the machine may be busy with other tests
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def chromium(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Start one Chromium for all browser tests and end it after the last of them."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium-headless-shell)")
    browser = request.getfixturevalue("playwright").chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def firefox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start the installed Firefox, by WebDriver BiDi."""
    if not FIREFOX:
        pytest.skip("there is no Firefox here (Debian: apt-get install firefox-esr)")
    bridge = tmp_path_factory.mktemp("firefox") / "firefox"
    module = Path(__file__).with_name("firefox_bridge.py")
    bridge.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{module}" "{FIREFOX}" "$@"\n')
    bridge.chmod(0o755)
    browser = request.getfixturevalue("playwright").firefox.launch(channel="moz-firefox", executable_path=str(bridge))
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def test_bots_server(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run one Confab for all browser tests, each of which makes a study with a key of its own."""
    # A bot that fails in one file is offered in the next.
    never_aside = dict.fromkeys(("CONFAB_ASIDE_IN_A_ROW", "CONFAB_ASIDE_FAILED", "CONFAB_ASIDE_OF"), "100")
    env = {**TEST_BOTS, **never_aside}
    yield from start_confab(tmp_path_factory.mktemp("bots"), vector_cache, env, with_demo=False)


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Make pages: `new_page(width, height, **context options)`, each in a browser of its own.

    Afterwards the test fails on script errors and on console messages about the policy.
    """
    contexts, troubles = [], []

    def make(width: int = 1280, height: int = 800, **options: Any) -> Any:
        phone = {"has_touch": True, "is_mobile": True} if width < 700 else {}
        context = chromium.new_context(
            viewport={"width": width, "height": height}, locale="en-GB", reduced_motion="reduce", **{**phone, **options}
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "console",
            lambda message: (
                troubles.append(message.text)
                if "Content Security Policy" in message.text or "Content-Security" in message.text
                else None
            ),
        )
        return page

    yield make
    for context in contexts:
        context.close()
    assert not troubles, troubles
