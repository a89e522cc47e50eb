"""One computation of metrics by one worker and by two: how much sooner two are done.

Each worker is a process with one thread of torch, which has loaded its models before the clock starts. They share a
job as Celery's workers do, shard by shard, on PostgreSQL (a database of its own beside that of `DATABASE_URL`).

    DATABASE_URL=postgres://… python -m tests.benchmarks.bench_workers [--conversations 1024] [--repeat 1]

The aim, at least 1.8 on two cores, is stated for a machine with nothing else to do: two busy loops that share the
machine with other work show, beside it, what could be had.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

METRICS = ["semantic_similarity", "sentiment"]


def work() -> None:
    """Be one worker: load, say so, and when told do shards until the job is over."""
    import django

    django.setup()
    from webapp.conversations.models import Conversation
    from webapp.conversations.selectors import conversation_values
    from webapp.runs.engine import job_slice
    from webapp.runs.models import MetricRun
    from webapp.runs.selectors.jobs import job_read
    from webapp.runs.selectors.metrics import metrics_find

    some = list(conversation_values(Conversation.objects.all()[:4]))
    for metric in metrics_find(METRICS):
        metric.compute(some)
    print("ready", flush=True)
    job = MetricRun.objects.get(pk=int(sys.stdin.readline()))
    while not job_read(job).is_over:
        job_slice(job)
        time.sleep(0.01)


def busy() -> None:
    """Compute for a while without any database: what the machine gives a second process just now."""
    from chatbots.encoders.sentence import sentence_encoder

    encoder = sentence_encoder()
    encoder.encode(["warm"])
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(20):
        encoder.encode([f"sentence {n} {i} of the busy loop" for i in range(32)])


def timed(what: str, n: int, told: str) -> float:
    """Return the seconds that `n` processes take from the word to start to their end."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_workers", what]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(n)
    ]
    for process in processes:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise SystemExit("a worker did not start")
    started = time.perf_counter()
    for process in processes:
        assert process.stdin
        process.stdin.write(f"{told}\n")
        process.stdin.flush()
    for process in processes:
        if process.wait():
            raise SystemExit("a worker failed")
    return time.perf_counter() - started


@contextmanager
def own_database(url: str) -> Iterator[str]:
    """Make a database for the length of the benchmark, on the server of `url`."""
    import psycopg2

    parts = urlsplit(url)
    name = f"bench_workers_{os.getpid()}"
    server = psycopg2.connect(url)
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f"create database {name}")
        try:
            yield urlunsplit(parts._replace(path=f"/{name}"))
        finally:
            cursor.execute(f"drop database {name} with (force)")
    server.close()


def bench_workers(n: int, repeat: int) -> None:
    """Print how much sooner two workers are done than one."""
    import django

    django.setup()
    from django.core.management import call_command

    from tests.benchmarks.bench_metrics import conversations, study_made
    from webapp.runs.models import MetricResult
    from webapp.runs.services.metrics import metric_run_create

    call_command("migrate", verbosity=0)
    study = study_made(conversations(n))
    for _ in range(repeat):
        taken = {}
        for n_workers in (1, 2):
            MetricResult.objects.all().delete()
            job = metric_run_create(study=study, metrics=METRICS, enqueue=False)
            taken[n_workers] = timed("work", n_workers, str(job.pk))
            job.refresh_from_db()
            if (job.state, job.n_done) != ("done", n):
                raise SystemExit(f"{job.n_done} of {n} conversations were measured: {job.error}")
        could = 2 * timed("busy", 1, "") / timed("busy", 2, "")
        print(
            f"workers: {n} conversations: one {taken[1]:.1f} s, two {taken[2]:.1f} s, {taken[1] / taken[2]:.2f} times "
            f"as fast (aim: at least 1.8 on two free cores); two busy loops without a database: {could:.2f} times",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["work", "busy"])
    parser.add_argument("--conversations", type=int, default=1024, help="whole shards of 256")
    parser.add_argument("--repeat", type=int, default=1)
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if asked.what:
        {"work": work, "busy": busy}[asked.what]()
        return
    url = os.environ.get("DATABASE_URL", "")
    if not url.startswith("postgres"):
        print("workers: left out, DATABASE_URL names no PostgreSQL")
        return
    with own_database(url) as own:
        os.environ["DATABASE_URL"] = own
        try:
            bench_workers(asked.conversations, asked.repeat)
        finally:
            from django.db import connection

            connection.close()


if __name__ == "__main__":
    main()
