"""Backups, restoring, upgrades and moves: what was there is there again, to the row."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from tests.builders import make_conversation, make_rating, make_staff, make_study
from tests.conftest import ROOT
from tests.databases import migrated_file
from webapp.audit.models import AuditEntry
from webapp.conversations.models import Conversation, Turn
from webapp.core.audit_trail import BACKUP, record
from webapp.core.authentication import token_make
from webapp.core.backups import backup_make, backup_read, backup_restore, database_has_rows
from webapp.core.database_migration import database_copy, database_upgrade
from webapp.core.errors import Refused
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.studies.models import Participant, Study

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = "Zoë said “ça va”\n\tand left 🙂"

"""The newest migration of the app core."""


@pytest.fixture(autouse=True)
def data_dir(settings, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    settings.CONFAB_BOTS = settings.DATA_DIR / "bots.yaml"
    settings.CONFAB_METRICS = settings.DATA_DIR / "metrics.yaml"
    return settings.DATA_DIR


@pytest.fixture
def collected() -> Conversation:
    """Make a study with a rated chat."""
    conversation = make_conversation(make_study(title=TEXT), n_exchanges=3)
    make_rating(conversation)
    return conversation


@pytest.fixture
def lab(collected: Conversation) -> None:
    """Make a project with members, a token and a study."""
    admin: Any = make_staff(*Right, username="admin")
    project_create(actor=admin, key="lab", name="Lab", monthly_cost_limit=2.5, disk_limit_mb=7)
    with in_project("lab"):
        make_study("of-lab")
        token_make(user=User.objects.get(pk=admin.pk), name="t", rights=["read"])  # its rights are read once


@pytest.fixture
def empty_database(tmp_path: Path) -> Iterator[str]:
    """Make a new database of the kind that the tests run on, and give its address."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'other.sqlite3'}"
        return
    here = connection.settings_dict
    name = f"{here['NAME']}_other"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
        cursor.execute(f'CREATE DATABASE "{name}"')
    secret = f":{here['PASSWORD']}" if here["PASSWORD"] else ""
    yield f"postgres://{here['USER']}{secret}@{here['HOST']}:{here['PORT']}/{name}"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}"')


def values(alias: str = "default") -> dict[str, list]:
    """Return every row of what people made, as the database has it."""
    return {
        model.__name__: list(model.objects.using(alias).order_by("pk").values())
        for model in (Study, Participant, Conversation, Turn, Rating)
    }


def test_what_was_backed_up_comes_back_and_what_was_there_is_kept(collected: Conversation, data_dir: Path) -> None:
    (data_dir / "bots.yaml").write_text("[]\n")
    (data_dir / "checkpoints").mkdir()
    (data_dir / "checkpoints" / "model.safetensors").write_bytes(b"12345")
    before = values()
    file, backup = backup_make()
    assert file.stat().st_mode & 0o077 == 0
    assert backup.tables["conversations_turn"] == Turn.objects.count() == 6
    assert backup.elsewhere == {str(Path("checkpoints/model.safetensors")): 5}

    Turn.objects.all().delete()
    make_study("later")
    (data_dir / "bots.yaml").write_text("- id: later\n")
    done = backup_restore(file)

    assert values() == before
    assert (data_dir / "bots.yaml").read_text() == "[]\n"
    assert done.kept_before is not None
    backup_restore(done.kept_before)
    assert Study.objects.filter(key="later").exists()
    assert not Turn.objects.exists()


def test_the_audit_log_is_kept_and_still_append_only(collected: Conversation, tmp_path: Path) -> None:
    """Backed up, restored and moved, its chain is intact, its triggers are there, and the restoration is recorded."""
    file = tmp_path / "all.zip"
    call_command("backup", output=file)
    assert AuditEntry.everywhere.latest("sequence").action == "backup"
    n = AuditEntry.everywhere.count()
    record(BACKUP)
    call_command("restore", str(file))
    call_command("audit_verify")
    actions = list(AuditEntry.everywhere.order_by("sequence").values_list("action", flat=True))
    assert actions[-1] == "restore"
    assert n - 1 <= len(actions) - 1 <= n, "the entry of the backup itself comes after its copy of the database"
    with pytest.raises(IntegrityError, match="append-only"):
        AuditEntry.everywhere.update(actor=1)


