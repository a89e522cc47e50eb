"""Tables of the conversations that a search finds, by a call: the bytes of the command with the same line."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.builders import exchange, make_conversation, make_rating, make_study
from tests.webapp.api.programs import Program, streamed
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import SelfPlayRun
from webapp.jobs.services.selfplay import run_create
from webapp.studies.models import Study
from webapp.transfer.exporters.base import exporters

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


@pytest.fixture(scope="module")
def shop(rows_of_file: None) -> int:
    """Make a study of four rated conversations, of which two speak of tomatoes; return its primary key."""
    study = make_study("shop")
    for number, quality in enumerate((2, 6, 3, 7)):
        chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}")
        if number < 2:
            exchange(chat, "I like tomatoes", "Do you cook?")
        make_rating(chat, quality=quality)
    return study.pk


@pytest.fixture
def study(shop: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=shop)


def exported(path: Path, what: str, line: str, **source: Any) -> bytes:
    call_command("export", what=what, format="jsonl", search=line, output=path, stdout=StringIO(), **source)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("line", "n"), [("tomatoes", 2), ("quality>=6", 2), ("sort:-quality limit:1", 1), ("xyzzy", 0), ("", 4)]
)
def test_a_table_is_of_what_a_search_finds(study: Study, tmp_path: Path, line: str, n: int) -> None:
    program = Program(Right.READ)
    for what in ("ratings", "conversations", "messages"):
        sent = streamed(program.get(f"studies/shop/tables/{what}", q=line))
        assert sent == exported(tmp_path / what, what, line, study="shop")
        if what != "messages":
            assert len(sent.splitlines()) == n


@pytest.mark.parametrize("what", [one.name for one in exporters if hasattr(one, "is_searched")])
def test_every_table_of_conversations_can_be_searched(study: Study, what: str) -> None:
    answer = Program(Right.READ).get(f"studies/shop/tables/{what}", q="xyzzy")
    assert (answer.status_code, streamed(answer)) == (200, b"")


@pytest.mark.parametrize(
    ("what", "line", "words"),
    [
        ("conversations", "qualty>3", "q cannot be read"),
        ("ratings", "flags>many", "“many” is no number"),
        ("bots", "tomatoes", "It works with: chat_ratings"),
        ("ratings", "a" * 1001, "q"),
    ],
)
def test_what_cannot_be_searched_is_told(study: Study, what: str, line: str, words: str) -> None:
    answer = Program(Right.READ).get(f"studies/shop/tables/{what}", q=line)
    assert answer.status_code == 422
    [mistake] = answer.json()["error"]["mistakes"]
    assert mistake["path"] == "q"
    assert words in mistake["message"]


def test_tables_of_a_run_are_searched_too(tmp_path: Path) -> None:
    run = run_create(bots=["eliza", "parrot"], n_conversations=2, n_turns=4, enqueue=False)
    run_job(run)
    run = SelfPlayRun.objects.get(pk=run.pk)
    program = Program(Right.READ)
    where = f"runs/{run.pk}/tables"
    sent = streamed(program.get(f"{where}/conversations", q="bot:eliza"))
    assert sent == exported(tmp_path / "run", "conversations", "bot:eliza", run=run.pk)
    assert len(sent.splitlines()) == 2
    assert program.get(f"{where}/conversations", q="bot:elisa").status_code == 422
    assert program.get(f"{where}/bots", q="bot:eliza").status_code == 422
    assert program.get(f"{where}/participants", q="bot:eliza").status_code == 404
