"""Strengths against published fits, statsmodels' Poisson and logistic regressions, and simulation."""

import numpy as np
import pytest
import statsmodels.api as sm

from evaluation.stats.bradley_terry import bradley_terry
from evaluation.stats.mixed import wald_comparisons
from tests.reference import ratings as published

rng = np.random.default_rng(6)


def puddings() -> tuple[list[str], list[str], list[float]]:
    rows = [
        (str(i), str(j), outcome)
        for i, j, *numbers in published.PUDDINGS
        for outcome, number in zip((1.0, 0.0, 0.5), numbers, strict=True)
        for _ in range(number)
    ]
    first, second, outcomes = zip(*rows, strict=True)
    return list(first), list(second), list(outcomes)


def judgements(n: int = 600, place: float = 0.0, nu: float = 0.6):
    """Make judgements of four bots of strengths 0, .4, .8, 1.5."""
    strength = {"a": 0.0, "b": 0.4, "c": 0.8, "d": 1.5}
    first, second, outcomes = [], [], []
    for _ in range(n):
        i, j = rng.choice(list("abcd"), 2, replace=False)
        one, two = strength[i] + place, strength[j]
        odds = np.exp([one, two, (one + two) / 2 + np.log(nu)])
        first.append(str(i))
        second.append(str(j))
        outcomes.append(rng.choice([1.0, 0.0, 0.5], p=odds / odds.sum()))
    return first, second, outcomes


def test_published_puddings_with_ties():
    result = bradley_terry(*puddings())
    assert [bot.worth for bot in result.bots] == pytest.approx(published.PUDDING_WORTH, abs=3e-5)
    assert result.tie == pytest.approx(published.PUDDING_TIE, abs=2e-5)
    assert result.tie_low < result.tie < result.tie_high
    assert sum(result.probabilities("1", "6")) == pytest.approx(1)
    assert result.n == sum(sum(numbers) for _, _, *numbers in published.PUDDINGS)
    assert (result.bots[0].wins, result.bots[0].losses, result.bots[0].ties) == (84, 104, 71)


def test_published_baseball_without_ties():
    teams, wins = published.BASEBALL_TEAMS, published.BASEBALL_WINS
    rows = [(teams[i], teams[j]) for i, j in np.ndindex(7, 7) for _ in range(wins[i, j])]
    first, second = zip(*rows, strict=True)
    result = bradley_terry(first, second, [1.0] * len(rows))
    pairs = {(c.a, c.b): c for c in result.comparisons}
    for team, (strength, error) in published.BASEBALL_LOG_WORTH.items():
        pair = pairs["Baltimore", team]
        assert -pair.difference == pytest.approx(strength, abs=6e-5)
        assert pair.high - pair.difference == pytest.approx(1.959964 * error, abs=1.5e-4)
    assert result.tie == 0.0


def test_davidsons_model_is_a_log_linear_one():
    """Poisson counts with a level per pair: Fienberg and Larntz (1976)."""
    x, y = [], []
    for pair, (i, j, *numbers) in enumerate(published.PUDDINGS):
        for kind, number in enumerate(numbers):
            strength = np.zeros(7)
            strength[i - 1] = (1.0, 0.0, 0.5)[kind]
            strength[j - 1] = (0.0, 1.0, 0.5)[kind]
            strength[6] = kind == 2
            x.append(np.concatenate([strength[1:], np.eye(15)[pair]]))
            y.append(number)
    fit = sm.GLM(y, np.array(x), family=sm.families.Poisson()).fit(tol=1e-12)
    result = bradley_terry(*puddings())
    for k, pair in enumerate(c for c in result.comparisons if c.a == "1"):
        assert -pair.difference == pytest.approx(fit.params[k], abs=1e-7)
        assert pair.high - pair.difference == pytest.approx(1.959964 * fit.bse[k], rel=1e-5)
    assert np.log(result.tie_high / result.tie) == pytest.approx(1.959964 * fit.bse[5], rel=1e-5)