@pytest.mark.parametrize("is_kept", [True, False], ids=["in the folder", "in the environment"])
def test_a_backup_tells_whether_links_will_open_where_it_is_restored(
    collected: Conversation, data_dir: Path, settings, capsys: pytest.CaptureFixture[str], tmp_path: Path, is_kept: bool
) -> None:
    """In production the key stands in the environment: the archive lacks it, and another machine has another."""
    here, elsewhere, file = settings.SECRET_KEY, "another-key" * 5, tmp_path / "all.zip"
    if is_kept:
        (data_dir / "secret_key").write_text(here)
    call_command("backup", output=file)
    assert ("CONFAB_SECRET_KEY" in capsys.readouterr().out) is not is_kept

    call_command("restore", str(file))
    assert "CONFAB_SECRET_KEY" not in capsys.readouterr().out
    settings.SECRET_KEY = elsewhere
    if is_kept:  # made by another installation's first start, and replaced by the archive's
        (data_dir / "secret_key").write_text(elsewhere)
    call_command("restore", str(file))
    assert ("CONFAB_SECRET_KEY" in capsys.readouterr().out) is not is_kept
    if is_kept:
        assert (data_dir / "secret_key").read_text() == here


def test_archives_that_are_damaged_foreign_or_later_are_refused(collected: Conversation, tmp_path: Path) -> None:
    before = values()
    file, backup = backup_make()
    changed, later = tmp_path / "changed.zip", tmp_path / "later.zip"
    with (
        zipfile.ZipFile(file) as archive,
        zipfile.ZipFile(changed, "w") as damaged,
        zipfile.ZipFile(later, "w") as other,
    ):
        manifest = json.loads(archive.read("manifest.json"))
        damaged.writestr("manifest.json", json.dumps(manifest))
        manifest["migrations"].append("studies.9999_later")
        other.writestr("manifest.json", json.dumps(manifest))
        for name in backup.parts:
            damaged.writestr(name, archive.read(name)[:-1] + b"x")
            other.writestr(name, archive.read(name))
    with pytest.raises(Refused, match="has changed since the backup"):
        backup_restore(changed)
    with pytest.raises(Refused, match=r"studies\.9999_later"):
        backup_restore(later)
    (tmp_path / "no.zip").write_bytes(b"nothing")
    with pytest.raises(Refused, match=r"not a Confab backup"):
        backup_read(tmp_path / "no.zip")
    assert values() == before


@pytest.mark.skipif(connection.vendor != "sqlite", reason="of SQLite's file")
@pytest.mark.parametrize("kept_bytes", [0, 50_000], ids=["no database", "broken pages"])
def test_a_backup_takes_the_place_of_a_database_that_is_damaged(
    collected: Conversation, tmp_path: Path, kept_bytes: int
) -> None:
    archive, _backup = backup_make()
    here = tmp_path / "here"
    here.mkdir()
    file = here / "confab.sqlite3"
    file.write_bytes(migrated_file().read_bytes()[:kept_bytes].ljust(400_000, b"x"))
    damaged = file.read_bytes()
    env = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")}
    env |= {"DATABASE_URL": "", "CONFAB_DATA_DIR": str(here), "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded"}

    def command(*given: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "manage.py", *given]
        return subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True)

    refused = command("list_studies")
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert "restore FILE.zip" in refused.stderr
    assert "Traceback" not in refused.stderr
    document = json.loads(command("restore", str(archive), "--json").stdout)
    assert document["was_damaged"]
    assert Path(document["kept_before"]).read_bytes() == damaged
    with closing(sqlite3.connect(file)) as restored:
        assert restored.execute("SELECT COUNT(*) FROM conversations_turn").fetchone() == (6,)


