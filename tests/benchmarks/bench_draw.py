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
from pathlib import Path
from typing import Any

BOTS = ["eliza", "parrot", "generic", "retrieval"]
AT_LEAST = 5.0
AT_MOST_MS = 10.0


def make(n_tasks: int) -> Any:
    """Make in bulk one study with a completed task for each of its people."""
    from webapp.studies.counting import study_count_anew
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


def cpu_s() -> float:
    """Return the CPU seconds that this process has taken, and its connection's where PostgreSQL is on this machine."""
    from django.db import connection

    taken = time.process_time()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            stat = Path(f"/proc/{cursor.fetchone()[0]}/stat")
        if stat.exists() and b"postgres" in stat.read_bytes():
            fields = stat.read_text().rpartition(")")[2].split()
            taken += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return taken


def assignments(study: Any, n_times: int) -> tuple[float, float, int]:
    """Return the median milliseconds of an assignment, the mean of its CPU, which other work hardly changes, and its
    queries.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from webapp.studies.services import consent_record, participant_enter, task_open

    def newcomer(number: int) -> Any:
        made = participant_enter(
            study=study, platform="prolific", external_id=f"{study.rule}{number}"
        )
        return consent_record(participant=made)

    people = iter([newcomer(number) for number in range(n_times + 2)])
    task_open(participant=next(people))
    with CaptureQueriesContext(connection) as captured:
        task_open(participant=next(people))
    before = cpu_s()
    taken_ms = median_ms(lambda: task_open(participant=next(people)), n_times)
    return taken_ms, (cpu_s() - before) * 1000 / n_times, len(captured)


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

        from webapp.studies.models import Slot, Study
        from webapp.studies.places import bot_loads
        from webapp.studies.rules.base import rules
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
            taken_ms, cpu_ms, n_queries = assignments(study, 101)
            empty_ms, empty_cpu_ms, n_queries_empty = assignments(empty, 101)
            print(
                f"{rule}: a whole assignment {taken_ms:.1f} ms ({cpu_ms:.1f} ms CPU), {n_queries} queries; in an empty "
                f"study {empty_ms:.1f} ms ({empty_cpu_ms:.1f} ms CPU), {n_queries_empty} queries"
            )
            is_slow |= taken_ms > AT_MOST_MS or n_queries != n_queries_empty
        return int(is_slow or before / now < AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
