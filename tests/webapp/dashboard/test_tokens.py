"""The page of tokens: made with rights one has, shown once, one's own alone, taken back."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.builders import signed_in
from webapp.core.models import ApiToken
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db
ADDRESS = "/dashboard/settings/tokens/"


def browser(*rights: Right, username: str) -> Client:
    return signed_in(*rights, username=username)


def test_a_token_is_shown_once_and_taken_back() -> None:
    ann, bob = browser(Right.READ, Right.RUN, username="ann"), browser(Right.READ, username="bob")
    empty = ann.get(ADDRESS).content.decode()
    assert "You have no tokens yet" in empty
    assert "http://testserver/api/v1/studies" in empty
    asked = {"name": "<b>CI</b>", "rights": ["read", "run"], "days": "30"}
    answer = ann.post(ADDRESS, asked)
    assert "no-store" in answer["Cache-Control"]
    [text] = set(re.findall(r"confab_[\w-]{43}", answer.content.decode()))
    program = Client(headers={"authorization": f"Bearer {text}"})
    assert program.get("/api/v1/me").json()["rights"] == ["read", "run"]
    shown = ann.get(ADDRESS).content.decode()
    assert text not in shown
    assert "&lt;b&gt;CI&lt;/b&gt;" in shown
    assert "<b>CI" not in shown

    token = ApiToken.objects.get()
    assert "CI&lt;/b" not in bob.get(ADDRESS).content.decode()
    assert bob.post(f"{ADDRESS}{token.pk}/end/").status_code == 404
    assert ann.post(f"{ADDRESS}{token.pk}/end/").status_code == 302
    assert "Revoked" in ann.get(ADDRESS).content.decode()
    assert program.get("/api/v1/me").status_code == 401


def test_what_cannot_be_is_said_at_its_field() -> None:
    bob = browser(Right.READ, username="bob")
    more = bob.post(ADDRESS, {"name": "x", "rights": ["run"], "days": "0"})
    assert more.status_code == 400
    text = more.content.decode()
    assert "run is not one of the available choices" in text
    assert "greater than or equal to 1" in text
    assert "No token was made" in text
    assert not ApiToken.objects.exists()
