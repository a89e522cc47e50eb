"""A scripted participant, who comes through the outside doors: pages, forms and the chat's socket.

For `manage.py rehearse`, and for tests. What it writes is taken from the everyday corpus; how it rates
is a simple opinion of its own, so its ratings are marked synthetic and say nothing about a bot.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

Frame = dict[str, Any]
PATIENCE_S = 150.0
"""Longer than any reply may take; who hears nothing for so long goes."""


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates; reading them takes 20 ms, which a crowd should not pay for each."""
    return httpx.create_ssl_context()


class DoorClosed(Exception):
    """A page did not let the participant through; the message says which and why."""


class _Form(HTMLParser):
    """The fields of one form of a page: hidden values, and the choices of radio buttons."""

    def __init__(self, page_url: str, action_ends_with: str) -> None:
        super().__init__()
        self.page_url = page_url
        self.action_ends_with = action_ends_with
        self.action: str | None = None
        self.hidden: dict[str, str] = {}
        self.radios: dict[str, list[str]] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "form" and self.action is None:
            # A form without an action is sent to its own page.
            action = urljoin(self.page_url, values.get("action", ""))
            if urlsplit(action).path.endswith(self.action_ends_with):
                self.action, self._inside = action, True
        elif tag == "input" and self._inside and values.get("name"):
            if values.get("type") == "hidden":
                self.hidden[values["name"]] = values.get("value", "")
            elif values.get("type") == "radio":
                self.radios.setdefault(values["name"], []).append(values.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


@dataclass
class OutsideDoors:
    """One browser, as far as the server can tell: cookies, forms, a socket.

    Args:
        base_url: e.g. "http://127.0.0.1:8000".
        study_key: the study's key in its link.
        query: parameters of the link (recruitment, `rehearsal`).
    """

    base_url: str
    study_key: str
    query: dict[str, str] = field(default_factory=dict)
    conversation_id: str = ""
    n_turned_away: int = 0  # asked to come back later, and came back

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(
            base_url=self.base_url, follow_redirects=True, timeout=60, verify=_certificates()
        )

    async def close(self) -> None:
        """Leave."""
        await self.http.aclose()

    async def start(self) -> str:
        """Open the link, agree, and be led to a chat; its id comes back.

        Raises:
            DoorClosed: if there is no chat for this participant.
        """
        page = await self._ask("GET", f"/s/{self.study_key}/", params=self.query)
        form = self._form(page, "/start/")
        answer = await self._post(form, {"consent": "on"}, page)
        below = self.http.base_url.path.rstrip("/")
        path = answer.url.path.removeprefix(below).strip("/").split("/")
        if path[0] != "chat":
            raise DoorClosed(f"no chat was given at {answer.url.path} ({answer.status_code})")
        self.conversation_id = path[1]
        return self.conversation_id

    def socket(self) -> connect:
        """Return the chat's socket, not yet open: `async with doors.socket() as ws`."""
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.http.cookies.jar)
        url = self.base_url.replace("http", "ws", 1) + f"/ws/chat/{self.conversation_id}/"
        return connect(
            url,
            additional_headers={"Cookie": cookies},
            origin=Origin(str(self.http.base_url.copy_with(raw_path=b"/")).rstrip("/")),
            proxy=None,
        )

    async def rate(self, answer: Callable[[str, list[str]], str], comments: str = "") -> str:
        """Fill in the rating form and return the completion code's page.

        Args:
            answer: from a question's field name and its choices to the chosen one.
        """
        page = await self._ask("GET", f"/chat/{self.conversation_id}/rate/")
        form = self._form(page, "/rate/")
        answers = {name: answer(name, choices) for name, choices in form.radios.items()}
        done = await self._post(form, {**answers, "comments": comments}, page)
        if not done.url.path.endswith("/done/"):
            raise DoorClosed(f"the rating was not taken: {done.url.path} ({done.status_code})")
        return done.text

    def _form(self, page: httpx.Response, action_ends_with: str) -> _Form:
        form = _Form(str(page.url), action_ends_with)
        form.feed(page.text)
        if form.action is None:
            raise DoorClosed(f"{page.url.path} answered {page.status_code} without its form")
        return form

    async def _post(
        self, form: _Form, values: dict[str, str], page: httpx.Response
    ) -> httpx.Response:
        assert form.action is not None
        return await self._ask(
            "POST",
            form.action,
            data={**form.hidden, **values},
            headers={"Referer": str(page.url)},
        )

    async def _ask(self, method: str, address: str, **request: Any) -> httpx.Response:
        """Ask; when the server is busy, come back as often as it says."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.http.request(method, address, **request)
                if answer.status_code != 503 or "Retry-After" not in answer.headers:
                    return answer
                self.n_turned_away += 1
                await asyncio.sleep(float(answer.headers["Retry-After"]))


async def say(socket: ClientConnection, text: str) -> list[Frame]:
    """Send one message and return every frame up to its reply, or to the error it meets.

    Frames may arrive twice, so a reply counts by its number.
    """
    client_id = str(uuid.uuid4())
    await socket.send(json.dumps({"type": "message", "client_id": client_id, "text": text}))
    received: list[Frame] = []
    reply_turn: int | None = None
    while True:
        received += await frames_until(socket, "turn", "reply", "error")
        last = received[-1]
        if last["type"] == "turn" and last["client_id"] == client_id:
            reply_turn = last["turn"] + 1
        elif last.get("client_id") == client_id or (
            reply_turn is not None and last.get("turn") == reply_turn
        ):
            return received


async def frames_until(socket: ClientConnection, *types: str) -> list[Frame]:
    """Receive frames up to and including the first of one of these types.

    Raises:
        DoorClosed: if none came in `PATIENCE_S`.
    """
    received: list[Frame] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not received or received[-1]["type"] not in types:
                received.append(json.loads(await socket.recv()))
    except TimeoutError:
        heard = ", ".join(frame["type"] for frame in received[-5:]) or "nothing"
        raise DoorClosed(
            f"no {' or '.join(types)} came within {PATIENCE_S:g} s; heard {heard}"
        ) from None
    return received


@dataclass(frozen=True, slots=True)
class Played:
    """What a scripted participant did."""

    conversation_id: str
    n_exchanges: int


@dataclass(frozen=True, slots=True)
class Impression:
    """What a scripted participant makes of a chat, each from 0 (bad) to 1 (good).

    Simple counts, so that poor control bots are rated low and others higher: they try a study out and
    say nothing about a bot.
    """

    new: float
    listening: float
    length: float
    asking: float

    @classmethod
    def of(cls, said: list[str], heard: list[str]) -> Impression:
        """Judge what was heard in answer to what was said; both of one length, not empty."""
        n = len(heard)
        words = [text.split() for text in heard]
        own = sum(h == s for h, s in zip(heard, said, strict=True))
        return cls(
            new=len(set(heard)) / n,
            listening=1 - own / n,
            length=min(1.0, sum(map(len, words)) / n / 16),
            asking=min(1.0, 2 * sum("?" in text for text in heard) / n),
        )

    @property
    def overall(self) -> float:
        """The whole, stretched so that good and bad chats reach the ends of a scale."""
        return 1.25 * (0.5 * self.new * self.listening + 0.5 * self.length) - 0.15

    def about(self, question: str) -> float:
        """Return the opinion that a question of the usual rubric asks for; the one of the whole for any other."""
        single = {
            "fluency": self.length,
            "diversity": self.new,
            "contingency": self.listening,
            "empathy": self.asking,
        }.get(question, self.overall)
        return 0.7 * self.overall + 0.3 * single


class ScriptedParticipant:
    """Chats, votes and rates, all of it drawn from `seed`.

    Args:
        lines: dialogues to take messages from, each a list of utterances.
    """

    def __init__(self, doors: OutsideDoors, *, lines: list[list[str]], seed: int) -> None:
        self.doors = doors
        self.rng = random.Random(seed)
        # Some people rate everything higher than others.
        self.leniency = self.rng.gauss(0, 0.12)
        self.lines = lines
        self.said: list[str] = []
        self.heard: list[str] = []

    async def play(self, *, n_more: int = 2) -> Played:
        """Go the whole way; write up to `n_more` messages more than needed.

        Raises:
            DoorClosed: if a page did not let the participant through, or the bot failed.
        """
        conversation_id = await self.doors.start()
        script = list(self.rng.choice(self.lines)[::2])
        n_extra = self.rng.randint(0, n_more)
        async with self.doors.socket() as socket:
            await frames_until(socket, "history")
            can_rate = False
            while not can_rate or n_extra > 0:
                n_extra -= can_rate
                if not script:
                    script = list(self.rng.choice(self.lines)[::2])
                text = script.pop(0)
                last = (await say(socket, text))[-1]
                if last["type"] == "error":
                    if can_rate and last["code"] == "closed":
                        break
                    raise DoorClosed(f"the chat answered {last['code']}: {last['message']}")
                self.said.append(text)
                self.heard.append(last["text"])
                can_rate = last["can_rate"]
                await self._vote(socket, last["turn"])
        await self.doors.rate(self._answer, comments="Written by a scripted participant.")
        return Played(conversation_id, len(self.heard))

    async def _vote(self, socket: ClientConnection, turn: int) -> None:
        if self.rng.random() < 0.5:
            opinion = Impression.of(self.said, self.heard).overall
            value = 1 if opinion + self.rng.gauss(0, 0.25) > 0.5 else -1
            await socket.send(json.dumps({"type": "vote", "turn": turn, "value": value}))
            await frames_until(socket, "vote", "error")

    def _answer(self, name: str, choices: list[str]) -> str:
        opinion = Impression.of(self.said, self.heard).about(name)
        wanted = opinion + self.leniency + self.rng.gauss(0, 0.1)
        return choices[max(0, min(len(choices) - 1, round(wanted * (len(choices) - 1))))]


async def rehearse(
    *,
    base_url: str,
    study_key: str,
    rehearsal_token: str,
    lines: list[list[str]],
    n_people: int,
    seed: int,
    at_once: int = 8,
    on_played: Callable[[Played | Exception], None] = lambda _played: None,
) -> list[Played | Exception]:
    """Send `n_people` scripted participants through a study, `at_once` side by side."""
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> Played | Exception:
        async with gate:
            doors = OutsideDoors(base_url, study_key, {"rehearsal": rehearsal_token})
            try:
                played: Played | Exception = await ScriptedParticipant(
                    doors, lines=lines, seed=seed * 1_000_003 + number
                ).play()
            except (DoorClosed, httpx.HTTPError, OSError) as error:
                played = error
            finally:
                await doors.close()
        on_played(played)
        return played

    return list(await asyncio.gather(*(one(number) for number in range(n_people))))
