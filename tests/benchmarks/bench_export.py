"""Export of 200,000 ratings: rows per second, how much resident memory grows, and whether the API is as fast.

    python -m tests.benchmarks.bench_export [--ratings N]

Makes the ratings in a database of its own (SQLite in a temporary folder, or a new one on the server that
`DATABASE_URL` names), then writes each format in a process of its own and prints one line for each. The API
sends the same table from within that process, without a network between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import Any

FORMATS = ("csv", "jsonl", "parquet")
LIMIT_MB = 100
DIMENSIONS = ("quality", "fluency", "diversity", "contingency", "empathy")


def _setup() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    import django

    django.setup()


def make(n_ratings: int) -> None:
    """Make in bulk one imported study with a rating per conversation."""
    _setup()
    from django.core.management import call_command
    from django.utils import timezone

    from webapp.bots.services import bot_version_record_imported
    from webapp.conversations.models import Conversation
    from webapp.ratings.models import Rating
    from webapp.studies.models import Participant
    from webapp.studies.services import study_create

    call_command("migrate", verbosity=0)
    study = study_create(key="bench", name="bench", bots=["alpha"], is_imported=True)
    bot = bot_version_record_imported(bot_id="alpha", source="bench")
    now = timezone.now()
    for start in range(0, n_ratings, 5000):
        numbers = range(start, min(start + 5000, n_ratings))
        people = [Participant(study=study, platform="import") for _n in numbers]
        conversations = [
            Conversation(
                source="import",
                state="completed",
                bot=bot,
                study=study,
                external_id=f"d{n}",
                n_exchanges=7,
            )
            for n in numbers
        ]
        Participant.objects.bulk_create(people)
        Conversation.objects.bulk_create(conversations)
        Rating.objects.bulk_create(
            Rating(
                conversation=conversation,
                participant=person,
                external_id=f"w{n}",
                rubric=study.rubric,
                answers={key: 1 + (n + i) % 7 for i, key in enumerate(DIMENSIONS)},
                comment=f"It was a friendly chat, number {n}, about books and the weather.",
                submitted_at=now,
            )
            for n, person, conversation in zip(numbers, people, conversations, strict=True)
        )


def export(file_format: str, path: Path) -> None:
    """Write one format in this process and print what it took, as JSON."""
    _setup()
    import psutil

    from webapp.studies.selectors import study_by_key
    from webapp.transfer.exporters.base import ExportOptions, exporter_get
    from webapp.transfer.writers import write_file

    process = psutil.Process()
    study, options, exporter = study_by_key("bench"), ExportOptions(), exporter_get("ratings")
    columns = exporter.columns(study, options)
    # One row first: the code of a library (pyarrow loads pandas) is not growth with the table.
    write_file(path, file_format, columns, islice(exporter.rows(study, options), 1))  # type: ignore[arg-type]
    before = process.memory_info().rss
    peak = before

    def rows():
        nonlocal peak
        for n, row in enumerate(exporter.rows(study, options)):
            if n % 2000 == 0:
                peak = max(peak, process.memory_info().rss)
            yield row

    started = time.perf_counter()
    n_rows = write_file(path, file_format, columns, rows())  # type: ignore[arg-type]
    seconds = time.perf_counter() - started
    peak = max(peak, process.memory_info().rss)
    by_api, n_bytes, growth = sent_by_api(file_format)
    assert n_bytes == path.stat().st_size, (n_bytes, path.stat().st_size)
    print(
        json.dumps(
            {
                "rows": n_rows,
                "seconds": seconds,
                "api_seconds": by_api,
                "api_growth_mb": growth / 1e6,
                "growth_mb": (peak - before) / 1e6,
                "file_mb": path.stat().st_size / 1e6,
            }
        )
    )


def sent_by_api(file_format: str) -> tuple[float, int, int]:
    """Return the seconds and the bytes of the same table from the API, and by how many bytes memory grew meanwhile."""
    import psutil
    from django.conf import settings
    from django.contrib.auth import get_user_model

    from webapp.core.crew import PagesInOneThread
    from webapp.core.rights import Right
    from webapp.core.tokens import token_make

    settings.ALLOWED_HOSTS = ["*"]
    user, _made = get_user_model().objects.get_or_create(
        username="bench", is_superuser=True, is_staff=True
    )
    _token, text = token_make(user=user, name=file_format, rights=[Right.READ])
    process = psutil.Process()
    before = peak = process.memory_info().rss
    n_bytes = 0

    async def send(message: dict[str, Any]) -> None:
        nonlocal n_bytes, peak
        assert message.get("status", 200) == 200, message
        n_bytes += len(message.get("body", b""))
        peak = max(peak, process.memory_info().rss)

    async def read() -> None:
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/studies/bench/tables/ratings",
            "query_string": f"format={file_format}".encode(),
            "headers": [(b"authorization", f"Bearer {text}".encode())],
        }
        await PagesInOneThread()(scope, inbox.get, send)

    started = time.perf_counter()
    asyncio.run(read())
    return time.perf_counter() - started, n_bytes, peak - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ratings", type=int, default=200_000)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--format", choices=FORMATS, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.ratings)
        return
    if options.format:
        export(options.format, options.output)
        return
    with tempfile.TemporaryDirectory() as folder, _database(Path(folder)) as env:
        me = [
            sys.executable,
            "-m",
            "tests.benchmarks.bench_export",
            "--ratings",
            str(options.ratings),
        ]
        subprocess.run([*me, "--make"], env=env, check=True)
        for file_format in FORMATS:
            output = Path(folder) / f"ratings.{file_format}"
            done = subprocess.run(
                [*me, "--format", file_format, "--output", str(output)],
                env=env,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"export, {file_format}: {found['rows']:,} ratings in {found['seconds']:.1f} s, "
                f"{found['rows'] / found['seconds']:,.0f} rows/s, {found['file_mb']:.1f} MB; "
                f"resident memory grew by {found['growth_mb']:.1f} MB "
                f"({found['growth_mb'] / LIMIT_MB:.2f} of the {LIMIT_MB} MB allowed); "
                f"the API sent it in {found['api_seconds'] / found['seconds']:.2f} times that, "
                f"and grew by {found['api_growth_mb']:.1f} MB"
            )


class _database:
    """The environment of a database that lives as long as the benchmark."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "CONFAB_DATA_DIR": str(folder)}
        self.name = ""

    def __enter__(self) -> dict[str, str]:
        if self.env.get("DATABASE_URL"):
            self.base = self.env["DATABASE_URL"].rpartition("/")[0]
            self.name = f"confab_bench_{uuid.uuid4().hex[:8]}"
            self._execute(f"CREATE DATABASE {self.name}")
            self.env["DATABASE_URL"] = f"{self.base}/{self.name}"
        return self.env

    def __exit__(self, *_: object) -> None:
        if self.name:
            self._execute(f"DROP DATABASE {self.name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        import psycopg2

        connection = psycopg2.connect(f"{self.base}/postgres")
        connection.autocommit = True
        connection.cursor().execute(statement)
        connection.close()


if __name__ == "__main__":
    main()
