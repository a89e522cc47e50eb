"""Export of 200,000 ratings: rows per second, how much resident memory grows, and whether the API is as fast.

    python -m tests.benchmarks.bench_export [--ratings N] [--rounds N]

Makes the ratings in a database of its own (SQLite in a temporary folder, or a new one on the server that
`DATABASE_URL` names), then writes each format in a process of its own and prints one line for each.

Command and API do the same: they read the same rows, and a file with the same bytes is written to the disk and
synced. In the command that is its own work; beside the API the client's part stands for it. Both are warm: a row was
written and a call was made before, so neither the start of the command nor the loading of a server's pages counts.
There is no network between. They take turns, and medians of the rounds are compared, by the clock and by the CPU of
the process. To be reached: the API takes at most 1.1 times the CPU that the command takes, and memory grows by 100 MB
at most; otherwise the exit code is 1. The clock is printed only, for a neighbour on the machine must not decide.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tests.benchmarks.own_database import own_database

FORMATS = ("csv", "jsonl", "parquet")
LIMIT_MB = 100
MOST_RATIO = 1.1
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
            Conversation(source="import", state="completed", bot=bot, study=study, external_id=f"d{n}", n_exchanges=7)
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


def export(file_format: str, path: Path, n_rounds: int) -> None:
    """Write one format in this process by both ways in turn, and print what it took, as JSON."""
    _setup()
    from webapp.studies.selectors import study_by_key
    from webapp.transfer.exporters.base import ExportOptions, exporter_get
    from webapp.transfer.writers import whole_file, write_file

    study, options, exporter = study_by_key("bench"), ExportOptions(), exporter_get("ratings")
    columns = exporter.columns(study, options)
    # One row first: the code of a library (pyarrow loads pandas) is not growth with the table.
    write_file(path, file_format, columns, islice(exporter.rows(study, options), 1))  # type: ignore[arg-type]
    api = Api(file_format)
    api.call("me", Spent())
    other = path.with_name(f"api-{path.name}")

    def by_command() -> Spent:
        nonlocal n_rows
        with Spent() as spent:
            rows = spent.watched(exporter.rows(study, options))
            n_rows = write_file(path, file_format, columns, rows)  # type: ignore[arg-type]
        return spent

    def by_api() -> Spent:
        with Spent() as spent, whole_file(other) as file:
            api.call("studies/bench/tables/ratings", spent, file)
        return spent

    n_rows = 0
    rounds = []
    for n in range(n_rounds):  # whoever comes second finds the machine as the first has left it
        if n % 2:
            second, first = by_api(), by_command()
        else:
            first, second = by_command(), by_api()
        rounds.append((first, second))
        assert other.read_bytes() == path.read_bytes()

    def median(name: str, side: int) -> float:
        return statistics.median(getattr(one[side], name) for one in rounds)

    print(
        json.dumps(
            {
                "rows": n_rows,
                "seconds": median("seconds", 0),
                "cpu_seconds": median("cpu_seconds", 0),
                "growth_mb": max(first.growth_mb for first, _ in rounds),
                "api_seconds": median("seconds", 1),
                "api_cpu_seconds": median("cpu_seconds", 1),
                "api_growth_mb": max(second.growth_mb for _, second in rounds),
                "file_mb": path.stat().st_size / 1e6,
            }
        )
    )


class Spent:
    """What a block spends: seconds, CPU seconds of all threads, and by how many MB resident memory grew at most."""

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._before = self._most = self._process.memory_info().rss
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> Spent:
        gc.collect()
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began[0]
        self.cpu_seconds = time.process_time() - self._began[1]
        self.look()

    @property
    def growth_mb(self) -> float:
        return (self._most - self._before) / 1e6

    def look(self) -> None:
        """Note the memory that is used now."""
        self._most = max(self._most, self._process.memory_info().rss)

    def watched(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield rows, with a look now and then."""
        for n, row in enumerate(rows):
            if n % 2000 == 0:
                self.look()
            yield row


class Api:
    """The server's way from a request to its answer, in this process, with a client that has a token."""

    def __init__(self, file_format: str) -> None:
        from django.conf import settings
        from django.contrib.auth import get_user_model

        from webapp.core.authentication import token_make
        from webapp.core.rights import Right
        from webapp.core.thread_pool import PagesInOneThread, ThreadPooledApp

        settings.ALLOWED_HOSTS = ["*"]
        user, _made = get_user_model().objects.get_or_create(username="bench", is_superuser=True, is_staff=True)
        _row, text = token_make(user=user, name=file_format, rights=[Right.READ])
        self._header = (b"authorization", f"Bearer {text}".encode())
        self._query = f"format={file_format}".encode()
        self._pages = ThreadPooledApp(PagesInOneThread(), n_threads=1, wait_s=30)
        self._loop = asyncio.new_event_loop()  # a server's lasts as long as its process

    def call(self, path: str, spent: Spent, file: IO[bytes] | None = None) -> None:
        """Send a call, and write its answer to the file as it comes."""
        n_pieces = 0

        async def send(message: dict[str, Any]) -> None:
            nonlocal n_pieces
            assert message.get("status", 200) == 200, message
            if file is not None:
                file.write(message.get("body", b""))
            n_pieces += 1
            if n_pieces % 10 == 0:
                spent.look()

        async def read() -> None:
            inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})
            scope = {
                "type": "http",
                "method": "GET",
                "path": f"/api/v1/{path}",
                "query_string": self._query,
                "headers": [self._header],
            }
            await self._pages(scope, inbox.get, send)

        self._loop.run_until_complete(read())


def main() -> int:
    """Return 1 where the API takes longer than it may, or memory grows by more."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ratings", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=4, help="of each way, in turn")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--format", choices=FORMATS, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.ratings)
        return 0
    if options.format:
        export(options.format, options.output, options.rounds)
        return 0
    is_bad = False
    with tempfile.TemporaryDirectory() as folder, own_database(Path(folder)) as env:
        me = [
            sys.executable,
            "-m",
            "tests.benchmarks.bench_export",
            "--ratings",
            str(options.ratings),
            "--rounds",
            str(options.rounds),
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
            document = json.loads(done.stdout.splitlines()[-1])
            ratio = document["api_cpu_seconds"] / document["cpu_seconds"]
            most_mb = max(document["growth_mb"], document["api_growth_mb"])
            wrong = [
                *(["TOO SLOW"] if ratio > MOST_RATIO else []),
                *(["TOO MUCH MEMORY"] if most_mb > LIMIT_MB else []),
            ]
            is_bad |= bool(wrong)
            print(
                f"export, {file_format}: {document['rows']:,} ratings in {document['seconds']:.1f} s, "
                f"{document['rows'] / document['seconds']:,.0f} rows/s, {document['file_mb']:.1f} MB; "
                f"resident memory grew by {document['growth_mb']:.1f} MB "
                f"({document['growth_mb'] / LIMIT_MB:.2f} of the {LIMIT_MB} MB allowed); "
                f"the API took {document['api_seconds'] / document['seconds']:.2f} times that by the clock and "
                f"{ratio:.2f} times by the CPU (at most {MOST_RATIO}), "
                f"and grew by {document['api_growth_mb']:.1f} MB  {', '.join(wrong)}".rstrip(),
                flush=True,
            )
        return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
