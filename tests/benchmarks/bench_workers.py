"""One computation of metrics by one worker and by two: how much sooner two are done, and what it costs them.

Each worker is a process with one thread of torch, which has loaded its models before the clock starts. They share a
job as Celery's workers do, shard by shard, on PostgreSQL (a database of its own beside that of `DATABASE_URL`). Every
team has a data folder of its own: vectors that another kept would be found there and not encoded again.

    DATABASE_URL=postgres://… python -m tests.benchmarks.bench_workers [--conversations 1024] [--repeat 1]

The aim, at least 1.8 on two cores, is stated for a machine with nothing else to do. Beside the clock stands what other
load hardly touches: processor time, of the workers and of the database's processes that serve them. Two workers that
take together as much as one are twice as fast on two free cores; what is more than that, they lose to each other. Two
busy loops without a database tell, in both measures, what the machine gives a second process just now.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psutil

METRICS = ["semantic_similarity", "sentiment"]


@dataclass(frozen=True)
class Team:
    """What some processes took together, from being told to their end.

    Attributes:
        seconds: by the clock.
        processor_s: of the processes and of the database's that served them.
        database_s: spent waiting for the database, and `queries` how often.
    """

    seconds: float
    processor_s: float
    database_s: float
    queries: int


def work() -> None:
    """Be one worker: load, say so, and when told do shards until the job is over."""
    import django

    django.setup()
    from django.db import connection

    from webapp.conversations.models import Conversation
    from webapp.conversations.selectors import conversation_values
    from webapp.jobs.engine import run_job_for
    from webapp.jobs.models import MetricRun
    from webapp.jobs.selectors.jobs import job_read
    from webapp.jobs.selectors.metrics import metrics_find

    some = list(conversation_values(Conversation.objects.all()[:4]))
    for metric in metrics_find(METRICS):
        metric.compute(some)
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (server,) = cursor.fetchone()
    waited = {"database_s": 0.0, "queries": 0}

    def timed_query(execute, sql, params, many, context):
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            waited["database_s"] += time.perf_counter() - started
            waited["queries"] += 1

    print("ready", flush=True)
    job = MetricRun.objects.get(pk=int(sys.stdin.readline()))
    before = time.process_time() + _processor_s(server)
    with connection.execute_wrapper(timed_query):
        while not job_read(job).is_over:
            if not run_job_for(job).worked:
                time.sleep(0.05)  # the other one is at the last shard
    took = time.process_time() + _processor_s(server) - before
    print(json.dumps({"processor_s": took, **waited}), flush=True)


def _processor_s(pid: int) -> float:
    """Return the processor time of a process of this machine; 0 where the database is on another."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def busy() -> None:
    """Compute for a while without any database: what the machine gives a second process just now."""
    from chatbots.encoders.sentence import sentence_encoder

    encoder = sentence_encoder()
    encoder.encode(["warm"])
    print("ready", flush=True)
    sys.stdin.readline()
    before = time.process_time()
    for n in range(20):
        encoder.encode([f"sentence {n} {i} of the busy loop" for i in range(32)])
    took = time.process_time() - before
    print(json.dumps({"processor_s": took, "database_s": 0, "queries": 0}), flush=True)


def timed(what: str, n: int, told: str) -> Team:
    """Let `n` processes do it, in a data folder of their own, and return what they took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bench_workers", what]
        processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "CONFAB_DATA_DIR": folder},
            )
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
        said = [process.communicate()[0] for process in processes]
        seconds = time.perf_counter() - started
        if any(process.returncode for process in processes):
            raise SystemExit("a worker failed")
    took = [json.loads(lines.splitlines()[-1]) for lines in said]
    return Team(
        seconds,
        sum(one["processor_s"] for one in took),
        sum(one["database_s"] for one in took),
        sum(one["queries"] for one in took),
    )


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
    from webapp.jobs.models import MetricResult
    from webapp.jobs.services.fits import metric_run_create

    call_command("migrate", verbosity=0)
    study = study_made(conversations(n))
    for _ in range(repeat):
        teams = {}
        for n_workers in (1, 2):
            MetricResult.objects.all().delete()
            job = metric_run_create(study=study, metrics=METRICS, enqueue=False)
            teams[n_workers] = timed("work", n_workers, str(job.pk))
            job.refresh_from_db()
            if (job.state, job.n_done) != ("done", n):
                raise SystemExit(f"{job.n_done} of {n} conversations were measured: {job.error}")
        loops = {n_loops: timed("busy", n_loops, "") for n_loops in (1, 2)}
        for n_workers, team in teams.items():
            print(
                f"workers: {n_workers}: {team.seconds:.1f} s by the clock; a conversation takes "
                f"{1000 * team.processor_s / n:.1f} ms of a processor, and {1000 * team.database_s / n:.2f} ms of "
                f"waiting for the database in {team.queries / n:.2f} queries",
                flush=True,
            )
        print(
            f"workers: two are done {teams[1].seconds / teams[2].seconds:.2f} times as fast by the clock (aim: at "
            f"least 1.8 on two free cores), {2 * teams[1].processor_s / teams[2].processor_s:.2f} by processor time; "
            f"two busy loops without a database: {2 * loops[1].seconds / loops[2].seconds:.2f} by the clock, "
            f"{4 * loops[1].processor_s / loops[2].processor_s:.2f} by processor time",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["work", "busy"])
    parser.add_argument("--conversations", type=int, default=1024, help="whole shards of 256")
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if args.what:
        {"work": work, "busy": busy}[args.what]()
        return
    url = os.environ.get("DATABASE_URL", "")
    if not url.startswith("postgres"):
        print("workers: left out, DATABASE_URL names no PostgreSQL")
        return
    with own_database(url) as own:
        os.environ["DATABASE_URL"] = own
        try:
            bench_workers(args.conversations, args.repeat)
        finally:
            from django.db import connection

            connection.close()


if __name__ == "__main__":
    main()
