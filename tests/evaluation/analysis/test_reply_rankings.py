"""Rankings of three replies against choix, a direct maximum of the likelihood, and hand counts."""

import json
from itertools import permutations

import choix
import numpy as np
import pytest
from scipy.optimize import minimize

from evaluation.analysis.pairs import judge_pairs
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.analysis.reply_rankings import RankedReplies, plackett_luce, rank_replies, refit

TITLES = {"quality": "Quality"}
BOTS = "abcdef"
TRUE = np.array([0.8, 0.4, 0.1, -0.2, -0.4, -0.7])


def rankings(rows: list[tuple[str | None, str, str]]) -> RankedReplies:
    """Return orders of (rater, item, the bots' letters, best first)."""
    return RankedReplies(
        np.array([[f"{item}/{bot}" for bot in order] for _rater, item, order in rows], dtype=object).reshape(-1, 3),
        np.array([list(order) for *_who, order in rows], dtype=object).reshape(-1, 3),
        np.array([rater for rater, *_what in rows], dtype=object),
    )


def drawn(n_raters: int, n_orders: int = 5, *, spread: float = 0.5, seed: int = 0, bots: int = 6) -> RankedReplies:
    """Draw orders of three of the bots by raters who each like some bots more than others do."""
    rng, rows = np.random.default_rng(seed), []
    for rater in range(n_raters):
        liked = TRUE[:bots] + rng.normal(0, spread, bots)
        for number in range(n_orders):
            shown = rng.choice(bots, 3, replace=False)
            order = shown[np.argsort(-(liked[shown] + rng.gumbel(0, 1, 3)))]
            rows.append((f"r{rater}", f"i{number}", "".join(BOTS[code] for code in order)))
    return rankings(rows)


def likeliest(orders: np.ndarray, n_bots: int) -> np.ndarray:
    """Maximise the log-likelihood of Plackett and Luce, written out term by term."""

    def minus_log_likelihood(strengths: np.ndarray) -> float:
        total = 0.0
        for order in orders:
            for place in range(len(order) - 1):
                strength = strengths[order[place:]]
                total += strength[0] - np.log(np.exp(strength).sum())
        return -total + 1e-9 * float((strengths**2).sum())

    result = minimize(minus_log_likelihood, np.zeros(n_bots), method="BFGS", options={"gtol": 1e-7})
    return result.x - result.x.mean()


def codes(choices: RankedReplies) -> np.ndarray:
    return np.array([[BOTS.index(bot) for bot in order] for order in choices.bot])


@pytest.mark.parametrize("seed", range(3))
def test_strengths_are_those_of_the_likelihood_and_of_both_solvers_of_choix(seed: int) -> None:
    orders = codes(drawn(40, seed=seed))
    strengths = plackett_luce(orders, 6)
    assert strengths == pytest.approx(likeliest(orders, 6), abs=1e-4)
    optimum = choix.opt_rankings(6, orders.tolist(), alpha=1e-10, method="Newton-CG")
    assert strengths == pytest.approx(optimum - optimum.mean(), abs=1e-4)
    assert strengths.sum() == pytest.approx(0)


def test_a_refit_with_weights_is_a_fit_of_repeated_orders() -> None:
    distinct, n_times = np.unique(codes(drawn(40)), axis=0, return_counts=True)
    weights = np.stack([n_times, n_times + np.arange(len(n_times)) % 3]).astype(float)
    refitted = refit(distinct, weights, np.zeros(6))
    for row, fit in zip(weights.astype(int), refitted, strict=True):
        repeated = np.repeat(distinct, row, axis=0)
        assert fit == pytest.approx(plackett_luce(repeated, 6), abs=1e-6)


def test_two_replies_of_one_bot_are_two_of_those_that_are_left() -> None:
    rows = [
        ("r", "i", "aab"),
        ("s", "i", "aba"),
        ("t", "i", "baa"),
        ("u", "j", "abc"),
        ("v", "j", "cba"),
        ("w", "j", "bca"),
    ]
    orders = codes(rankings(rows))
    assert plackett_luce(orders, 3) == pytest.approx(likeliest(orders, 3), abs=1e-4)


def test_counts_and_places_are_those_of_the_orders() -> None:
    results = rank_replies(
        rankings([("r", "i", "abc"), ("s", "i", "bac"), ("t", "j", "cab"), ("u", "j", "abc")]), level=0.9
    )
    counts = {bot.bot: (bot.n_shown, bot.n_first, bot.n_last, bot.place.mean) for bot in results.bots}
    assert counts == {"a": (4, 2, 0, 1.5), "b": (4, 1, 1, 2.0), "c": (4, 1, 3, 2.5)}
    assert [bot.bot for bot in results.bots] == ["a", "b", "c"]
    assert (results.n, results.n_replies, results.reason) == (4, 6, None)
    assert all(bot.strength.low <= bot.strength.mean <= bot.strength.high for bot in results.bots)


