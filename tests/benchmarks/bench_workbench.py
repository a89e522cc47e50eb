"""The pages of a study with 100,000 conversations and 1,000,000 ratings; searches of its workbench against the plain way.

    DATABASE_URL=postgres://… (an empty database) python -m tests.benchmarks.bench_workbench [--conversations N]

Makes the study in a SQLite database of its own, unless `DATABASE_URL` names another, and opens as staff every page of the
study, then the list of conversations with one line after another. The plain way reads the texts with LIKE and takes the mean of the ratings for every conversation. On
PostgreSQL every page must be there within the limit, and none may ask more of a large study than of one of 1000.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from typing import Any

LIMIT_MS = 300
PER_CONVERSATION = 10
LINES = (
    "",
    "sort:quality",
    "bot:eliza repetition>0.3 sort:quality limit:20",
    "tomatoes",
    "the",
    '"the weather is"',
    '"the weather is" tomatoes bot:parrot quality:2..4 sort:-sentiment',
    "quality>3 fluency<5 sort:sentiment",
    "turns:4..8 sort:-up",
    "rater:r7 sort:oldest",
    "-tomatoes is:rated sort:-fluency",
    "sample:20 seed:3",
    "bot:eliza rating.quality:3..5 sample:5 seed:3",
)
PAGES = (
    "study",
    "study_live",
    "study_live_now",
    "study_pay",
    "study_quality",
    "study_places",
    "study_reports",
    "study_compare",
    "study_fits",
    "study_bots",
    "study_pairs",
    "study_agreement",
    "study_statistics",
    "study_report",
    "study_hybrid",
    "study_metrics",
    "study_export",
    "study_datasheet",
    "study_package",
)
"""Of what workers compute for them `bench_results` tells; here it is not made yet, or being made."""
METRICS = {
    "repetition": ("conversation_repetition_bot", "self_repetition_bot"),
    "sentiment": ("sentiment_user", "sentiment_bot", "sentiment_transition"),
    "words": ("words_user", "words_bot"),
}
COMMON = ("the", "weather", "is", "nice", "and", "I", "like", "to", "talk", "about", "it", "with")
RARE = ("tomatoes", "balcony", "wind", "garlic", "basil", "cane", "sauce", "kitchen", "spider")


def make(key: str, n: int, told: bool = False) -> Any:
    """Make in bulk a study with `n` conversations of ten turns, each rated by ten people and measured."""
    from django.db import transaction
    from django.utils import timezone

    from webapp.bots.models import BotVersion
    from webapp.conversations.models import Conversation, Turn
    from webapp.ratings.models import Rating
    from webapp.runs.models import MetricResult
    from webapp.runs.selectors.metrics import metrics_all
    from webapp.runs.services.metrics import metric_version_record
    from webapp.studies.services import study_create

    draw = random.Random(3)
    study = study_create(key=key, name=key, bots=["eliza", "parrot"], state="collecting")
    bots = [
        BotVersion.objects.get_or_create(
            key=f"bench-{bot}", defaults={"bot_id": bot, "title": bot, "version": "1"}
        )[0]
        for bot in study.bots
    ]
    dimensions = list(study.rubric.dimensions.values_list("key", flat=True))
    versions = {
        metric.name: metric_version_record(metric=metric)
        for metric in metrics_all()
        if metric.name in METRICS
    }
    now = timezone.now()
    started = time.monotonic()
    for start in range(0, n, 2000):
        numbers = range(start, min(start + 2000, n))
        with transaction.atomic():
            chats = Conversation.objects.bulk_create(
                Conversation(
                    source="import",
                    state="completed",
                    bot=bots[number % 2],
                    study=study,
                    external_id=f"{key}/{number}",
                    n_exchanges=5,
                )
                for number in numbers
            )
            Turn.objects.bulk_create(
                Turn(
                    conversation=chat,
                    index=index,
                    speaker="bot" if index % 2 else "human",
                    text=" ".join(
                        (*draw.choices(COMMON, k=8), draw.choice(RARE) if index == 3 else "well")
                    ),
                    vote=draw.choice((-1, 0, 1)) if index % 2 else 0,
                )
                for chat in chats
                for index in range(draw.choice((4, 8, 10)))
            )
            Rating.objects.bulk_create(
                Rating(
                    conversation=chat,
                    rater=f"r{draw.randrange(5000)}",
                    external_id=str(rater),
                    rubric_id=study.rubric_id,
                    answers={name: draw.randint(1, 7) for name in dimensions},
                    submitted_at=now,
                )
                for chat in chats
                for rater in range(PER_CONVERSATION)
            )
            for name, columns in METRICS.items():
                MetricResult.objects.bulk_create(
                    MetricResult(
                        conversation=chat,
                        metric=versions[name],
                        values={column: draw.random() for column in columns},
                    )
                    for chat in chats
                )
        if told and start % 20_000 == 0:
            print(f"{numbers.stop} made, {time.monotonic() - started:.0f} s", flush=True)
    return study


def opened(
    client: Any, study: Any, line: str, n_times: int, page: str = "study_conversations"
) -> tuple[float, list[Any]]:
    """Return the milliseconds of the fastest of some looks at the page that a line gives, and its queries."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    address = reverse(f"dashboard:{page}", args=[study.key])

    def once() -> None:
        answer = client.get(address, {"q": line} if line else {})
        assert answer.status_code == 200, (page, answer.status_code)

    once()
    with CaptureQueriesContext(connection) as captured:
        once()
    queries = captured.captured_queries
    times = []
    for _ in range(n_times):
        started = time.perf_counter()
        once()
        times.append((time.perf_counter() - started) * 1000)
    return min(times), queries


