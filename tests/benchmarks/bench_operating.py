"""What ids, lines and counts cost a participant's page: CPU of 500 requests with them and without.

    python -m tests.benchmarks.bench_operating [--requests N]

Asks the first page of a study with Django's test client in a SQLite database of its own, in turns with and without
`webapp.core.middleware.RequestLogMiddleware`, with the line of each request written as JSON. Printed are microseconds
of CPU for each request and the ratio to a page without; then what a sign of life and a scrape of `/metrics` take.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time

ROUNDS = 5
LIMIT_US = 200.0
"""So much more a page may cost."""


def main() -> int:
    """Measure; 1 where a page costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    n = parser.parse_args().requests
    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings.embedded"
    os.environ["CONFAB_DATA_DIR"] = tempfile.mkdtemp(prefix="confab-bench-")
    os.environ["CONFAB_LOG_FORMAT"] = "json"
    os.environ["DATABASE_URL"] = os.environ["REDIS_URL"] = ""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from webapp.core.processes import WEB, signs
    from webapp.studies.services import study_create

    call_command("migrate", verbosity=0)
    study_create(key="bench", name="bench", bots=["eliza"], state="collecting")
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  where the lines go
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)
    all_of_it = list(settings.MIDDLEWARE)
    plain = [name for name in all_of_it if name != "webapp.core.middleware.RequestLogMiddleware"]

    lines = logging.getLogger("webapp.core.middleware")

    def page_us(middleware: list[str], level: int) -> float:
        settings.MIDDLEWARE = middleware
        lines.setLevel(level)
        client = Client()
        client.get("/s/bench/")
        began = time.process_time()
        for _ in range(n // ROUNDS):
            client.get("/s/bench/")
        return (time.process_time() - began) / (n // ROUNDS) * 1e6

    ways = [
        ("plain", plain, logging.INFO),
        ("with ids and counts", all_of_it, logging.WARNING),
        ("with ids, counts and a line of JSON", all_of_it, logging.INFO),
    ]
    found: dict[str, list[float]] = {name: [] for name, *_ in ways}
    for _ in range(ROUNDS):
        for name, middleware, level in ways:
            found[name].append(page_us(middleware, level))
    base, *_between, most = (statistics.median(one) for one in found.values())
    for name, one in found.items():
        took = statistics.median(one)
        print(f"page {name}: {took:.0f} µs, {took - base:+.0f} µs, ratio {took / base:.3f}")
    settings.MIDDLEWARE = all_of_it
    signs.begin(WEB, in_thread=False)
    for name, step in (("sign of life", signs.give), ("scrape", lambda: Client().get("/metrics"))):
        step()
        began = time.process_time()
        for _ in range(20):
            step()
        print(f"{name}: {(time.process_time() - began) / 20 * 1000:.1f} ms")
    return 0 if most - base <= LIMIT_US else 1


if __name__ == "__main__":
    sys.exit(main())
