"""Lines of the log, without addresses and tokens; the health page; and where errors and logins lead."""

import io
import json
import logging
import logging.config
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import resolve
from structlog.contextvars import bound_contextvars, clear_contextvars

from tests.builders import make_conversation, make_staff, make_study
from tests.documents import blocks_tested
from webapp.core import health
from webapp.core.database import database_outage
from webapp.core.health import Health
from webapp.core.logs import LINE_MAX_CHARS, LOG_FIELDS, LogLineFormatter, RedactTokens
from webapp.core.middleware import REQUEST_ID_HEADER
from webapp.core.rights import Right
from webapp.core.thread_pool import busy_page

PERSON = "5f3c9aparticipant0000011"


def test_a_requests_line_has_names_and_ids_and_no_address(db: None, json_lines: Callable[[], list[str]]) -> None:
    study = make_study()
    chat = make_conversation(study=study)
    client = Client()
    entered = client.get(f"/s/{study.key}/?PROLIFIC_PID={PERSON}&t=to:k:en")
    client.get(f"/chat/{chat.pk}/?t=secret:to:ken")
    client.get("/withdraw/very:secret:token/")
    client.get("/go-on/very:secret:token/?PROLIFIC_PID=me")
    client.get("/nowhere/very:secret:token")
    lines = [json.loads(line) for line in json_lines()]
    result = [line for line in lines if line["logger"] == "webapp.core.middleware"]
    assert [line["route"] for line in result] == [
        "participant:entry",
        "participant:chat",
        "participant:withdraw-all",
        "participant:go-on",
        "unknown",
    ]
    assert all(isinstance(line["duration_ms"], float) and line["status"] for line in result)
    [shown] = blocks_tested("tests/webapp/core/test_logs.py::test_a_requests_line_has_names_and_ids_and_no_address")
    # The documentation shows one of a page of a chat.
    assert result[1].keys() == json.loads(shown.text).keys()
    assert result[0]["request_id"] == entered[REQUEST_ID_HEADER]
    assert len({line["request_id"] for line in result}) == 5
    assert [line.get("conversation_id") for line in result[:3]] == [None, str(chat.pk), None]
    text = "\n".join(json_lines())
    for secret in (PERSON, "secret", "to:k:en", "PROLIFIC", "?", "/chat/", "/s/", "nowhere"):
        assert secret not in text, secret
    # Django's own line of the page that is missing belongs to the same request.
    (missing,) = [
        line for line in lines if line["logger"] == "django.request" and line["event"].startswith("Not Found: unknown")
    ]
    assert missing["request_id"] == result[-1]["request_id"]


def test_the_code_of_an_error_page_is_the_requests_id(
    db: None, monkeypatch: pytest.MonkeyPatch, json_lines: Callable[[], list[str]]
) -> None:
    def broken(_key: str) -> None:
        raise ValueError("at /s/x/?t=secret:to:ken")

    monkeypatch.setattr("webapp.participant.access.study_by_key", broken)
    answer = Client(raise_request_exception=False).get("/s/demo/")
    assert f'<p class="code" dir="ltr">{answer[REQUEST_ID_HEADER]}</p>' in answer.content.decode()
    lines = [json.loads(line) for line in json_lines()]
    assert {line["request_id"] for line in lines} == {answer[REQUEST_ID_HEADER]}
    (line,) = [line for line in lines if "exception" in line]
    assert "ValueError" in line["exception"]
    assert "secret" not in line["exception"]


def test_what_is_refused_is_one_line_without_a_traceback(
    db: None, json_lines: Callable[[], list[str]], settings: Any
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_staff(Right.READ, Right.RUN))
    assert client.get("/admin/studies/participant/").status_code == 403
    cut = b"--b\r\nContent-Disposition: form-data; name"
    imports = "/dashboard/imports/"
    for body_type in ("multipart/form-data", "multipart/form-data; boundary=é"):
        assert client.generic("POST", imports, cut, body_type).status_code == 400
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    assert client.post(imports, dict.fromkeys("abc", "x")).status_code == 400
    damaged = SimpleUploadedFile("x.zip", b"PK\x03\x04 no zip")
    assert client.post(imports, {"file": damaged}).status_code in (200, 302, 400)
    lines = [json.loads(line) for line in json_lines()]
    assert [line for line in lines if "exception" in line] == []
    django_says = [line["event"] for line in lines if line["logger"].startswith("django.")]
    assert len(django_says) == 4, django_says  # one for each request but the file, which is looked into at its preview
    assert "Traceback" not in "\n".join(json_lines())


