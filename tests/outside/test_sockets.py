"""All frames of a chat, of a marked chat and of an arena, in the order in which a page hears them.

Client ids are words, so that nothing in a frame differs from run to run. `SNAPSHOTS=write` stores what is heard now.
"""

import json
import uuid
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.outside.browser import Browser, Form, Frame, hear
from tests.outside.installation import Installation
from tests.outside.orders import BREAKS, BREAKS_ONCE
from tests.outside.snapshots import compare

pytestmark = pytest.mark.slow
CHAT = {"min_exchanges": 2, "max_exchanges": 3, "max_message_chars": 60, "typing_chars_per_s": 1000}
ANY_ID = "00000000-0000-4000-8000-000000000000"


class Transcript:
    """One page's socket, and a line for each frame that is sent or heard."""

    def __init__(self, socket: ClientConnection, lines: list[str], name: str = "") -> None:
        self.socket, self.lines, self.name = socket, lines, name
        self.client_ids: dict[str, str] = {}

    def note(self, arrow: str, frame: Any) -> None:
        text = json.dumps(frame, ensure_ascii=False, sort_keys=True)
        for client_id, word in self.client_ids.items():
            text = text.replace(client_id, word)
        self.lines.append(f"{self.name}{arrow} {text}")

    def send(self, **frame: Any) -> None:
        self.note("->", frame)
        self.socket.send(json.dumps(frame))

    def say(self, text: str, word: str = "") -> None:
        """Send a message; the same word names the same client id."""
        word = word or f"message-{len(self.client_ids) + 1}"
        known = {w: client_id for client_id, w in self.client_ids.items()}
        client_id = known.get(word) or str(uuid.uuid4())
        self.client_ids[client_id] = word
        self.send(type="message", client_id=client_id, text=text)

    def hear(self, *until: str) -> Frame:
        """Note every frame up to the first of one of these types."""
        while True:
            frame = hear(self.socket)
            self.note("<-", frame)
            if frame["type"] in until:
                return frame

    def retry(self, turn: int, end: str) -> None:
        """Ask for a reply again; the history and the frames up to the end may come in either order."""
        self.send(type="retry")
        heard = [hear(self.socket)]
        while {"history", end} - {frame["type"] for frame in heard}:
            heard.append(hear(self.socket))
        history = next(frame for frame in heard if frame["type"] == "history")
        if history["pending"] is None:  # the reply was quicker
            history["turns"] = [one for one in history["turns"] if one["turn"] < turn]
            history |= {"pending": {"turn": turn}, "can_rate": False}
        for frame in [history, *(one for one in heard if one["type"] != "history")]:
            self.note("<-", frame)

    def hear_end(self) -> None:
        """Note the code with which the server closes the socket."""
        try:
            while True:
                self.note("<-", hear(self.socket))
        except ConnectionClosed as closed:
            self.lines.append(f"{self.name}closed with {closed.rcvd.code}")

    def ask(self, **frame: Any) -> None:
        """Send a frame and note the answer to it."""
        self.send(**frame)
        self.hear("vote", "marks", "error", "history")


def entered(installation: Installation, key: str) -> Browser:
    """Agree to take part; the browser then shows the first page of the task."""
    browser = Browser(installation.url)
    page = browser.open(f"/s/{key}/")
    browser.send(found(page.form("/start/")), {"consent": "on"})
    return browser


def found(form: Form | None) -> Form:
    assert form is not None
    return form


def chat_of(browser: Browser) -> str:
    return browser.page.chats[0]


