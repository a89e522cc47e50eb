"""The chain of the audit log: written once, checked, append-only, deleted by month; on SQLite and PostgreSQL."""

import threading
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import override_settings

from tests.builders import make_study
from webapp.audit import chain
from webapp.audit.chain import chain_check, entry_hash, pending_write
from webapp.audit.models import AuditEntry, ChainHead, MonthSeal, PendingEntry
from webapp.audit.retention import months_delete
from webapp.audit.triggers import dropping_statements
from webapp.core.audit_trail import BACKUP, ERASE, LINKS_CREATE, PAY_BONUS, Origin, in_origin, record
from webapp.core.models import Project

pytestmark = pytest.mark.django_db


def written(n: int, project: str = "default") -> list[AuditEntry]:
    """Record actions, write them, and return the chain."""
    for number in range(n):
        record(LINKS_CREATE, project=project, links=number)
    pending_write()
    return list(AuditEntry.everywhere.filter(project=project).order_by("sequence"))


def without_triggers() -> None:
    """Do what somebody with a superuser's rights in the database can do."""
    with connection.cursor() as cursor:
        for statement in dropping_statements(connection.vendor):
            cursor.execute(statement)


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests tamper with rows, and check the chain as if the triggers had been created again."""
    without_triggers()
    monkeypatch.setattr(chain, "triggers_missing", list)


def test_each_project_has_its_own_chain() -> None:
    entries = written(3)
    others = written(2, "lab")
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    assert [entry.sequence for entry in others] == [1, 2]
    assert entries[0].previous_hash == ""
    assert [entry.previous_hash for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    assert not PendingEntry.everywhere.exists()
    for project, n in (("default", 3), ("lab", 2)):
        check = chain_check(project)
        assert (check.problem, check.n_entries) == ("", n)


def test_hashes_survive_the_database() -> None:
    """PostgreSQL stores JSON and times in its own form; what is read back must have the same hash."""
    with in_origin(Origin("command", actor=7, details={"command": "erase"})):
        record(ERASE, make_study(), kind="ids", participants=10**12)
    pending_write()
    entry = AuditEntry.everywhere.get(action="erase")
    assert entry.hash == entry_hash(entry)
    assert (entry.actor, entry.origin) == (7, {"by": "command", "command": "erase"})
    assert entry.parameters == {"kind": "ids", "participants": 10**12}


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE audit_auditentry SET actor = 99 WHERE sequence = 3", "entry 3 (row {3}) was changed"),
        ("DELETE FROM audit_auditentry WHERE sequence = 3", "entry 4 (row {4}) follows a gap: entry 3 is missing"),
        ("DELETE FROM audit_auditentry WHERE sequence >= 4", "entries 4 to 5 are missing at the end"),
        ("UPDATE audit_auditentry SET sequence = 6 - sequence + 100", "entries 1 to 5 are missing at the end"),
        ("UPDATE audit_chainhead SET hash = 'x'", "entry 5 is not the one that the chain ends with"),
    ],
)
@pytest.mark.usefixtures("unguarded")
def test_tampering_is_detected_at_the_very_entry(sql: str, problem: str) -> None:
    rows = {entry.sequence: entry.pk for entry in written(5)}
    with connection.cursor() as cursor:
        cursor.execute(sql)
    assert chain_check("default").problem.startswith(problem.format(*[0, *rows.values()]))
    assert ChainHead.everywhere.get().problem


@pytest.mark.usefixtures("unguarded")
def test_reordered_and_inserted_entries_are_detected() -> None:
    entries = written(4)
    AuditEntry.everywhere.filter(pk=entries[1].pk).update(sequence=1000)
    AuditEntry.everywhere.filter(pk=entries[2].pk).update(sequence=2)
    AuditEntry.everywhere.filter(pk=entries[1].pk).update(sequence=3)
    assert chain_check("default").problem.startswith(f"entry 2 (row {entries[2].pk}) was changed")


@pytest.mark.usefixtures("unguarded")
def test_an_inserted_entry_is_detected_even_with_a_correct_hash() -> None:
    last = written(3)[-1]
    forged = AuditEntry(
        project="default", sequence=4, previous_hash=last.hash, recorded_at=last.recorded_at, action="backup"
    )
    forged.hash = entry_hash(forged)
    forged.save()
    assert chain_check("default").problem == "entry 4 is beyond the end of the chain"


@pytest.mark.usefixtures("unguarded")
def test_a_rewritten_entry_breaks_the_next_one() -> None:
    """Changed with a new hash of its own, it no longer fits the entry after it."""
    entries = written(3)
    entries[1].parameters = {"links": 0}
    entries[1].hash = entry_hash(entries[1])
    entries[1].save()
    assert chain_check("default").problem.startswith(f"entry 3 (row {entries[2].pk}) does not follow")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit_auditentry SET actor = 1",
        "DELETE FROM audit_auditentry",
        "UPDATE audit_monthseal SET n_entries = 0",
        "DELETE FROM audit_monthseal",
    ],
)
def test_triggers_refuse_changes(sql: str) -> None:
    written(1)
    MonthSeal.everywhere.create(project="other", month=202601, n_entries=1, last_sequence=1, last_hash="x")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert AuditEntry.everywhere.get().actor is None


def test_a_missing_trigger_is_a_problem() -> None:
    written(1)
    without_triggers()
    assert "lacks the trigger audit_auditentry_no_delete" in chain_check("default").problem


def test_what_is_rolled_back_is_not_recorded() -> None:
    with transaction.atomic():
        record(BACKUP)
        transaction.set_rollback(True)
    assert pending_write() == 0


@pytest.mark.django_db(transaction=True)
def test_an_action_is_in_the_chain_after_its_commit() -> None:
    with transaction.atomic():
        record(BACKUP)
        assert not AuditEntry.everywhere.exists()
    assert AuditEntry.everywhere.get().action == "backup"


@pytest.mark.django_db(transaction=True)
def test_a_crash_between_commit_and_writer_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies after the commit; the hourly run of a worker writes the entry."""

    def die(*_args: Any) -> int:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(chain, "_write_batch", die)
        with pytest.raises(SystemExit), transaction.atomic():
            record(BACKUP)
    assert not AuditEntry.everywhere.exists()
    assert PendingEntry.everywhere.count() == 1
    from webapp.jobs.tasks import retention

    retention()
    assert AuditEntry.everywhere.get().action == "backup"
    assert not PendingEntry.everywhere.exists()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_make_one_chain() -> None:
    """Requests of several processes commit at once, and each of them is a writer."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(20):
                with transaction.atomic():
                    record(LINKS_CREATE, project="default", links=number)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    pending_write()
    check = chain_check("default")
    assert (check.problem, check.n_entries) == ("", 120)


def at(moment: datetime, n: int) -> None:
    """Record actions at an earlier time."""
    for number in range(n):
        record(LINKS_CREATE, project="default", links=number)
    PendingEntry.everywhere.update(recorded_at=moment)
    pending_write()


NOW = datetime(2026, 11, 29, tzinfo=UTC)


@override_settings(CONFAB_AUDIT_MONTHS=2)
def test_whole_months_are_deleted_and_their_last_hash_stays() -> None:
    at(datetime(2026, 7, 3, tzinfo=UTC), 2)
    at(datetime(2026, 8, 30, 23, tzinfo=UTC), 3)
    at(datetime(2026, 9, 1, tzinfo=UTC), 1)
    at(datetime(2026, 8, 31, tzinfo=UTC), 1)  # waited until after the first of September
    at(datetime(2026, 11, 2, tzinfo=UTC), 1)
    hashes = list(AuditEntry.everywhere.order_by("sequence").values_list("hash", flat=True))
    assert [(seal.month, seal.n_entries) for seal in months_delete(datetime(2026, 10, 31, tzinfo=UTC))] == [(202607, 2)]
    [seal] = months_delete(NOW)
    assert (seal.month, seal.n_entries, seal.last_sequence, seal.last_hash) == (202608, 3, 5, hashes[4])
    assert months_delete(NOW) == []
    pending_write()
    check = chain_check("default")
    assert (check.problem, check.n_entries, check.n_deleted) == ("", 5, 5)
    assert AuditEntry.everywhere.filter(action="audit.month_delete").count() == 2


@override_settings(CONFAB_AUDIT_MONTHS=0)
def test_the_log_is_kept_for_ever_where_the_setting_says_so() -> None:
    at(datetime(1999, 1, 1, tzinfo=UTC), 1)
    assert months_delete(NOW) == []
    assert AuditEntry.everywhere.exists()


def test_a_month_is_deleted_with_the_latest_entry_of_a_chain() -> None:
    at(datetime(2020, 1, 1, tzinfo=UTC), 2)
    assert [seal.n_entries for seal in months_delete(NOW)] == [2]
    assert written(1)[0].sequence == 3
    assert chain_check("default").problem == ""


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("audit_verify", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_the_command_reports_each_chain_and_its_head() -> None:
    assert verify() == "The audit log is empty.\n"
    Project.objects.create(key="lab", name="Lab")
    last = written(2)[-1]
    record(BACKUP, project="lab")  # not written yet; the command writes it
    assert verify() == "default: intact, 2 entries\nlab: intact, 1 entries\n"
    assert verify("--heads").splitlines()[0] == f"default 2 {last.hash}"
    assert verify("--project", "lab") == "lab: intact, 1 entries\n"


@pytest.mark.usefixtures("unguarded")
def test_the_command_fails_and_names_the_row() -> None:
    entries = written(2)
    AuditEntry.everywhere.filter(pk=entries[0].pk).update(actor=3)
    with pytest.raises(CommandError, match=rf"project default: entry 1 \(row {entries[0].pk}\) was changed"):
        verify()


def test_kept_heads_show_a_chain_that_was_rewritten_completely(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written(3)
    kept = tmp_path / "heads.txt"
    kept.write_text(verify("--heads"))
    assert "intact" in verify("--against", str(kept))
    without_triggers()
    monkeypatch.setattr(chain, "triggers_missing", list)
    AuditEntry.everywhere.all()._raw_delete("default")
    ChainHead.everywhere.update(sequence=0, hash="")
    written(4)
    assert verify() == "default: intact, 4 entries\n"
    with pytest.raises(CommandError, match=r"entry 3 is not the one in heads\.txt"):
        verify("--against", str(kept))


def test_only_numbers_and_known_words_are_recorded() -> None:
    for wrong in ({"kind": "my own words", "participants": 1}, {"kind": "ids", "participants": "P-123"}):
        with pytest.raises((TypeError, ValueError), match="erase: "):
            record(ERASE, **wrong)
    with pytest.raises(TypeError, match="has no parameter name"):
        record(ERASE, name="Ada")
    with pytest.raises(TypeError, match="must be int"):
        record(PAY_BONUS, decision=1, cents=True)
    assert not PendingEntry.everywhere.exists()


def test_a_participant_cannot_be_the_object_of_an_entry() -> None:
    from tests.builders import make_conversation

    participant = make_conversation(make_study()).participant
    with pytest.raises(TypeError, match="cannot be the object"):
        record(BACKUP, participant)
