"""Intervals for looking as often as one likes: their formula by numerical integration, their promise by simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from evaluation.stats.comparisons import pairwise
from evaluation.stats.sequential import (
    IMAGINED,
    MIXING,
    THINGS,
    count_further_raters,
    mean_always,
    means_of,
    pairwise_always,
    preferences_always,
)

SCALE = {"low": 1.0, "high": 7.0}
LEVEL = 0.9
N_STUDIES = 100
N_RATERS = 160
# The share that may ever leave the truth out, and two Monte-Carlo standard errors of it.
MOST = (1 - LEVEL) + 2 * math.sqrt((1 - LEVEL) * LEVEL / N_STUDIES)

POINTS = np.arange(1, 8)
USUAL = np.array([1, 3, 6, 8, 6, 3, 1]) / 28
LIKED = np.array([1, 1, 1, 1, 2, 4, 90]) / 100
SPLIT = np.array([20, 0, 0, 0, 0, 0, 80]) / 100


def mixture(mean: float, variance: float, n: float, mu: float) -> float:
    """Return the evidence against `mu`, integrated over effects of every size."""
    drift = n * (mean - mu) / math.sqrt(variance)

    def at(size: float) -> float:
        weight = math.exp(-(size**2) / (2 * MIXING)) / math.sqrt(2 * math.pi * MIXING)
        return weight * math.exp(size * drift - size**2 * n / 2)

    return integrate.quad(at, -8, 8, points=[drift / n], limit=200)[0]


def with_imagined(values: np.ndarray) -> float:
    """Return the variance of the ratings, three imagined ones at half the scale away among them."""
    n = len(values)
    return (values.var(ddof=1) * n + IMAGINED * 9) / (n + IMAGINED)


def test_the_interval_of_a_mean_ends_where_the_mixture_says() -> None:
    values = np.random.default_rng(1).choice(POINTS, 40, p=USUAL).astype(float)
    result = mean_always(values, **SCALE, level=LEVEL)
    for end in (result.low, result.high):
        evidence = mixture(values.mean(), with_imagined(values), len(values), end)
        assert evidence == pytest.approx(1 / (1 - LEVEL), rel=1e-4)


def test_the_interval_of_a_difference_ends_where_no_pair_of_means_is_left() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.choice(POINTS, 30, p=USUAL).astype(float) for _ in range(2))
    [pair] = pairwise_always([*a, *b], ["a"] * 30 + ["b"] * 30, **SCALE, level=LEVEL)

    def least(difference: float) -> float:
        def product(mu: float) -> float:
            of_a = mixture(a.mean(), with_imagined(a), 30, mu + difference)
            return math.log(of_a) + math.log(mixture(b.mean(), with_imagined(b), 30, mu))

        return math.exp(optimize.minimize_scalar(product, bounds=(1, 7), method="bounded").fun)

    assert least(pair.high) == pytest.approx(1 / (1 - LEVEL), rel=1e-3)
    assert least(pair.low) == pytest.approx(1 / (1 - LEVEL), rel=1e-3)
    assert pair.p == pytest.approx(min(1.0, 1 / least(0.0)), rel=1e-3)


Draw = Callable[[np.random.Generator, int], int]


def balanced(rng: np.random.Generator, counts: list[int], totals: list[float]) -> int:
    return sum(counts) % 2


def greedy(rng: np.random.Generator, counts: list[int], totals: list[float]) -> int:
    """Give whichever bot looks worse so far, four times in five: the mean of a bot with bad luck is mended."""
    if sum(counts) < 6 or not all(counts) or rng.random() < 0.2:
        return int(rng.integers(2))
    return int(totals[1] / counts[1] < totals[0] / counts[0])


def ever_wrong(
    rng: np.random.Generator,
    rule: Callable[..., int],
    shares: tuple[np.ndarray, np.ndarray],
    *,
    repeats: int = 1,
    spread: float = 0.0,
    fixed: bool = False,
    widths: list[float] | None = None,
) -> bool:
    """Play one study, with a look after every eighth rater, and tell whether a look left the true difference out.

    Args:
        repeats: most ratings that a rater gives, one after another as the rule says; each draws how many.
        widths: takes that of the last interval.
        spread: of the raters: how much kinder than others one is, in points, before the scale cuts it.
    """
    truth = float((shares[0] - shares[1]) @ POINTS)
    values: list[float] = []
    bots: list[str] = []
    raters: list[int] = []
    counts, totals = [0, 0], [0.0, 0.0]
    said = [rng.choice(POINTS, (N_RATERS, repeats), p=share).tolist() for share in shares]
    every, pair = (8 if repeats == 1 else 16), None
    for rater in range(N_RATERS):
        kind = rng.normal(0, spread) if spread else 0.0
        for place in range(int(rng.integers(1, repeats + 1)) if repeats > 1 else 1):
            bot = rule(rng, counts, totals)
            value = min(13.0, max(-5.0, said[bot][rater][place] + kind))
            counts[bot] += 1
            totals[bot] += value
            values.append(value)
            bots.append("ab"[bot])
            raters.append(rater)
        if rater % every == every - 1 and all(counts):
            people = raters if repeats > 1 else None
            if fixed:
                pairs = pairwise(values, bots, people, level=LEVEL).pairs
            else:
                low, high = (1.0, 7.0) if not spread else (-5.0, 13.0)
                pairs = pairwise_always(values, bots, people, low=low, high=high, level=LEVEL)
            [pair] = pairs
            if pair.low is not None and not pair.low <= truth <= pair.high:
                return True
    if widths is not None:
        widths.append(pair.high - pair.low)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("rule", [balanced, greedy])
@pytest.mark.parametrize(
    "shares",
    [(USUAL, USUAL), (LIKED, USUAL), (LIKED, LIKED), (SPLIT, SPLIT[::-1])],
    ids=["usual", "liked", "both-liked", "split"],
)
def test_of_a_hundred_studies_ten_at_most_ever_leave_the_truth_out(
    rule: Callable[..., int], shares: tuple[np.ndarray, np.ndarray]
) -> None:
    rng = np.random.default_rng(7)
    widths: list[float] = []
    wrong = sum(ever_wrong(rng, rule, shares, widths=widths) for _ in range(N_STUDIES))
    told(f"{rule.__name__}, one rating each", wrong, widths)
    assert wrong / N_STUDIES <= MOST


def told(what: str, wrong: int, widths: list[float]) -> None:
    print(
        f"{what}: {N_STUDIES} studies of {N_RATERS} raters, {wrong} ever left the truth out; "
        f"width at the end {np.mean(widths):.2f}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "shares"), [(balanced, (USUAL, USUAL)), (greedy, (LIKED, SPLIT))], ids=["balanced-alike", "greedy-unlike"]
)
def test_raters_who_rate_several_times_are_counted_once(
    rule: Callable[..., int], shares: tuple[np.ndarray, np.ndarray]
) -> None:
    """Raters with one to six ratings, some kinder than others; the bots' ratings spread alike, or not at all alike."""
    rng = np.random.default_rng(8)
    widths: list[float] = []
    wrong = sum(ever_wrong(rng, rule, shares, repeats=6, spread=1.5, widths=widths) for _ in range(N_STUDIES))
    told(f"{rule.__name__}, up to six ratings each", wrong, widths)
    assert wrong / N_STUDIES <= MOST


