"""The participant's way in a real browser: consent, streamed chat, vote, reload, rating, code."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import FrameLocator, Page, WebSocketRoute, expect

from tests.browser.conftest import accessible, no_blank_below
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIZES = [PHONE := (360, 740), (1280, 800)]
LAST_WORD = "twelve"  # of every reply of the slow bot


def study(server: ConfabServer, name: str, bots: list[str], **fields: Any) -> str:
    """Make a collecting study on the running server and return its key, new at every try of a test."""
    key = f"{name}-{uuid4().hex[:6]}"
    server.add_study(key, bots, **{"min_exchanges": 2, "max_exchanges": 3, **fields})
    return key


def begin(page: Page, server: ConfabServer, key: str) -> None:
    """Agree and start."""
    page.goto(f"{server.url}/s/{key}/")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Tick the box if you agree to take part.")).to_be_visible()
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="How it works")).to_be_focused()
    start = page.get_by_role("button", name="Start chatting")
    start.dispatch_event("click", {"detail": 2})  # of a double click on Continue, which stood there
    expect(start).to_be_visible()
    start.click()
    page.wait_for_url("**/chat/**")
    expect(page.locator("#log")).to_have_attribute("aria-live", "polite")


def say(page: Page, text: str) -> None:
    """Write and send, by the key on desktops and by the button on phones."""
    page.wait_for_load_state()  # before that the page's script may not listen yet
    page.locator("#text").fill(text)
    if page.viewport_size["width"] < 700:
        page.get_by_role("button", name="Send").click()
    else:
        page.locator("#text").press("Enter")


def replies(page: Page) -> Any:
    """Find the replies that are complete: only they can be voted on."""
    return page.locator("#log .msg-bot:has(.votes) .bubble")


def choose(within: Page | FrameLocator, question: str, value: int) -> None:
    """Answer one question by its visible number, once the page is painted and stands still."""
    within.locator(f"label:has(#{question}-{value})").click()
    expect(within.locator(f"#{question}-{value}")).to_be_checked()


def chat_and_rate(within: Page | FrameLocator) -> None:
    """Go the whole way, from consent to the page that tells the end."""
    within.get_by_role("checkbox").check()
    within.get_by_role("button", name="Continue").click()
    within.get_by_role("button", name="Start chatting").click()
    expect(within.locator("#log")).to_have_attribute("aria-live", "polite")  # its script listens
    within.locator("#text").fill("Hello")
    within.get_by_role("button", name="Send").click()
    expect(within.locator("#log .votes")).to_have_count(1)
    within.locator("#rate").click()
    for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(within, question, 4)
    within.get_by_role("button", name="Save and finish").click()


def no_sideways_scroll(page: Page, *other_widths: int) -> None:
    """Check that nothing is wider than the window, also at other widths, and no blank page follows below."""
    if other_widths:
        size = page.viewport_size
        for width in other_widths:
            page.set_viewport_size({"width": width, "height": 800})
            no_sideways_scroll(page)
        page.set_viewport_size(size)
    box = page.locator("html").bounding_box()
    assert box["width"] <= page.viewport_size["width"]
    wide = page.locator("html").evaluate("e => e.scrollWidth - e.clientWidth")
    assert wide <= 0, f"{wide} px too wide"
    no_blank_below(page)


def test_an_opening_of_the_bot_counts_as_no_reply(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    levels = [{"key": key, "opening": f"Hello, {key}."} for key in ("one", "two")]
    factors = [{"key": "greeting", "levels": levels}]
    key = study(test_bots_server, "opening", ["test-quick"], min_exchanges=1, max_exchanges=2, factors=factors)
    page = new_page(1280, 800)
    begin(page, test_bots_server, key)
    expect(replies(page)).to_have_count(1)
    expect(page.locator("#progress")).to_have_text("0 of 1 messages")
    say(page, "Hello there")
    expect(replies(page)).to_have_count(2)
    expect(page.locator("#rate")).not_to_have_attribute("aria-disabled", "true")
    expect(page.locator("#composer")).to_be_visible()
    say(page, "And one more")
    expect(page.locator("#finished")).to_be_visible()


def test_the_whole_way(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    server = test_bots_server
    key = study(server, "way", ["test-slow"])
    page = new_page(*PHONE)
    page.goto(f"{server.url}/s/{key}/")
    button = page.get_by_role("button", name="Continue").bounding_box()
    assert button["y"] + button["height"] <= PHONE[1], "nobody agrees past hidden text"
    no_sideways_scroll(page, 1280)
    accessible(page)
    begin(page, server, key)

    # The reply streams: busy, growing, and sending is closed.
    say(page, "Hello there")
    log = page.locator("#log")
    streaming = log.locator(".streaming .bubble")
    expect(streaming).to_contain_text("one")
    expect(log).to_have_attribute("aria-busy", "true")
    expect(page.locator("#send")).to_have_attribute("aria-disabled", "true")
    assert LAST_WORD not in streaming.inner_text()
    expect(streaming).to_contain_text("five")

    # Reloaded in the middle of the reply: it comes, once, and the message is there once.
    page.reload()
    expect(replies(page)).to_have_count(1)
    expect(replies(page)).to_have_text(re.compile(rf"^Reply 1: one .* {LAST_WORD}$"))
    expect(log.locator(".msg-you")).to_have_count(1)
    expect(log).not_to_have_attribute("aria-busy", "true")
    no_sideways_scroll(page, 1280)

    # A reply is reported by keyboard alone, and that outlives a reload, too.
    report = page.get_by_role("link", name="Report this reply")
    report.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Report this reply")).to_be_visible()
    page.locator("[name=reason]").first.focus()
    page.keyboard.press("ArrowDown")
    page.get_by_label("In your own words, if you like").focus()
    page.keyboard.type("It is odd.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#report-thanks")).to_have_text("Thank you. The researchers will see it.")
    page.keyboard.press("Enter")
    reported = page.get_by_role("link", name=re.compile("^Reported"))
    expect(reported).to_be_focused()
    no_sideways_scroll(page)
    page.reload()
    expect(reported).to_have_text("Reported")

    # A vote toggles, and outlives a reload.
    up = page.get_by_role("button", name="Thumbs up")
    up.click()
    expect(page.locator("#status")).to_have_text("Vote saved.")
    page.reload()
    expect(up).to_have_attribute("aria-pressed", "true")

    accessible(page)
    rate = page.locator("#rate")
    expect(rate).to_have_attribute("aria-disabled", "true")
    say(page, "And again")
    expect(replies(page)).to_have_count(2)
    rate.click()
    page.wait_for_url("**/rate/")
    no_sideways_scroll(page, 1280)

    # A number key chooses; what is missing is named; what is chosen stays.
    page.locator("#quality-1").focus()
    page.keyboard.press("5")
    expect(page.locator("#quality-5")).to_be_checked()
    page.reload()
    expect(page.locator("#quality-5")).to_be_checked()
    page.get_by_role("button", name="Save and finish").click()
    expect(page.locator("#summary")).to_be_focused()
    expect(page.locator("#summary")).to_contain_text("4 answers are missing.")
    expect(page.locator("#quality-5")).to_be_checked()
    accessible(page)
    for question in ("fluency", "diversity", "contingency", "empathy"):
        choose(page, question, 4)
    page.get_by_label("Anything else?").fill("Thanks")
    page.get_by_role("button", name="Save and finish").click()
    page.wait_for_url("**/done/")
    expect(page.locator("#code")).to_have_text(re.compile(r"^[A-Z0-9]{3}-[A-Z0-9]{3}$"))
    code = page.locator("#code").inner_text()
    no_sideways_scroll(page, 1280)
    accessible(page)
    page.reload()
    expect(page.locator("#code")).to_have_text(code)

    stored = server.shell(
        "from webapp.ratings.models import Rating;"
        f"r = Rating.objects.get(conversation__study__key={key!r});"
        "print(r.answers['quality'], r.answers['empathy'], r.comment);"
        "print([t.vote for t in r.conversation.turns.order_by('index')])"
    )
    assert stored.split("\n")[:2] == ["5 4 Thanks", "[0, 1, 0, 0]"]
    typed = server.shell(
        "from webapp.conversations.models import Typing;"
        f"found = Typing.objects.filter(turn__conversation__study__key={key!r}).order_by('turn');"
        "print([t.keystrokes for t in found])"
    )
    assert typed.strip() == "[]", "the study does not ask how messages are typed; test_arena.py's does"


def test_votes_stay_open_beside_the_rating(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "votes", ["test-quick"], min_exchanges=1)
    page = new_page()
    begin(page, test_bots_server, key)
    say(page, "Hello")
    expect(replies(page)).to_have_count(1)
    page.locator("#rate").click()
    page.wait_for_url("**/rate/")
    down = page.get_by_role("button", name="Thumbs down")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "true")
    # The chat itself knows of it.
    page.get_by_role("link", name="Back to the chat").click()
    expect(down).to_have_attribute("aria-pressed", "true")
    down.click()
    expect(page.locator("#status")).to_have_text("Vote removed.")


def test_a_message_written_without_connection_is_sent_once(
    own_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(own_bots_server, "offline", ["test-quick"])
    page = new_page()
    begin(page, own_bots_server, key)
    own_bots_server.kill("web")
    expect(page.get_by_text("Reconnecting…", exact=True)).to_be_visible()
    say(page, "Are you there?")
    expect(page.get_by_text("Waiting to send")).to_be_visible()
    own_bots_server.start_web()
    expect(replies(page)).to_have_text(["Reply 1 to: Are you there?"], timeout=40_000)
    expect(page.get_by_text("Reconnecting…", exact=True)).to_be_hidden()
    expect(page.get_by_text("Waiting to send")).to_be_hidden()
    page.reload()
    expect(page.locator("#log .msg-you")).to_have_count(1)
    expect(replies(page)).to_have_count(1)


def test_enter_keys_limits_and_the_end_of_a_chat(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "keys", ["test-quick"], max_message_chars=20)
    page = new_page()
    begin(page, test_bots_server, key)
    box = page.locator("#text")
    you = page.locator("#log .msg-you .bubble")

    box.press("Enter")
    expect(page.locator("#alert")).to_have_text("Write something first.")
    page.locator("#alert").evaluate("alert => { alert.textContent = '' }")
    box.fill("\u200b\u2800\ufeff")
    box.press("Enter")
    expect(page.locator("#alert")).to_have_text("Write something first.")
    box.fill("x" * 21)
    box.press("Enter")
    expect(page.locator("#alert")).to_have_text("Your message is 1 character too long. It is still in the box.")
    expect(you).to_have_count(0)
    # An Enter that ends a composition (Japanese, Korean) sends nothing.
    box.fill("こんにちは")
    box.dispatch_event("compositionstart")
    box.press("Enter")
    box.dispatch_event("compositionend")
    expect(you).to_have_count(0)
    # An emoji is one character, here as on the server.
    box.fill("😀" * 19)
    box.press("Shift+Enter")
    box.type("a")
    expect(page.locator("#alert")).to_be_empty()
    box.fill("one")
    box.press("Shift+Enter")
    box.type("<b>two</b>")
    box.press("Enter")
    expect(you).to_have_text(["one\n<b>two</b>"])
    expect(replies(page)).to_have_count(1)
    for n in (2, 3):
        say(page, f"message {n}")
        expect(replies(page)).to_have_count(n)
    expect(page.get_by_text("This chat is complete.")).to_be_visible()
    expect(box).to_be_hidden()


def test_a_bot_that_fails_leaves_three_ways(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    bots = ["test-failing", "test-quick"]
    key = study(test_bots_server, "fails", bots, rule="balanced", pay_each=2)
    page = new_page(360, 740)
    begin(page, test_bots_server, key)
    say(page, "Hello")
    if replies(page).or_(page.locator(".msg-failed")).first.inner_text().startswith("Reply"):
        # The other bot came first: this one is rated, and the failing one is next.
        say(page, "Hello again")
        expect(replies(page)).to_have_count(2)
        page.locator("#rate").click()
        page.wait_for_url("**/rate/")
        for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
            choose(page, question, 4)
        page.get_by_role("button", name="Save and finish").click()
        page.get_by_role("button", name="Talk to another chatbot").click()
        page.wait_for_url("**/chat/*/")
        say(page, "Hello")
    failed = page.locator(".msg-failed")
    expect(failed).to_contain_text("This is our fault, not yours.")
    expect(page.locator("#log")).not_to_have_attribute("aria-busy", "true")
    # Tried again, it fails again: the notice of before goes, and another comes.
    failed.evaluate("notice => { notice.dataset.before = '' }")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".msg-failed[data-before]")).to_have_count(0)
    expect(failed).to_be_visible()
    page.reload()
    expect(failed).to_be_visible()
    # Mended, the same message is answered.
    (test_bots_server.data_dir / "mended").touch()
    page.get_by_role("button", name="Try again").click()
    expect(replies(page)).to_have_text(["Here I am again."])
    # Broken again, it can be finished with a code.
    (test_bots_server.data_dir / "mended").unlink()
    say(page, "And now?")
    page.get_by_role("button", name="Finish early and get paid").click()
    page.wait_for_url("**/done/")
    expect(page.locator("#code")).to_be_visible()


def test_a_message_the_server_cannot_store_waits_and_is_sent_again(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "away", ["test-quick"])
    page = new_page(360, 740)
    refused: list[str] = []

    def wire(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def from_page(text: str) -> None:
            frame = json.loads(text)
            if frame["type"] != "message" or refused:
                server.send(text)
                return
            refused.append(frame["client_id"])
            answer = {"type": "error", "code": "unavailable", "client_id": frame["client_id"]}
            route.send(json.dumps({**answer, "message": "The database is away."}))

        route.on_message(from_page)

    page.route_web_socket(re.compile("/ws/chat/"), wire)
    begin(page, test_bots_server, key)
    say(page, "Hello")
    expect(page.locator("#alert")).to_contain_text("not saved yet")
    expect(page.locator(".msg-waiting")).to_have_count(1)
    expect(replies(page)).to_have_text(["Reply 1 to: Hello"])
    expect(page.locator("#alert")).to_have_text("")
    expect(page.locator("#log .msg-you")).to_have_count(1)
    assert len(refused) == 1


def test_a_reply_that_takes_too_long_offers_ways_on_until_it_comes(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "late", ["test-slow"], min_exchanges=1)
    page = new_page(1280, 800)
    sockets: list[WebSocketRoute] = []
    held: list[str] = []
    holds = True

    def wire(route: WebSocketRoute) -> None:
        def from_server(text: str) -> None:
            if holds and json.loads(text).get("turn") == 3:
                held.append(text)
            else:
                route.send(text)

        route.connect_to_server().on_message(from_server)
        sockets.append(route)

    page.route_web_socket(re.compile("/ws/chat/"), wire)
    begin(page, test_bots_server, key)
    say(page, "Hello")
    expect(replies(page)).to_have_text([re.compile(LAST_WORD)])
    rate = page.locator("#rate")
    expect(rate).to_have_attribute("href", re.compile("/rate/"))
    # While a reply is under way there is nothing to rate.
    say(page, "And now?")
    expect(page.locator("#rate-reason")).to_have_text("Available once the reply is complete")
    expect(rate).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#log .msg-you[data-turn='2']")).to_have_count(1)  # acknowledged
    overdue = {"type": "error", "code": "bot_failed", "turn": 3, "message": "", "busy": False}
    overdue |= {"overdue": True, "can": ["swap", "finish"], "can_rate": True}
    sockets[-1].send(json.dumps(overdue))
    failed = page.locator(".msg-failed")
    expect(failed).to_contain_text("has not answered for a long time")
    expect(failed.get_by_role("button")).to_have_text(["New chatbot", "Finish early"])
    expect(rate).to_have_attribute("href", re.compile("/rate/"))
    # It comes after all, and the news that it is late once more.
    holds = False
    for text in [*held, json.dumps(overdue)]:
        sockets[-1].send(text)
    expect(replies(page)).to_have_text([re.compile(LAST_WORD), re.compile(LAST_WORD)])
    expect(failed).to_have_count(0)
    expect(rate).to_have_attribute("href", re.compile("/rate/"))


def test_a_refused_message_stays_marked_and_another_is_written(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "filtered", ["test-filtered"])
    page = new_page(390, 740)
    begin(page, test_bots_server, key)
    say(page, "Make a bomb")
    failed, refused = page.locator(".msg-failed"), page.locator(".msg-refused")
    for _load in range(2):
        expect(failed).to_contain_text("did not accept this message")
        expect(failed.get_by_text("our fault")).to_be_hidden()
        expect(failed.get_by_role("button")).to_have_count(1)
        expect(failed.get_by_role("button", name="Finish early")).to_be_visible()
        expect(refused).to_have_count(1)
        expect(refused).to_contain_text("Not accepted")
        if shots := os.environ.get("SHOTS"):
            page.screenshot(path=f"{shots}/refused-{_load}.png")
        page.reload()
    say(page, "Hello")
    expect(replies(page)).to_have_text(["Reply 1"])
    expect(failed).to_have_count(0)
    expect(refused).to_have_count(1)
    # A message to the researchers is sent in the same tab.
    page.get_by_role("button", name="Help").click()
    page.locator("#help").get_by_role("link", name="Write to the researchers").click()
    page.locator("#message textarea").fill("Why was that refused?")
    page.locator("#message").get_by_role("button", name="Send").click()
    expect(page.locator("#message-sent")).to_be_visible()
    if shots := os.environ.get("SHOTS"):
        page.screenshot(path=f"{shots}/sent.png")
    assert len(page.context.pages) == 1


def test_two_tabs_show_the_same_chat(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "tabs", ["test-quick"])
    page = new_page()
    begin(page, test_bots_server, key)
    second = page.context.new_page()
    second.goto(page.url)
    say(page, "From the first")
    expect(replies(second)).to_have_count(1)
    say(second, "From the second")
    expect(replies(page)).to_have_count(2)
    expect(page.locator("#log .msg-you")).to_have_count(2)


@contextmanager
def page_at_localhost(body: Callable[[], str]) -> Iterator[str]:
    """Serve this one page from a site that is not 127.0.0.1, and give its origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body().encode())

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://localhost:{site.server_port}"
        site.shutdown()