def test_a_readable_line_ends_with_its_ids() -> None:
    record = logging.LogRecord("webapp.x", logging.WARNING, "", 1, "it %s", ("broke",), None)
    record.route, record.person = "participant:chat", PERSON  # what is not on the list stays out
    clear_contextvars()
    with bound_contextvars(job_id="metrics 12"):
        line = LogLineFormatter("line").format(record)
        as_json = json.loads(LogLineFormatter("json").format(record))
    assert line.endswith(' WARNING webapp.x: it broke [route=participant:chat job_id="metrics 12"]')
    assert PERSON not in line + str(as_json)
    assert as_json["job_id"] == "metrics 12"
    assert "person" not in LOG_FIELDS


def test_django_names_the_page_in_the_place_of_its_address() -> None:
    request: HttpRequest = RequestFactory().get("/go-on/secret/")
    request.resolver_match = resolve("/go-on/secret/")
    record = logging.LogRecord("django.request", logging.ERROR, "", 1, "%s: %s", ("Server Error", request.path), None)
    record.request = request
    assert RedactTokens().filter(record)
    assert record.getMessage() == "Server Error: participant:go-on"


def test_a_traceback_of_any_text_is_written() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    line = settings.LOGGING["formatters"]["line"]
    formatter = logging.config.DictConfigurator({}).configure_formatter(dict(line))
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    try:
        raise ValueError("half \ud83d of a pair and \x00" + "x" * 100_000)
    except ValueError as error:
        record = logging.LogRecord("webapp", logging.ERROR, __file__, 1, "it failed", None, (type(error), error, None))
    handler.handle(record)
    stream.flush()
    written = stream.buffer.getvalue().decode()
    assert "ERROR webapp: it failed" in written
    assert "half \ufffd of a pair and xxx" in written
    assert "\x00" not in written
    assert len(written) <= LINE_MAX_CHARS + 1


def test_no_line_is_written_of_each_request() -> None:
    assert not logging.getLogger("uvicorn.access").isEnabledFor(logging.INFO), "addresses carry ids"


def test_loading_is_no_error_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, db: None
) -> None:
    monkeypatch.setattr(health, "_checks", {"bots": lambda: Health(False, {"states": {"loading": 1}})})
    assert Client().get("/healthz").status_code == 503
    assert caplog.records == []


def test_what_is_broken_is_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, db: None
) -> None:
    def away() -> Health:
        raise OperationalError("gone")

    monkeypatch.setattr(health, "_checks", {"database": away})
    assert Client().get("/healthz").status_code == 503
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "not healthy: {'database': 'OperationalError'}")
    ]


def test_a_database_that_is_away_asks_for_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_outage, "_failed_at_s", None)

    def away(*_: object, **__: object) -> None:
        raise OperationalError("too many clients already")

    monkeypatch.setattr("webapp.participant.access.study_by_key", away)
    answer = Client(raise_request_exception=False).get("/s/demo/")
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert "Nothing is lost" in answer.content.decode()
    assert "the server is very busy" in answer.content.decode()
    assert "the server is very busy" in busy_page(5, reloads=True, is_outage=database_outage.is_going_on())

    def refused(*_: object, **__: object) -> None:
        raise OperationalError('connection to server at "127.0.0.1", port 5432 failed: Connection refused')

    monkeypatch.setattr("webapp.participant.access.study_by_key", refused)
    page = Client(raise_request_exception=False).get("/s/demo/").content.decode()
    assert "very busy" not in page
    assert "our database is not responding" in page
    # Requests that then wait for a thread in vain are told the same.
    assert "very busy" not in busy_page(5, reloads=True, is_outage=database_outage.is_going_on())
    monkeypatch.setattr("webapp.participant.access.study_by_key", lambda _key: (_ for _ in ()).throw(ValueError()))
    answer = Client(raise_request_exception=False).get("/s/demo/")
    assert answer.status_code == 500


@pytest.mark.parametrize("address", ["/login/", "/admin/login/"])
@pytest.mark.parametrize("where", ["", "?next=https://evil.example/", "?next=", "?next=/dashboard/"])
def test_every_login_leads_to_a_page(db: None, where: str, address: str) -> None:
    get_user_model().objects.create_superuser("chief", password="secret-of-chief")
    client = Client()
    answer = client.post(
        f"{address}{where}",
        {"username": "chief", "password": "secret-of-chief", **({"next": where.partition("=")[2]} if where else {})},
        follow=True,
        REMOTE_ADDR="127.0.0.1",
    )
    assert answer.status_code == 200
    assert answer.redirect_chain
    assert answer.redirect_chain[-1][0].startswith(("/dashboard/", "/admin/"))