@pytest.mark.slow
def test_a_fixed_interval_looked_at_so_often_would_be_wrong_in_a_third_of_studies() -> None:
    rng = np.random.default_rng(9)
    wrong = sum(ever_wrong(rng, balanced, (USUAL, USUAL), fixed=True) for _ in range(120))
    assert wrong / 120 > 0.3


def test_the_mean_of_a_bot_holds_at_every_look() -> None:
    rng = np.random.default_rng(10)
    wrong = 0
    for _ in range(N_STUDIES):
        values = rng.choice(POINTS, N_RATERS, p=LIKED).astype(float)
        looks = (mean_always(values[:n], **SCALE, level=LEVEL) for n in range(2, N_RATERS, 3))
        wrong += any(not result.low <= LIKED @ POINTS <= result.high for result in looks)
    assert wrong / N_STUDIES <= MOST


def test_clear_differences_are_told_apart_and_small_ones_say_how_many_more_it_takes() -> None:
    rng = np.random.default_rng(3)
    low, middle, high = (np.clip(rng.normal(mean, 1.2, 60), 1, 7) for mean in (2.5, 4.4, 4.8))
    values = np.concatenate([low, middle, high])
    bots = ["low"] * 60 + ["middle"] * 60 + ["the high"] * 60
    pairs = {(p.a, p.b): p for p in pairwise_always(values, bots, **SCALE, level=LEVEL)}
    assert pairs["low", "middle"].ordered
    assert pairs["low", "middle"].difference < 0
    close = pairs["middle", "the high"]
    assert not close.ordered
    assert close.low < 0 < close.high
    result = means_of(values, bots, **SCALE)
    assert count_further_raters(result, "low", "middle", difference=1.9, alpha=0.1 / 3) == 0
    n_more = count_further_raters(result, "middle", "the high", difference=0.6, alpha=0.1)
    assert 20 < n_more < 2000
    # With so many more, at the same spread, such a difference is shown; with one fewer it is not.
    for n, is_enough in ((n_more, True), (n_more - 1, False)):
        variance, n_a, n_b = result.project_difference(1, 2, n)
        lost = math.log1p(n_a * MIXING) / 2 + math.log1p(n_b * MIXING) / 2
        times = math.sqrt(2 * (1 + 1 / (n_a * MIXING)) * (math.log(10) + lost))
        assert (times * math.sqrt(variance) < 0.6) is is_enough


