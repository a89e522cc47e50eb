"""The calls by curl that docs/reference/api.md shows, as a program makes them."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.builders import calls_forget, make_conversation, make_rating, make_staff, make_study
from tests.documents import blocks_tested
from webapp.core.authentication import token_make
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db

CURL = ArgumentParser("curl")
CURL.add_argument("-H", dest="header")
CURL.add_argument("-o", dest="output")
CURL.add_argument("--form", action="append", default=[])
CURL.add_argument("--json")
CURL.add_argument("url")


def called(command: str, folder: Path) -> Any:
    """Make the call that a command makes, and return the answer."""
    name, *words = shlex.split(command)
    assert name == "curl"
    asked = CURL.parse_args(words)
    title, _, value = asked.header.partition(": ")
    client = Client(headers={title: value})
    if asked.json:
        return client.post(asked.url, asked.json, content_type="application/json")
    if not asked.form:
        return client.get(asked.url)
    form: dict[str, Any] = {}
    for field in asked.form:
        key, _, text = field.partition("=")
        form[key] = (folder / text[1:]).open("rb") if text.startswith("@") else text
    return client.post(asked.url, form)


def test_the_calls_that_the_documentation_shows(settings: Any, tmp_path: Path) -> None:
    calls_forget()
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    make_rating(make_conversation(make_study("lab"), n_exchanges=3))
    rights = [Right.READ, Right.RUN]
    token = token_make(user=make_staff(*rights), name="ci", rights=rights)[1]
    (tmp_path / "more.jsonl").write_text("{}\n")
    [block] = blocks_tested("tests/webapp/api/test_documented.py::test_the_calls_that_the_documentation_shows")
    commands = block.text.replace("$TOKEN", token).replace("$URL", "").splitlines()
    *asked, following = commands
    answers = [called(command, tmp_path) for command in asked]
    assert [one.status_code for one in answers] == [200, 200, 200, 200, 202, 202, 202]
    assert [one["key"] for one in answers[0].json()["items"]] == ["lab"]
    assert b"".join(answers[1].streaming_content).startswith(b"rating,conversation,bot")
    assert [one["figures"] for one in answers[2].json()["items"]] == [{"quality": 4.0}]
    [place] = answers[3].json()["document"]["places"]
    assert place["mean"] == 4
    assert (answers[4].json()["kind"], answers[5].json()["kind"]) == ("report", "import")
    assert answers[6].json()["n_total"] == 10
    made = answers[6].json()["id"]
    followed = called(following.replace("selfplay/1", f"selfplay/{made}"), tmp_path)
    assert followed.json()["state"] == "queued"
