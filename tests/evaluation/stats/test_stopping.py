"""The forecast of further participants: against ratings drawn one by one; easy, hopeless and missing cases."""

import time

import numpy as np
import pytest

from evaluation.analysis.leaderboard import pair_ranking_progress, ranking_progress
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.stats.comparisons import is_equal
from evaluation.stats.sequential import means_of, pairwise_always
from evaluation.stats.stopping import (
    FEW_RATERS,
    HIGH,
    LOW,
    SHARED_ITEMS,
    StoppingForecast,
    forecast_decisions,
    round_people,
)
from tests.validation.stopping import ALPHA, CELLS, SMALLEST, Cell, decide, draw_ratings


def ratings_of(*gaps: float, n: int = 20, seed: int = 0) -> np.ndarray:
    """Draw ratings, (n, bots), whose sample means differ by exactly these standard deviations."""
    drawn = np.random.default_rng(seed).normal(size=(n, len(gaps)))
    drawn = (drawn - drawn.mean(axis=0)) / drawn.std(axis=0, ddof=1)
    return np.asarray(4 + 1.4 * (drawn + np.array(gaps) - np.mean(gaps)))


def forecast(ratings: np.ndarray, *, rates_all: bool = False, smallest: float | None = SMALLEST) -> StoppingForecast:
    n, n_bots = ratings.shape
    bots = [f"bot{k}" for k in range(n_bots)] * n
    raters = [str(row) if rates_all else f"{row}/{k}" for row in range(n) for k in range(n_bots)]
    values = (ratings.ravel(), bots, raters)
    means = means_of(*values, low=1, high=7)
    pairs = pairwise_always(*values, low=1, high=7, level=1 - ALPHA)
    n_people = n if rates_all else n * n_bots
    return forecast_decisions(means, pairs, n_people=n_people, alpha=ALPHA, smallest=smallest)


@pytest.mark.parametrize("rates_all", [False, True])
def test_the_range_is_that_of_ratings_drawn_one_by_one(rates_all: bool) -> None:
    """The other way round: variance and mean from the posterior, then single ratings, tested from their sums."""
    ratings = ratings_of(0.0, 0.5, n=20)
    [(_a, _b, people)] = forecast(ratings, rates_all=rates_all).pairs
    rng = np.random.default_rng(5)
    n, per_round = len(ratings), 1 if rates_all else 2
    mean, contrast = ratings.mean(axis=0), np.array([1.0, -1.0])
    correlation = np.corrcoef(ratings.T) if rates_all else np.eye(2)
    spread = ratings.std(axis=0, ddof=1)
    # The prior's standard deviation is uniform up to half the scale; weighted by the likelihood of the difference.
    deviations = rng.uniform(1e-3, 3.0, 20_000)
    error = contrast @ (np.outer(spread, spread) * correlation) @ contrast / n
    total = 2 * deviations**2 + error
    weights = np.exp(-((mean @ contrast) ** 2) / (2 * total)) / np.sqrt(total)
    needed = []
    for tau in rng.choice(deviations, size=300, p=weights / weights.sum()):
        deviation = spread * np.sqrt((n - 1) / rng.chisquare(n - 1, 2))
        precision = np.linalg.inv(np.outer(deviation, deviation) * correlation / n)
        posterior = np.linalg.inv(precision + np.outer(contrast, contrast) / (2 * tau**2))
        centre = rng.multivariate_normal(posterior @ precision @ mean, posterior)
        further = centre + deviation * (rng.normal(size=(1000, 2)) @ np.linalg.cholesky(correlation).T)
        decided = decide(np.vstack([ratings, further]), rates_all=rates_all, smallest=SMALLEST)[n - 1 :, 0]
        needed.append(float(np.argmax(decided)) * per_round if decided.any() else np.inf)
    assert people.high is not None
    low, high = np.quantile(needed, [LOW, HIGH])
    # Rounded outwards, to the grid and to two digits.
    assert 0.6 * low < people.low < 1.15 * low
    assert 0.9 * high < people.high < 1.5 * high


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
@pytest.mark.parametrize("look", [2, 7, 60])
def test_the_test_written_for_the_calibration_is_the_products(cell: Cell, look: int) -> None:
    ratings = draw_ratings(cell, np.random.default_rng(look))[:look]
    n_bots = len(cell.means)
    bots = [f"bot{k}" for k in range(n_bots)] * look
    raters = [str(row) if cell.rates_all else f"{row}/{k}" for row in range(look) for k in range(n_bots)]
    pairs = pairwise_always(ratings.ravel(), bots, raters, low=1, high=7, level=1 - ALPHA)
    expected = decide(ratings, rates_all=cell.rates_all, smallest=cell.smallest)[-1]
    assert [pair.ordered or bool(is_equal(pair, cell.smallest)) for pair in pairs] == expected.tolist()


def test_no_difference_so_far_needs_many_and_a_large_one_few() -> None:
    none, some, large = (forecast(ratings_of(0.0, gap), smallest=None) for gap in (0.0, 0.5, 0.8))
    [(_a, _b, of_none)], [(_a, _b, of_some)], [(_a, _b, of_large)] = none.pairs, some.pairs, large.pairs
    assert of_none.high is None
    assert of_none.low > 100 > of_large.low
    assert of_large.high is not None
    assert of_large.high < (of_some.high or np.inf)
    # Of one pair, the next ones are this pair.
    assert (none.n_next, none.next_people, none.n_later, none.later_people) == (1, of_none, 0, None)