def test_what_cannot_be_tested_says_why() -> None:
    pairs = pairwise_always([1, 2, 3, math.nan], ["a", "a", "b", "c"], **SCALE)
    assert [pair.reason.code for pair in pairs] == ["one_rating", "no_rating_of_bot", "no_rating_of_bot"]
    assert not any(pair.ordered for pair in pairs)
    assert mean_always([], **SCALE).reason.code == "no_value"
    # No number of raters shows next to nothing.
    equal = means_of([4, 4, 4, 4], ["a", "a", "b", "b"], **SCALE)
    assert count_further_raters(equal, "a", "b", difference=1e-3, alpha=0.1) is None


def test_bots_with_opposite_marks_from_everybody_are_told_apart_after_a_while() -> None:
    def compared(n: int) -> bool:
        [pair] = pairwise_always([1] * n + [7] * n, ["a"] * n + ["b"] * n, **SCALE, level=LEVEL)
        return pair.ordered

    assert not compared(2)
    assert compared(12)


TIE = 0.4
ITEM_SD, RATER_SD = 1.2, 0.3


def leaves_out_preference(rng: np.random.Generator, lead: float, *, by_items: bool) -> bool:
    """Play a study of 20 items that 48 people compare five of each, and tell whether a look left the truth out.

    Whoever judges leans by `lead`, by the item, by themselves and by chance; near the middle they say the same.
    """
    spread = math.sqrt(1 + ITEM_SD**2 + RATER_SD**2)
    truth = stats.norm.sf((TIE - lead) / spread) - stats.norm.cdf((-TIE - lead) / spread)
    items, counts = rng.normal(0, ITEM_SD, 20), np.zeros(20)
    scores: list[float] = []
    raters: list[int] = []
    judged: list[int] = []
    for rater in range(48):
        values = np.lexsort((rng.random(20), counts))[:5]
        counts[values] += 1
        leans = lead + items[values] + rng.normal(0, RATER_SD) + rng.normal(0, 1, 5)
        scores += np.where(leans > TIE, 1.0, np.where(leans < -TIE, -1.0, 0.0)).tolist()
        raters += [rater] * 5
        judged += values.tolist()
        if rater % 8 == 7:
            n, things = len(scores), judged if by_items else None
            [result] = preferences_always(scores, ["a"] * n, ["b"] * n, raters, things, smallest=0.2, level=LEVEL)
            if not result.pair.low <= truth <= result.pair.high:
                return True
    return False


