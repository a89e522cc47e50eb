"""Erasing a person: what marks them is looked for in every table, file, session and key, however it got there."""

import gzip
import json
import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from tests.builders import make_study
from tests.webapp.studies.test_erasure import make_person
from webapp.bots.services import bot_failed
from webapp.core.models import CleanUp
from webapp.insights.report_files import report_ask, report_newest, report_path
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import job_create
from webapp.results.cache import AnalysisKey, compute_now
from webapp.studies.items import item_add
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import erasure, participant_withdraw, participants_erase
from webapp.transfer.job_files import export_make

MARK = "QMARKQ"


def tables() -> dict[str, str]:
    """Return every row of every table as text, and what sessions hold decoded."""
    results = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            results[table] = json.dumps(cursor.fetchall(), default=str)
    results["sessions"] = json.dumps([session.get_decoded() for session in Session.objects.all()])
    return results


def read(path: Path) -> Iterator[bytes]:
    """Yield what a file holds, and what it holds compressed."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif path.suffix == ".gz":
        yield gzip.decompress(path.read_bytes())


def places(marks: list[str]) -> set[str]:
    """Return the tables, files and keys that hold any of the marks."""
    results = {name for name, text in tables().items() if any(mark in text for mark in marks)}
    for path in Path(settings.DATA_DIR).rglob("*"):
        if path.is_file() and any(m.encode() in held for held in read(path) for m in marks):
            results.add(path.relative_to(settings.DATA_DIR).parts[0])
    if settings.REDIS_URL:
        import redis

        keys = redis.Redis.from_url(settings.REDIS_URL)
        for key in keys.scan_iter():
            held = key + (keys.dump(key) or b"")
            results |= {key.decode(errors="replace")} if any(m.encode() in held for m in marks) else set()
    return results


def left_everywhere(study: Study) -> Participant:
    """Make somebody whose words and ids are wherever the product puts them. Returns them."""
    person = make_person(study, MARK)
    chat = person.conversations.get()
    item_add(study=study, key="drawn", context=[MARK], responses=[{"model": "a", "text": MARK}])
    study.items.update(conversation=chat)
    for asked in (
        {"what": "messages", "format": "csv"},
        {"what": "pay", "format": "csv", "include_private": True},
        {"what": "package", "format": "zip", "include_private": True},
    ):
        run_job(export_make(study=study, payload=asked))
    compute_now(AnalysisKey(study, "raters"), wait=lambda: None)
    run_job(report_ask(study=study))
    client = Client()
    link = f"/s/{study.key}/?PROLIFIC_PID=pid-{MARK}&SESSION_ID={MARK}&STUDY_ID=st"
    assert client.get(link).status_code == 200
    session = client.session
    session["participants"] = {study.key: person.pk.hex, "other": "0" * 32}
    session.save()
    folder = Path(settings.DATA_DIR) / "imports"
    folder.mkdir(exist_ok=True)
    upload = folder / "upload.jsonl"
    upload.write_text(f'{{"dialogue_id": "{MARK}"}}')
    payload = {"file": str(upload), "study": study.key, "is_upload": True}
    failed = job_create(kind="import", payload=payload)
    Job.objects.filter(pk=failed.pk).update(state=State.FAILED, error=f"line 1 is {MARK}")
    for _ in range(3):
        bot_failed(bot_id=study.bots[0], reason=f"cannot answer {MARK!r}", chat=uuid4().hex)
    chief = get_user_model().objects.create_superuser("chief", password="x")
    LogEntry.objects.log_actions(chief.pk, [person], CHANGE, change_message="changed", single_object=True)
    return person


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["erased", "withdrawn"])
def test_no_place_holds_anything_of_a_person_who_is_gone(
    how: str, django_capture_on_commit_callbacks: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    home = {"key": "home", "title": "Where do you live?", "kind": "text"}
    study = make_study(questions=[home], withdrawal_days=30)
    with django_capture_on_commit_callbacks(execute=True):
        person = left_everywhere(study)
    marks = [MARK, str(person.pk), person.pk.hex]
    before = places(marks)
    assert {"exports", "imports", "sessions", "studies_item", "runs_job", "bots_bothealth"} <= before, before
    report = report_newest(study)
    assert report is not None
    emptied: list[bool] = []
    monkeypatch.setattr(erasure, "journal_emptied", lambda: emptied.append(True))
    with django_capture_on_commit_callbacks(execute=True):
        if how == "erased":
            participants_erase(participants=Participant.objects.filter(pk=person.pk), notes=True)
        else:
            participant_withdraw(participant=person)
    assert emptied
    assert not CleanUp.objects.exists()
    assert MARK not in caplog.text, "Logs contain only random participant ids"
    after = places(marks if how == "erased" else [MARK])
    kept_for_pay = {"studies_platformids", "studies_task", "pay_decision", "pay_platformvisit", "pay_hookevent"}
    assert after <= (set() if how == "erased" else kept_for_pay), after
    assert not report_path(report).exists(), "its figures were made of their answers, too"
    if how == "erased":
        assert '"other"' in tables()["sessions"]
