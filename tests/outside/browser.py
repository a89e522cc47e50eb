"""A participant's browser: pages, forms, links and chat sockets, read without any module of the product."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 60.0
"""Longest wait for a page or a frame."""
_NO_ID = re.compile(r"csrfmiddlewaretoken|_t|_entry|_right.*|_exactly|_asked")
"""Hidden fields that do not name the question on a page."""

Answers = Mapping[str, str | list[str]]
Frame = dict[str, Any]


@dataclass
class Form:
    """One form that a page posts.

    Attributes:
        hidden: values of hidden fields; texts: names of text boxes; numbers: lowest value of each number box.
        radios, boxes: values of each row of radio buttons and check boxes.
    """

    action: str
    hidden: dict[str, str] = field(default_factory=dict)
    radios: dict[str, list[str]] = field(default_factory=dict)
    boxes: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def add(self, tag: str, attrs: dict[str, str]) -> None:
        """Add a control of the page to the form."""
        name, value = attrs["name"], attrs.get("value", "")
        match attrs.get("type") if tag == "input" else tag:
            case "hidden":
                self.hidden[name] = value
            case "radio":
                if value:
                    self.radios.setdefault(name, []).append(value)
            case "checkbox":
                self.boxes.setdefault(name, []).append(value or "on")
            case "number":
                self.numbers[name] = attrs.get("min", "0")
            case "text" | "textarea":
                self.texts.append(name)

    @property
    def ids(self) -> tuple[tuple[str, str], ...]:
        """Hidden fields that name the question which the form answers."""
        return tuple(sorted((k, v) for k, v in self.hidden.items() if not _NO_ID.fullmatch(k)))


class _Read(HTMLParser):
    def __init__(self, address: str, text: str) -> None:
        super().__init__()
        self.address = address
        self.main: dict[str, str] = {}
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.chats: list[str] = []
        self.code = ""
        self._form: Form | None = None
        self._is_code = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "main":
            self.main = values
        if (chat := values.get("data-conversation")) and chat not in self.chats:
            self.chats.append(chat)
        if tag == "a" and values.get("href"):
            self.links.append(urljoin(self.address, values["href"]))
        if tag == "form":
            self._form = None
            if values.get("method") == "post":
                self._form = Form(urljoin(self.address, values.get("action") or self.address))
                self.forms.append(self._form)
        elif self._form is not None and values.get("name"):
            self._form.add(tag, values)
        self._is_code = values.get("id") == "code"

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        self._is_code = False

    def handle_data(self, data: str) -> None:
        if self._is_code:
            self.code += data.strip()


@dataclass(frozen=True)
class Place:
    """Position of a participant: a step's name, its address, and what the page asks about."""

    step: str
    address: str
    ids: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Page:
    """One page as it came.

    Attributes:
        is_got: it can be loaded again without a form being sent.
        main: attributes of `<main>`; chats: ids of the conversations on the page; code: the completion code.
    """

    status: int
    address: str
    text: str
    is_got: bool
    main: dict[str, str]
    forms: list[Form]
    links: list[str]
    chats: list[str]
    code: str

    @property
    def path(self) -> str:
        """The address without its query."""
        return urlsplit(self.address).path

    @property
    def outcome(self) -> str:
        """The outcome that a last page shows; empty for another page."""
        return self.main.get("data-outcome", "")

    @property
    def step(self) -> str:
        """The step of a task's page; `entry` or `withdraw`; empty for any other page."""
        match self.path.strip("/").split("/"):
            case ["s", _key] | ["s", _key, "start" | "decline"]:
                return "entry" if self.form("/start/") and not self.outcome else ""
            case ["chat", _id]:
                return "chat"
            case ["chat", _id, "rate"]:
                return "form"
            case ["withdraw", _token]:
                return "withdraw"
            case ["task", _id, "quiz" | "questions" | "practice" | "arena" | "picks" | "judge" as step]:
                return step
        return ""

    @property
    def is_saved_answer(self) -> bool:
        """True for a page of an earlier answer, which may be changed."""
        return "data-saved" in self.text

    @property
    def place(self) -> Place:
        """The step's place; a chat's form has that of its chat, which goes on meanwhile."""
        if self.step == "form":
            return Place("chat", self.path.removesuffix("rate/"))
        form = self.form(f"/{self.step}/") if self.step not in ("chat", "") else None
        ids = (*(form.ids if form else ()), *(self.chats if self.step in ("arena", "picks") else ()))
        return Place(self.step, self.path, ids)

    def form(self, ending: str) -> Form | None:
        """Return the first form that is sent to such an address; None if the page has none."""
        return next((form for form in self.forms if urlsplit(form.action).path.endswith(ending)), None)


class Browser:
    """One browser with its own cookies, whose requests take another way if a transport is given."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, follow_redirects=True, timeout=PATIENCE_S, transport=transport)
        self.page: Page | None = None
        self.visited: list[str] = []

    def close(self) -> None:
        """Forget all cookies and connections."""
        self.http.close()

    def open(self, address: str, query: Mapping[str, str] | None = None) -> Page:
        """Load a page."""
        return self._came(self.http.get(address, params=query))

    def send(self, form: Form, answers: Answers) -> Page:
        """Post a form with these answers, and return the page that it leads to."""
        return self._came(self.http.post(form.action, data={**form.hidden, **answers}))

    def _came(self, response: httpx.Response) -> Page:
        address = str(response.url)
        is_html = "html" in response.headers.get("Content-Type", "")
        text = response.text if is_html else ""
        read = _Read(address, text)
        is_got = response.request.method == "GET"
        self.page = Page(
            response.status_code, address, text, is_got, read.main, read.forms, read.links, read.chats, read.code
        )
        if is_got and address not in self.visited:
            self.visited.append(address)
        return self.page

    @contextmanager
    def socket(self, chat: str) -> Iterator[ClientConnection]:
        """Open a chat's socket with this browser's cookies."""
        cookies = "; ".join(f"{one.name}={one.value}" for one in self.http.cookies.jar)
        address = f"{self.url.replace('http', 'ws', 1)}/ws/chat/{chat}/"
        headers = {"Cookie": cookies} if cookies else {}
        with connect(address, additional_headers=headers, proxy=None) as socket:
            yield socket


def hear(socket: ClientConnection) -> Frame:
    """Return the next frame."""
    return json.loads(socket.recv(timeout=PATIENCE_S))
