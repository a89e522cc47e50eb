"""Verdicts on pairs of bots, word for word."""

from __future__ import annotations

import pytest

from evaluation.analysis.comparisons import Comparisons
from evaluation.findings import Reason
from evaluation.ratings import RatingDimension
from evaluation.stats.comparisons import Comparison
from evaluation.stats.power import PairPlan
from webapp.dashboard.narrative.verdicts import overall_verdict, pair_verdict, ranking_verdicts

NONE = Reason("no_rating", "no rating")
TITLES = {"a": "Ann", "b": "Bob", "c": "Cy"}


def pair(a: str, b: str, gap: float | None, *, ordered: bool, p: float | None = 0.5) -> Comparison:
    low, high = (None, None) if gap is None else (gap - 0.3, gap + 0.3)
    return Comparison(a, b, gap, low, high, p, p, ordered, None if p is not None else NONE)


def plan(needed: int | None, n_a: int = 40, n_b: int = 40, sd: float | None = 1.0) -> PairPlan:
    return PairPlan("a", "b", 0.1, -0.2, 0.4, sd, n_a, n_b, needed, 50, None, "open")


def compared(order: list[str], pairs: list[Comparison], plans: list[PairPlan] | None = None) -> Comparisons:
    quality = RatingDimension("quality", "Quality", 1, 7)
    return Comparisons(quality, 0.1, tuple(order), (), tuple(pairs), 40, 80, tuple(plans or ()))


@pytest.mark.parametrize(
    ("found", "planned", "said"),
    [
        (pair("a", "b", 0.4, ordered=True), None, "Ann is rated higher than Bob, difference 0.40 [0.10, 0.70]."),
        (pair("a", "b", -0.4, ordered=True), None, "Bob is rated higher than Ann, difference 0.40 [0.10, 0.70]."),
        (
            pair("a", "b", 0.1, ordered=False),
            plan(107),
            "Ann and Bob do not differ significantly with 40 raters each. About 110 each would do.",
        ),
        (
            pair("a", "b", 0.1, ordered=False),
            plan(20_000, 40, 38),
            "Ann and Bob do not differ significantly with 38 and 40 raters. Which of them is better is not known: "
            "the difference, Ann less Bob, may be from −0.20 to 0.40.",
        ),
        (
            pair("a", "b", 0.0, ordered=False),
            plan(None),
            "Ann and Bob do not differ significantly with 40 raters each. Which of them is better is not known: the "
            "difference, Ann less Bob, may be from −0.30 to 0.30.",
        ),
        (
            pair("a", "b", 0.4, ordered=False),
            plan(30),
            "Ann and Bob do not differ significantly with 40 raters each. The difference is at the border, a few "
            "more ratings may decide.",
        ),
        (pair("a", "b", None, ordered=False, p=None), None, "Ann and Bob cannot be compared: no rating."),
    ],
)
def test_pairs(found: Comparison, planned: PairPlan | None, said: str) -> None:
    all_of_them = compared(["a", "b"], [found], [planned] if planned else None)
    assert pair_verdict(found, all_of_them, TITLES, 2) == said


def test_the_whole_and_neighbours() -> None:
    pairs = [pair("a", "b", 0.1, ordered=False), pair("a", "c", 0.9, ordered=True), pair("b", "c", 0.8, ordered=True)]

    def overall(*order: str) -> str:
        return overall_verdict(compared(list(order), pairs), TITLES)

    assert overall("a", "b", "c") == "First: Ann, not significantly better than Bob."
    assert overall("a", "c") == "First: Ann, rated higher than each of the other bots."
    assert overall("a", "b") == "First: Ann, but no other bot differs significantly from it."
    assert "nothing to compare" in overall("a")
    many = [*"abcdefghi", "z"]
    close = [pair("a", other, 0.1, ordered=other == "z") for other in many[1:]]
    said_of_many = overall_verdict(compared(many, close), TITLES)
    assert said_of_many == "First: Ann, not significantly better than Bob, Cy and 6 more."
    said = ranking_verdicts(compared(["a", "b", "c"], pairs), TITLES, 1)
    assert said[0].startswith("Ann and Bob do not")
    assert said[1] == "Bob is rated higher than Cy, difference 0.8 [0.5, 1.1]."
