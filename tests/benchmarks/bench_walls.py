"""Time of “not available” and 404 for things of another project, against things that do not exist.

    DATABASE_URL=postgres://… python -m tests.benchmarks.bench_walls [N [WORD]]

Both cases alternate in random order, N times each (500). It prints the statuses and the medians in milliseconds, and
the differences of the medians of elapsed time and of processor time, with 95 % intervals of 2,000 bootstrap samples.
"""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.test")


def median_difference(first: list[float], second: list[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the difference of the medians and its bootstrap interval, in milliseconds."""
    import numpy as np

    rng = np.random.default_rng(seed)
    a, b = np.array(first) * 1000, np.array(second) * 1000
    draws = np.median(rng.choice(a, (2000, len(a))), axis=1) - np.median(rng.choice(b, (2000, len(b))), axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.median(a) - np.median(b)), float(low), float(high)


def cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return pairs of requests: for a thing of another project, and for one that does not exist."""
    from django.test import Client
    from django.urls import reverse

    from tests.builders import make_conversation, make_staff, make_study
    from tests.webapp.core.test_project_members import member
    from webapp.bots.declared_bots import declared_bot_save
    from webapp.core.authentication import token_make
    from webapp.core.project_scope import in_project
    from webapp.core.projects import project_create
    from webapp.core.rights import Right
    from webapp.jobs.models import Job, SelfPlayRun

    admin: Any = make_staff(*Right, username="admin")
    for key in ("hidden", "open"):
        project_create(actor=admin, key=key, name=key)
    bot = {"kind": "endpoint", "title": "B", "params": {"base_url": "https://bots.example/v1", "model": "m"}}
    with in_project("hidden"):
        study = make_study("taken")
        chat = make_conversation(study, n_exchanges=3)
        run = SelfPlayRun.objects.create(plan={"bots": ["eliza"], "n_conversations": 1})
        job = Job.objects.create(kind="report", study=study, payload={"study": study.pk}, state="done")
        declared_bot_save(bot_id="taken-bot", **bot)
    owner = member("Owner", "open")
    with in_project("open"):
        make_study("ours")
        declared_bot_save(bot_id="our-bot", **bot)
        _row, text = token_make(user=owner, name="t", rights=[right.value for right in Right])
    client, api = Client(), Client(headers={"authorization": f"Bearer {text}"})
    client.force_login(owner)

    def page(name: str, *args: Any) -> Callable[[], Any]:
        return lambda: client.get(reverse(f"dashboard:{name}", args=args))

    def call(path: str) -> Callable[[], Any]:
        return lambda: api.get(f"/api/v1/{path}")

    def new_study(key: str) -> Callable[[], Any]:
        return lambda: client.post(reverse("dashboard:study_new"), {"name": "N", "key": key, "protocol": "chat"})

    def new_bot(bot_id: str) -> Callable[[], Any]:
        return lambda: client.post(
            reverse("dashboard:bot_new"),
            {"kind": "endpoint", "bot_id": bot_id, "title": "T", "base_url": "https://bots.example/v1", "model": "m"},
        )

    def ask(key: str) -> Callable[[], Any]:
        data = {"action": "ask", "study": key}
        return lambda: client.post(reverse("dashboard:project_change"), data)

    unknown = uuid.UUID(int=1)
    return {
        "page of a study": (page("study", "taken"), page("study", "never")),
        "page of a conversation": (page("conversation", chat.pk), page("conversation", unknown)),
        "page of a participant": (
            page("study_person", "taken", chat.participant_id),
            page("study_person", "never", unknown),
        ),
        "page of a bot": (page("bot", "taken-bot"), page("bot", "never-bot")),
        "page of a run": (page("run", run.pk), page("run", 10**6)),
        "page of a job": (page("job", "report", job.pk), page("job", "report", 10**6)),
        "API: study": (call("studies/taken"), call("studies/never")),
        "API: conversation": (call(f"conversations/{chat.pk}"), call(f"conversations/{unknown}")),
        "API: bot": (call("bots/taken-bot"), call("bots/never-bot")),
        "API: job": (call(f"jobs/report/{job.pk}"), call(f"jobs/report/{10**6}")),
        "request of an agreement": (ask("taken"), ask("never")),
        "new study: key of another project / own key": (new_study("taken"), new_study("ours")),
        "new bot: id of another project / own id": (new_bot("taken-bot"), new_bot("our-bot")),
    }


def main(n: int, word: str = "") -> None:
    """Measure the cases whose title has the word, and print one line for each."""
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    settings.CONFAB_API_RATE = "1000000/m"
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        order = random.Random(0)
        for title, pair in cases().items():
            if word not in title:
                continue
            statuses = [request().status_code for request in pair * 3]
            times: tuple[list[float], list[float]] = ([], [])
            cpu: tuple[list[float], list[float]] = ([], [])
            turns = [0, 1] * n
            order.shuffle(turns)
            for turn in turns:
                began, began_cpu = time.perf_counter(), time.process_time()
                pair[turn]()
                times[turn].append(time.perf_counter() - began)
                cpu[turn].append(time.process_time() - began_cpu)
            medians = [sorted(values)[n // 2] * 1000 for values in times]
            differences = "".join(
                "  {:+.3f} [{:+.3f}, {:+.3f}]".format(*median_difference(*kind)) for kind in (times, cpu)
            )
            print(
                f"{title:45} {statuses[0]} {statuses[1]}  {medians[0]:7.2f} {medians[1]:7.2f}{differences}", flush=True
            )
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, *sys.argv[2:3])
