"""Means within conditions, against t-tests of SciPy and sums by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evaluation.analysis.bot_means import bot_means
from evaluation.analysis.comparisons import compare
from evaluation.data.ratings import RatingDimension, Ratings

QUALITY = RatingDimension("quality", "Quality", 1, 7, inferred=True)  # so that no interval is held to a scale


def _ratings(rows: list[tuple[str, str, str, float]], **more: Any) -> Ratings:
    """Make ratings of rows (bot, level, rater, value), each of a conversation of its own."""
    bots, levels, raters, values = zip(*rows, strict=True)
    return Ratings(
        conversation=np.arange(len(rows)),
        bot=np.array(bots),
        rater=np.array(raters, dtype=object),
        answers={"quality": np.array(values, dtype=float)},
        dimensions=(QUALITY,),
        condition={"scenario": np.array(levels)},
        **more,
    )


def _between(seed: int, sizes: dict[tuple[str, str], int]) -> list[tuple[str, str, str, float]]:
    """Draw ratings of raters who rate once; the bad scenario costs two points."""
    draw, rows = np.random.default_rng(seed), []
    for (bot, level), n in sizes.items():
        centre = (4.5 if bot == "a" else 4.0) - (2.0 if level == "bad" else 0.0)
        for value in np.clip(np.round(draw.normal(centre, 1, n)), 1, 7):
            rows.append((bot, level, f"p{len(rows)}", float(value)))
    return rows


def test_bots_are_compared_within_conditions_though_one_had_the_pleasant_one_more_often() -> None:
    rows = _between(3, {("a", "bad"): 30, ("a", "good"): 5, ("b", "bad"): 6, ("b", "good"): 25})
    ratings = _ratings(rows)
    plain = {bot: np.mean([row[3] for row in rows if row[0] == bot]) for bot in "ab"}
    assert plain["a"] < plain["b"], "else the draw shows nothing"

    result = compare(ratings)

    cells = {
        (bot, level): np.array([row[3] for row in rows if row[:2] == (bot, level)])
        for bot in "ab"
        for level in ("bad", "good")
    }
    mean = {bot: np.mean([cells[bot, "bad"].mean(), cells[bot, "good"].mean()]) for bot in "ab"}
    assert result.order == ("a", "b")
    assert result.n_conditions == 2
    assert result.means == pytest.approx(mean)
    # Welch's test of a sum of four means, each with a weight of ½.
    parts = {cell: values.var(ddof=1) / len(values) / 4 for cell, values in cells.items()}
    variance = sum(parts.values())
    df = variance**2 / sum(part**2 / (len(cells[cell]) - 1) for cell, part in parts.items())
    pair = result.pairs[0]
    assert pair.difference == pytest.approx(mean["a"] - mean["b"])
    assert pair.error == pytest.approx(np.sqrt(variance))
    assert pair.df == pytest.approx(df)
    assert pair.p == pytest.approx(2 * stats.t.sf(abs(mean["a"] - mean["b"]) / np.sqrt(variance), df))
    interval = bot_means(ratings).rows["a", "quality"].interval
    own = parts["a", "bad"] + parts["a", "good"]
    df_a = own**2 / sum(parts["a", level] ** 2 / (len(cells["a", level]) - 1) for level in ("bad", "good"))
    half = stats.t.ppf(0.95, df_a) * np.sqrt(own)
    assert interval.mean == pytest.approx(mean["a"])
    assert (interval.low, interval.high) == pytest.approx((mean["a"] - half, mean["a"] + half))


def test_raters_who_meet_all_conditions_are_resampled_whole() -> None:
    draw = np.random.default_rng(5)
    rows = []
    for person in range(12):
        kind = draw.normal(0, 1)
        for bot in "ab":
            for level in ("bad", "good", "odd"):
                rows.append((bot, level, f"p{person}", float(np.clip(np.round(draw.normal(4 + kind, 1)), 1, 7))))

    pair = compare(_ratings(rows)).pairs[0]
    interval = bot_means(_ratings(rows)).rows["b", "quality"].interval

    of = {bot: [np.mean([r[3] for r in rows if r[0] == bot and r[2] == f"p{p}"]) for p in range(12)] for bot in "ab"}
    paired = stats.ttest_rel(of["a"], of["b"])
    assert pair.difference == pytest.approx(np.mean(of["a"]) - np.mean(of["b"]))
    assert (pair.p, pair.df) == pytest.approx((paired.pvalue, 11))
    half = stats.t.ppf(0.95, 11) * np.std(of["b"], ddof=1) / np.sqrt(12)
    assert (interval.low, interval.high) == pytest.approx((np.mean(of["b"]) - half, np.mean(of["b"]) + half))


def test_a_condition_that_a_bot_lacks_counts_for_no_bot() -> None:
    sizes = {("a", "bad"): 9, ("a", "good"): 9, ("b", "bad"): 9, ("b", "good"): 1}
    rows = [*_between(7, sizes), ("c", "odd", "late", 7.0)]

    result = compare(_ratings(rows))

    assert result.n_conditions == 1
    assert result.n_ratings == 19
    assert result.means["a"] == pytest.approx(np.mean([row[3] for row in rows if row[:2] == ("a", "bad")]))
    assert result.means["c"] == 7, "one rating keeps nobody from being compared"
    assert result.pair("a", "b").p is not None
    assert result.pair("a", "c").p is None


def test_without_a_shared_condition_all_count_together() -> None:
    rows = _between(1, {("a", "bad"): 8, ("b", "good"): 8})

    result = compare(_ratings(rows))

    assert result.n_conditions == 0
    assert result.pairs == compare(replace(_ratings(rows), condition={})).pairs
    assert compare(replace(_ratings(rows), condition={})).n_conditions is None


def test_while_a_study_collects_conditions_weigh_the_same() -> None:
    rows = _between(3, {("a", "bad"): 30, ("a", "good"): 5, ("b", "bad"): 6, ("b", "good"): 25})
    known = replace(QUALITY, inferred=False)

    result = compare(_ratings(rows, is_collecting=True))
    scaled = compare(replace(_ratings(rows, is_collecting=True), dimensions=(known,)))

    assert result.test == "always"
    assert result.means == pytest.approx(compare(_ratings(rows)).means)
    pair, fixed = scaled.pairs[0], compare(_ratings(rows)).pairs[0]
    assert pair.low < fixed.low < fixed.high < pair.high, "an interval for all looks is wider"


def test_a_table_has_a_column_for_each_factor() -> None:
    frame = _ratings(_between(1, {("a", "bad"): 2, ("b", "good"): 2})).to_frame()

    assert frame["condition_scenario"].tolist() == ["bad", "bad", "good", "good"]
    read = Ratings.from_frame(frame.drop(columns="unit"))
    assert list(read.answers) == ["quality"]
    assert read.condition["scenario"].tolist() == ["bad", "bad", "good", "good"]
    assert read.per_conversation().columns.tolist() == ["bot", "rater", "quality"]
