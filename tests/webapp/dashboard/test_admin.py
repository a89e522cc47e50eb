"""The stock admin: records that are only read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.builders import make_conversation, make_study, signed_in
from tests.webapp.dashboard.conftest import rate_some
from webapp.core.rights import Right


@pytest.fixture
def chief(db: Any) -> Client:
    """Return a superuser's browser."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("chief", password="x"))
    return client


def test_a_study_and_its_rubric_are_read_and_not_changed(chief: Client) -> None:
    study = make_study("s", consent_text="<b>Mine</b>", code_rated="SECRET1", link_rated="https://x.org/SECRET2")
    where = reverse("admin:studies_study_change", args=[study.pk])
    for client in (chief, signed_in(Right.READ)):
        page = client.get(where)
        html = page.content.decode()
        assert page.status_code == 200
        assert "&lt;b&gt;Mine&lt;/b&gt;" in html
        assert "SECRET" not in html
        assert "<textarea" not in html
        assert reverse("dashboard:study_build", args=["s"]) in html
        assert client.post(where, {"name": "x"}).status_code == 403
        assert client.get(reverse("admin:studies_study_add")).status_code == 403
        assert client.get(reverse("admin:studies_study_delete", args=[study.pk])).status_code == 403
        rubric = reverse("admin:studies_rubric_change", args=[study.rubric_id])
        assert "How fluent were the replies" in client.get(rubric).content.decode()
        assert client.post(rubric, {"low": 0}).status_code == 403


@pytest.mark.parametrize(
    "name",
    [
        "studies_study",
        "studies_rubric",
        "studies_participant",
        "studies_task",
        "conversations_conversation",
        "ratings_rating",
        "bots_botversion",
    ],
)
def test_lists_ask_as_often_for_more_rows(chief: Client, name: str) -> None:
    study = make_study("s")
    rate_some(study, 2)
    address = reverse(f"admin:{name}_changelist")

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert chief.get(address).status_code == 200
        return len(queries)

    count()
    before = count()
    rate_some(study, 5)
    assert count() == before


def test_texts_are_read_and_not_written(chief: Client) -> None:
    conversation = make_conversation(make_study("s"), n_exchanges=2)
    address = reverse("admin:conversations_conversation_change", args=[conversation.pk])
    html = chief.get(address).content.decode()
    assert "message 0" in html
    assert "<textarea" not in html
    assert chief.post(address, {"state": "withdrawn"}).status_code == 403
    assert chief.get(reverse("admin:conversations_conversation_add")).status_code == 403
