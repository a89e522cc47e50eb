"""A crowd of participants through the whole of a chat study, over PostgreSQL, Redis and several processes.

People arrive evenly over a while, chat with a pause before every message, vote, rate and read their code. Beside the
times of pages and replies stands the processor time of each kind of process, the load generator's own among them.

    DATABASE_URL=postgres://… REDIS_URL=redis://… python -m tests.benchmarks.bench_crowd [--people 300] [--over 60]

It fails if anybody did not get through, was sent away for a while (503) or met an error, if the rows in the database
are not exactly those that people left, or if one page in twenty took longer than a second. The last is stated for a
machine of two cores with nothing else to do; the processor time of one participant hardly minds other load.

With `--markdown` people write lists in Markdown, which one bot repeats, and all replies are paced: the benchmark says
by how much their last words were shown later than the pace wants.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.bench_workers import own_database
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parents[2]
BOTS = ["eliza", "retrieval", "parrot", "generic"]
STUDY, WARM_UP = "crowd", "warm-up"
PAGE_S_AT_MOST = 1.0
WORDS = [
    *("well", "today", "i", "went", "out", "and", "saw", "the", "garden", "in", "spring", "do", "you", "like"),
    "that",
]


@dataclass
class Crowd:
    """What the people of a crowd met.

    Attributes:
        page_s, reply_s: how long pages and replies took, in seconds; pages by the kind of their address.
        n_exchanges: messages that were answered.
        problems: what went wrong, and how often.
    """

    page_s: dict[str, list[float]] = field(default_factory=dict)
    reply_s: list[float] = field(default_factory=list)
    n_done: int = 0
    n_exchanges: int = 0
    n_votes: int = 0
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> list[float]:
        """The times of all pages."""
        return [seconds for of_kind in self.page_s.values() for seconds in of_kind]


async def one_person(
    crowd: Crowd, url: str, number: int, think_s: float, n_messages: int, study: str = STUDY, *, markdown: bool = False
) -> None:
    """Go the whole way, pausing before every message."""
    import httpx

    from webapp.participant.simulated import StepRefused, StudyClient, frames_until, say

    rng = random.Random(number)
    doors = StudyClient(url, study)
    between = "\n- **x** " if markdown else " "
    ask = doors.http.request

    async def timed(method: str, address: str, **request: Any) -> httpx.Response:
        started = time.perf_counter()
        answer = await ask(method, address, **request)
        kind = f"{method} {kind_of(answer.history[0].url.path if answer.history else answer.url.path)}"
        crowd.page_s.setdefault(kind, []).append(time.perf_counter() - started)
        if answer.status_code >= 400:
            crowd.problems[f"{kind} answered {answer.status_code}"] += 1
        return answer

    doors.http.request = timed  # type: ignore[method-assign]
    try:
        await doors.start()
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            for n_said in range(n_messages):
                await asyncio.sleep(rng.expovariate(1 / think_s) if think_s else 0)
                started = time.perf_counter()
                last = (await say(socket, between.join(rng.choices(WORDS, k=8))))[-1]
                if last["type"] != "reply":
                    raise StepRefused(f"message {n_said} met {last['code']}")
                crowd.reply_s.append(time.perf_counter() - started)
                crowd.n_exchanges += 1
                if n_said % 2:
                    vote = {"type": "vote", "turn": last["turn"], "value": rng.choice([1, -1])}
                    await socket.send(json.dumps(vote))
                    await frames_until(socket, "vote")
                    crowd.n_votes += 1
        await asyncio.sleep(rng.expovariate(1 / think_s) if think_s else 0)
        await doors.rate(lambda _name, choices: rng.choice(choices))
        crowd.problems["a step that is not the last"] += doors.step != "done"
        crowd.n_done += doors.step == "done"
    except (StepRefused, httpx.HTTPError, OSError, TimeoutError) as error:
        crowd.problems[f"{type(error).__name__}: {error}"[:120]] += 1
    finally:
        crowd.problems["sent away for a while (503)"] += doors.n_turned_away
        await doors.close()


def kind_of(path: str) -> str:
    """Return the address without what is different for everybody."""
    return "/".join("…" if len(part) > 30 else part for part in path.split("/"))


async def crowd_sent(url: str, *, n_people: int, over_s: float, think_s: float, n: int, markdown: bool) -> Crowd:
    """Send everybody and return what they met."""
    crowd = Crowd()

    async def later(number: int) -> None:
        await asyncio.sleep(over_s * number / n_people)
        await one_person(crowd, url, number, think_s, n, markdown=markdown)

    await asyncio.gather(*(later(number) for number in range(n_people)))
    return crowd


async def warmed_up(url: str) -> None:
    """Have the bots loaded, templates compiled and connections opened by some people of another study."""
    crowd = Crowd()
    people = (one_person(crowd, url, number, 0, 1, WARM_UP) for number in range(8))
    await asyncio.gather(*people)
    if +crowd.problems:
        raise SystemExit(f"the first people met {+crowd.problems}")


@contextmanager
def confab(env: dict[str, str], n_web: int) -> Iterator[tuple[str, dict[str, psutil.Process]]]:
    """Run `n_web` web processes behind one port and a bot host, as `docker-compose.yml` does."""
    port, python = free_port(), sys.executable
    commands = {
        "web": [
            *(python, "-m", "uvicorn", "webapp.asgi:application", "--port", str(port)),
            *("--workers", str(n_web), "--lifespan", "off", "--no-proxy-headers", "--no-access-log"),
            *("--ws-ping-interval", "20", "--timeout-keep-alive", "130"),
            *("--timeout-graceful-shutdown", "10"),
        ],
        "bot host": [python, "manage.py", "bot_host"],
    }
    folder = Path(env["CONFAB_DATA_DIR"])
    started = {}
    for name, command in commands.items():
        with (folder / f"{name}.log").open("wb") as log:
            started[name] = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        await_bots(url)
        yield url, {name: psutil.Process(process.pid) for name, process in started.items()}
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(timeout=60)
        for name in started:
            for line in (folder / f"{name}.log").read_text().splitlines():
                if "rror" in line or "Traceback" in line:
                    print(f"{name}: {line}", file=sys.stderr)


def await_bots(url: str) -> None:
    """Wait until a web process answers and has heard of a bot host."""
    for _ in range(600):
        with suppress(OSError, ValueError):
            body = json.load(urllib.request.urlopen(f"{url}/healthz", timeout=5))
            if body.get("bots", {}).get("heartbeat_age_s"):
                return
        time.sleep(0.2)
    raise SystemExit("the servers did not start")


def processor_s(process: psutil.Process) -> float:
    """Return the processor time of a process and its children."""
    family = [process, *process.children(recursive=True)]
    times = [one.cpu_times() for one in family]
    return float(sum(time.user + time.system for time in times))


def servers_s(word: str) -> float:
    """Return the processor time of all living processes of this machine with such a name."""
    result = 0.0
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if word in (process.info["name"] or ""):
                times = process.cpu_times()
                result += times.user + times.system + times.children_user + times.children_system
    return result


def rows_wrong(crowd: Crowd, n_people: int) -> list[str]:
    """Return how the rows differ from what people left."""
    from webapp.conversations.models import Turn
    from webapp.ratings.models import Rating
    from webapp.studies.models import Participant, Task

    tasks = Task.objects.filter(participant__study__key=STUDY)
    turns = Turn.objects.filter(conversation__study__key=STUDY)
    results = {
        "people": (Participant.objects.filter(study__key=STUDY).count(), n_people),
        "tasks rated": (tasks.filter(outcome="rated").count(), n_people),
        "tasks in all": (tasks.count(), n_people),
        "codes": (tasks.values("completion_code").distinct().count(), n_people),
        "turns": (turns.count(), 2 * crowd.n_exchanges),
        "votes": (turns.exclude(vote=0).count(), crowd.n_votes),
        "ratings": (Rating.objects.filter(task__in=tasks).count(), n_people),
    }
    per_bot = Counter(tasks.values_list("slots__bot_id", flat=True))
    wrong = [f"{n} {what} in place of {right}" for what, (n, right) in results.items() if n != right]
    if per_bot and max(per_bot.values()) - min(per_bot.values()) > 1:
        wrong.append(f"the bots had {dict(per_bot)} people")
    return wrong


def lateness_s() -> list[float]:
    """Return for each paced reply how much longer it was shown than its words take at the study's pace."""
    from webapp.conversations.models import Turn
    from webapp.studies.models import Study

    words_per_s = Study.objects.get(key=STUDY).values.pacing.words_per_s
    turns = Turn.objects.filter(conversation__study__key=STUDY, shown_ms__isnull=False)
    rows = turns.values_list("text", "shown_first_ms", "shown_ms")
    return [(last - first) / 1000 - (len(text.split()) - 1) / words_per_s for text, first, last in rows]


