"""Packages with a value beyond its column: refused by table and row, and no study is left that looks finished."""

import csv
import hashlib
import io
import math
import re
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from chatbots import Identity
from evaluation.data.package import PackageError
from tests.builders import make_staff
from tests.webapp.transfer.test_package import opened, packed
from tests.webapp.transfer.test_package_reading import of_checked_chats
from webapp.bots.models import BotVersion
from webapp.conversations.models import ChatCheckAnswer, Conversation, ReplyMark, ReplyReport, Turn
from webapp.core.column_bounds import find_problem
from webapp.core.rights import Right
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.ratings.models import Rating
from webapp.search.models import Note
from webapp.search.services import note_add, star_set
from webapp.studies.models import Participant, QuestionAnswers, QuizAttempt, Slot, Study, Task
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import import_conversations
from webapp.transfer.package import import_package

pytestmark = pytest.mark.django_db

CELLS = [
    *(("turns", "vote", value) for value in ("32768", "1_000", "٣")),
    *(("turns", column, "2147483648") for column in ("turn", "latency_ms", "tokens_in")),
    *(("turns", column, "x" * 400) for column in ("conversation", "answered_by")),
    ("turns", "text", "nul\x00"),
    ("turns", "cost", "1e999"),
    ("conversations", "n_exchanges", "-1"),
    ("conversations", "seed", "9223372036854775808"),
    ("conversations", "conversation", "x" * 400),
    ("conversations", "created_at", "9999-12-31T23:59:59-14:00"),
    *(("ratings", "quality", value) for value in ("NaN", "1e999", "Infinity", "-1", "32768")),
    *(("ratings", "submitted_at", at) for at in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")),
    ("participants", "participant", "x" * 400),
    ("checks", "submitted_at", "0001-01-01T00:00:00+14:00"),
    ("reports", "words", "nul\x00"),
    ("reply_marks", "filter", "x" * 400),
    ("reader_notes", "created_at", "9999-12-31T23:59:59-14:00"),
    ("metrics", "n_words", "1e999"),
    ("bots", "kind", "x" * 400),
]
"""Table, column and a value that it cannot hold; EDGES lists these kinds."""


def make_package() -> dict[str, bytes]:
    """Return the files of a package with rows in every table."""
    study = study_edit(study=of_checked_chats(), state=Study.State.ENDED)
    chat = study.conversations.order_by("created_at").first()
    assert chat is not None
    star_set(conversation=chat, is_starred=True, author=(author := make_staff(Right.READ)))
    note_add(conversation=chat, text="Look again.", author=author)
    version = MetricVersion.objects.create(key=Identity("words", "1", {}).key, name="words", version="1", params={})
    MetricResult.objects.create(
        conversation=chat, metric=version, values={"n_words": 3, "share": None},
        turns={"long": [1.5] * chat.turns.count()}, reasons={"share": "no words"},
    )  # fmt: skip
    return opened(packed(study, include_synthetic=True))


def write_package(files: dict[str, bytes], path: Path) -> Path:
    """Write the files with their digests."""
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items() if name != "SHA256SUMS"
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files | {"SHA256SUMS": sums.encode()}).items():
            archive.writestr(name, data)
    return path


def change_cell(data: bytes, column: str, value: str) -> bytes:
    """Return a table with another value in the first row where the column has one, else in the first row."""
    header, *rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    place = header.index(column)
    row = next((row for row in rows if row[place]), rows[0])
    row[place] = value
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def package(rows_of_file: None) -> dict[str, bytes]:
    return make_package()


@pytest.mark.parametrize(("table", "column", "value"), CELLS)
def test_a_value_beyond_its_column_is_named_by_table_and_row(
    package: dict[str, bytes], table: str, column: str, value: str, tmp_path: Path
) -> None:
    path = f"data/{table}.csv"
    file = write_package(package | {path: change_cell(package[path], column, value)}, tmp_path / "x.zip")
    with pytest.raises(PackageError, match=re.escape(path) + r", row \d+: "):
        import_conversations(file, study_key="again")
    study = Study.objects.filter(key="again").first()
    assert study is None or path in study.import_error
    if table in ("turns", "conversations", "ratings", "participants"):
        assert study is None


def test_a_failed_import_is_shown_and_a_good_one_mends_it(
    package: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    path = write_package(package, tmp_path / "x.zip")

    def fail(**_options: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(import_package, "turns_store", fail)
        with pytest.raises(OSError, match="No space"):
            import_conversations(path, study_key="again")
    study = Study.objects.get(key="again")
    assert study.import_error == "No space left on device"
    client.force_login(make_staff(Right.READ, username="reader"))
    page = client.get(reverse("dashboard:study", args=["again"])).content.decode()
    assert "The import of this study failed" in page
    import_conversations(path, study_key="again")
    study.refresh_from_db()
    assert study.import_error == ""
    assert Turn.objects.filter(conversation__study=study).exists()


MODELS: tuple[type[Model], ...] = (
    *(BotVersion, ChatCheckAnswer, Conversation, MetricResult, Note, Participant, QuestionAnswers, QuizAttempt),
    *(Rating, ReplyMark, ReplyReport, Slot, Task, Turn),
)
NUMBERS = [sign * (2**bits + more) for bits in (0, 15, 31, 63) for sign in (-1, 1) for more in (-1, 0, 1)]
TEXTS = ["", "x", "x" * 41, "x" * 101, "x" * 201, "x" * 401, "a\x00b", "\ud800"]
MOMENTS = [
    datetime.fromisoformat(text)
    for text in ("2026-01-01T00:00:00+00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")
]
OTHERS: dict[str, list[Any]] = {
    "FloatField": [0.5, math.nan, math.inf],
    "DateTimeField": MOMENTS,
    "JSONField": [{"a": 1}, [math.nan], {"a": [-math.inf]}, ["\x00"], {"\ud800": 1}, 2**70],
    **dict.fromkeys(("CharField", "TextField", "SlugField"), TEXTS),
    **dict.fromkeys(("SmallIntegerField", "IntegerField", "BigIntegerField"), NUMBERS),
    **dict.fromkeys(("PositiveSmallIntegerField", "PositiveIntegerField", "PositiveBigIntegerField"), NUMBERS),
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_value_without_a_problem_fits_its_column(model: type[Model]) -> None:
    """Compare with the database's own view: PostgreSQL refuses to cast a value that does not fit."""
    n_fit = 0
    for field in model._meta.concrete_fields:
        for value in OTHERS.get(field.get_internal_type(), []):
            if find_problem(field, value):
                continue
            n_fit += 1
            with connection.cursor() as cursor:
                db_prep_save = field.get_db_prep_save(value, connection)
                cursor.execute(f"SELECT CAST(%s AS {field.db_type(connection)})", [db_prep_save])
                stored = cursor.fetchone()[0]
            if isinstance(value, str):
                assert stored == value
            if isinstance(value, int) and field.get_internal_type().startswith("Positive"):
                assert value >= 0
    assert n_fit


@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_of_column_has_bounds(kind: str) -> None:
    fields = [field for model in MODELS for field in model._meta.concrete_fields if field.get_internal_type() == kind]
    refused = {repr(value) for field in fields for value in OTHERS[kind] if find_problem(field, value)}
    assert refused or not fields
