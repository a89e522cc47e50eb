"""The database's time: what processes with wrong clocks store and compare, and who reports them."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from tests.builders import make_conversation, make_study
from webapp.conversations.models import Turn
from webapp.conversations.services import turn_add_human
from webapp.conversations.services.replies import reply_claim, turn_add_bot
from webapp.core.clock import DatabaseClock, database_clock, database_now
from webapp.core.data_folder import FOLDER_DIFFERS, adopt_folder, read_folder_id
from webapp.core.models import Installation, Process
from webapp.core.processes import Signs, is_silent
from webapp.operating.incidents import CLOCK, FOLDER, SILENT, find_problems

HOUR = timedelta(hours=1)


@pytest.fixture
def hour_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set this process's clock an hour ahead; the database's stays."""
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + HOUR)


def give_sign(settings: Any) -> Signs:
    settings.CONFAB_SIGN_EVERY_S = 10.0
    signs = Signs()
    signs.begin("web", in_thread=False)
    signs.give()
    return signs


@pytest.mark.postgres
@pytest.mark.django_db
def test_a_process_with_a_wrong_clock_goes_by_the_database_s(hour_ahead: None) -> None:
    clock = DatabaseClock()
    assert abs(clock.seconds_off() - 3600) < 60
    assert abs(clock.now() - datetime.now(UTC)) < HOUR / 60

    async def on_an_event_loop() -> datetime:
        return clock.now()

    assert abs(asyncio.run(on_an_event_loop()) - datetime.now(UTC)) < HOUR / 60


@pytest.mark.postgres
@pytest.mark.django_db
def test_a_reply_of_a_host_an_hour_ahead_has_its_true_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = make_conversation(make_study(), n_exchanges=0)
    turn_add_human(conversation_id=chat.pk, client_id=uuid4(), text="hi")
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + HOUR)
    lease = uuid4()
    assert reply_claim(conversation_id=chat.pk, lease=lease, lease_s=10)
    assert not reply_claim(conversation_id=chat.pk, lease=uuid4(), lease_s=10)
    assert turn_add_bot(conversation_id=chat.pk, lease=lease, text="hello") is not None
    reply = Turn.objects.get(conversation=chat, speaker=Turn.Speaker.BOT)
    assert reply.latency_ms is not None
    assert reply.latency_ms < 600_000
    assert abs(reply.created_at - datetime.now(UTC)) < HOUR / 2


@pytest.mark.postgres
@pytest.mark.django_db
def test_a_wrong_clock_is_reported_and_nobody_else_is(
    monkeypatch: pytest.MonkeyPatch, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    healthy = give_sign(settings)
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + HOUR)
    with caplog.at_level(logging.ERROR):
        wrong = give_sign(settings)
        wrong.give()
    assert len([line for line in caplog.messages if "clock of this machine is +36" in line]) == 1
    problems = [problem for problem in find_problems() if problem.kind in (CLOCK, SILENT)]
    assert [(problem.kind, problem.subject) for problem in problems] == [(CLOCK, str(wrong.id))]
    assert not any(is_silent(process) for process in Process.objects.all())
    assert Process.objects.get(pk=healthy.id).load["clock_off_s"] < 5


@pytest.mark.django_db
def test_a_data_folder_of_another_machine_is_reported(
    settings: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    settings.DATA_DIR = shared
    give_sign(settings)
    assert Installation.load().data_folder_id == read_folder_id()
    settings.DATA_DIR = other
    with caplog.at_level(logging.ERROR):
        second = give_sign(settings)
        second.give()
    assert caplog.messages.count(FOLDER_DIFFERS.format(folder=other)) == 1
    assert [problem.subject for problem in find_problems() if problem.kind == FOLDER] == [str(second.id)]
    adopt_folder(read_folder_id())  # as `upgrade --adopt-data-folder` does
    assert str(second.id) not in {problem.subject for problem in find_problems() if problem.kind == FOLDER}


@pytest.mark.django_db
def test_sqlite_has_the_time_of_its_machine() -> None:
    if connection.vendor == "sqlite":
        assert abs(database_now() - timezone.now()) < timedelta(minutes=1)
        assert abs(database_clock.seconds_off()) < 5
