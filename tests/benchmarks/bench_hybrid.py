"""Leave-bot-out beside the best plain way, intervals of means, and fits of the hybrid metric.

Prints CPU times of the same run: least squares without each of 30 bots over 100,000 conversations, and a downdate of
the normal equations in NumPy (and how far coefficients are from that and from statsmodels'). Then the seconds that
intervals of twelve bots' mean ratings and a process of bot means (`strong`) take.

Last, by the product's own service and job, from the database: a fit by `strong` of 2,000 conversations of 12 bots
whose metrics are stored, rated by ten named people each, must take 5 seconds of this process at most (that of 30 bots
is printed, too). Otherwise the exit code is 1. SQLite, or a new database on the server that `DATABASE_URL` names.
Threads are those of a user: the settings' defaults, unless OMP_NUM_THREADS is set.

    python -m tests.benchmarks.bench_hybrid
"""

import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.hybrid.features import preset_get
from evaluation.hybrid.least_squares import Factors
from evaluation.stats.means import mean_interval
from tests.benchmarks.own_database import own_database

LIMIT_S = 5.0
REPEATS = 5
"""The shortest of so many runs counts, as with `timeit`: the rest is what else the machine did."""


def downdated(x: np.ndarray, y: np.ndarray, bots: np.ndarray) -> list[np.ndarray]:
    """Fit without each bot by plain NumPy: the normal equations of all rows less those of the bot."""
    import pandas as pd

    codes, names = pd.factorize(bots, sort=True)
    table = np.column_stack([np.ones(len(x)), x, y])[np.argsort(codes, kind="stable")]
    ends = np.searchsorted(codes[np.argsort(codes, kind="stable")], np.arange(len(names) + 1))
    squares = [table[start:end].T @ table[start:end] for start, end in pairwise(ends)]
    left = [np.sum(squares, axis=0) - square for square in squares]
    return [np.linalg.solve(one[:-1, :-1], one[:-1, -1]) for one in left]


def bench_leave_bot_out(n: int = 100_000, n_bots: int = 30, p: int = 20) -> None:
    """Print the CPU time of all folds and of the best plain way to them, each the fastest of as many runs."""
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    bots = rng.choice([f"bot{k:02}" for k in range(n_bots)], size=n).astype(object)
    x = rng.normal(size=(n, p))
    y = x @ rng.normal(size=p) + rng.normal(size=n)
    own, plain = [], []
    for _ in range(REPEATS):
        start = time.process_time()
        factors = Factors(x, y, bots)
        lines = [factors.line(factors.leave_out(k)) for k in range(n_bots)]
        own.append(time.process_time() - start)
        start = time.process_time()
        solved = downdated(x, y, bots)
        plain.append(time.process_time() - start)
    others = bots != factors.bots[0]
    refit = sm.OLS(y[others], sm.add_constant(x[others])).fit().params
    results = [np.array([line.intercept, *line.slopes]) for line in lines]
    difference = max(np.abs(one - two).max() for one, two in zip([*results, results[0]], [*solved, refit], strict=True))
    print(
        f"leave-bot-out: {n_bots} bots, {n} conversations, {p} features: {min(own):.3f} s of CPU, a downdate in NumPy "
        f"{min(plain):.3f} s (ratio {min(plain) / min(own):.1f}), coefficients within {difference:.0e}"
    )


def bench_intervals(n_bots: int = 12, n_raters: int = 2_000, n_each: int = 5) -> None:
    """Time of the intervals of many bots' means, each by many raters."""
    rng = np.random.default_rng(0)
    raters = np.repeat(np.arange(n_raters), n_each)
    ratings = [rng.integers(1, 8, size=len(raters)) for _ in range(n_bots)]
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for values in ratings:
            mean_interval(values, raters, scale=(1, 7))
        times.append(time.perf_counter() - start)
    print(
        f"intervals of means: {n_bots} bots, {n_raters} raters with {n_each} ratings each: {min(times):.3f} s "
        "(aim: under a second)"
    )


def bench_process(n_bots: int = 9, n: int = 2_000) -> None:
    """Print the seconds of a whole fit of the preset `strong` from stored metrics, with its null."""
    import pandas as pd

    from evaluation.hybrid.fit import fit_hybrid

    rng = np.random.default_rng(0)
    features = preset_get("strong").features
    bot = np.arange(n) % n_bots
    x = rng.normal(size=(n, len(features))) + rng.normal(size=(n_bots, len(features)))[bot]
    table = pd.DataFrame(x, columns=list(features)).assign(
        conversation=np.arange(n).astype(str),
        bot=bot.astype(str),
        participant=rng.integers(0, n // 5, n).astype(str),
        n_turns=10.0 + rng.integers(0, 9, n),
        quality=x[:, 0] + rng.normal(size=n),
    )
    start = time.perf_counter()
    fit_hybrid(table, preset="strong")
    print(
        f"process of bot means: {n_bots} bots, {n} conversations, {len(features)} columns, 1,000 permutations: "
        f"{time.perf_counter() - start:.1f} s (aim: under 5)"
    )


def bench_service() -> bool:
    """Print what fits take by the product's own way; return whether the limits hold."""
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder, own_database(Path(folder)) as environment:
        os.environ.update(environment, DJANGO_SETTINGS_MODULE="webapp.settings.embedded")
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        from tests.benchmarks.bench_results import make
        from tests.benchmarks.results_there import fit_make, metrics_of_fit, metrics_store

        call_command("migrate", verbosity=0)
        studies = {n_bots: make(f"fit{n_bots}", 20_000, n_bots=n_bots) for n_bots in (12, 30)}
        for study in studies.values():
            metrics_store(study, metrics_of_fit())

        def seconds(of: Any, preset: str) -> float:
            started = time.process_time()
            fit_make(of, preset)
            return time.process_time() - started

        fit_s = {n_bots: seconds(study, "strong") for n_bots, study in studies.items()}
        is_slow = fit_s[12] > LIMIT_S
        print(
            "fit by the service, 2,000 conversations, metrics stored, ten named raters each: "
            f"{fit_s[12]:.1f} s with 12 bots (at most {LIMIT_S:g}), {fit_s[30]:.1f} s with 30"
            f"{'  TOO SLOW' if is_slow else ''}"
        )
        connection.close()
        return not is_slow


def main() -> int:
    """Return 1 where a fit takes longer than it may."""
    bench_intervals()
    bench_leave_bot_out()
    bench_process()
    return int(not bench_service())


if __name__ == "__main__":
    sys.exit(main())
