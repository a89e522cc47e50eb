"""Live room of a study with many participants: queries and milliseconds of one request, made every three seconds.

    [DATABASE_URL=postgres://… an empty database] python -m tests.benchmarks.bench_live_room [--tasks N] [--queries]

Makes a study of 100 tasks and one of N, in a SQLite database of its own unless `DATABASE_URL` names another, which
should be empty. Both have had as much in the last hour, as a study that collects for weeks has. The number of queries
must not depend on the size. Printed are the usual look, the one that counts all tasks anew (as every look would
without `live_progress.py`), how many times as long that takes, and the usual look of the small study.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from typing import Any

BOTS = ["eliza", "parrot", "generic", "retrieval"]
LIMIT_MS = 250.0
"""Of the usual look."""
N_INSIDE = 60
N_LATELY = 400
STEPS = ("chat", "form")


def make(key: str, n_tasks: int) -> Any:
    """Make in bulk a study with a chat for each of its people, four in five of them rated."""
    from django.db.models import F
    from django.utils import timezone

    from webapp.bots.services import bot_version_record_imported
    from webapp.conversations.models import Conversation, ReplyFailure, Turn
    from webapp.ratings.models import Rating
    from webapp.studies.assignment.counterbalance import study_count_anew
    from webapp.studies.models import LinkCount, Participant, Slot, Task, Whereabouts
    from webapp.studies.services import study_create

    study = study_create(key=key, name=key, bots=BOTS, state="collecting", max_per_bot=n_tasks, pay_each=2.0)
    bots = [bot_version_record_imported(bot_id=bot, source="bench") for bot in BOTS]
    dimensions = [d.key for d in study.rubric.dimensions.all()]
    draw, now = random.Random(0), timezone.now()
    for start in range(0, n_tasks, 5000):
        numbers = range(start, min(start + 5000, n_tasks))
        left = [n_tasks - n for n in numbers]  # how many come after
        at = [now - (timedelta(seconds=8 * n) if n < N_LATELY else timedelta(hours=2, seconds=9 * n)) for n in left]
        inside = [n <= N_INSIDE for n in left]
        done = [not inside[i] and draw.random() < 0.8 for i in range(len(left))]
        failed = [not inside[i] and not done[i] and draw.random() < 0.2 for i in range(len(left))]
        people = Participant.objects.bulk_create(Participant(study=study) for _n in numbers)
        tasks = Task.objects.bulk_create(
            Task(
                participant=person,
                version=study.version,
                kind="chat",
                state="completed" if done[i] else "failed" if failed[i] else "open",
                outcome="rated" if done[i] else "bot_failed" if failed[i] else "",
                completion_code=f"{key}-{start + i}" if done[i] else None,
                ended_at=at[i] if done[i] or failed[i] else None,
            )
            for i, person in enumerate(people)
        )
        slots = Slot.objects.bulk_create(Slot(task=t, bot_id=BOTS[i % 4]) for i, t in enumerate(tasks))
        chats = [
            Conversation(
                source="chat",
                state="completed" if done[i] else "failed" if failed[i] else "open",
                bot=bots[i % 4],
                study=study,
                participant=person,
                slot=slots[i],
                n_exchanges=3,
                due_turn=5 if inside[i] and i % 10 == 0 else None,
                due_since=now if inside[i] and i % 10 == 0 else None,
            )
            for i, person in enumerate(people)
        ]
        Conversation.objects.bulk_create(chats)
        turns = [
            Turn(
                conversation=chat,
                index=index,
                speaker="bot" if index % 2 else "human",
                text="Hello.",
                latency_ms=draw.randint(200, 4000) if index % 2 else None,
            )
            for chat in chats
            for index in range(6)
        ]
        Turn.objects.bulk_create(turns, batch_size=2000)
        Whereabouts.objects.bulk_create(
            Whereabouts(
                task=task,
                study=study,
                step=STEPS[done[i] or i % 3 == 0],
                furthest=STEPS[done[i] or i % 3 == 0],
                seen_at=at[i],
            )
            for i, task in enumerate(tasks)
        )
        opened = Counter((moment.date(), "" if i % 28 else "paused") for i, moment in enumerate(at))
        for (day, refused), n in opened.items():
            key = {"study": study, "day": day, "refused": refused}
            LinkCount.objects.get_or_create(**key)
            LinkCount.objects.filter(**key).update(n=F("n") + n)
        Rating.objects.bulk_create(
            Rating(
                task=task,
                conversation=chats[i],
                participant=people[i],
                rubric_id=study.rubric_id,
                answers={name: draw.randint(1, 7) for name in dimensions},
                submitted_at=at[i],
            )
            for i, task in enumerate(tasks)
            if done[i]
        )
        ReplyFailure.objects.bulk_create(
            ReplyFailure(conversation=chats[i], bot_id=BOTS[i % 4], reason="it is down")
            for i in range(len(at))
            if failed[i]
        )
    times_set(study)
    study_count_anew(study_id=study.pk)
    return study


def times_set(study: Any) -> None:
    """Set the times that are the database's own, which bulk writes cannot give, to those of the people's last steps."""
    from django.db.models import OuterRef, Subquery

    from webapp.conversations.models import Conversation, ReplyFailure, Turn
    from webapp.studies.models import Task, Whereabouts

    def seen(path: str, own: str) -> Subquery:
        return Subquery(Whereabouts.objects.filter(**{path: OuterRef(own)}).values("seen_at"))

    at = seen("task", "pk")
    Task.objects.filter(participant__study=study).update(created_at=at, updated_at=at)
    at = seen("task__slots", "slot")
    Conversation.objects.filter(study=study).update(created_at=at, updated_at=at)
    at = seen("task__slots__chat", "conversation")
    Turn.objects.filter(conversation__study=study).update(created_at=at)
    ReplyFailure.objects.filter(conversation__study=study).update(at=at)


def look(study: Any, *, n_times: int, anew: bool) -> tuple[float, list[Any]]:
    """Return the median milliseconds of a look, and its queries with their times.

    Args:
        anew: whether each look counts all tasks.
    """
    from django.core.cache import cache
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from webapp.dashboard.live_page import live_room
    from webapp.dashboard.live_progress import now_rounded
    from webapp.studies.models import Study

    def once() -> None:
        if anew:
            cache.clear()
        fresh = Study.objects.get(pk=study.pk)
        live_room(fresh, include_synthetic=False, now=now_rounded()).digest  # noqa: B018

    # SQLite computes within this process, so that other work on the machine need not be counted.
    clock = time.process_time if connection.vendor == "sqlite" else time.perf_counter
    once()
    with CaptureQueriesContext(connection) as captured:
        once()
    times = []
    for _ in range(n_times):
        started = clock()
        once()
        times.append((clock() - started) * 1000)
    return statistics.median(times), captured.captured_queries


def main() -> int:
    """Return 1 if a look asks more of a large study than of a small one, or takes too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--queries", action="store_true", help="print the slowest queries")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="webapp.settings.embedded")
        os.environ.setdefault("CONFAB_DATA_DIR", folder)
        os.environ.setdefault("DATABASE_URL", "")
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from webapp.studies.models import Study

        call_command("migrate", verbosity=0)
        small = Study.objects.filter(key="small").first() or make("small", 100)
        name = f"large{options.tasks}"
        large = Study.objects.filter(key=name).first() or make(name, options.tasks)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        small_ms, few = look(small, n_times=7, anew=True)
        anew_ms, many = look(large, n_times=5, anew=True)
        usual_ms, usual = look(large, n_times=15, anew=False)
        print(
            f"{connection.vendor}, {options.tasks} tasks: a look {usual_ms:.0f} ms ({len(usual)} queries); one that "
            f"counts all tasks {anew_ms:.0f} ms ({len(many)} queries, {len(few)} in a study of 100), "
            f"{anew_ms / usual_ms:.1f} times as long; in the study of 100 {small_ms:.0f} ms"
        )
        if options.queries:
            for one in sorted(many, key=lambda one: -float(one["time"]))[:12]:
                print(f"{1000 * float(one['time']):6.0f} ms  {one['sql'][:1500]}\n")
        return int(len(many) != len(few) or usual_ms > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