def test_intervals_resample_whole_raters() -> None:
    together = drawn(12, 10, spread=1.5)
    alone = RankedReplies(together.reply, together.bot, np.array([f"r{row}" for row in range(120)], dtype=object))

    def width(choices: RankedReplies) -> float:
        return float(np.mean([bot.strength.high - bot.strength.low for bot in rank_replies(choices, level=0.9).bots]))

    assert width(together) > 1.3 * width(alone), "orders of one rater resemble each other"
    assert width(drawn(48, 10, spread=1.5)) < 0.7 * width(together)
    assert rank_replies(together, level=0.9).bots == rank_replies(together, level=0.9).bots
    assert rank_replies(together, level=0.9, seed=1).bots != rank_replies(together, level=0.9).bots


def test_intervals_hold_the_strengths_about_as_often_as_they_say() -> None:
    hits = []
    for seed in range(40):
        bots = rank_replies(drawn(30, 4, spread=0, seed=seed, bots=4), level=0.9).bots
        true = dict(zip(BOTS, TRUE[:4] - TRUE[:4].mean(), strict=False))
        hits += [bot.strength.low <= true[bot.bot] <= bot.strength.high for bot in bots]
    assert 0.82 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize(
    ("rows", "code", "values"),
    [
        ([], "no_pair_judged", {}),
        ([("r", "i", "aaa")], "no_pair_judged", {}),
        ([("r", "i", "abc"), ("s", "i", "acb")], "never_lost", {"best": "a", "others": "b, c"}),
        ([("r", "i", "abc"), ("s", "i", "cba"), ("t", "j", "def"), ("u", "j", "fed")], "never_met", {"bot": "a"}),
    ],
)
def test_missing_strengths_have_a_reason(
    rows: list[tuple[str | None, str, str]], code: str, values: dict[str, str]
) -> None:
    results = rank_replies(rankings(rows), level=0.9)
    assert results.reason is not None
    assert results.reason.code == code
    assert values.items() <= results.reason.values.items()
    assert results.strengths() == {}
    assert all(bot.strength.mean is None and bot.strength.reason == results.reason for bot in results.bots)
    assert results.table(0.9).rows or not rows


def test_resamples_without_finite_strengths_are_counted() -> None:
    rows = [(f"r{number}", f"i{number}", "abc") for number in range(6)] + [("last", "i9", "cba")]
    results = rank_replies(rankings(rows), level=0.9)
    # The only order against the others is missing from (6/7)^7 of the resamples, and all others from nearly none.
    assert results.n_undefined / results.n_resamples == pytest.approx((6 / 7) ** 7, abs=0.05)
    assert f"{results.n_undefined} of 1,000 resamples have no finite strengths" in results.table(0.9).method


def test_one_rater_has_strengths_without_an_interval() -> None:
    orders = [("r", f"i{number}", "".join(order)) for number, order in enumerate(permutations("abc"))]
    bot = rank_replies(rankings([*orders, ("r", "j", "abc")]), level=0.9).bots[0]
    assert (bot.bot, bot.strength.low) == ("a", None)
    assert bot.strength.reason.code == "no_interval"


def test_an_order_implies_three_pairs_and_results_are_written_as_json() -> None:
    judged = PairJudgements.of_choices(rankings([("r", "i", "bca")]), TITLES)
    won = {
        (first, second) if answer > 0 else (second, first)
        for first, second, answer in zip(judged.first, judged.second, judged.answers["quality"], strict=True)
    }
    assert won == {("b", "c"), ("b", "a"), ("c", "a")}
    results = judge_pairs(PairJudgements.of_choices(drawn(12), TITLES))
    document = results.to_json()
    assert document["best_worst"] is None
    assert document["ranking"]["n"] == 60
    assert {bot["bot"] for bot in document["ranking"]["bots"]} == set(BOTS)
    assert "choices" not in document
    assert json.loads(json.dumps(document)) == document
    # Pairs and whole orders estimate the same strengths.
    pairs = {bot.bot: bot.strength for bot in results.strengths.bots}
    orders = {bot: strength.mean for bot, strength in results.choices.strengths().items()}
    assert pairs.keys() == orders.keys()
    assert [pairs[bot] for bot in BOTS] == pytest.approx([orders[bot] for bot in BOTS], abs=0.2)


def test_wrong_shapes_are_refused() -> None:
    four = np.array([list("abcd")], dtype=object)
    with pytest.raises(ValueError, match="both must be"):
        RankedReplies(four, four, np.array(["r"], dtype=object))
