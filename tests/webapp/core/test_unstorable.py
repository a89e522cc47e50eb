"""U+0000 and half surrogate pairs from outside: no door passes them on to the database."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.builders import make_study, signed_in
from tests.webapp.api.programs import Program
from webapp.asgi import application
from webapp.core.plain_yaml import NotPlain, plain_read
from webapp.core.rights import Right

CASE = json.loads((Path(__file__).parents[2] / "cases" / "link_with_nul.json").read_text())
NUL = "a\x00b"
PARAMETERS = [
    *("PROLIFIC_PID", "STUDY_ID", "SESSION_ID", "workerId", "assignmentId", "hitId", "turkSubmitTo"),
    *("link", "t", "lang", "rehearsal"),
]
UNSTORABLE = {"nul": "%00", "half a pair": "%ed%a0%bd", "long": "x" * 5000}


def routes(patterns: Any, above: str = "/") -> Iterator[str]:
    """Yield every address, with values of the right kinds in the place of parameters."""
    for pattern in patterns:
        here = above + re.sub(r"^\^|\\|\$$|\\Z", "", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, here)
        elif isinstance(pattern, URLPattern):
            here = re.sub(r"<(\w+):\w+>", value, here)
            yield re.sub(r"<\w+>|\(\?P<\w+>[^)]*\)", "s", here)


def value(result: re.Match[str]) -> str:
    return {"uuid": str(uuid.UUID(int=1)), "int": "1"}.get(result[1], "s")


def every_route() -> list[str]:
    return sorted(set(routes(get_resolver().url_patterns)))


@pytest.fixture
def staff(db: None) -> Client:
    """Return the browser of staff with every right, next to a study."""
    make_study("s")
    return signed_in(*Right)


@pytest.mark.parametrize("text", UNSTORABLE.values(), ids=UNSTORABLE)
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_link_with_unstorable_parameters_is_no_server_error(db: None, name: str, text: str) -> None:
    make_study("s")
    assert Client().get(f"/s/s/?{name}={text}").status_code in (200, 302, 400, 404)


def test_the_case_from_the_field_is_not_found(db: None) -> None:
    make_study("KEY")
    assert Client().get(CASE["get"]).status_code == 404


def test_no_address_of_any_page_takes_a_nul(staff: Client) -> None:
    everything = every_route()
    assert len(everything) > 150
    for route in everything:
        assert staff.get(f"{route}?q=%00&page=%00").status_code in (400, 404), route
        assert staff.get(f"{route}%00", follow=True).status_code in (400, 404), route
        if route.startswith("/api/"):  # a form is read by the calls that take one
            continue
        refused = (400, 403) if route.startswith("/hooks/") else (400, 401, 404, 405, 410)
        assert staff.post(route, {"name": NUL}).status_code in refused, route
    for where in ("/s/%00/", "/withdraw/%00/", "/static/%00", "/static/a%00.css", "/login/%00"):
        assert staff.get(where, follow=True).status_code == 404, where


def test_no_call_takes_a_nul_or_half_a_pair(db: None, api_afresh: None) -> None:
    program = Program(*Right)
    for route in every_route():
        if not route.startswith("/api/v1/"):
            continue
        path = route.removeprefix("/api/v1/")
        answer = program.get(path, q=NUL)
        assert answer.status_code == 400, route
        assert answer.json()["error"]["code"] == "bad_text"
        for text in (NUL, "half \ud83d"):
            for body in ({"name": text}, {"params": {text: 1}}, [[text]]):
                answer = program.post(path, body)
                assert answer.status_code in (400, 405), route


def test_no_form_of_a_call_takes_a_nul(db: None, api_afresh: None) -> None:
    form = {"file": SimpleUploadedFile("a.jsonl", b"{}"), "metrics": NUL}
    answer = Program(*Right).client.post("/api/v1/benchmark/files", form)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_text")


def test_text_that_speaks_of_the_escape_passes(db: None, api_afresh: None) -> None:
    answer = Program(*Right).post("studies", {"key": "\\u0000 \U0001f600"})
    assert answer.json()["error"]["code"] != "bad_text"


@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "theme", "messages"])
def test_no_cookie_with_a_nul_reaches_the_database(db: None, name: str) -> None:
    make_study("s")
    for route in ("/s/s/", "/dashboard/", "/login/"):
        answer = Client(headers={"cookie": f"{name}=a\x00b"}).get(route)
        assert answer.status_code == 400, route


def test_no_sign_in_with_a_nul(db: None) -> None:
    form = {"username": NUL, "password": NUL}
    assert Client().post("/login/", form).status_code == 400


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("query", "cookie"), [("?t=%00", b""), ("", b"sessionid=a\x00b"), ("?%00", b"sessionid=a%00b")]
)
async def test_a_socket_with_a_nul_is_closed_as_unknown(query: str, cookie: bytes) -> None:
    socket = WebsocketCommunicator(application, f"/ws/chat/{uuid.uuid4()}/{query}", headers=[(b"cookie", cookie)])
    assert (await socket.connect())[0]
    closed = await socket.receive_output(timeout=10)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)


@pytest.mark.parametrize("text", ['title: "a\\0b"', '{"title": "a\\u0000b"}', '{"a": "\\ud83d"}'])
def test_no_study_file_holds_unstorable_text(text: str) -> None:
    with pytest.raises(NotPlain, match="U\\+0000"):
        plain_read(text)
