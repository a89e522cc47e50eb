"""Journeys (b) to (e) through the outside doors: ratings in, self-play on a worker, metrics, the hybrid
metric, exports out."""

import csv
import gzip
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from chatbots.corpora.dialogues import corpus_read
from tests.conftest import ROOT, ConfabServer
from tests.databases import migrated_file
from tests.documents import blocks_tested, words_of
from webapp.participant.simulated import StudyClient, frames_until, say

pytestmark = pytest.mark.slow


def rated_conversations(path: Path, *, n_bots: int = 4, n_each: int = 8) -> None:
    """Write conversations whose ratings depend on how long the person's answers are, plus noise."""
    rng = random.Random(7)
    dialogues = [list(d.turns) for d in corpus_read().dialogues]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for number in range(n_bots * n_each):
            bot = number % n_bots
            turns = rng.choice(dialogues)[:8]
            turns = [t if i % 2 else " ".join(t.split()[: 3 + 4 * bot]) for i, t in enumerate(turns)]
            quality = min(7, max(1, 2 + bot + rng.choice([-1, 0, 1])))
            record = {
                "dialogue_id": f"d{number}",
                "bot": f"bot{bot}",
                "source": "made for this test",
                "turns": [{"speaker": "bot" if i % 2 else "human", "text": text} for i, text in enumerate(turns)],
                "ratings": [{"rater": f"r{number % 5}", "quality": quality, "fluency": 4}],
            }
            file.write(json.dumps(record) + "\n")
        file.write('{"dialogue_id": "broken", "turns": [\n')


def answer(server: ConfabServer, *args: str) -> dict:
    """Return a command's one JSON document."""
    return json.loads(server.manage(*args, "--json").stdout)


@pytest.fixture
def with_worker(command_env: ConfabServer) -> Iterator[ConfabServer]:
    """Run a worker, and nothing else, on the installation for commands."""
    command_env.start_worker()
    yield command_env
    command_env.kill("worker")


