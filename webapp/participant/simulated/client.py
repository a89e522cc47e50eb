"""HTTP and WebSocket client of a scripted participant."""

from __future__ import annotations

import asyncio
import json
import ssl
import uuid
from collections.abc import Callable, Mapping
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
"""Maximum wait for a reply; then the participant gives up."""


@cache
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates.

    Cached, because reading them takes 20 ms per client.
    """
    return httpx.create_ssl_context()


class StepRefused(Exception):
    """Raised if a page rejected the participant; names page and reason.

    Attributes:
        step: step at which a rehearsed participant got stuck; empty if its page belongs to none.
    """

    def __init__(self, message: str, step: str = "") -> None:
        super().__init__(message)
        self.step = step


class PageForm(HTMLParser):
    """Fields of one form that a page posts.

    Attributes:
        hidden: values of hidden fields.
        choices: choices of each row of radio buttons and each list, in order.
        boxes: boxes of each row of check boxes, in order.
        numbers: minimum and maximum of each number box.
        texts: names of text boxes.
    """

    def __init__(self, page_url: str, action_ends_with: str) -> None:
        super().__init__()
        self.page_url = page_url
        self.action_ends_with = action_ends_with
        self.action: str | None = None
        self.hidden: dict[str, str] = {}
        self.choices: dict[str, list[str]] = {}
        self.boxes: dict[str, list[str]] = {}
        self.numbers: dict[str, tuple[float, float]] = {}
        self.texts: list[str] = []
        self._inside = False
        self._list = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "form" and self.action is None and values.get("method") == "post":
            # A form without an action is posted to its own page.
            action = urljoin(self.page_url, values.get("action", ""))
            if urlsplit(action).path.endswith(self.action_ends_with):
                self.action, self._inside = action, True
        elif self._inside and tag == "option" and values.get("value"):
            self.choices.setdefault(self._list, []).append(values["value"])
        elif self._inside and values.get("name"):
            self._field(tag, values["name"], values)

    def _field(self, tag: str, name: str, values: dict[str, str]) -> None:
        if tag == "select":
            self._list = name
        elif tag == "textarea" or (tag == "input" and values.get("type") == "text"):
            self.texts.append(name)
        elif values.get("type") == "hidden":
            self.hidden[name] = values.get("value", "")
        elif values.get("type") == "radio" and values.get("value"):
            self.choices.setdefault(name, []).append(values.get("value", ""))
        elif values.get("type") == "checkbox":
            self.boxes.setdefault(name, []).append(values.get("value", "on"))
        elif values.get("type") == "number":
            self.numbers[name] = (float(values.get("min") or 0), float(values.get("max") or 100))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False

    def fed(self, page: str) -> PageForm:
        """Parse the page and return this form.

        `action` stays None if the page has no such form.
        """
        self.feed(page)
        return self

    def filled(self, answer: Callable[[str, list[str]], str], text: str) -> dict[str, str | list[str]]:
        """Return an answer for every field.

        Args:
            answer: function from a field's name and its choices to the chosen one.
            text: text for every text box.
        """
        answers: dict[str, str | list[str]] = dict.fromkeys(self.texts, text)
        answers |= {name: answer(name, choices) for name, choices in self.choices.items()}
        answers |= {name: [answer(name, boxes)] for name, boxes in self.boxes.items()}
        answers |= {name: answer(name, points) for name, points in self.points.items()}
        return answers

    @property
    def points(self) -> dict[str, list[str]]:
        """Valid values of each number field, in order."""
        return {
            name: [str(point) for point in range(round(low), round(high) + 1)]
            for name, (low, high) in self.numbers.items()
        }


class PageTexts(HTMLParser):
    """The texts of a page's elements with a class, in order."""

    def __init__(self, page: str, css_class: str) -> None:
        super().__init__()
        self.css_class = css_class
        self.found: list[str] = []
        self._tag = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.css_class in (dict(attrs).get("class") or "").split():
            self._tag = tag
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if self._tag:
            self.found[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == self._tag:
            self._tag = ""


@dataclass
class StudyClient:
    """Browser as the server sees it: cookies, forms, a socket.

    Args:
        base_url: e.g. "http://127.0.0.1:8000".
        study_key: the study's key in its link.
        query: parameters of the link (recruitment, `rehearsal`).
    """

    base_url: str
    study_key: str
    query: dict[str, str] = field(default_factory=dict)
    conversation_id: str = ""
    n_turned_away: int = 0  # the server asked for a later retry

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(base_url=self.base_url, follow_redirects=True, timeout=60, verify=_certificates())

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def enter(self) -> None:
        """Open the link, consent, and go to the first page of a task."""
        page = await self._ask("GET", f"/s/{self.study_key}/", params=self.query)
        form = self._form(page, "/start/")
        self._arrive(await self._post(form, {"consent": "on", "notice": "on"}, page))

    async def start(self) -> str:
        """Enter, open the first chat, and return its id.

        Raises:
            StepRefused: if there is no chat for this participant.
        """
        await self.enter()
        if self.step != "chat":
            page = self.page
            raise StepRefused(f"no chat was assigned at {page.url.path} ({page.status_code})")
        return self.conversation_id

    @property
    def _path(self) -> list[str]:
        below = self.http.base_url.path.rstrip("/")
        return self.page.url.path.removeprefix(below).strip("/").split("/")

    @property
    def step(self) -> str:
        """Step of the current page: `consent` before the first page after it, empty if the page belongs to none."""
        if not hasattr(self, "page"):
            return "consent"
        match self._path:
            case ["chat", _id]:
                return "chat"
            case ["chat", _id, "rate"]:
                return "form"
            case ["chat" | "task", _id, step]:
                return step
        return ""

    async def open(self, address: str) -> httpx.Response:
        """Open another page and return it."""
        return self._arrive(await self._ask("GET", address))

    def form(self, action_ends_with: str) -> PageForm:
        """Return the page's form that posts to a matching address.

        Raises:
            StepRefused: if the page has none.
        """
        return self._form(self.page, action_ends_with)

    async def send(self, form: PageForm, values: Mapping[str, str | list[str]]) -> httpx.Response:
        """Submit a form of the page and return the resulting page."""
        return self._arrive(await self._post(form, values, self.page))

    def _arrive(self, page: httpx.Response) -> httpx.Response:
        self.page = page
        if self._path[0] == "chat":
            self.conversation_id = self._path[1]
        return page

    def socket(self, conversation_id: str = "") -> connect:
        """Return a chat's socket, not yet open: `async with client.socket() as ws`.

        Args:
            conversation_id: id of a chat on a page of several; by default that of the chat's page.
        """
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.http.cookies.jar)
        url = self.base_url.replace("http", "ws", 1) + f"/ws/chat/{conversation_id or self.conversation_id}/"
        return connect(
            url,
            additional_headers={"Cookie": cookies},
            origin=Origin(str(self.http.base_url.copy_with(raw_path=b"/")).rstrip("/")),
            proxy=None,
        )

    async def rate(
        self,
        answer: Callable[[str, list[str]], str],
        comments: str = "",
        besides: Callable[[PageForm], Mapping[str, str | list[str]]] = lambda _page_form: {},
    ) -> str:
        """Fill in the rating form and return the page after it.

        If this was the last chat, that page has the completion code.

        Args:
            answer: function from a question's field name and its choices to the chosen one.
            comments: text for every text box.
            besides: function from the form to answers that replace these.
        """
        await self.open(f"/chat/{self.conversation_id}/rate/")
        form = self.form("/rate/")
        done = await self.send(form, {**form.filled(answer, comments), **besides(form)})
        if self.step in ("", "form"):
            raise StepRefused(f"the rating was not accepted: {done.url.path} ({done.status_code})")
        return done.text

    def _form(self, page: httpx.Response, action_ends_with: str) -> PageForm:
        form = PageForm(str(page.url), action_ends_with).fed(page.text)
        if form.action is None:
            raise StepRefused(f"{page.url.path} responded with {page.status_code} and without its form")
        return form

    async def _post(
        self, form: PageForm, values: Mapping[str, str | list[str]], page: httpx.Response
    ) -> httpx.Response:
        assert form.action is not None
        return await self._ask("POST", form.action, data={**form.hidden, **values}, headers={"Referer": str(page.url)})

    async def _ask(self, method: str, address: str, **request: Any) -> httpx.Response:
        """Send a request; if the server is busy, retry when it says."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.http.request(method, address, **request)
                if answer.status_code != 503 or "Retry-After" not in answer.headers:
                    return answer
                self.n_turned_away += 1
                await asyncio.sleep(float(answer.headers["Retry-After"]))


async def say(socket: ClientConnection, text: str) -> list[Frame]:
    """Send one message and return every frame up to its reply or error.

    Frames may arrive twice, so a reply counts by its number. A reply within a history, as after a second try that was
    answered at once, is returned as a reply after it.
    """
    client_id = str(uuid.uuid4())
    await socket.send(json.dumps({"type": "message", "client_id": client_id, "text": text}))
    received: list[Frame] = []
    reply_turn: int | None = None
    while True:
        received += await frames_until(socket, "turn", "reply", "error", "history")
        last = received[-1]
        if last["type"] == "turn" and last["client_id"] == client_id:
            reply_turn = last["turn"] + 1
        elif last["type"] == "history":
            for turn in last["turns"]:
                if turn["turn"] == reply_turn:
                    received.append({**turn, "type": "reply", "can_rate": last["can_rate"]})
                    return received
            if reply_turn is not None and last["pending"] is None:  # a partner has finished
                return received
        elif last.get("client_id") == client_id or (reply_turn is not None and last.get("turn") == reply_turn):
            return received


async def frames_until(socket: ClientConnection, *types: str) -> list[Frame]:
    """Receive frames up to and including the first of these types.

    Raises:
        StepRefused: if none came within `PATIENCE_S`.
    """
    received: list[Frame] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not received or received[-1]["type"] not in types:
                received.append(json.loads(await socket.recv()))
    except TimeoutError:
        heard = ", ".join(frame["type"] for frame in received[-5:]) or "nothing"
        raise StepRefused(f"no {' or '.join(types)} within {PATIENCE_S:g} s; received {heard}") from None
    return received