@pytest.mark.slow
def test_few_items_that_many_people_compare_are_counted_as_few() -> None:
    """The order of two bots is of all that they may be asked; the items are a sample of that."""
    for lead in (0.0, 1.2):
        rng = np.random.default_rng(5)
        wrong = sum(leaves_out_preference(rng, lead, by_items=True) for _ in range(N_STUDIES))
        assert wrong / N_STUDIES <= MOST
    rng = np.random.default_rng(5)
    wrong = sum(leaves_out_preference(rng, 0.0, by_items=False) for _ in range(N_STUDIES))
    assert wrong / N_STUDIES > MOST, "by raters alone the promise is broken"


def leaves_out_difference(rng: np.random.Generator, n_contexts: int) -> bool:
    """Play a study whose 40 people rate eight replies each, of two equal bots to the same contexts."""
    of_context, of_reply = rng.normal(0, 0.8, n_contexts), rng.normal(0, 0.5, (n_contexts, 2))
    counts = np.zeros(2 * n_contexts)
    values: list[float] = []
    bots: list[str] = []
    raters: list[int] = []
    contexts: list[int] = []
    for rater in range(40):
        given = np.lexsort((rng.random(2 * n_contexts), counts))[:8]
        counts[given] += 1
        context, bot = given // 2, given % 2
        leans = of_context[context] + of_reply[context, bot] + rng.normal(0, 0.5)
        values += np.clip(3 + leans + rng.normal(0, 0.7, 8), -2, 8).tolist()
        bots += ["ab"[i] for i in bot]
        raters += [rater] * 8
        contexts += context.tolist()
        if rater % 8 == 7:
            [pair] = pairwise_always(values, bots, raters, contexts, low=-2, high=8, level=LEVEL)
            if pair.low is not None and not pair.low <= 0 <= pair.high:
                return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("n_contexts", [8, 60])
def test_items_of_few_contexts_and_of_many_are_told_apart_rightly(n_contexts: int) -> None:
    rng = np.random.default_rng(6)
    wrong = sum(leaves_out_difference(rng, n_contexts) for _ in range(N_STUDIES))
    assert wrong / N_STUDIES <= MOST


def test_a_preference_ends_where_the_mixture_says_and_knows_what_it_lacks() -> None:
    strict = 0.98
    scores = np.array([1, 1, 0, -1, 1, 1, 0, 1, 1, -1] * 4, dtype=float)
    [result] = preferences_always(scores, ["b"] * 40, ["a"] * 40, smallest=0.4, level=strict)
    assert (result.pair.a, result.pair.b, result.pair.difference) == ("a", "b", -0.4)
    variance = (scores.var(ddof=1) * 40 + IMAGINED) / (40 + IMAGINED)
    for end in (-result.pair.low, -result.pair.high):
        assert mixture(0.4, variance, 40, end) == pytest.approx(1 / (1 - strict), rel=1e-4)
    assert result.pair.p == pytest.approx(1 / mixture(0.4, variance, 40, 0), rel=1e-4)
    assert not result.pair.ordered
    # So many more of the same kind settle it, one fewer does not.
    for n_more, is_enough in ((result.more, True), (result.more - 1, False)):
        n = 40 + n_more
        assert (mixture(0.4, variance, n, 0) > 1 / (1 - strict)) is is_enough
    # Where everybody judged the same three things, more things are needed, not more people.
    [few] = preferences_always(
        scores, ["b"] * 40, ["a"] * 40, list(range(40)), [n % 3 for n in range(40)], smallest=0.4, level=strict
    )
    assert (few.unit, few.pair.ordered) == (THINGS, False)
    assert few.pair.high - few.pair.low > 2 * (result.pair.high - result.pair.low)
    [once] = preferences_always([1], ["a"], ["b"], smallest=0.2)
    assert (once.pair.reason.code, once.more) == ("one_judgement", None)


def test_one_pair_is_told_apart_by_its_own_judgements_alone() -> None:
    scores = [1.0] * 30 + [1.0, -1.0] * 10
    first, second = ["a"] * 30 + ["b"] * 20, ["b"] * 30 + ["c"] * 20
    results = {(one.pair.a, one.pair.b): one for one in preferences_always(scores, first, second, smallest=1e-3)}
    assert results["a", "b"].pair.ordered
    assert not results["b", "c"].pair.ordered
    assert results["b", "c"].more is None, "next to nothing is never shown"
    assert ("a", "c") not in results
