"""The loaders of a data package, run: pandas always, R and SPSS's language (by PSPP) where they are installed."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evaluation.data.package import package_open
from tests.builders import exchange, make_participant, make_study
from tests.webapp.transfer.test_package import packed
from webapp.conversations.task_start import conversation_start
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.ratings.services import rating_submit
from webapp.studies.models import Study
from webapp.studies.pre_task import question_answers_store
from webapp.transfer.exporters.base import ExportColumn, ExportOptions
from webapp.transfer.package.contents import sps_names
from webapp.transfer.package.tables import PackagedTable, packaged_tables

pytestmark = pytest.mark.django_db
TEXTS = [
    'a, "quoted"; text', "it's ' odd '", "two\nlines\r\nthree\ttabs", "=1+1", "'=1+1", "'", '""',
    "+49 30", "＝1", "😀🇩🇪", "مرحبا, بالعالم", "NA", "NULL", ".", "é" * 300, r"back\slash \n \u00e9",
    "  before and after", "@home",
]  # fmt: skip
OPTIONS = ["18, or 19", "it's 20+", '"old" \\ 😀', "=3", "NA"]
TONGUES = ["de", "en, uk", "عربي"]
BEFORE: list[dict[str, Any]] = [
    {"key": "age", "title": "How old?", "kind": "choice", "options": OPTIONS},
    {"key": "tongues", "title": "Which?", "kind": "choices", "options": TONGUES, "required": False},
    {"key": "document", "title": 'Say "hi" \\ it\'s?', "kind": "text", "required": False},
]  # fmt: skip
AFTER: list[dict[str, Any]] = [
    {"key": "with", "title": "Good?", "kind": "scale", "low": 1, "high": 5, "labels": {1: "it "
    "isn't", 5: 'a "lot" '
        '\\ 😀'}},
    {"key": "dull", "title": "Dull?", "kind": "scale", "low": 1, "high": 7, "required": False},
    {"key": "why", "title": "Why?", "kind": "text", "required": False},
]  # fmt: skip
MISSING = "<no value>"

Cells = dict[str, list[dict[str, Any]]]
"""Rows by table; a value is a text, a number or None."""


@pytest.fixture
def study() -> Study:
    study = make_study("texts", name="“Texts”", questions=BEFORE, after=AFTER)
    for number in range(0, len(TEXTS), 3):
        person = make_participant(study)
        chat = conversation_start(participant=person)
        first, second, third = TEXTS[number : number + 3]
        before: dict[str, Any] = {"age": OPTIONS[number // 3 % len(OPTIONS)]}
        if number % 2:
            before |= {"document": first, "tongues": TONGUES[: number % 3 + 2]}
        question_answers_store(task=chat.task, answers=before)
        for text in (first, second, third):
            exchange(chat, text, text)
        chat.refresh_from_db()
        after: dict[str, Any] = {"with": 1 + number % 5}
        if number % 2:
            after |= {"dull": 7, "why": second}
        rating_submit(conversation=chat, participant=person, answers=after, comment=third)
    version = MetricVersion.objects.create(key="k", name="gone", version="1")
    for chat, value in zip(study.conversations.all(), (None, 1 / 3, 1e22, 12345.678901), strict=False):
        MetricResult.objects.create(conversation=chat, metric=version, values={"gone": value})
    return study


def of_pandas(folder: Path, tables: list[PackagedTable]) -> Cells:
    """Load the tables in a process of their own, and return their cells."""
    script = (
        "import json, load, pandas as pd\n"
        "def plain(x):\n"
        "    if isinstance(x, (list, dict)): return json.dumps(x, ensure_ascii=False)\n"
        "    if pd.isna(x): return None\n"
        "    return x.timestamp() if isinstance(x, pd.Timestamp) else x if isinstance(x, str) else float(x)\n"
        "print(json.dumps({name: [{c: plain(x) for c, x in row.items()} for row in table.to_dict('records')]\n"
        "                  for name, table in load.load().items()}))\n"
    )
    return json.loads(run([sys.executable, "-c", script], folder))  # type: ignore[no-any-return]


def of_r(folder: Path, tables: list[PackagedTable]) -> Cells:
    """Load the tables with R and return their cells; a factor gives its words, a truth value 1 or 0."""
    lines = ['source("load.R", encoding = "UTF-8")', 'dir.create("out")']
    for table in tables:
        lines.append(
            f"write.csv(lapply({table.name}, function(x) if (is.numeric(x) || is.logical(x) || inherits(x, 'POSIXct')) "
            f"ifelse(is.na(x), NA, sprintf('%.17g', as.numeric(x))) else as.character(x)), 'out/{table.name}.csv', "
            f"row.names = FALSE, na = '{MISSING}', fileEncoding = 'UTF-8')"
        )
    (folder / "script.R").write_text("\n".join(lines))
    run(["Rscript", "--vanilla", "script.R"], folder)
    return {table.name: list(written(folder, table, table_names(table))) for table in tables}


def of_spss(folder: Path, tables: list[PackagedTable]) -> Cells:
    """Load the tables with PSPP and return their cells; a value with a label gives it."""
    lines = [(folder / "load.sps").read_text(encoding="utf-8")]
    (folder / "out").mkdir()
    for table in tables:
        names = sps_names(table.columns)
        times = [v for v, c in zip(names, table.columns, strict=True) if c.type == "time"]
        lines += [f"GET FILE='{table.name}.sav'."]
        lines += [f"FORMATS {' '.join(times)} (F24.3)."] if times else []
        numbers = [v for v, c in zip(names, table.columns, strict=True) if c.type == "number"]
        lines += [f"FORMATS {' '.join(numbers)} (F40.16)."] if numbers else []
        lines.append(
            f"SAVE TRANSLATE /OUTFILE='out/{table.name}.csv' /TYPE=CSV /FIELDNAMES /CELLS=LABELS /MISSING=RECODE "
            "/TEXTOPTIONS DECIMAL=DOT FORMAT=PLAIN."
        )
    (folder / "script.sps").write_text("\n".join(lines), encoding="utf-8")
    result = run(["pspp", "--no-output", "script.sps"], folder)
    assert result == ""
    return {table.name: list(written(folder, table, sps_names(table.columns))) for table in tables}


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table_names(table: PackagedTable) -> list[str]:
    return [column.name for column in table.columns]


def written(folder: Path, table: PackagedTable, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV that a statistics program wrote, by our names of the columns."""
    with (folder / "out" / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if row == names or not row:
                continue
            cells = (None if cell in (MISSING, "", " ") else cell for cell in row)
            yield dict(zip(table_names(table), cells, strict=True))


LOADERS: dict[str, tuple[str, Callable[[Path, list[PackagedTable]], Cells]]] = {
    "pandas": (sys.executable, of_pandas),
    "R": ("Rscript", of_r),
    "SPSS": ("pspp", of_spss),
}


def wanted(loader: str, column: ExportColumn, cell: str) -> str | float | None:
    """Return what a loader must make of a cell; R and PSPP write a value that has words as these."""
    if not cell:
        return None
    if column.type == "time":
        zero = datetime(1582, 10, 14, tzinfo=UTC) if loader == "SPSS" else datetime.fromtimestamp(0, UTC)
        return (datetime.fromisoformat(cell) - zero).total_seconds()
    if column.type == "boolean":
        return {"true": "Yes", "false": "No"}[cell] if loader == "SPSS" else float(cell == "true")
    if column.type in ("integer", "number"):
        words = dict(column.labels).get(float(cell)) if loader == "SPSS" else None
        return words or float(cell)
    if loader == "pandas":
        return cell
    if loader == "SPSS":
        cell = " ".join(cell.replace("\t", " ").splitlines()).rstrip()
    return dict(column.labels).get(cell) or cell.replace("\r\n", "\n")


@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_gets_every_value_as_it_was(study: Study, tmp_path: Path, loader: str) -> None:
    program, load = LOADERS[loader]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed here")
    path = tmp_path / "study.zip"
    path.write_bytes(packed(study))
    tables = packaged_tables(study, ExportOptions())
    with package_open(path) as package:
        package.unpack(tmp_path)
        expected = {table.name: list(package.rows(table.name)) for table in tables}
    result = load(tmp_path, tables)
    assert result.keys() == expected.keys()
    assert len(expected["turns"]) == 2 * len(TEXTS)
    for table in tables:
        assert len(result[table.name]) == len(expected[table.name]), table.name
        for row, cells in zip(result[table.name], expected[table.name], strict=True):
            for column in table.columns:
                value, cell = row[column.name], cells[column.name]
                want = wanted(loader, column, cell)
                text = f"{table.name}.{column.name}: {value!r} of {cell!r}"
                if isinstance(want, float):
                    assert float(value) == pytest.approx(want, rel=1e-14, abs=1e-3 * (column.type == "time")), text
                else:
                    assert value == want, text
