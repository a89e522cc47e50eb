"""The pay page of a study with 10,000 visits, against a study of 100.

    [DATABASE_URL=postgres://… an empty database] python -m tests.benchmarks.bench_pay [--visits N]

Makes the studies in a SQLite database of its own, unless `DATABASE_URL` names another, and opens the page as staff. The
number of queries must not depend on the size, nor that of the question whether pay waits in any of many studies.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

LIMIT_S = 0.3
"""For the page's CPU, which a busy machine hardly changes."""
N_STUDIES = 50


def make_visits(key: str, n_visits: int) -> Any:
    """Make in bulk a paid study of Prolific with a visit for each of its people.

    Of 20 visits 15 are rated, one each was failed by a bot, left, screened out, withdrawn and flagged. Each second
    one is approved and sent, each fifth one of the others could not be sent; Prolific has told of all of them.
    """
    from django.utils import timezone

    from webapp.pay.models import Decision, PlatformVisit
    from webapp.ratings.flag_services import flags_make
    from webapp.ratings.flag_store.models import TaskFlag
    from webapp.studies.models import Outcome, Participant, PlatformIds, Slot, Task
    from webapp.studies.services import study_create

    codes = {outcome.value: f"C-{outcome.value.upper()}" for outcome in Outcome}
    study = study_create(
        key=key,
        name=key,
        bots=["parrot"],
        state="collecting",
        platform="prolific",
        pay_each=2,
        currency="GBP",
        **{f"code_{outcome}": code for outcome, code in codes.items()},
    )
    now = timezone.now()
    ends = [("completed", "rated")] * 16
    ends += [("completed", "bot_failed"), ("expired", ""), ("ended", "screened_out")]
    ends += [("withdrawn", "withdrawn")]
    for start in range(0, n_visits, 5000):
        numbers = range(start, min(start + 5000, n_visits))
        people = [Participant(study=study, platform="prolific") for _n in numbers]
        Participant.objects.bulk_create(people)
        PlatformIds.objects.bulk_create(
            PlatformIds(
                participant=person,
                study=study,
                platform="prolific",
                external_id=f"{n:024x}",
                parameters={"SESSION_ID": f"s{n}"},
            )
            for n, person in zip(numbers, people, strict=True)
        )
        tasks = [
            Task(
                participant=person,
                version=study.version,
                kind="chat",
                state=ends[n % 20][0],
                outcome=ends[n % 20][1],
                completion_code=f"{key}-{n}" if n % 20 < 17 else None,
                told={"code": codes.get(ends[n % 20][1], ""), "link": ""},
                submission=f"s{n}",
                ended_at=now + timedelta(seconds=600 + n * 7919 % 600),
            )
            for n, person in zip(numbers, people, strict=True)
        ]
        Task.objects.bulk_create(tasks)
        Slot.objects.bulk_create(Slot(task=task, bot_id="parrot") for task in tasks)
        Decision.objects.bulk_create(
            Decision(
                participant=person,
                submission=f"s{n}",
                action="approve",
                state="failed" if n % 10 == 0 else "sent",
                closed_at=None if n % 10 == 0 else now,
                error="Prolific did not answer." if n % 10 == 0 else "",
            )
            for n, person in zip(numbers, people, strict=True)
            if n % 2 == 0 and n % 20 < 17
        )
        PlatformVisit.objects.bulk_create(
            PlatformVisit(
                study=study,
                submission=f"s{n}",
                status="AWAITING REVIEW" if n % 2 else "APPROVED",
                entered_code=codes.get(ends[n % 20][1], "NOCODE"),
                told_at=now,
            )
            for n in numbers
        )
    flags_make(study=study)
    TaskFlag.objects.bulk_create(
        TaskFlag(task=task, participant_id=task.participant_id, name="pasted")
        for task in Task.objects.filter(participant__study=study, outcome="rated")[::16]
    )
    return study


def opened(client: object, key: str) -> tuple[int, float, float]:
    """Return the queries, the seconds and the seconds of this process's CPU of the study's page."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    started, cpu = time.perf_counter(), time.process_time()
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(reverse("dashboard:study_people", args=[key]))  # type: ignore[attr-defined]
    assert answer.status_code == 200, answer.status_code
    return len(queries), time.perf_counter() - started, time.process_time() - cpu


def waits() -> tuple[int, float]:
    """Return the queries and seconds of what every page of the dashboard asks: is pay waiting in any study?"""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from webapp.dashboard.action_items import pay_waits

    started = time.perf_counter()
    with CaptureQueriesContext(connection) as queries:
        pay_waits()
    return len(queries), time.perf_counter() - started


def main() -> int:
    """Return 1 if the page asks more of a large study than of a small one, or is slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=10_000)
    n_visits: int = parser.parse_args().visits
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="webapp.settings.test", CONFAB_DATA_DIR=folder)
        os.environ.setdefault("DATABASE_URL", "")
        import django

        django.setup()
        from django.contrib.auth import get_user_model
        from django.core.management import call_command
        from django.db import connection
        from django.test import Client

        import webapp.asgi  # noqa: F401  as the server runs it

        call_command("migrate", verbosity=0)
        make_visits("small", 100)
        n_queries, _seconds = waits()
        make_visits("large", n_visits)
        for number in range(N_STUDIES):
            make_visits(f"paid-{number}", 100)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        client = Client()
        client.force_login(get_user_model().objects.create_superuser("r", password="x"))
        opened(client, "small")  # what is looked up once a process
        few, _seconds, _cpu = opened(client, "small")
        first_queries, first, _cpu = opened(client, "large")
        many, again, cpu = min((opened(client, "large") for _time in range(3)), key=lambda found: found[2])
        print(
            f"{connection.vendor}: {many} queries, {few} of 100 visits; {first:.2f} s the first time,"
            f" {again:.2f} s then, {cpu:.2f} s of them its own CPU"
        )
        failed = many > few or first_queries > few + 20 or cpu > LIMIT_S
        asked, seconds = waits()
        print(
            f"what waits for pay in {N_STUDIES + 2} studies: {asked} queries, {seconds * 1000:.0f} ms; of one study "
            f"{n_queries}"
        )
        return int(failed or asked > n_queries)


if __name__ == "__main__":
    sys.exit(main())
