"""Exported tables, results and numbers of two fixed studies, through commands."""

import csv
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.outside.conftest import command, document
from tests.outside.snapshots import as_text, compare, compare_parts, steady

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("ids_by_seed_again")]
TABLES = (
    *("bots", "chat_ratings", "checks", "consent_texts", "conversations", "dictionary", "for_raters", "item_means"),
    *("items", "judged", "messages", "metrics", "participants", "pay", "ratings", "reader_notes", "repeats"),
    *("reply_marks", "reports", "turn_metrics", "undefined"),
)
FORMATS = ("csv", "jsonl", "parquet")


def in_order(text: str) -> str:
    """Sort the rows of a table below its header: they come in the order of ids, which are drawn. Keep forty."""
    head, *rows = text.splitlines()
    return "\n".join([f"{head}  ({len(rows)})", *sorted(rows)[:40]])


@pytest.mark.parametrize("key", ["chats", "pairs"])
def test_exported_tables(studies: tuple[str, ...], tmp_path: Path, key: str) -> None:
    parts = {}
    for table in TABLES:
        texts = []
        for form in FORMATS:
            file = tmp_path / f"{table}.{form}"
            try:
                call_command("export", "--study", key, "--what", table, "--format", form, "--output", str(file))
            except CommandError as error:
                texts.append(f"== {table} {form}: {error}")
                continue
            if form == "csv":
                texts.append(f"== {table} csv\n{in_order(steady(file.read_text()))}")
            elif form == "jsonl":
                rows = file.read_text().splitlines()
                names = list(json.loads(rows[0])) if rows else []
                texts.append(f"== {table} jsonl {len(rows)}: {' '.join(names)}")
            else:
                import pyarrow.parquet

                schema = pyarrow.parquet.read_schema(file)
                fields = ", ".join(f"{field.name} {field.type}" for field in schema)
                texts.append(f"== {table} parquet: {fields}")
        parts[table] = "\n\n".join(texts)
    compare_parts(f"tables/{key}", parts)


@pytest.mark.parametrize("key", ["chats", "pairs"])
def test_results_of_a_report(studies: tuple[str, ...], capsys: pytest.CaptureFixture[str], key: str) -> None:
    result = document(command(capsys, "report", "--study", key, "--json"))
    compare(f"results/report-{key}.json", as_text(result))


@pytest.mark.parametrize("intercept", ["common", "fold"])
@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_fits_of_the_hybrid_metric(
    studies: tuple[str, ...], capsys: pytest.CaptureFixture[str], preset: str, intercept: str
) -> None:
    words = ("fit_hybrid", "--study", "chats", "--preset", preset, "--intercept", intercept, "--json")
    result = document(command(capsys, *words))
    compare(f"results/fit-{preset.replace('@', '-')}-{intercept}.json", as_text(result))


def test_metrics_of_three_conversations(db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = (
        [
            "hi there, how are you today?",
            "I am fine, thank you! And you?",
            "great :) I went swimming",
            "Oh nice, was the water cold?",
        ],
        ["do you like dogs?", "I do. I do. I do.", "why do you say that again", "Sorry, I am confused."],
        ["my cat died last week", "I am so sorry to hear that.", "thank you, that is kind", "What was its name?"],
    )
    records = tmp_path / "three.jsonl"
    with records.open("w") as file:
        for number, turns in enumerate(texts):
            record = {
                "dialogue_id": f"d{number}",
                "bot": "ab"[number % 2],
                "source": "made",
                "turns": [
                    {"speaker": ("human", "bot")[place % 2], "text": text, "vote": [0, 1][place == 1]}
                    for place, text in enumerate(turns)
                ],
                "ratings": [{"rater": "r1", "quality": 3 + number}],
            }
            file.write(json.dumps(record) + "\n")
    command(capsys, "import_conversations", str(records), "--study", "three", "--json")
    done = document(command(capsys, "compute_metrics", "--study", "three", "--inline", "--json"))
    assert isinstance(done, dict)
    file_out = tmp_path / "metrics.csv"
    call_command("export", "--study", "three", "--what", "metrics", "--format", "csv", "--output", str(file_out))
    rows = []
    with file_out.open(newline="") as table:
        for row in sorted(row[1:] for row in csv.reader(table)):
            rows.append(",".join(_rounded(cell) for cell in row))
    compare("results/metrics.txt", steady(f"{sorted(done['metrics'])}\n" + "\n".join(rows)))


def _rounded(cell: str) -> str:
    try:
        return f"{float(cell):.5g}"
    except ValueError:
        return cell
