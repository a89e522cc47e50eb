"""Texts too long for their columns, in forms and links of the dashboard: refused or stored, never a server error."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_rating, make_staff
from webapp.core.rights import Right
from webapp.studies.models import Study

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]  # SQLite has no lengths

LONG = "x" * 25_000
LONGER_THAN_KEYS = "x" * 201
"""Some texts may be so long that only a shorter one gets as far as the columns of names."""
PAGES = (
    ("study_new",),
    ("study_people", "paid"),
    ("study_report", "paid"),
    ("study_datasheet", "paid"),
    ("study_conversations", "paid"),
    ("tokens",),
)


class Forms(HTMLParser):
    """Forms of a page: where each is sent, what it sends, and which of its fields are written by a person."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.method, where = of.get("method", "get"), of.get("action", "")
            self.fields: dict[str, str] = {}
            self.texts: list[str] = []
            if self.method == "post":
                self.found.append((where, self.fields, self.texts))
        if not self.found or tag not in ("input", "textarea", "button") or "name" not in of:
            return
        is_text = tag == "textarea" or of.get("type", "text") in ("text", "search", "url", "email")
        if tag == "input" and of.get("type") in ("checkbox", "radio") and "checked" not in of:
            return
        if of.get("type") == "file":
            return
        self.fields.setdefault(of["name"], of.get("value", ""))
        if tag != "button" and is_text:
            self.texts.append(of["name"])


def test_no_text_is_too_long_for_a_form(paid: Study, settings: Any, tmp_path: Path, visit: Any) -> None:
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    visit("rated", "a")
    chat = make_conversation(paid, n_exchanges=3)
    make_rating(chat)
    client = Client(raise_request_exception=False)
    client.force_login(make_staff(*Right))
    n = 0
    for name, *args in (*PAGES, ("conversation", chat.pk)):
        url = reverse(f"dashboard:{name}", args=args)
        for action, fields, texts in Forms(client.get(url, follow=True).content.decode()).found:
            for text in texts:
                for long in (LONG, LONGER_THAN_KEYS):
                    response = client.post(action or url, {**fields, text: long})
                    assert response.status_code < 500, (url, action, text, len(long))
                    n += 1
    assert n >= 8


def test_no_parameter_of_a_link_is_too_long(paid: Study) -> None:
    for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"):
        for long in (LONG, LONGER_THAN_KEYS):
            ids = {"PROLIFIC_PID": "p", "STUDY_ID": "s", "SESSION_ID": "e", name: long}
            client = Client(raise_request_exception=False)
            opened = client.get("/s/paid/", ids, follow=True)
            assert opened.status_code < 500, name
            for action, fields, _texts in Forms(opened.content.decode()).found:
                agreed = client.post(action or "/s/paid/", fields | {"agree": "on"}, follow=True)
                assert agreed.status_code < 500, name