def test_the_command_names_its_file_and_replaces_none(
    collected: Conversation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.zip"
    call_command("backup", "--output", str(file), "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(file)
    assert document["tables"]["ratings_rating"] == 1
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(CommandError, match="never overwrites"):
        call_command("backup", "--output", str(file))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest


@pytest.fixture
def of_an_earlier_version() -> Iterator[str]:
    """Take back the record of a migration on which no other depends."""
    recorder, graph = MigrationRecorder(connection), MigrationLoader(None).graph
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("webapp.")}
    app, name = next(node for node in graph.leaf_nodes() if node[0] in ours and not graph.node_map[node].children)
    recorder.record_unapplied(app, name)
    yield f"{app}.{name}"
    if not recorder.migration_qs.filter(app=app, name=name).exists():
        recorder.record_applied(app, name)


@pytest.fixture
def _migration_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.migrations import Migration

    monkeypatch.setattr(Migration, "apply", lambda self, state, *args, **kwargs: state)


@pytest.mark.usefixtures("_migration_does_nothing")
def test_every_migration_of_a_database_that_holds_something_comes_after_a_backup(
    collected: Conversation, data_dir: Path, of_an_earlier_version: str
) -> None:
    done = database_upgrade()
    assert done.migrations == (of_an_earlier_version,)
    assert done.backup is not None
    assert of_an_earlier_version not in backup_read(done.backup).migrations
    assert backup_read(done.backup).tables["ratings_rating"] == 1
    assert done.problems == ()

    assert database_upgrade().backup is None
    MigrationRecorder(connection).record_unapplied(*of_an_earlier_version.split("."))
    call_command("migrate", verbosity=0)
    assert len(list((data_dir / "backups").glob("before-migrate-*.zip"))) == 2


@pytest.mark.usefixtures("_migration_does_nothing")
def test_without_a_backup_nothing_is_migrated(
    collected: Conversation, data_dir: Path, of_an_earlier_version: str
) -> None:
    (data_dir / "backups").write_text("a file where the folder should be")
    with pytest.raises(CommandError, match="not migrated, because the backup failed"):
        call_command("migrate", verbosity=0)
    app, _, name = of_an_earlier_version.partition(".")
    assert not MigrationRecorder(connection).migration_qs.filter(app=app, name=name).exists()
    call_command("migrate", verbosity=0, no_backup=True)
    assert MigrationRecorder(connection).migration_qs.filter(app=app, name=name).exists()


def test_an_empty_database_is_not_backed_up(data_dir: Path) -> None:
    assert not database_has_rows()
    call_command("migrate", "core", verbosity=0)
    assert not (data_dir / "backups").exists()


MOVE = """
import sys, django
from itertools import zip_longest
django.setup()
from django.apps import apps
from django.db import IntegrityError
from webapp.audit.chain import chain_check, pending_write
from webapp.audit.models import AuditEntry
from webapp.conversations.models import Turn
from webapp.core import database_migration
from webapp.search.models import Figure

def rows(alias):
    models = [m for m in apps.get_models(include_auto_created=True) if m._meta.managed]
    stored = [m for m in models if not hasattr(m, "is_derived")]
    found = {m.__name__: list(m._base_manager.using(alias).order_by("pk").values()) for m in stored}
    # What the database derives has keys of its own there.
    figures = Figure.objects.using(alias).values_list("conversation", "series__kind", "series__name", "value")
    return {**found, "Figure": sorted(figures)}

def differing(one, two):
    return {
        name: [(a, b) for a, b in zip_longest(map(str, one[name]), map(str, two[name])) if a != b][:3]
        for name in one
        if one[name] != two[name]
    }

pending_write()
projects = set(AuditEntry.everywhere.values_list("project", flat=True))
n_entries = {project: AuditEntry.everywhere.filter(project=project).count() for project in projects}
before = rows("default")
moved = database_migration.database_copy(sys.argv[1])
assert not (changed := differing(before, rows("default"))), f"the old database has changed: {changed}"
with database_migration.new_database_opened(sys.argv[1]):
    assert not (other := differing(before, rows("default"))), f"other rows arrived: {other}"
    assert moved.tables["conversations_turn"] == 6
    last = Turn.objects.latest("pk")
    values = {f.attname: getattr(last, f.attname) for f in Turn._meta.concrete_fields if f.attname != "id"}
    again = Turn(**{**values, "index": 99, "client_id": None})
    again.save()
    assert again.pk > last.pk
    again.delete()
    for project, n in n_entries.items():
        check = chain_check(project)
        assert (check.problem, check.n_entries) == ("", n), check
    try:
        AuditEntry.everywhere.update(actor=1)
    except IntegrityError as error:
        assert "append-only" in str(error)
    else:
        raise AssertionError("the moved audit log can be changed")
try:
    database_migration.database_copy(sys.argv[1])
except Exception as error:
    print(error)
"""


def moved(source: str, target: str, data_dir: Path) -> str:
    """Move in a process of its own (a test may not open further databases). Returns what a second move is told."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_") and k != "REDIS_URL"}
    env = {
        **kept,
        "DATABASE_URL": source,
        "CONFAB_DATA_DIR": str(data_dir),
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
    }
    done = subprocess.run(
        [sys.executable, "-c", MOVE, target],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the next test moves from PostgreSQL")
def test_everything_moves_to_another_database(lab: None, empty_database: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(backup_make()[0]) as archive:
        archive.extract("database.sqlite3", tmp_path)
    source = f"sqlite:///{tmp_path / 'database.sqlite3'}"
    assert "is not empty" in moved(source, empty_database, tmp_path)


@pytest.mark.postgres
def test_everything_moves_from_postgresql_to_sqlite_and_back(lab: None, empty_database: str, tmp_path: Path) -> None:
    # This one has its tables already; that a move makes them is seen at the second.
    between = f"sqlite:///{shutil.copy(migrated_file(), tmp_path / 'between.sqlite3')}"
    here = empty_database.removesuffix("_other")
    assert "is not empty" in moved(here, between, tmp_path)
    assert "is not empty" in moved(between, empty_database, tmp_path)


def test_an_address_of_no_database_is_refused() -> None:
    for url in ("nonsense", "postgres://", ""):
        with pytest.raises(Refused, match="not a database address"):
            database_copy(url)