def test_a_chat(installation: Installation) -> None:
    key = installation.study_make("chat", {"bots": ["parrot"], "chat": CHAT})
    browser, lines = entered(installation, key), []
    chat = chat_of(browser)
    with browser.socket(chat) as socket:
        page = Transcript(socket, lines)
        page.hear("history")
        page.say("Hello there.", "hello")
        page.hear("reply")
        lines.append("# the same message again")
        page.say("Hello there.", "hello")
        page.hear("reply")
        lines.append("# messages and frames that are refused")
        page.say("   ", "empty")
        page.hear("error")
        page.say("long " * 13, "long")
        page.hear("error")
        for refused in (
            {"type": "vote", "turn": 0, "value": 1},
            {"type": "vote", "turn": 1, "value": 5},
            {"type": "vote", "turn": 7, "value": 1},
            {"type": "marks", "turn": 1, "marks": ["asks"]},
            {"type": "message", "client_id": "not an id", "text": "hi"},
            {"type": "greeting"},
        ):
            page.ask(**refused)
        for text in ("no JSON", "[]"):
            lines.append(f"-> {text}")
            socket.send(text)
            page.hear("error")
        lines.append("# a vote and another page of the same chat")
        page.ask(type="vote", turn=1, value=1)
        page.ask(type="retry")
        with browser.socket(chat) as second:
            other = Transcript(second, lines, "other ")
            other.hear("history")
            page.ask(type="vote", turn=1, value=-1)
            other.hear("vote")
            other.client_ids = page.client_ids
            page.say("Where do you live?", "second")
            page.hear("reply")
            other.hear("reply")
        lines.append("# another try without a failure, and the last message")
        page.ask(type="retry")
        page.say("Goodbye.", "third")
        page.hear("reply")
        page.say("One more.", "fourth")
        page.hear("error")
        lines.append("# after the rating")
        form = found(browser.open(f"/chat/{chat}/rate/").form("/rate/"))
        done = browser.send(form, {name: values[-1] for name, values in form.radios.items()})
        assert done.outcome == "rated"
        page.say("One more.", "fifth")
        page.hear("error")
        page.ask(type="vote", turn=1, value=1)
        page.ask(type="retry")
    compare("sockets/chat.txt", "\n".join(lines))


def test_a_chat_whose_bot_fails(installation: Installation) -> None:
    key = installation.study_make("chat", {"bots": ["told-a"], "chat": CHAT})
    browser, lines = entered(installation, key), []
    with browser.socket(chat_of(browser)) as socket:
        page = Transcript(socket, lines)
        page.hear("history")
        page.say(BREAKS_ONCE, "once")
        page.hear("error")
        page.say("Are you there?", "meanwhile")
        page.hear("error")
        page.retry(1, "reply")
        page.say(BREAKS, "always")
        page.hear("error")
        with browser.socket(chat_of(browser)) as second:
            other = Transcript(second, lines, "other ")
            other.hear("error")
        form = found(browser.page.form("/finish/") if browser.page else None)
        assert browser.send(form, {}).outcome == "bot_failed"
        page.say("Are you there?", "after the end")
        page.hear("error")
    key = installation.study_make("chat", {"bots": ["told-a"], "chat": CHAT})
    browser = entered(installation, key)
    lines.append("# a bot that fails once more")
    with browser.socket(chat_of(browser)) as socket:
        page = Transcript(socket, lines)
        page.hear("history")
        page.say(BREAKS, "always")
        page.hear("error")
        page.retry(1, "error")
    compare("sockets/failing.txt", "\n".join(lines))


def test_who_may_open_a_chat_and_how_often_frames_may_come(installation: Installation) -> None:
    key = installation.study_make("chat", {"bots": ["parrot"], "chat": CHAT})
    browser, lines = entered(installation, key), []
    chat = chat_of(browser)
    lines.append("# a browser without this participant, and no such chat")
    for one, asked in ((Browser(installation.url), chat), (browser, ANY_ID)):
        with one.socket(asked) as socket:
            Transcript(socket, lines).hear_end()
    lines.append("# more frames than anybody sends")
    with browser.socket(chat) as socket:
        page = Transcript(socket, [])
        page.hear("history")
        for _frame in range(200):
            socket.send("")
        for _frame in range(200):
            page.hear("error")
        lines.append(page.lines[-1])
    lines.append("# a participant who goes on on another device")
    with browser.socket(chat) as socket:
        page = Transcript(socket, lines)
        page.hear("history")
        result = browser.open(next(link for link in browser.page.links if "/elsewhere/" in link))
        link = browser.send(result.forms[0], {}).text.split('value="http')[1].split('"')[0]
        phone = Browser(installation.url)
        phone.send(phone.open(f"http{link}").forms[0], {})
        with phone.socket(chat) as there:
            Transcript(there, lines, "phone ").hear("history")
            page.hear_end()
    compare("sockets/access.txt", "\n".join(lines))


