"""The health page's answers, and where errors and logins lead."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import Client

from webapp.core import health
from webapp.core.health import Health


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
    def away(*_: object, **__: object) -> None:
        raise OperationalError("too many clients already")

    monkeypatch.setattr("webapp.participant.access.study_by_key", away)
    answer = Client(raise_request_exception=False).get("/s/demo/")
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert "Nothing is lost" in answer.content.decode()
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