def plainly(study: Any) -> dict[str, float]:
    """Return the milliseconds of a search and of an order without the index."""
    from django.db.models import Avg, Exists, FloatField, OuterRef, Subquery
    from django.db.models.fields.json import KT
    from django.db.models.functions import Cast

    from webapp.conversations.models import Conversation, Turn
    from webapp.ratings.models import Rating

    rows = Conversation.objects.filter(study=study)
    turns = Turn.objects.filter(conversation=OuterRef("pk"), text__icontains="tomatoes")
    means = (
        Rating.objects.filter(conversation=OuterRef("pk"))
        .order_by()
        .values("conversation")
        .annotate(mean=Avg(Cast(KT("answers__quality"), FloatField())))
        .values("mean")
    )
    asked = {
        "tomatoes": lambda: rows.filter(Exists(turns)).count(),
        "sort:quality": lambda: list(rows.annotate(at=Subquery(means)).order_by("at", "pk")[:50]),
    }
    found = {}
    for line, ask in asked.items():
        started = time.perf_counter()
        ask()
        found[line] = (time.perf_counter() - started) * 1000
    return found


def main() -> int:
    """Return 1 if a page asks more of a large study than of a small one, or takes too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--queries", metavar="LINE", help="print the slowest queries of this line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="webapp.settings.embedded")
        os.environ.setdefault("CONFAB_DATA_DIR", folder)
        os.environ.setdefault("DATABASE_URL", "")
        import django

        django.setup()
        from django.contrib.auth import get_user_model
        from django.core.management import call_command
        from django.db import connection
        from django.test import Client

        from webapp.studies.models import Study

        call_command("migrate", verbosity=0)
        small = Study.objects.filter(key="small1000").first() or make("small1000", 1000)
        name = f"large{options.conversations}"
        large = Study.objects.filter(key=name).first() or make(name, options.conversations, True)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
        staff = get_user_model().objects.filter(username="bench").first()
        staff = staff or get_user_model().objects.create_superuser("bench", password="x")
        client = Client(HTTP_HOST="localhost")
        client.force_login(staff)
        if options.queries is not None:
            took, queries = opened(client, large, options.queries, 3)
            print(f"{took:.0f} ms")
            for one in sorted(queries, key=lambda one: -float(one["time"]))[:8]:
                print(f"{1000 * float(one['time']):6.0f} ms  {one['sql'][:3000]}\n")
            return 0
        print(
            f"{connection.vendor}, {options.conversations} conversations,"
            f" {options.conversations * PER_CONVERSATION} ratings"
        )
        plain = plainly(large)
        is_bad = False
        looks = [(page, "") for page in PAGES]
        for page, line in [*looks, *(("study_conversations", line) for line in LINES)]:
            few_ms, few = opened(client, small, line, 3, page)
            many_ms, many = opened(client, large, line, 5, page)
            slow = connection.vendor == "postgresql" and many_ms > LIMIT_MS
            is_bad |= slow or len(many) > len(few)
            ratio = (
                f", {plain[line] / many_ms:.1f} times as fast as plainly" if line in plain else ""
            )
            print(
                f"{many_ms:6.0f} ms, {len(many)} queries (in a study of 1000: {few_ms:.0f} ms, {len(few)})"
                f"  {page} {line}{ratio}{'  TOO SLOW' if slow else ''}",
                flush=True,
            )
        return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
