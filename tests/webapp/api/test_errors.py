"""Whatever is wrong with a call, the answer is JSON of one shape that says what would be right."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from tests.builders import calls_forget, make_staff, make_study
from tests.webapp.api.programs import openapi
from webapp.api.errors import FAILURES
from webapp.core.authentication import token_make
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db


@pytest.fixture
def program() -> Client:
    calls_forget()
    token = token_make(user=make_staff(*Right), name="ci", rights=[*Right])[1]
    return Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)


def error_of(answer: Any, status: int) -> dict[str, Any]:
    """Return the error, after a look at its shape."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/json; charset=utf-8"
    if "Content-Length" in answer:
        assert int(answer["Content-Length"]) == len(answer.content)
    document = answer.json()
    assert set(document) == {"error"}
    error = document["error"]
    assert set(error) == {"code", "message", "mistakes"}
    assert error["code"].isidentifier()
    assert len(error["message"]) > 10
    return dict(error)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/studys", "There is no route /api/v1/studys; see /api/v1/openapi.json for all routes"),
        ("/api/v1/", "There is no route /api/v1/;"),
        ("/api/", "There is no route /api/;"),
        ("/api/v2/studies", "There is no route /api/v2/studies;"),
        ("/api/v1/studies/", "Remove the slash at the end: /api/v1/studies"),
        ("/api/v1/studies/none", "there is no study 'none'"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_an_address_without_a_call(program: Client, settings: Any, path: str, words: str, debug: bool) -> None:
    settings.DEBUG = debug
    assert words in error_of(program.get(path), 404)["message"]


def test_a_post_to_an_address_without_a_call_is_not_asked_for_a_form(program: Client) -> None:
    caller = Client(enforce_csrf_checks=True)
    assert error_of(caller.post("/api/v1/nothing"), 404)["code"] == "not_found"
    assert error_of(caller.post("/api/v1/runs"), 401)["code"] == "no_token"


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [("delete", "studies", "GET, POST"), ("put", "me", "GET"), ("put", "runs", "GET, POST")],
)
def test_a_method_that_a_call_does_not_take(program: Client, method: str, path: str, takes: str) -> None:
    answer = getattr(program, method)(f"/api/v1/{path}")
    error = error_of(answer, 405)
    assert error["code"] == "wrong_method"
    assert ", ".join(sorted(answer["Allow"].split(", "))) == takes
    assert f"/api/v1/{path} accepts" in error["message"]
    assert f"not {method.upper()}" in error["message"]


def test_bodies_of_another_type(program: Client) -> None:
    asked = json.dumps({"bots": ["eliza"]})
    for given in ("text/plain", "application/xml", "application/x-www-form-urlencoded"):
        error = error_of(program.post("/api/v1/runs", asked, content_type=given), 415)
        assert error["message"] == (
            f"The body is {given}; this call expects application/json, as sent by `curl --json`"
        )
    make_study("s")
    bring = "/api/v1/studies/s/conversations"
    error = error_of(program.post(bring, asked, content_type="application/json"), 415)
    assert "this call expects multipart/form-data, as sent by `curl --form`" in error["message"]
    missing = error_of(program.post(bring, {"low": 1}), 422)
    assert missing["mistakes"][0]["path"] == "file"


def test_bodies_that_cannot_be_read(program: Client) -> None:
    for body in ('{"bots": [', b"\xff\xfe"):
        error = error_of(program.post("/api/v1/runs", body, content_type="application/json"), 400)
        assert error["code"] == "bad_json"
        assert error["message"].startswith("The body is not JSON: ")
    form = {"data": b"--x\r\nbroken", "content_type": "multipart/form-data; boundary=x"}
    error = error_of(program.generic("POST", "/api/v1/studies/s/conversations", **form), 422)
    assert error["mistakes"][0]["path"] == "file"
    form["data"] = b"--x\r\n" + b"h" * 2000
    error = error_of(program.generic("POST", "/api/v1/studies/s/conversations", **form), 400)
    assert error["code"] == "bad_form"
    large = json.dumps({"name": "x" * 1_100_000})
    error = error_of(program.post("/api/v1/runs", large, content_type="application/json"), 413)
    assert error["code"] == "too_large"


def test_too_many_calls(program: Client, settings: Any) -> None:
    settings.CONFAB_API_RATE = "1/h"
    assert program.get("/api/v1/me").status_code == 200
    answer = program.get("/api/v1/me")
    error_of(answer, 429)
    assert int(answer["Retry-After"]) > 0


def test_faults_inside_a_call_and_outside(program: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("too many clients already")

    monkeypatch.setattr("webapp.api.routes.studies.study_by_key", broken)
    assert error_of(program.get("/api/v1/studies/s"), 500)["code"] == "fault"
    monkeypatch.setattr("webapp.api.routes.studies.study_by_key", away)
    answer = program.get("/api/v1/studies/s")
    assert error_of(answer, 503)["code"] == "away"
    assert int(answer["Retry-After"]) > 0
    for trouble, status in ((broken, 500), (away, 503)):
        monkeypatch.setattr("django.contrib.auth.middleware.AuthenticationMiddleware.process_request", trouble)
        error_of(program.get("/api/v1/me"), status)


def test_a_host_that_is_not_this_server(program: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    answer = program.get("/api/v1/me", headers={"host": "evil.example"})
    assert error_of(answer, 400)["code"] == "bad_request"


def test_pages_keep_their_own_errors(client: Client) -> None:
    assert client.get("/nowhere/")["Content-Type"].startswith("text/html")
    assert client.get("/apiary/")["Content-Type"].startswith("text/html")


def test_openapi_tells_of_every_error_that_a_call_may_answer() -> None:
    for path, methods in openapi()["paths"].items():
        for method, operation in methods.items():
            told = {int(status) for status in operation["responses"]}
            assert set(FAILURES) <= told, (method, path)
            assert ("requestBody" in operation) == ({413, 415} <= told), (method, path)
            for status in told - {200, 202}:
                content = operation["responses"][status]["content"]["application/json"]
                assert content["schema"]["$ref"].endswith("/Failed"), (method, path, status)