def test_pairs_are_counted_and_the_next_ones_come_before_all() -> None:
    of_pairs = forecast(ratings_of(0.0, 0.05, 0.9, 2.2))
    assert (of_pairs.n_pairs, of_pairs.n_people, of_pairs.fewest_raters) == (6, 80, 20)
    assert 0 < of_pairs.n_decided < 6 == of_pairs.n_decided + of_pairs.n_next + of_pairs.n_later
    assert of_pairs.next_people is not None
    assert of_pairs.later_people is not None
    near = next(people for a, b, people in of_pairs.pairs if (a, b) == ("bot0", "bot1"))
    assert of_pairs.next_people.low < near.low <= of_pairs.later_people


def test_among_many_equal_bots_the_largest_difference_so_far_is_taken_for_chance() -> None:
    """The same two bots, alone and with eight others that do not differ: the prior makes the difference smaller."""
    [(_a, _b, alone)] = forecast(ratings_of(0.0, 0.6, n=15), smallest=None).pairs
    rng = np.random.default_rng(3)
    many = np.hstack([ratings_of(0.0, 0.6, n=15), ratings_of(*[0.3] * 8, n=15, seed=int(rng.integers(99)))])
    among = forecast(many, smallest=None)
    first = next(people for a, b, people in among.pairs if (a, b) == ("bot0", "bot1"))
    # 2 and 10 people for a rater of each bot.
    assert first.low / 10 > 2 * alone.low / 2


def test_the_forecast_is_the_same_each_time_and_of_no_unit() -> None:
    ratings = ratings_of(0.0, 0.6)
    assert forecast(ratings) == forecast(ratings)
    [(_a, _b, people)] = forecast(ratings, smallest=None).pairs
    n = len(ratings)
    values = (10 * ratings.ravel(), ["bot0", "bot1"] * n, [str(k) for k in range(2 * n)])
    means = means_of(*values, low=10, high=70)
    pairs = pairwise_always(*values, low=10, high=70, level=1 - ALPHA)
    assert forecast_decisions(means, pairs, n_people=2 * n, alpha=ALPHA, smallest=None).pairs[0][2] == people


def test_nothing_is_said_before_ten_raters_and_with_shared_items() -> None:
    few = forecast(ratings_of(0.0, 0.5, n=9))
    assert (few.reason, few.pairs, few.fewest_raters) == (FEW_RATERS, (), 9)
    assert forecast(ratings_of(0.0, 0.5, n=10)).reason is None
    ratings = ratings_of(0.0, 0.5)
    values = (ratings.ravel(), ["a", "b"] * 20, [str(k // 4) for k in range(40)], [str(k % 8) for k in range(40)])
    shared = forecast_decisions(
        means_of(*values, low=1, high=7),
        pairwise_always(*values, low=1, high=7, level=0.95),
        n_people=10,
        alpha=ALPHA,
        smallest=SMALLEST,
    )
    assert (shared.reason, shared.pairs) == (SHARED_ITEMS, ())


def test_equal_ratings_do_not_make_a_bot_certain() -> None:
    ratings = ratings_of(0.0, 0.2)
    ratings[:, 1] = 4.0
    [(_a, _b, people)] = forecast(ratings, smallest=None).pairs
    assert people.low >= 1


def test_ten_bots_take_a_fifth_of_a_second() -> None:
    ratings = ratings_of(*np.linspace(0, 0.8, 10), n=30)
    forecast(ratings)
    durations = []
    for _ in range(3):
        started = time.process_time()
        assert forecast(ratings).n_pairs == 45
        durations.append(time.process_time() - started)
    assert min(durations) < 0.4, "0.2 s for the forecast, and as much for means and tests on a busy machine"


def test_the_state_of_a_ranking_has_the_forecast_of_the_leading_question() -> None:
    ratings = ratings_of(0.0, 0.6, n=12).clip(1, 7)
    columns = {"quality": ratings.ravel(), "fluency": 8 - ratings.ravel()}
    study = Ratings(
        conversation=np.array([str(k) for k in range(24)], dtype=object),
        bot=np.array(["a", "b"] * 12, dtype=object),
        rater=np.array([f"p{k}" for k in range(24)], dtype=object),
        answers=columns,
        dimensions=tuple(RatingDimension(key, key, 1, 7) for key in columns),
        headline=("quality",),
    )
    progress = ranking_progress(study)
    document = progress.to_json()
    assert (document["forecast"]["n_people"], document["forecast"]["n_pairs"]) == (24, 1)
    assert all("forecast" not in other for other in document["others"])


def test_directly_compared_pairs_have_a_forecast_by_their_own_comparisons() -> None:
    rng = np.random.default_rng(1)
    n = 60
    first = np.array(["a", "a", "b"] * (n // 3), dtype=object)
    second = np.array(["b", "c", "c"] * (n // 3), dtype=object)
    answers = np.where(second == "c", rng.choice([1.0, 1.0, 1.0, -1.0], n), rng.choice([1.0, -1.0], n))
    judged = PairJudgements(
        item=np.array([str(k) for k in range(n)], dtype=object),
        first=first,
        second=second,
        rater=np.array([f"p{k}" for k in range(n)], dtype=object),
        answers={"better": answers},
        titles={"better": "Better"},
    )
    pairs = pair_ranking_progress(judged).to_json()["forecast"]
    assert (pairs["n_pairs"], pairs["n_people"], pairs["fewest_raters"]) == (3, 60, 20)
    people = {(pair["a"], pair["b"]): pair for pair in pairs["pairs"]}
    assert people["a", "b"]["low"] > people["a", "c"]["low"]


def test_numbers_are_rounded_outwards() -> None:
    assert [round_people(n, up=False) for n in (7, 23, 101, 1234)] == [7, 20, 100, 1200]
    assert [round_people(n, up=True) for n in (7, 23, 101, 1234)] == [7, 25, 110, 1300]