def test_a_chat_whose_replies_are_marked(installation: Installation) -> None:
    during = {"own_marking": {"marked_when": "during"}}
    key = installation.study_make("marked_chat", {"bots": ["parrot"], "chat": CHAT, **during})
    browser, lines = entered(installation, key), []
    with browser.socket(chat_of(browser)) as socket:
        page = Transcript(socket, lines)
        page.hear("history")
        page.say("Do you like dogs?", "hello")
        page.hear("reply")
        page.ask(type="marks", turn=1, marks=["asks", "repeats"])
        page.ask(type="marks", turn=1, marks=["_none"])
        page.ask(type="marks", turn=1, marks=["no such label"])
        page.ask(type="marks", turn=0, marks=["asks"])
        page.ask(type="marks", turn=1, marks=["feeling"])
        page.ask(type="retry")
        page.ask(type="marks", turn=1, marks=[])
        page.ask(type="retry")
    compare("sockets/marked_chat.txt", "\n".join(lines))


def test_an_arena(installation: Installation) -> None:
    settings = {"bots": ["parrot", "told-a"], "chat": CHAT, "arena": {"n_comparisons": 1}}
    key = installation.study_make("arena", settings)
    browser = entered(installation, key)
    first, second = browser.page.chats
    assert first != second
    with browser.socket(first) as one, browser.socket(second) as two:
        sides = [Transcript(one, []), Transcript(two, [])]
        for side in sides:
            side.hear("history")
            side.say("Hello there.", "hello")
        # Which bot stands on which side is drawn.
        sides.sort(key=lambda side: side.hear("reply")["text"] != "Hello there.")
        for side in sides:
            side.ask(type="vote", turn=1, value=1)
            side.say(BREAKS, "second")
            side.hear("reply", "error")
            side.say("Are you there?", "third")
            side.hear("reply", "error")
        choice = found(browser.page.form("/arena/"))
        page = browser.send(choice, {"choice": "a"})
        assert page.step == "arena", "one chat has an answer more than the other"
        assert browser.send(found(page.form("/finish/")), {}).outcome == "bot_failed"
        for side in sides:
            side.lines.append("# after the end")
            side.say("Goodbye.", "fourth")
            side.hear("error")
            side.ask(type="vote", turn=1, value=-1)
            side.ask(type="retry")
    parrot, told = sides
    lines = ["== a bot that repeats messages", *parrot.lines, "", "== a bot that breaks", *told.lines]
    compare("sockets/arena.txt", "\n".join(lines))


def test_an_arena_to_its_end(installation: Installation) -> None:
    settings = {"bots": ["parrot", "told-a"], "chat": CHAT, "arena": {"n_comparisons": 1}}
    browser = entered(installation, installation.study_make("arena", settings))
    chats, lines = browser.page.chats, []
    for chat in chats:
        with browser.socket(chat) as socket:
            side = Transcript(socket, [])
            side.hear("history")
            for number in range(2):
                side.say(f"Message {number}.")
                side.hear("reply")
            lines.append(side.lines)
    page = browser.send(found(browser.page.form("/arena/")), {"choice": "equal"})
    assert page.outcome == "rated"
    for chat, of_side in zip(chats, lines, strict=True):
        with browser.socket(chat) as socket:
            of_side.append("# after the choice")
            Transcript(socket, of_side).hear("history")
    parrot, told = sorted(lines, key=lambda one: "Reply 1." in "\n".join(one))
    compare("sockets/arena_chosen.txt", "\n".join([*parrot, "", *told]))
