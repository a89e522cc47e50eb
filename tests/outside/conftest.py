"""Three fixed studies, made through commands only: one without data, one of chats, one of compared replies."""

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from django.utils import timezone

from tests.outside.installation import Installation, installation_start

DATA = Path(__file__).parent / "data"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
"""When these tests happen: some days after people took part in the two studies that are imported."""
STUDIES = ("empty", "chats", "pairs")


@pytest.fixture(scope="module")
def ids_by_seed() -> Iterator[None]:
    """Draw ids, codes and orders by a seed, and stop the clock, so that pages are the same in every run."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = random.Random(5)
        patch.setattr(os, "urandom", drawn.randbytes)
        patch.setattr(random, "_urandom", drawn.randbytes)
        patch.setattr(timezone, "now", lambda: NOW)
        patch.setattr(settings, "SECRET_KEY", "pseudonyms of these tests are made with it")
        yield


@pytest.fixture
def ids_by_seed_again(ids_by_seed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin again for each test, which may run alone."""
    drawn = random.Random(7)
    monkeypatch.setattr(os, "urandom", drawn.randbytes)
    monkeypatch.setattr(random, "_urandom", drawn.randbytes)


def command(capsys_or_none: pytest.CaptureFixture[str] | None, *words: str) -> str:
    """Run a command in this process; its standard output comes back."""
    if capsys_or_none is None:
        call_command(*words)
        return ""
    capsys_or_none.readouterr()
    call_command(*words)
    return capsys_or_none.readouterr().out


@pytest.fixture(scope="module")
def studies(ids_by_seed: None, rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Store the three studies for the tests of a file; their keys come back."""
    example = tmp_path_factory.mktemp("studies") / "empty.yaml"
    call_command("study_example", "chat", "--output", str(example))
    call_command("import_study", str(example), "--key", "empty", "--open")
    for key, file in (("chats", "chat.zip"), ("pairs", "pairwise.zip")):
        call_command("import_conversations", str(DATA / file), "--study", key)
    return STUDIES


@pytest.fixture
def staff(db: None) -> Client:
    """Return the browser of an administrator."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("ann", password="a-long-password"))
    return client


def document(text: str) -> object:
    """Read the one JSON document that a command printed."""
    return json.loads(text)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[Installation]:
    """Run a Confab with the bots of `told_bots.py` for the tests of a file."""
    yield from installation_start(tmp_path_factory.mktemp("outside"), vector_cache)


@pytest.fixture
def one_connection(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the connection, in whose transaction all is done, open between requests and frames."""
    monkeypatch.setattr("channels.db.close_old_connections", lambda: None)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