def percentile(seconds: list[float], share: float) -> float:
    """Return the value below which this share of the times lies."""
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def told(name: str, seconds: list[float]) -> str:
    """Return a line about some times."""
    middle, late, last = statistics.median(seconds), percentile(seconds, 0.95), max(seconds)
    return f"{name:34} n {len(seconds):5}   median {middle:.3f}   95 % {late:.3f}   longest {last:.3f} s"


def main() -> int:
    """Return 1 if the crowd met an error or waited for too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--over", type=float, default=60, help="seconds in which they arrive")
    parser.add_argument("--think", type=float, default=5, help="mean seconds before a message")
    parser.add_argument("--messages", type=int, default=5, help="each person writes")
    parser.add_argument("--web", type=int, default=2, help="web processes")
    parser.add_argument("--markdown", action="store_true", help="lists in Markdown, and paced replies")
    chosen = parser.parse_args()
    if missing := [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]:
        print(f"left out: {' and '.join(missing)} must name a PostgreSQL and a Redis")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="confab-crowd-") as folder,
        own_database(os.environ["DATABASE_URL"]) as database,
    ):
        os.environ.update(
            DJANGO_SETTINGS_MODULE="webapp.settings.embedded",
            CONFAB_DATA_DIR=folder,
            DATABASE_URL=database,
            CONFAB_CHANNEL_PREFIX=f"crowd-{uuid.uuid4().hex[:8]}",
            OMP_NUM_THREADS="1",
        )
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connections

        from webapp.studies.services import study_create

        call_command("migrate", verbosity=0)
        call_command("collectstatic", verbosity=0, interactive=False)
        more = {"format": "markdown", "paces_alike": True} if chosen.markdown else {}
        for key, n_exchanges in ((WARM_UP, 1), (STUDY, chosen.messages)):
            fields = {"min_exchanges": n_exchanges, "typing_chars_per_s": 0, **more}
            study_create(key=key, name=key, bots=BOTS, state="collecting", **fields)
        connections.close_all()
        with confab(dict(os.environ), chosen.web) as (url, processes):
            asyncio.run(warmed_up(url))
            before = {name: processor_s(process) for name, process in processes.items()}
            servers = {word: servers_s(word) for word in ("postgres", "redis")}
            own, started = time.process_time(), time.monotonic()
            crowd = asyncio.run(
                crowd_sent(
                    url,
                    n_people=chosen.people,
                    over_s=chosen.over,
                    think_s=chosen.think,
                    n=chosen.messages,
                    markdown=chosen.markdown,
                )
            )
            took = time.monotonic() - started
            used = {name: processor_s(process) - before[name] for name, process in processes.items()}
            used |= {word: servers_s(word) - before for word, before in servers.items()}
            used["load generator"] = time.process_time() - own
        wrong = rows_wrong(crowd, chosen.people)
        lateness = lateness_s() if chosen.markdown else []
        connections.close_all()
    for kind, seconds in sorted(crowd.page_s.items()):
        print(told(kind, seconds))
    print(told("all pages", crowd.pages))
    print(told("replies", crowd.reply_s))
    if lateness:
        print(told("last words later than the pace", lateness))
    each = ", ".join(f"{name} {s:.1f} ({s / chosen.people:.3f})" for name, s in used.items())
    print(f"{chosen.people} people in {took:.0f} s, {os.cpu_count()} cores; processor seconds (each person): {each}")
    problems = [f"{n} x {what}" for what, n in crowd.problems.items() if n] + wrong
    late = percentile(crowd.pages, 0.95)
    if late > PAGE_S_AT_MOST:
        problems.append(f"one page in twenty took longer than {late:.2f} s")
    print("\n".join(problems) or "no errors; every row as expected")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
