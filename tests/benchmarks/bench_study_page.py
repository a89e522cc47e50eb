"""The dashboard's pages of a study with 100,000 ratings: queries and seconds, against a study of 100.

    python -m tests.benchmarks.bench_study_page [--ratings N]

Makes both studies in a SQLite database of its own and opens each page twice as staff. The number of queries must not
depend on the size. What workers compute for these pages is measured by `bench_results`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time

PAGES = ("study", "study_bots", "study_agreement", "study_statistics", "study_report")
LIMIT_S = 3.0
"""For the study's own page, the first time."""


def make(key: str, n_ratings: int) -> None:
    """Make in bulk one imported study with a rating per conversation and four bots."""
    from django.utils import timezone

    from webapp.bots.services import bot_version_record_imported
    from webapp.conversations.models import Conversation, Turn
    from webapp.ratings.models import Rating
    from webapp.studies.models import Participant
    from webapp.studies.services import study_create

    bots = [bot_version_record_imported(bot_id=f"bot{i}", source=key) for i in range(4)]
    study = study_create(key=key, name=key, bots=[bot.bot_id for bot in bots], is_imported=True)
    dimensions = [d.key for d in study.rubric.dimensions.all()]
    draw, now = random.Random(0), timezone.now()
    for start in range(0, n_ratings, 5000):
        numbers = range(start, min(start + 5000, n_ratings))
        people = [Participant(study=study, platform="import") for _n in numbers]
        chats = [
            Conversation(
                source="import",
                state="completed",
                bot=bots[n % 4],
                study=study,
                external_id=f"d{n}",
                n_exchanges=1,
            )
            for n in numbers
        ]
        Participant.objects.bulk_create(people)
        Conversation.objects.bulk_create(chats)
        Turn.objects.bulk_create(
            Turn(conversation=chat, index=i, speaker=speaker, text="Hello.")
            for chat in chats
            for i, speaker in enumerate(("human", "bot"))
        )
        Rating.objects.bulk_create(
            Rating(
                conversation=chat,
                participant=person,
                rubric_id=study.rubric_id,
                answers={name: draw.randint(1, 7) for name in dimensions},
                submitted_at=now,
            )
            for chat, person in zip(chats, people, strict=True)
        )


def opened(client: object, key: str, page: str) -> tuple[int, float]:
    """Return the queries and seconds of one page."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    started = time.perf_counter()
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(reverse(f"dashboard:{page}", args=[key]))  # type: ignore[attr-defined]
    assert answer.status_code == 200, (page, answer.status_code)
    return len(queries), time.perf_counter() - started


def main() -> int:
    """Return 1 if a page asks more of a large study than of a small one, or the study's own page is slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=int, default=100_000)
    n_ratings: int = parser.parse_args().ratings
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="webapp.settings.test", CONFAB_DATA_DIR=folder, DATABASE_URL=""
        )
        import django

        django.setup()
        from django.contrib.auth import get_user_model
        from django.core.management import call_command
        from django.test import Client

        call_command("migrate", verbosity=0)
        make("small", 100)
        make("large", n_ratings)
        client = Client()
        client.force_login(get_user_model().objects.create_superuser("r", password="x"))
        failed = False
        print(f"{'page':18} {'queries':>8} {'of 100':>7} {'first s':>8} {'again s':>8}")
        for page in PAGES:
            opened(client, "small", page)  # what is looked up once a process
            few, _seconds = opened(client, "small", page)
            first_queries, first = opened(client, "large", page)
            many, again = opened(client, "large", page)
            print(f"{page:18} {many:8} {few:7} {first:8.2f} {again:8.2f}", flush=True)
            failed |= many > few or first_queries > few + 20
            failed |= page == "study" and first > LIMIT_S
        return int(failed)


if __name__ == "__main__":
    sys.exit(main())