def test_inside_a_frame_of_another_site(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    """A recruitment frame: no cookies arrive there, the signed token takes their place."""
    server = test_bots_server

    def body() -> str:
        inner = f"{server.url}/s/{key}/?workerId=w1&assignmentId=a1"
        return f'<iframe src="{inner}" width="1000" height="700"></iframe>'

    with page_at_localhost(body) as platform:
        key = study(server, "framed", ["test-quick"], min_exchanges=1, frame_ancestors=platform)
        page = new_page()
        page.goto(platform)
        frame = page.frame_locator("iframe")
        chat_and_rate(frame)
        expect(frame.locator("#code")).to_be_visible()
        assert not [c for c in page.context.cookies() if c["name"] == "sessionid"]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_names_and_focus_are_where_they_belong(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int, height: int
) -> None:
    headings = "# Consent\n\n# Title\n\n# How\n\n# Start\n\n# About\n\n# Continue"
    key = study(test_bots_server, "focus", ["test-quick"], consent_text=headings)
    page = new_page(width, height)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_text("Read the full consent form").click()
    expect(page.get_by_role("heading", name="Consent", exact=True)).to_be_visible()
    # The label belongs to the box, whatever the form's headings say.
    page.get_by_text("I have read this, and I agree to take part.").click()
    expect(page.get_by_role("checkbox")).to_be_checked()
    begin(page, test_bots_server, key)
    # On touch the keyboard would cover what is to be read first.
    is_touch = width < 700
    expect(page.locator("#title" if is_touch else "#text")).to_be_focused()
    log = page.get_by_role("log", name="Conversation")
    say(page, "Hello")
    expect(log.get_by_role("list").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Help", exact=True).click()
    expect(page.get_by_role("dialog", name="How it works")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    no_sideways_scroll(page)


@pytest.mark.parametrize("script", [True, False])
def test_answers_outlive_an_error_a_reload_and_the_way_back(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], script: bool
) -> None:
    key = study(test_bots_server, "errors", ["test-quick"], min_exchanges=1)
    with_script = new_page()
    begin(with_script, test_bots_server, key)
    say(with_script, "Hello")
    expect(replies(with_script)).to_have_count(1)
    page = with_script
    if not script:
        page = new_page(java_script_enabled=False)
        page.context.add_cookies(with_script.context.cookies())
    page.goto(with_script.url + "rate/")
    for question in ("quality", "fluency", "diversity"):
        choose(page, question, 4)
    page.get_by_label("Anything else?").fill("First words")
    page.get_by_role("button", name="Save and finish").click()

    def kept(fluency: int, words: str) -> None:
        for question, value in (("quality", 4), ("fluency", fluency), ("diversity", 4)):
            expect(page.locator(f"#{question}-{value}")).to_be_checked()
        expect(page.locator("#empathy-4")).not_to_be_checked()
        expect(page.get_by_label("Anything else?")).to_have_value(words)

    summary = page.locator("#summary")
    expect(summary).to_contain_text("2 answers are missing.")
    kept(4, "First words")
    fluency, words = 4, "First words"
    if script:
        # What is changed after the error is kept by the browser.
        fluency, words = 6, ""
        choose(page, "fluency", 6)
        page.get_by_label("Anything else?").fill("")
    page.reload()
    expect(summary).to_contain_text("2 answers are missing.")
    kept(fluency, words)
    page.go_back()
    expect(summary).to_have_count(0)
    kept(fluency, words)
    page.go_forward()
    expect(summary).to_be_visible()
    kept(fluency, words)
    for question in ("contingency", "empathy"):
        choose(page, question, 4)
    page.get_by_role("button", name="Save and finish").click()
    expect(page.locator("#code")).to_be_visible()


def test_without_script_consent_rating_and_code_work(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "plain", ["test-quick"], min_exchanges=1)
    with_script = new_page()
    begin(with_script, test_bots_server, key)
    say(with_script, "Hello")
    expect(replies(with_script)).to_have_count(1)
    page = new_page(java_script_enabled=False)
    page.context.add_cookies(with_script.context.cookies())
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Start chatting").click()
    page.wait_for_url("**/chat/**")
    # Chromium draws no noscript where a test switches scripts off; that it is there must do.
    assert "The chat needs JavaScript." in page.content()
    page.goto(page.url + "rate/")
    for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(page, question, 4)
    page.get_by_role("button", name="Save and finish").click()
    expect(page.locator("#code")).to_be_visible()


def test_participant_pages_are_light(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    """Under 60 kB compressed in all: what one person loads on the whole way, counted once."""
    import gzip

    key = study(test_bots_server, "light", ["test-quick"], min_exchanges=1)
    page = new_page()
    sizes: dict[str, int] = {}
    hosts = set()

    def count(response: Any) -> None:
        hosts.add(response.url.split("/")[2])
        if response.status == 200 and response.url not in sizes:
            sizes[response.url] = len(gzip.compress(response.body()))

    page.on("response", count)
    begin(page, test_bots_server, key)
    say(page, "Hello")
    expect(replies(page)).to_have_count(1)
    page.locator("#rate").click()
    page.wait_for_url("**/rate/")
    expect(page.locator(".votes")).to_be_visible()
    assert len([url for url in sizes if url.endswith(".css")]) == 1
    assert sum(sizes.values()) < 60_000, sizes
    assert hosts == {f"127.0.0.1:{test_bots_server.port}"}


def test_replies_are_marked_while_people_chat_and_what_is_left_afterwards(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    fields = {"protocol": "marked_chat", "marked_when": "during"}
    key = study(test_bots_server, "marked", ["test-quick"], **fields)
    page = new_page(360, 740)
    begin(page, test_bots_server, key)
    say(page, "Hello")
    box = page.locator(".marks-here")
    box.locator("summary").press("Enter")
    no_sideways_scroll(page)
    asks = box.get_by_role("checkbox", name="Asks about the person")
    asks.press("Space")
    expect(page.locator("#status")).to_have_text("Marks saved.")
    box.get_by_role("checkbox", name="None of these").press("Space")
    expect(asks).not_to_be_checked()
    asks.press("Space")
    expect(box.locator("summary")).to_have_text("Marked: Asks about the person")
    page.reload()
    expect(box.locator("summary")).to_have_text("Marked: Asks about the person")
    say(page, "And you?")
    expect(box).to_have_count(2)
    page.get_by_role("link", name="Finish").click()
    page.wait_for_url("**/judge/")
    expect(page.get_by_text("Reply 2 of 2")).to_be_visible()
    expect(page.locator("[data-reply='1']")).to_contain_text("Asks about the person")
    page.get_by_role("checkbox", name="None of these").check()
    page.get_by_role("button", name="Save and finish").click()
    expect(page.locator("#code")).to_be_visible()


def test_an_arabic_study_goes_from_right_to_left(test_bots_server: ConfabServer, new_page: Callable[..., Page]) -> None:
    key = study(test_bots_server, "arabic", ["test-quick"], language="ar")
    page = new_page(360, 740)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="متابعة").click()
    no_sideways_scroll(page)
    page.get_by_role("button", name="بدء المحادثة").click()
    page.wait_for_url("**/chat/**")
    assert page.locator("html").get_attribute("dir") == "rtl"
    expect(page.locator("#log")).to_have_attribute("aria-live", "polite")
    page.locator("#text").fill("مرحبًا")
    page.get_by_role("button", name="إرسال").click()
    expect(replies(page)).to_have_count(1)
    # Words of the script are in the language, too, with its plural forms; one's own stand where lines end.
    expect(page.locator("#progress")).to_have_text("الرسائل: 1 من 2")
    expect(page.locator("#rate-reason")).to_have_text("يُفتح بعد رسالة أخرى")
    mine = page.locator("#log .msg-you .bubble").bounding_box()
    theirs = page.locator("#log .msg-bot .bubble").bounding_box()
    assert mine["x"] < theirs["x"]
    no_sideways_scroll(page)


def test_a_device_that_does_not_fit_is_shown_the_link_for_another_one(
    new_page: Callable[..., Page], test_bots_server: ConfabServer
) -> None:
    key = study(test_bots_server, "device", ["test-quick"], least_width=700, needs_keyboard=True)
    phone = new_page(390, 800)
    phone.goto(f"{test_bots_server.url}/s/{key}/?x=1")
    expect(phone.get_by_text("This study needs a keyboard. Open your link on a computer.")).to_be_visible()
    expect(phone.get_by_role("button", name="Continue")).to_be_disabled()
    expect(phone.get_by_label("Your link")).to_have_value(f"{test_bots_server.url}/s/{key}/?x=1")
    accessible(phone)
    no_blank_below(phone)
    computer = new_page(1366, 800)
    begin(computer, test_bots_server, key)
    narrow = new_page(1366, 800)
    narrow.goto(f"{test_bots_server.url}/s/{key}/")
    narrow.set_viewport_size({"width": 600, "height": 800})
    expect(narrow.get_by_text("This study needs a wider window.")).to_be_visible()
    expect(narrow.get_by_role("button", name="Continue")).to_be_disabled()
    narrow.set_viewport_size({"width": 800, "height": 800})
    expect(narrow.get_by_role("button", name="Continue")).to_be_enabled()


def test_a_quiet_line_tells_of_the_end_of_the_time(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "time", ["test-quick"], least_minutes=1, most_minutes=2)
    page = new_page(*PHONE)
    page.clock.install()
    begin(page, test_bots_server, key)
    line, rate = page.locator("#time-left"), page.locator("#rate")
    expect(line).to_have_text("About 2 minutes left")
    for n in (1, 2):
        say(page, f"message {n}")
        page.clock.run_for(500)
        expect(replies(page)).to_have_count(n)
    expect(page.locator("#progress")).to_have_text("Available in about 1 minute")
    expect(rate).to_have_attribute("aria-disabled", "true")
    accessible(page)
    page.clock.fast_forward(61_000)
    expect(line).to_have_text("Less than a minute left")
    expect(rate).not_to_have_attribute("aria-disabled", "true")
    page.clock.fast_forward(60_000)
    expect(line).to_have_text("The time for this chat is up.")
    expect(page.locator("#finished").get_by_role("link", name="Rate the chat")).to_be_visible()
    expect(page.locator("#text")).to_be_hidden()
    accessible(page)


def test_a_message_to_the_researchers_leaves_a_half_filled_form_as_it_is(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    key = study(test_bots_server, "mail", ["test-quick"], min_exchanges=1)
    page = new_page(*PHONE)
    begin(page, test_bots_server, key)
    say(page, "hello")
    expect(replies(page)).to_have_count(1)
    page.get_by_role("button", name="Help").click()
    page.locator("#help").get_by_role("link", name="Write to the researchers").click()
    expect(page.get_by_role("dialog", name="Write to the researchers")).to_be_visible()
    accessible(page)
    page.keyboard.press("Escape")
    page.goto(re.sub(r"/chat/([^/]+)/.*", r"/chat/\1/rate/", page.url))
    page.locator("textarea[name=comments]").fill("half of it")
    page.locator("footer").get_by_role("link", name="Write to the researchers").click()
    page.get_by_label("Your message").fill("May I go on tomorrow?")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Sent")
    with page.context.expect_page() as opened:
        page.get_by_role("dialog").get_by_role("link", name="Your messages").click()
    thread = opened.value
    expect(thread.get_by_text("May I go on tomorrow?")).to_be_visible()
    accessible(thread)
    expect(page.locator("textarea[name=comments]")).to_have_value("half of it")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_message_sent_while_the_page_still_loads_arrives(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page()
    begin(page, test_bots_server, study(test_bots_server, "early", ["test-quick"]))
    held: list[Any] = []
    page.route("**/participant/delivery*.js", lambda route: held.append(route))  # imported by the chat's
    page.reload(wait_until="commit")
    box = page.locator("#text")
    expect(box).to_be_focused()
    page.keyboard.type("Typed before the script came")
    page.keyboard.press("Enter")
    expect(box).to_have_value("Typed before the script came")
    for route in held:
        route.continue_()
    expect(page.locator(".msg-you")).to_have_text(re.compile("Typed before the script came"))
    expect(replies(page)).to_have_count(1)
    expect(box).to_have_value("")
