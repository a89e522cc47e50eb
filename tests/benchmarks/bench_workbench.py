"""Pages of a study with 100,000 conversations and 1,000,000 ratings; searches of its workbench against plain queries.

    DATABASE_URL=postgres://… python -m tests.benchmarks.bench_workbench [--conversations N] [--only WORD]

Makes the study in a SQLite database of its own, unless `DATABASE_URL` names another: an empty one, or that of an
earlier run, whose study is measured again. Opens as staff every page of the study with its results there, then the
list of conversations with one line after another. The results, the fit and the report are those of a study of 1000
with the same bots and questions, made by the product's own jobs; what these jobs take, `bench_results` tells. The
plain way reads the texts with LIKE and takes the mean of the ratings for every conversation.

On PostgreSQL every page must be there within the limit, and none may ask more of a large study than of one of 1000.
What decides is processor time, of this process and of the database's, where that runs on this machine: a neighbour
must not decide. The database then plans without parallel workers, so that one process has all of its work, and a page
that is quick enough here is quicker where cores are free. On SQLite only the number of queries is checked, no time.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote, urlencode

from tests.benchmarks.results_there import fit_make, metrics_of_fit, metrics_store, results_copy, results_make

LIMIT_MS = 300
PER_CONVERSATION = 10
LINES = (
    *("", "sort:quality", "bot:eliza repetition>0.3 sort:quality limit:20", "tomatoes", "the"),
    *('"the weather is"', '"the weather is" tomatoes bot:parrot quality:2..4 sort:-sentiment'),
    *("quality>3 fluency<5 sort:sentiment", "turns:4..8 sort:-up", "rater:r7 sort:oldest"),
    *("-tomatoes is:rated sort:-fluency", 'tag:"tag 7" is:noted', "sample:20 seed:3"),
    "bot:eliza rating.quality:3..5 sample:5 seed:3",
    *("state:completed bot:eliza has:quality sort:quality", "sort:-spread", "sort:-cost", "sort:-flags"),
    *("sort:-exchanges", "state:completed bot:eliza has:residual sort:-residual"),
    *("sort:spread", "spread>2", "sort:turns", "turns:8", "exchanges:5", "sort:-up", "sort:down", "up>1", "is:voted"),
    *("quality:4", "quality:4.1 sort:-spread", "any.quality:4", "any.quality:4 bot:eliza sort:-spread.quality"),
    *("any.quality<2 sort:quality", "sort:-raters", "raters>9", "sort:started", "sort:-ended", "sort:-duration"),
    *("sort:oldest", "sort:-ratings", "sort:-self_repetition_bot", "metric.words_bot>0.5", "has:spread -is:rated"),
    *("flag:fast", "flags>0", "started>2026-01-01", "is:starred", "is:tagged sort:-quality", "source:import"),
    *("limit:50 sort:quality", "-bot:eliza", "-any.quality:4"),
)
PAGES = (
    "study",
    "study_people",
    "study_people_now",
    "study_results",
    "study_results ?by=votes",
    "study_results ?by=fluency&against=eliza&against=parrot",
    "study_prediction",
    "study_prediction ?with={other}",
    "study_results ?part=questions",
    "study_results ?part=comparisons",
    "study_why",
    *(f"study_why ?part={part}" for part in ("agreement", "models", "raters", "trajectories", "correlations")),
    "study_report",
    *(f"study_report ?part={part}" for part in ("export", "datasheet", "package")),
    "study_spread ?of=quality",
    "study_spread ?of=sentiment_user&q=repetition>0.3",
    "study_total ?q=repetition>0.3&is=tagged&rater=r7",
    "study_conversations ?notes=1",
    "study_conversations ?chat={deep}",
    "study_conversations ?after={late}&chat={deep}",
    "study_conversations ?q=sort:quality&chat={deep}",
    "study_conversations ?q=sort:quality&after={late_by_quality}",
    "conversation {deep}",
    "side_by_side {first} {deep}",
    "side_by_side {first} {deep} ?q=the",
)
"""Addresses, each a route with what stands in it. `{deep}` is a conversation near the end of the list, `{late}` a
place there that its next page begins after, `{other}` a study that stands beside."""
BOTS = ("eliza", "parrot", "generic", "retrieval", "hred-demo", "vhcr-demo")
"""Half of the conversations are with the first, a quarter with the second."""
METRICS = {
    "repetition": ("conversation_repetition_bot", "self_repetition_bot"),
    "sentiment": ("sentiment_user", "sentiment_bot", "sentiment_transition"),
    "words": ("words_user", "words_bot"),
}
PLAINLY = ("tomatoes", "sort:quality")
"""Lines that are asked without the index too."""
COMMON = ("the", "weather", "is", "nice", "and", "I", "like", "to", "talk", "about", "it", "with")
RARE = ("tomatoes", "balcony", "wind", "garlic", "basil", "cane", "sauce", "kitchen", "spider")


def make(key: str, n: int, told: bool = False) -> Any:
    """Make in bulk a study with `n` conversations of ten turns, each rated by ten people and every fourth tagged and
    noted.
    """
    from django.db import transaction
    from django.utils import timezone

    from webapp.bots.models import BotVersion
    from webapp.conversations.models import Conversation, Turn
    from webapp.ratings.models import Rating
    from webapp.search.models import Note
    from webapp.studies.services import study_create

    draw = random.Random(3)
    study = study_create(key=key, name=key, bots=list(BOTS), state="collecting")
    versions_of_bots = [
        BotVersion.objects.get_or_create(key=f"bench-{bot}", defaults={"bot_id": bot, "title": bot, "version": "1"})[0]
        for bot in BOTS
    ]
    first, second, *others = versions_of_bots
    bots = [first, second, first, others[0], first, second, first, others[1]]
    bots += [first, second, first, others[2], first, second, first, others[3]]
    dimensions = list(study.rubric.dimensions.values_list("key", flat=True))
    now = timezone.now()
    started = time.monotonic()
    for start in range(0, n, 2000):
        numbers = range(start, min(start + 2000, n))
        with transaction.atomic():
            chats = Conversation.objects.bulk_create(
                Conversation(
                    source="import",
                    state="completed",
                    bot=bots[number % len(bots)],
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
                    text=" ".join((*draw.choices(COMMON, k=8), draw.choice(RARE) if index == 3 else "well")),
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
            Note.objects.bulk_create(
                Note(conversation=chat, kind=kind, text=text)
                for number, chat in enumerate(chats)
                if number % 4 == 0
                for kind, text in (("tag", f"tag {number % 500}"), ("note", "Look again."))
            )
        if told and start % 20_000 == 0:
            print(f"{numbers.stop} made, {time.monotonic() - started:.0f} s", flush=True)
    return study


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a page took.

    Attributes:
        wall_ms: of the fastest look.
        python_ms, database_ms: processor time, the middle of all looks; of a database elsewhere it is unknown.
        queries: of one look.
    """

    wall_ms: float
    python_ms: float
    database_ms: float | None
    queries: list[Any]

    @property
    def ms(self) -> float:
        """What decides: processor time, or the clock where that of the database is unknown."""
        if self.database_ms is None:
            return self.wall_ms
        return self.python_ms + self.database_ms

    def __str__(self) -> str:
        if self.database_ms is None:
            return f"{self.wall_ms:6.0f} ms"
        return (
            f"{self.ms:6.0f} ms of processor time ({self.python_ms:.0f} here, {self.database_ms:.0f} in the"
            f" database; {self.wall_ms:.0f} by the clock)"
        )


