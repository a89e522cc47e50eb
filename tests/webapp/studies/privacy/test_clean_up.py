"""Clean-up after an erasure: a hook that fails stops no other, and what was not done is shown and done later."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import make_study, signed_in
from tests.webapp.studies.test_erasure import make_person
from webapp.conversations import erasure
from webapp.conversations.models import Turn
from webapp.core.backup_leftovers import LEFTOVERS_KEPT, backups_sweep
from webapp.core.clean_up import clean_ups_repeat
from webapp.core.models import CleanUp
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import erasure as erasures
from webapp.studies.privacy import participant_withdraw, participants_erase
from webapp.studies.privacy.retention import retention_run, texts_counts, texts_erase
from webapp.transfer.job_files import UNFINISHED_KEPT, export_folder, export_make, export_path, files_expire

FULL = "database or disk is full"


class _FullStore:
    def known(self, _texts: Any) -> set[str]:
        raise sqlite3.OperationalError(FULL)

    def keep_only(self, _texts: Any) -> int:
        raise sqlite3.OperationalError(FULL)


def gone(how: str, person: Participant) -> None:
    if how == "withdrawn":
        participant_withdraw(participant=person)
    else:
        participants_erase(participants=Participant.objects.filter(pk=person.pk), notes=True)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["erased", "withdrawn"])
def test_encodings_that_cannot_be_removed_keep_nothing_else(
    how: str, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    study = make_study(withdrawal_days=30)
    person = make_person(study)
    params = {"what": "conversations", "format": "jsonl"}
    job = export_make(study=study, payload=params)
    run_job(job)
    assert export_path(job).exists()
    monkeypatch.setattr(erasure, "text_store", _FullStore)
    with django_capture_on_commit_callbacks(execute=True):
        gone(how, person)
    assert not export_path(job).exists()
    assert list(CleanUp.objects.values_list("kind", flat=True)) == ["encoded_texts"]
    page = signed_in(Right.READ).get(f"/dashboard/studies/{study.key}/")
    assert page.status_code == 200
    assert FULL in page.content.decode()
    retention_run()
    assert CleanUp.objects.get().n_tries == 2, "it goes on failing, and is kept"
    monkeypatch.undo()
    retention_run()
    assert not CleanUp.objects.exists()


@pytest.mark.django_db
def test_each_hook_may_fail_and_all_others_have_run(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    study = make_study()
    n_hooks = len(erasures._people_gone) + len(erasures._follow)
    for failing in range(n_hooks):
        calls: list[int] = []

        def make(n: int, failing: int = failing, calls: list[int] = calls) -> Callable[[Any], None]:
            def act(_ids: Any) -> None:
                calls.append(n)
                if n == failing and calls.count(n) == 1:
                    raise OSError(FULL)

            return act

        acts = [make(n) for n in range(n_hooks)]
        monkeypatch.setattr(erasures, "_people_gone", acts[: len(erasures._people_gone)])
        monkeypatch.setattr(erasures, "_follow", acts[len(erasures._people_gone) :])
        person = make_person(study, f"secret{failing}")
        with django_capture_on_commit_callbacks(execute=True):
            gone("erased", person)
        assert sorted(calls) == list(range(n_hooks))
        row = CleanUp.objects.get()
        assert FULL in row.error
        assert person.pk.hex in row.payload["people"]
        assert clean_ups_repeat() == 0
        assert not CleanUp.objects.exists()


@pytest.mark.django_db
def test_the_promise_is_part_of_the_transaction() -> None:
    person = make_person(make_study())
    gone("erased", person)  # no callback runs here, as if the process were killed after its commit
    assert sorted(CleanUp.objects.values_list("kind", flat=True)) == ["encoded_texts", "erasure"]
    retention_run()
    assert not CleanUp.objects.exists()


@pytest.mark.django_db
def test_the_file_of_a_deleted_report_is_promised(django_capture_on_commit_callbacks: Callable[..., Any]) -> None:
    study = make_study()
    with django_capture_on_commit_callbacks(execute=False):
        job = Job.objects.create(kind="report", study=study)
        path = export_folder() / f"report-{job.pk}.json.gz"
        path.write_bytes(b"x")
        job.delete()
    assert path.exists()
    retention_run()
    assert not path.exists()


@pytest.mark.django_db
def test_texts_retention_clears_traces_and_blocked_texts_of_replies_without_text(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    study: Study = make_study()
    make_person(study)
    replies = Turn.objects.filter(conversation__study=study, speaker="bot").order_by("pk")
    first, second = replies[0], replies[1]
    Turn.objects.filter(pk=first.pk).update(text="", trace=[{"kind": "reasoning", "text": "CANARY"}])
    Turn.objects.filter(pk=second.pk).update(text="", withheld_text="CANARY")
    with django_capture_on_commit_callbacks(execute=True):
        texts_erase(study=study)
    for turn in Turn.objects.filter(conversation__study=study):
        assert (turn.text, turn.withheld_text, turn.trace) == ("", "", [])
    assert texts_counts(study)["turns"] == 0


@pytest.mark.django_db
def test_unfinished_files_of_killed_processes_go(django_capture_on_commit_callbacks: Callable[..., Any]) -> None:
    study = make_study()
    person = make_person(study)
    job = export_make(study=study, payload={"what": "conversations", "format": "csv"})
    folder = export_folder()
    own = folder / f".export-{job.pk}.csv.ab12.part"
    other = folder / f".export-{job.pk}1.csv.ab12.part"
    own.write_text("secret")
    other.write_text("secret")
    with django_capture_on_commit_callbacks(execute=True):
        gone("erased", person)
    assert not own.exists()
    assert other.exists(), "of another export"
    files_expire()
    assert other.exists(), "it may still be written"
    age(other, UNFINISHED_KEPT.total_seconds() + 60)
    files_expire()
    assert not other.exists()


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_copies_of_killed_backups_and_restores_go_after_a_day(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path
    backups = tmp_path / "backups"
    backups.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    old = [backups / "confab-backup-1", elsewhere / "confab-backup-2", tmp_path / "confab-restore-3"]
    for folder in old:
        folder.mkdir()
        (folder / "database.dump").write_text("everything")
    old.append(backups / "confab-1.zip.part")
    old[-1].write_text("everything")
    kept = [backups / "confab-1.zip", elsewhere / "mine.zip.part", backups / "confab-backup-new"]
    kept[0].write_text("")
    kept[1].write_text("")
    kept[2].mkdir()
    assert backups_sweep(elsewhere) == 0
    for path in (*old, *kept[:2]):
        age(path, LEFTOVERS_KEPT.total_seconds() + 60)
    assert backups_sweep(elsewhere) == len(old)
    assert [path for path in old if path.exists()] == []
    assert all(path.exists() for path in kept)