def test_from_ratings_to_an_export_and_a_job_of_ci(
    with_worker: ConfabServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, folder = with_worker, with_worker.data_dir
    data = folder / "ratings.jsonl.gz"
    rated_conversations(data)

    imported = answer(server, "import_conversations", str(data), "--study", "lab")
    assert (imported["conversations"], imported["ratings"]) == (32, 32)
    assert [skipped["line"] for skipped in imported["skipped"]] == [33]
    again = answer(server, "import_conversations", str(data), "--study", "lab")
    assert (again["conversations"], again["ratings"]) == (0, 0)

    run = answer(server, "selfplay", "--bots", "eliza,parrot", "--conversations", "6", "--turns", "6", "--seed", "3")
    assert run["bots"] == {"eliza": {"conversations": 6, "turns": 36}, "parrot": {"conversations": 6, "turns": 36}}

    for where in (["--study", "lab"], ["--run", str(run["run"])]):
        computed = answer(server, "compute_metrics", *where)
        assert "sentiment" in computed["metrics"]
        assert computed["conversations"] in (32, 12, 0)  # the run's own metrics may be there already
    assert answer(server, "compute_metrics", "--study", "lab", "--inline")["conversations"] == 0

    fit = answer(server, "fit_hybrid", "--study", "lab", "--run", str(run["run"]))
    assert (fit["n_bots"], fit["n_conversations"], fit["target"]) == (4, 32, "quality")
    assert len(fit["features"]) == 11
    assert set(fit["bots"]) == {"bot0", "bot1", "bot2", "bot3", "eliza", "parrot"}
    assert fit["bots"]["eliza"]["human_mean"] is None
    assert fit["bots"]["eliza"]["predicted_selfplay"] is not None
    assert -1 <= fit["bot_level"]["pearson"]["r"] <= 1

    ratings, messages = folder / "ratings.csv", folder / "messages.parquet"
    rows = answer(server, "export", "--study", "lab", "--what", "ratings", "--format", "csv", "--output", str(ratings))
    with ratings.open(newline="", encoding="utf-8") as file:
        exported = list(csv.DictReader(file))
    assert rows["rows"] == len(exported) == 32
    assert {row["quality"] for row in exported} <= {str(n) for n in range(1, 8)}
    answer(server, "export", "--study", "lab", "--what", "messages", "--format", "parquet", "--output", str(messages))
    assert parquet.read_table(messages).num_rows == 32 * 8
    evaluated_by_the_documented_job(server, monkeypatch, capsys)


def evaluated_by_the_documented_job(
    server: ConfabServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run what docs/reference/api.md shows from Python, and its job of CI, against the study that is here."""
    server.shell(
        "from django.contrib.auth import get_user_model;"
        "get_user_model().objects.create_superuser('ci', password='a-long-password')"
    )
    asked = ("api_token", "make", "--user", "ci", "--name", "job", "--rights", "read,run")
    server.start_web()
    named = {"URL": server.url, "TOKEN": answer(server, *asked)["token"], "STUDY": "lab"}
    for name, value in {**named, "BOT": "eliza"}.items():
        monkeypatch.setenv(f"CONFAB_{name}", value)
    shown = blocks_tested("tests/journeys/test_research.py::test_from_ratings_to_an_export_and_a_job_of_ci")
    reading, job = (block.text for block in shown)
    monkeypatch.chdir(server.data_dir)
    rated_conversations(Path("more.jsonl.gz"), n_bots=1)
    reading = reading.replace("https://confab.example.org", server.url)
    exec(compile(reading.replace(".jsonl", ".jsonl.gz"), "docs/reference/api.md", "exec"), {"token": named["TOKEN"]})
    assert Path("ratings.csv").stat().st_size
    with pytest.raises(SystemExit) as ended:
        exec(compile(job.replace("conversations=30", "conversations=4"), "docs/reference/api.md", "exec"), {})
    out = capsys.readouterr().out
    predicted, low, high = map(float, re.findall(r"-?\d+\.\d\d", out))
    assert low <= predicted <= high, out
    assert bool(ended.value.code) == (low < 4)
    server.kill("web")


def test_killed_worker_loses_nothing(with_worker: ConfabServer) -> None:
    """A run whose worker is killed is taken up by the next worker and is then complete, once."""
    server = with_worker
    started = answer(
        server, "selfplay", "--bots", "parrot,eliza", "--conversations", "60", "--turns", "10", "--no-wait"
    )
    server.kill("worker")
    server.shell(
        "from webapp.jobs.models import SelfPlayRun as R; import datetime as d; "
        "R.objects.update(heartbeat_at=d.datetime(2020, 1, 1, tzinfo=d.UTC))"
    )
    server.start_worker()
    count = (
        "import time\n"
        "from webapp.jobs.models import SelfPlayRun as R\n"
        f"for _ in range(600):\n"
        f"    run = R.objects.get(pk={started['run']})\n"
        "    if run.is_over: break\n"
        "    time.sleep(.2)\n"
        "print(run.state, run.conversations.count(), run.conversations.filter(error='').count())"
    )
    assert server.shell(count).split() == ["done", "120", "120"]


async def test_a_rating_is_stored_once(test_bots_server: ConfabServer) -> None:
    """Journey (b): two submissions, one rating, one code, and it is in the export."""
    server = test_bots_server
    server.add_study("quick", ["test-quick"])
    doors = StudyClient(server.url, "quick")
    try:
        await doors.start()
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            await say(socket, "=HYPERLINK(1)")
        page = await doors.http.get(f"/chat/{doors.conversation_id}/rate/")
        form = doors._form(page, "/rate/")
        answers = dict.fromkeys(form.choices, "6")
        first = await doors._post(form, answers, page)
        second = await doors._post(form, {**answers, "quality": "1"}, page)
        assert str(first.url) == str(second.url)
    finally:
        await doors.close()
    file = server.data_dir / "messages.csv"
    for what, n_rows in (("ratings", 1), ("messages", 2)):
        exported = answer(
            server, "export", "--study", "quick", "--what", what, "--format", "csv", "--output", str(file)
        )
        assert exported["rows"] == n_rows
    with file.open(newline="", encoding="utf-8") as lines:
        assert next(csv.DictReader(lines))["text"] == "'=HYPERLINK(1)"


def test_rehearsal_fills_a_study_and_is_marked(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    asked = [
        {"key": "age", "title": "Age?", "kind": "choice", "options": ["under 30", "30 or more"]},
        {"key": "speaks", "title": "Languages?", "kind": "choices", "options": ["da", "en", "fr"]},
        {"key": "job", "title": "Job?", "kind": "text"},
    ]
    server.add_study("rehearsed", ["test-quick", "eliza"], min_exchanges=2, questions=asked)
    shown = blocks_tested("tests/journeys/test_research.py::test_rehearsal_fills_a_study_and_is_marked")
    [command] = {command for block in shown for command in block.commands}
    smaller = {"demo": "rehearsed", "30": "6"}
    words = [smaller.get(word, word) for word in words_of(command) or ()]
    played = answer(server, *words, "--url", server.url)
    assert (played["people"], played["done"], played["failed"]) == (6, 6, [])
    file = server.data_dir / "ratings.csv"
    export = ["export", "--study", "rehearsed", "--what", "ratings", "--format", "csv", "--output"]
    assert answer(server, *export, str(file))["rows"] == 0
    assert answer(server, *export, str(file), "--include-synthetic")["rows"] == 6
    export[export.index("ratings")] = "participants"
    assert answer(server, *export, str(file), "--include-synthetic", "--include-private")["rows"] == 6
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            assert row["question_age"] in asked[0]["options"]
            assert set(row["question_speaks"].split("; ")) <= set(asked[1]["options"])
            assert row["question_job"]


def test_items_are_imported_and_judged_in_a_rehearsal(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    items = [{"id": n, "context": ["hello"], "response": "hi" * (n + 1), "model": f"m{n % 2}"} for n in range(8)]
    path = server.data_dir / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    server.add_study("items", [], protocol="annotate", n_items=3, state="draft")
    assert answer(server, "import_items", str(path), "--study", "items")["items"] == 8
    server.shell(
        "from webapp.studies.models import Study; from webapp.studies.versions import study_edit; "
        "study_edit(study=Study.objects.get(key='items'), state='collecting')"
    )
    played = answer(server, "rehearse", "--study", "items", "--people", "5")
    assert (played["done"], played["pages"], played["failed"]) == (5, 15, [])
    result = server.shell(
        "from webapp.studies.models import Task; from webapp.ratings.models import Rating; "
        "print(Task.objects.filter(kind='judge', state='completed').count(), "
        "Rating.objects.filter(item__isnull=False).count())"
    )
    assert result.split() == ["5", "15"]


def test_replies_to_contexts_of_self_play_are_compared_in_a_rehearsal(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    run = answer(server, *("selfplay", "--bots", "eliza,generic", "--conversations", "3", "--turns", "6", "--inline"))[
        "run"
    ]
    practice = {
        "context": ["My dog died."],
        "first": "Oh no. How old was he?",
        "second": "Dogs are animals.",
        "answers": {"quality": "first"},
        "why": "It asks.",
    }
    server.add_study("pairs", [], protocol="pairwise", n_items=4, state="draft", training_pairs=[practice])
    made = answer(
        server,
        *("make_items", "--study", "pairs", "--run", str(run), "--bots", "eliza,parrot"),
        *("--contexts", "6", "--utterances", "1", "--more-than-tokens", "0", "--inline"),
    )
    assert made["items"] >= 4
    server.shell(
        "from webapp.studies.models import Study; from webapp.studies.versions import study_edit; "
        "study_edit(study=Study.objects.get(key='pairs'), state='collecting')"
    )
    played = answer(server, "rehearse", "--study", "pairs", "--people", "3", "--url", server.url)
    assert (played["done"], played["pages"], played["failed"]) == (3, 15, [])
    result = server.shell(
        "from webapp.ratings.models import Rating; from webapp.studies.models import Slot; "
        "print(Rating.objects.filter(item__study__key='pairs').count(), "
        "Slot.objects.filter(item__study__key='pairs', is_flipped=True).count() > 0)"
    )
    assert result.split() == ["12", "True"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["chat", "elizza", "--message", "hi"], 1, "eliza"),
        (["import_conversations", "nowhere.jsonl", "--study", "x"], 1, "nowhere.jsonl"),
        (["fit_hybrid", "--study", "nowhere"], 1, "nowhere"),
        (["export", "--study", "demo", "--what", "everything", "--format", "csv", "--output", "x"], 2, "everything"),
        (["selfplay", "--bots", "eliza", "--conversations", "-3"], 2, "-3"),
        (["rehearse", "--study", "demo", "--url", "http://127.0.0.1:9"], 1, "make run"),
    ],
)
def test_commands_say_what_is_wrong(command_env: ConfabServer, args: list[str], code: int, says: str) -> None:
    result = command_env.manage(*args, check=False)
    assert result.returncode == code, result.stderr
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.skipif(bool(os.environ.get("DATABASE_URL")), reason="about a file of SQLite")
def test_a_database_without_its_tables_is_named(tmp_path: Path) -> None:
    path = tmp_path / "confab.sqlite3"
    shutil.copy(migrated_file(), path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("DROP TABLE studies_study")
    env = {**os.environ, "CONFAB_DATA_DIR": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    env["DJANGO_SETTINGS_MODULE"] = "webapp.settings.embedded"
    command = [sys.executable, "manage.py", "fit_hybrid", "--study", "demo"]
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    assert "run `manage.py upgrade`" in result.stderr


def test_list_and_chat(command_env: ConfabServer) -> None:
    listed = {bot["id"]: bot for bot in answer(command_env, "list_bots")}
    assert {"eliza", "retrieval", "parrot", "generic"} <= set(listed)
    assert set(listed["eliza"]) == {"id", "name", "kind", "available", "reason"}
    said = answer(command_env, "chat", "parrot", "--message", "one", "--message", "two")
    assert said["bot"] == "parrot"
    assert [turn["speaker"] for turn in said["turns"]] == ["human", "bot"] * 2