def test_place_is_the_constant_of_a_logistic_regression():
    first, second, outcomes = judgements(nu=1e-9, place=0.7)
    x = np.zeros((len(first), 4))
    for row, (i, j) in enumerate(zip(first, second, strict=True)):
        x[row, "abcd".index(i)], x[row, "abcd".index(j)] = 1, -1
    fit = sm.Logit(outcomes, sm.add_constant(x[:, 1:])).fit(disp=False)
    result = bradley_terry(first, second, outcomes, place=True)
    ends = fit.conf_int()[0]
    assert (result.first, result.first_low, result.first_high) == pytest.approx((fit.params[0], *ends))
    assert bradley_terry(first, second, outcomes).first is None


def test_place_with_ties_is_symmetric():
    """Told the other way round, the advantage of the first is a disadvantage, and ties are ties."""
    first, second, outcomes = judgements(place=0.7)
    result = bradley_terry(first, second, outcomes, place=True)
    turned = bradley_terry(second, first, [1 - outcome for outcome in outcomes], place=True)
    assert result.first_low < 0.7 < result.first_high
    assert turned.first == pytest.approx(-result.first)
    assert turned.tie == pytest.approx(result.tie)
    for a, b in zip(turned.bots, result.bots, strict=True):
        assert a.strength == pytest.approx(b.strength)


def test_intervals_cover_and_the_order_of_the_pair_does_not_matter():
    inside = 0
    for _ in range(60):
        first, second, outcomes = judgements(200)
        result = bradley_terry(first, second, outcomes, level=0.9)
        pair = next(c for c in result.comparisons if (c.a, c.b) == ("a", "d"))
        inside += pair.low <= -1.5 <= pair.high
    assert inside >= 47  # 54 expected
    turned = bradley_terry(second, first, [1 - outcome for outcome in outcomes], level=0.9)
    for a, b in zip(turned.bots, result.bots, strict=True):
        assert a.strength == pytest.approx(b.strength)


def test_raters_are_the_units():
    first, second, outcomes = judgements(300)
    alone = bradley_terry(first, second, outcomes, list(range(300)))
    twice = bradley_terry(first * 2, second * 2, outcomes * 2, list(range(300)) * 2)
    naive = bradley_terry(first * 2, second * 2, outcomes * 2)
    for a, b in zip(alone.comparisons, twice.comparisons, strict=True):
        assert b.high == pytest.approx(a.high, abs=1e-6)
    assert naive.comparisons[0].high < twice.comparisons[0].high
    plain = bradley_terry(first, second, outcomes)
    for a, b in zip(alone.comparisons, plain.comparisons, strict=True):
        assert a.high - a.difference == pytest.approx(b.high - b.difference, rel=0.2)


def test_strengths_that_are_not_finite_have_a_reason():
    always = bradley_terry(["a", "a", "b", "c"], ["b", "c", "c", "b"], [1, 1, 1, 1])
    assert always.reason.startswith("a never lost against b, c")
    assert always.bots == ()
    apart = bradley_terry(["a", "b", "c", "d"], ["b", "a", "d", "c"], [1, 1, 1, 1])
    assert apart.reason == "c, d never met a, directly or through others"
    assert "every comparison is a tie" in bradley_terry(["a"], ["b"], [0.5]).reason
    assert bradley_terry([], [], []).reason == "no two bots were compared"
    # One win and one tie are best explained by ever more ties at ever greater distance.
    tied = bradley_terry(["a", "a", "b"], ["b", "b", "a"], [1, 0.5, float("nan")])
    assert tied.n == 2
    assert "a never lost against b" in tied.reason
    shown_first = bradley_terry(["a", "b", "a"], ["b", "a", "b"], [1, 1, 1], place=True)
    assert "infinite" in shown_first.reason
    assert bradley_terry(["a", "b", "a"], ["b", "a", "b"], [1, 1, 1]).reason is None
    few = bradley_terry(["a", "b", "a"], ["b", "a", "b"], [1, 1, 1], [1, 1, 2])
    assert "2 raters: too few" in few.reason