class Database:
    """The process of the database that serves this one, and what it has computed so far."""

    def __init__(self) -> None:
        from django.db import connection

        self._file: Path | None = None
        if connection.vendor != "postgresql":
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            file = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")
            here = connection.settings_dict["HOST"] in ("", "localhost", "127.0.0.1", "::1")
            if here and file.is_file():
                cursor.execute("SET max_parallel_workers_per_gather = 0")
                self._file = file

    def ms(self) -> float | None:
        """Return the milliseconds of processor time that it has had; None where it cannot be told."""
        return int(self._file.read_text().split()[0]) / 1e6 if self._file is not None else None


def opened(client: Any, address: str, n_times: int, database: Database | None = None) -> Look:
    """Look some times at a page."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    first = client.get(address)
    if first.status_code == 302:  # a conversation is read beside its study's list
        address = first.headers["Location"]

    def once() -> Any:
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        return answer

    assert b"being computed" not in once().content, address
    with CaptureQueriesContext(connection) as captured:
        once()
    queries = captured.captured_queries
    wall, here, there = [], [], []
    for _ in range(n_times):
        of_database = database.ms() if database is not None else None
        started, computed = time.perf_counter(), time.process_time()
        once()
        wall.append((time.perf_counter() - started) * 1000)
        here.append((time.process_time() - computed) * 1000)
        if database is not None and of_database is not None:
            there.append((database.ms() or 0) - of_database)
    return Look(min(wall), median(here), median(there) if there else None, queries)


def address_of(study: Any, page: str, values: dict[str, str]) -> str:
    """Return the address of one of `PAGES`."""
    from django.urls import reverse

    route, *parts = page.format(**values).split()
    query = parts.pop() if parts and parts[-1].startswith("?") else ""
    of_study = [study.key] if route.startswith("study") else []
    return reverse(f"dashboard:{route}", args=[*of_study, *parts]) + query


def places_of(study: Any, other: Any) -> dict[str, str]:
    """Return what stands in the addresses of a study: conversations and places in its list."""
    from webapp.ratings.selectors import study_dimensions
    from webapp.search.fields import Numbers
    from webapp.search.pagination import Listing, conversations_of_study
    from webapp.search.query import parse_query

    def late(line: str) -> Any:
        query = parse_query(line, Numbers(study_dimensions(study)), study=study)
        listing = Listing(conversations_of_study(study), query, study)
        [*_others, row] = listing.take(None, listing.count() - 100)
        return row, quote(str(listing.key_of(row)))

    row, key = late("")
    return {
        "first": str(conversations_of_study(study).latest("created_at").pk),
        "deep": str(row.pk),
        "late": key,
        "late_by_quality": late("sort:quality")[1],
        "other": other.key,
    }


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
    params = {
        "tomatoes": lambda: rows.filter(Exists(turns)).count(),
        "sort:quality": lambda: list(rows.annotate(at=Subquery(means)).order_by("at", "pk")[:50]),
    }
    results = {}
    for line, ask in params.items():
        started = time.perf_counter()
        ask()
        results[line] = (time.perf_counter() - started) * 1000
    return results


def additions() -> float:
    """Return the seconds that a million additions take: figures of machines, and of days, compare only beside it."""
    begun, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begun


def main() -> int:
    """Return 1 if a page asks more of a large study than of a small one, or takes too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--only", default="", metavar="WORD", help="pages and lines with this word")
    parser.add_argument("--queries", metavar="PAGE", help="print the slowest queries of this page, written as in PAGES")
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
        small = Study.objects.filter(key="small1000").first()
        if small is None:
            small = make("small1000", 1000)
            metrics_store(small, {**METRICS, **metrics_of_fit()})
        if not small.hybrid_fits.exists():
            fit_make(small)
        results_make(small)
        name = f"large{options.conversations}"
        large = Study.objects.filter(key=name).first()
        if large is None:
            large = make(name, options.conversations, True)
            metrics_store(large, METRICS)
        results_copy(small, large)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
        staff = get_user_model().objects.filter(username="bench").first()
        staff = staff or get_user_model().objects.create_superuser("bench", password="x")
        client = Client(HTTP_HOST="localhost")
        client.force_login(staff)
        database = Database()
        of_small, of_large = places_of(small, large), places_of(large, small)
        if options.queries is not None:
            address = address_of(large, options.queries, of_large)
            look = opened(client, address, 3, database)
            print(look)
            for one in sorted(look.queries, key=lambda one: -float(one["time"]))[:8]:
                print(f"{1000 * float(one['time']):6.0f} ms  {one['sql'][:3000]}\n")
            return 0
        is_timed = connection.vendor == "postgresql"
        print(
            f"{connection.vendor}, {options.conversations} conversations,"
            f" {options.conversations * PER_CONVERSATION} ratings; load of the machine {os.getloadavg()[0]:.1f},"
            f" a million additions in Python take {1000 * additions():.0f} ms"
        )
        if not is_timed:
            print("No time is checked: the limit is for PostgreSQL. Name one in DATABASE_URL.")
        looks = [(page, "") for page in PAGES]
        looks += [(f"study_conversations ?{urlencode({'q': line})}", line) for line in LINES]
        looks = [(page, line) for page, line in looks if options.only in f"{page} {line}"]
        plain = plainly(large) if {line for _page, line in looks} & {*PLAINLY} else {}
        is_bad = False
        for page, line in looks:
            few = opened(client, address_of(small, page, of_small), 3, database)
            many = opened(client, address_of(large, page, of_large), 5, database)
            slow = is_timed and many.ms > LIMIT_MS
            grows = len(many.queries) > len(few.queries)
            is_bad |= slow or grows
            ratio = f", {plain[line] / many.wall_ms:.1f} times as fast as plainly" if line in plain else ""
            print(
                f"{many}, {len(many.queries)} queries (in a study of 1000: {few.ms:.0f} ms,"
                f" {len(few.queries)})  {line or page}{ratio}{'  TOO SLOW' if slow else ''}"
                f"{'  MORE QUERIES' if grows else ''}",
                flush=True,
            )
        return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
