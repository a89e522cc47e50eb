"""Pages of a study with 200,000 ratings of 2,000 conversations with 30 bots: from stored results, and computed.

    python -m tests.benchmarks.bench_results [--ratings N] [--limit MS]

Makes the study, with metrics of every conversation and a fit of the hybrid metric, in a database of its own (SQLite
in a temporary folder, or a new one on the server that `DATABASE_URL` names), does the job of every part as a worker
would, and opens the pages as staff. Told are the processor's seconds for the job, its milliseconds for the page (the
middle of five times), and how many times quicker the page is. Processor time, because a neighbour on the machine must
not decide; that of PostgreSQL is added where it runs here.

Then a worker makes the report of all parts from nothing, as somebody who asks for it first has it, and it is looked at
twice; asked for again it must be there.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_workbench import Database
from tests.benchmarks.own_database import own_database
from tests.benchmarks.results_there import fit_make, metrics_of_fit, metrics_store

N_BOTS, N_CHATS, N_RATERS = 30, 2000, 400
PAGES = {
    "study_results": "comparisons",
    "study_results ?part=questions": "comparisons",
    "study_results ?part=comparisons": "comparisons",
    "study_results ?by=fluency&against=bot00&against=bot15": "dimensions",
    "study_why ?part=agreement": "answers",
    "study_why ?part=models": "models",
    "study_why ?part=raters": "raters",
    "study_why ?part=trajectories": "trajectories",
    "study_why ?part=correlations": "correlations",
    "study_prediction": "",
    "study_report": "",
}
LIMIT_MS = 300.0


def make(key: str, n_ratings: int, n_chats: int = N_CHATS, n_bots: int = N_BOTS) -> Any:
    """Bulk-make an imported study: every conversation rated by many of the same people, who are named."""
    from django.utils import timezone

    from webapp.bots.services import bot_version_record_imported
    from webapp.conversations.models import Conversation, Turn
    from webapp.ratings.models import Rating
    from webapp.studies.models import Participant
    from webapp.studies.services import study_create

    names = [f"bot{i:02}" for i in range(n_bots)]
    bots = [bot_version_record_imported(bot_id=name, source=key) for name in names]
    study = study_create(key=key, name=key, bots=names, is_imported=True)
    keys = [dimension.key for dimension in study.rubric.dimensions.all()]
    draw, now = random.Random(0), timezone.now()
    people = Participant.objects.bulk_create(Participant(study=study, platform="import") for _n in range(N_RATERS))
    chats = Conversation.objects.bulk_create(
        Conversation(
            source="import", state="completed", bot=bots[n % n_bots], study=study, external_id=f"d{n}", n_exchanges=5
        )
        for n in range(n_chats)
    )
    Turn.objects.bulk_create(
        (
            Turn(
                conversation=chat,
                index=i,
                speaker=("human", "bot")[i % 2],
                text=f"Hello {i} of {number}.",
                vote=draw.choice((-1, 0, 1)) if i % 2 else 0,
            )
            for number, chat in enumerate(chats)
            for i in range(10)
        ),
        batch_size=2000,
    )
    for start in range(0, n_chats, 50):
        Rating.objects.bulk_create(
            Rating(
                conversation=chats[n],
                participant=person,
                rubric_id=study.rubric_id,
                answers={name: min(7, max(1, round(draw.gauss(3 + 2 * (n % n_bots) / n_bots, 1.4)))) for name in keys},
                submitted_at=now,
            )
            for n in range(start, min(start + 50, n_chats))
            for person in draw.sample(people, n_ratings // n_chats)
        )
    return study


def computed(study: Any, part: str) -> float:
    """Return the processor's seconds that the job of a part takes."""
    from webapp.jobs.engine import run_job
    from webapp.results.cache import AnalysisKey, get_result

    job = get_result(AnalysisKey(study, part)).job
    assert job is not None, part
    started = time.process_time()
    run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    return time.process_time() - started


def opened(client: Any, study: Any, page: str, database: Database) -> float:
    """Return the processor's milliseconds of a page, here and in the database, the middle of five."""
    from django.urls import reverse

    route, *parts = page.split()
    query = parts.pop() if parts and parts[-1].startswith("?") else ""
    address = reverse(f"dashboard:{route}", args=[study.key, *parts]) + query
    took = []
    for _ in range(5):
        there, started = database.ms() or 0.0, time.process_time()
        answer = client.get(address)
        here = 1000 * (time.process_time() - started)
        took.append(here + (database.ms() or 0.0) - there)
        assert answer.status_code == 200, (page, answer.status_code)
        assert b"being computed" not in answer.content, page
    return statistics.median(took)


def reported(client: Any, study: Any) -> str:
    """Return in words what the report took, made from nothing and looked at."""
    from webapp.insights.report_files import report_ask, report_path
    from webapp.jobs.engine import run_job
    from webapp.jobs.models import Job

    Job.objects.filter(kind="results").delete()
    job = report_ask(study=study)
    started = time.process_time()
    run_job(job)
    made_s = time.process_time() - started
    job.refresh_from_db()
    assert job.state == "done", job.error
    assert report_ask(study=study).pk == job.pk, "the same data have the same report"
    looks = []
    for _ in range(2):
        started = time.process_time()
        answer = client.get(f"/dashboard/studies/{study.key}/report/?part=preview")
        looks.append(1000 * (time.process_time() - started))
        assert answer.status_code == 200
        assert b'id="comparisons"' in answer.content
    return (
        f"report: made in {made_s:.1f} s, a file of {report_path(job).stat().st_size / 1000:.0f} kB; its page of"
        f" {len(answer.content) / 1000:.0f} kB takes {looks[0]:.0f} ms the first time in a process, then "
        f"{looks[1]:.0f} ms"
    )


def main() -> int:
    """1 if a page with its result stored takes longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=int, default=200_000)
    parser.add_argument("--limit", type=float, default=LIMIT_MS, metavar="MS")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder, own_database(Path(folder)) as environment:
        os.environ.update(environment, DJANGO_SETTINGS_MODULE="webapp.settings.embedded")
        import django

        django.setup()
        from django.contrib.auth import get_user_model
        from django.core.management import call_command
        from django.db import connection
        from django.test import Client

        call_command("migrate", verbosity=0)
        study = make("large", args.ratings)
        metrics_store(study, metrics_of_fit())
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        started = time.process_time()
        fit_make(study)
        print(f"fit of the hybrid metric: {time.process_time() - started:.1f} s", flush=True)
        database = Database()
        client = Client(HTTP_HOST="localhost")
        client.force_login(get_user_model().objects.create_superuser("r", password="x"))
        took = {part: computed(study, part) for part in dict.fromkeys(filter(None, PAGES.values()))}
        slowest = 0.0
        print(f"{'page':56} {'job s':>7} {'page ms':>8} {'times quicker':>14}")
        for page, part in PAGES.items():
            ms = opened(client, study, page, database)
            slowest = max(slowest, ms)
            job_s = took.get(part)
            job = ("–", "–") if job_s is None else (f"{job_s:.1f}", f"{1000 * job_s / ms:.0f}")
            print(f"{page:56} {job[0]:>7} {ms:8.0f} {job[1]:>14}", flush=True)
        print(f"slowest {slowest:.0f} ms, limit {args.limit:.0f} ms")
        print(reported(client, study))
        connection.close()
        return int(slowest > args.limit)


if __name__ == "__main__":
    sys.exit(main())
