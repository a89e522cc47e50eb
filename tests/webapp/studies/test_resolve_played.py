"""Studies by the rule `resolve` without a database: orders settle sooner than by balancing, no more are wrong."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.leaderboard import MOST_NEEDED, ranking_progress
from evaluation.ratings import Ratings
from webapp.studies.assignment.rules.base import rules

TRUTH = {"a": 5.6, "b": 4.9, "c": 3.4, "d": 2.0}
ORDERS = {("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")}


def until_settled(rule_name: str, seed: int, most: int = 900) -> tuple[int, bool]:
    """Play a study with looks every 12 ratings. Returns the ratings until all is settled, and if an order was wrong."""
    rule, rng, noise = rules.get(rule_name), random.Random(seed), np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    needs: dict[str, int] = {}
    while len(rows) < most:
        counts = Counter(str(row["bot"]) for row in rows)
        bots = sorted(TRUTH, key=lambda bot: counts[bot])
        at = rule.choose(
            [counts[bot] for bot in bots],
            rng,
            [float(needs[bot]) for bot in bots] if needs and rule.reads_needs else None,
        )
        bot = bots[at]
        quality = float(np.clip(round(TRUTH[bot] + noise.normal(0, 1.3)), 1, 7))
        rows.append({"conversation": str(len(rows)), "bot": bot, "rater": None, "quality": quality})
        if len(rows) % 12 or len(rows) < 36:
            continue
        found = ranking_progress(Ratings.from_frame(pd.DataFrame(rows), ["quality"], scale=(1, 7)))
        needs = {one: found.needs.get(one, MOST_NEEDED) for one in TRUTH}
        for pair in found.compared.pairs:
            if pair.ordered and (pair.difference or 0) < 0:  # sorted by name, best first
                return len(rows), True
        if found.compared.told_apart == ORDERS:
            return len(rows), False
    return most, False


@pytest.mark.slow
def test_orders_are_resolved_sooner_than_by_balancing_and_no_more_of_them_wrongly() -> None:
    n_studies = 20
    runs = {name: [until_settled(name, seed) for seed in range(n_studies)] for name in ("balanced", "resolve")}
    needed = {name: np.mean([n for n, _wrong in found]) for name, found in runs.items()}
    assert needed["resolve"] < 0.9 * needed["balanced"], needed
    most = 0.1 + 2 * (0.1 * 0.9 / n_studies) ** 0.5
    for found in runs.values():
        assert np.mean([wrong for _n, wrong in found]) <= most