def test_refusals():
    with pytest.raises(ValueError, match="'a' is compared with itself"):
        bradley_terry(["a"], ["a"], [1])
    with pytest.raises(ValueError, match=r"outcome 0\.3"):
        bradley_terry(["a"], ["b"], [0.3])
    with pytest.raises(ValueError, match="differ"):
        bradley_terry(["a"], ["b"], [1, 0])


def test_controls_are_columns_of_a_logistic_regression():
    """Without ties: sm.Logit of the first one's win on differences of bots, place and controls."""
    own = np.random.default_rng(3)
    strength, names = np.array([0.0, 0.5, 1.2]), np.array(list("abc"))
    pairs = np.array([own.choice(3, 2, replace=False) for _ in range(800)])
    length, lists = own.normal(size=800), own.integers(-2, 3, size=800).astype(float)
    utility = strength[pairs[:, 0]] - strength[pairs[:, 1]] + 0.3 + 0.8 * length - 0.4 * lists
    won = (own.random(800) < 1 / (1 + np.exp(-utility))).astype(float)
    dummies = np.zeros((800, 3))
    dummies[np.arange(800), pairs[:, 0]] += 1
    dummies[np.arange(800), pairs[:, 1]] -= 1
    fit = sm.Logit(won, np.column_stack([dummies[:, 1:], np.ones(800), length, lists])).fit(disp=0)
    result = bradley_terry(
        names[pairs[:, 0]], names[pairs[:, 1]], won, place=True, controls={"length": length, "lists": lists}
    )
    assert [pair.difference for pair in result.comparisons[:2]] == pytest.approx(-fit.params[:2])
    assert result.first == pytest.approx(fit.params[2])
    assert [effect.value for effect in result.controls] == pytest.approx(fit.params[3:])
    ends = [(effect.low, effect.high) for effect in result.controls]
    assert np.array(ends) == pytest.approx(fit.conf_int()[3:], abs=1e-6)


def test_a_control_takes_away_what_length_alone_has_won():
    own = np.random.default_rng(5)
    first, second = zip(*[own.permutation(["brief", "wordy"]) for _ in range(2000)], strict=True)
    longer = np.where(np.array(first) == "wordy", 1.0, -1.0) + own.normal(size=2000)
    odds = np.exp(np.stack([longer, np.zeros(2000), longer / 2 - 0.5], axis=1))
    p = odds / odds.sum(axis=1, keepdims=True)
    outcomes = [own.choice([1.0, 0.0, 0.5], p=row) for row in p]
    plain = bradley_terry(first, second, outcomes)
    held = bradley_terry(first, second, outcomes, controls={"length": longer})
    assert plain.comparisons[0].ordered
    assert not held.comparisons[0].ordered
    assert held.controls[0].low < 1 < held.controls[0].high


def test_a_judgement_without_its_control_is_left_out_and_lengths_must_agree():
    first, second, outcomes = judgements(200)
    control = np.zeros(200)
    control[:5] = np.nan
    control[5:60] = 1.0
    assert bradley_terry(first, second, outcomes, controls={"length": control}).n == 195
    with pytest.raises(ValueError, match="control 'length' has 3 values for 200 judgements"):
        bradley_terry(first, second, outcomes, controls={"length": [1, 2, 3]})


def test_rank_ranges_hold_what_comparisons_leave_open():
    first, second, outcomes = judgements(3000)
    ranges = bradley_terry(first, second, outcomes).rank_ranges()
    assert ranges["d"] == (1, 1)
    assert ranges["a"][1] == 4
    few = bradley_terry(*judgements(30)).rank_ranges()
    for low, high in few.values():
        assert 1 <= low <= high <= 4
    ordered = [c for c in bradley_terry(first, second, outcomes).comparisons if c.ordered]
    assert sum(low - 1 for low, _high in ranges.values()) == len(ordered)


def test_two_whose_difference_has_no_error_have_no_p_value() -> None:
    [pair] = wald_comparisons(["a", "b"], np.array([1.0, 0.0]), np.zeros((2, 2)), np.inf, 0.9)
    assert (pair.p, pair.p_holm, pair.ordered) == (None, None, False)
    assert pair.reason.code == "no_spread"
