"""An assignment after many others: the whole of it, and counting what each bot has had with and without kept counts.

    [DATABASE_URL=postgres://… an empty database] python -m tests.benchmarks.bench_draw [--tasks N]

Makes a study with N completed tasks, in a SQLite database of its own unless `DATABASE_URL` names another, which
should be empty. The ratio says how many times faster a draw counts; it must be above 5. A whole assignment (lock,
refusals, draw, task and slot stored) must take under 10 ms by each rule, and as many queries as in an empty study.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BOTS = ["eliza", "parrot", "generic", "retrieval"]
AT_LEAST = 5.0
AT_MOST_MS = 10.0


def make(n_tasks: int) -> Any:
    """Make in bulk one study with a completed task for each of its people."""
    from webapp.studies.assignment.counterbalance import study_count_anew
    from webapp.studies.models import Participant, Slot, Task
    from webapp.studies.services import study_create

    study = study_create(key=f"draw-{time.time_ns()}", name="draw", bots=BOTS, state="collecting")
    for start in range(0, n_tasks, 5000):
        people = [Participant(study=study) for _ in range(min(5000, n_tasks - start))]
        tasks = [
            Task(
                participant=person,
                version=study.version,
                kind="chat",
                state="completed",
                outcome="rated",
                completion_code=f"{study.pk}-{start + i}",
            )
            for i, person in enumerate(Participant.objects.bulk_create(people))
        ]
        made = Task.objects.bulk_create(tasks)
        Slot.objects.bulk_create(Slot(task=t, bot_id=BOTS[i % 4]) for i, t in enumerate(made))
    study_count_anew(study_id=study.pk)
    return study


def median_ms(count: Callable[[], object], n_times: int) -> float:
    """Return the median time of a call in milliseconds."""
    times = []
    for _ in range(n_times):
        started = time.perf_counter()
        count()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def own_cpu_s() -> float:
    """Return the CPU seconds that this process has taken."""
    return time.process_time()


def database_cpu_s() -> float:
    """Return the CPU seconds that its connection's process has taken, where PostgreSQL is on this machine; else 0."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        stat = Path(f"/proc/{cursor.fetchone()[0]}/stat")
    if not (stat.exists() and b"postgres" in stat.read_bytes()):
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Taken:
    """What an assignment took: milliseconds by the clock (the median), in the database by the clock (the median: what
    else the machine does counts), and of CPU here and in the database (means: nothing else counts); and queries.
    """

    ms: float
    in_database_ms: float
    cpu_ms: float
    database_cpu_ms: float
    n_queries: int

    def __str__(self) -> str:
        return (
            f"{self.ms:.1f} ms ({self.in_database_ms:.1f} in the database; CPU {self.cpu_ms:.1f} here, "
            f"{self.database_cpu_ms:.1f} in the database), {self.n_queries} queries"
        )


def assignments(study: Any, n_times: int) -> Taken:
    """Return what an assignment to somebody takes who has just agreed."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from webapp.studies.models import Task
    from webapp.studies.services import consent_record, participant_enter, task_open

    def newcomer(number: int) -> Any:
        made = participant_enter(study=study, platform="prolific", external_id=f"{study.rule}{number}")
        return consent_record(participant=made)

    people = iter([newcomer(number) for number in range(2 * n_times + 2)])
    task_open(participant=next(people))
    in_database: list[float] = []

    def timed(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            in_database[-1] += (time.perf_counter() - started) * 1000

    for _ in range(n_times):
        in_database.append(0.0)
        with connection.execute_wrapper(timed):
            task_open(participant=next(people))
    with CaptureQueriesContext(connection) as captured:
        task_open(participant=next(people))
    before, database_before = own_cpu_s(), database_cpu_s()
    taken_ms = median_ms(lambda: task_open(participant=next(people)), n_times)
    taken = Taken(
        taken_ms,
        statistics.median(in_database),
        (own_cpu_s() - before) * 1000 / n_times,
        (database_cpu_s() - database_before) * 1000 / n_times,
        len(captured),
    )
    # Some 200 places are held at once, by whichever rule.
    Task.objects.filter(participant__study=study, state="open").update(state="expired")
    return taken


def main() -> int:
    """Return 1 if an assignment takes too long, or if the kept counts are not several times faster than counting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    n_tasks: int = parser.parse_args().tasks
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="webapp.settings.test", CONFAB_DATA_DIR=folder)
        os.environ.setdefault("DATABASE_URL", "")
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection
        from django.db.models import Count

        from webapp.studies.assignment.capacity import bot_loads
        from webapp.studies.assignment.rules.base import rules
        from webapp.studies.models import Slot, Study
        from webapp.studies.services import order_state_store, study_create

        call_command("migrate", verbosity=0)
        study = make(n_tasks)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        slots = Slot.objects.filter(task__participant__study=study, task__state="completed")
        whole = slots.order_by().values_list("bot_id").annotate(n=Count("pk"))
        assert dict(whole) == bot_loads(study, BOTS, synthetic=False)
        before = median_ms(lambda: list(whole.all()), 7)
        now = median_ms(lambda: bot_loads(study, BOTS, synthetic=False), 31)
        print(
            f"{connection.vendor}, {n_tasks} tasks: all of them counted in {before:.1f} ms, the counts read in "
            f"{now:.2f} ms; ratio {before / now:.0f}"
        )
        empty = study_create(key="empty", name="empty", bots=BOTS, state="collecting")
        for one in (study, empty):
            order_state_store(study=one, found={"needs": dict.fromkeys(BOTS, 40)}, n_ratings=1)
        is_slow = False
        for rule in rules.names():
            for one in (study, empty):
                Study.objects.filter(pk=one.pk).update(rule=rule)
                one.refresh_from_db()
            taken, of_empty = assignments(study, 101), assignments(empty, 101)
            print(f"{rule}: a whole assignment {taken}; in an empty study {of_empty}", flush=True)
            is_slow |= taken.ms > AT_MOST_MS or taken.n_queries != of_empty.n_queries
        return int(is_slow or before / now < AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
