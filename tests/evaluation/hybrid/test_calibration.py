"""Columns of the hybrid metric, accuracy of its predictions, and results over bots."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.hybrid.bot_level import ceiling_of, influence_of, interval_over_conversations, within_groups_of
from evaluation.hybrid.calibration import effective_ratings, intervals_by_errors
from evaluation.hybrid.features import PAPER_FEATURES, HybridError, design_of
from evaluation.hybrid.fit import apply_fit, fit_hybrid
from evaluation.hybrid.gaussian_process_folds import from_selfplay
from evaluation.metrics.registry import metric_list
from tests.evaluation.hybrid import simulated_selfplay
from tests.evaluation.hybrid.test_fit import FEATURES, study


def left_out(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predict each bot by least squares over the others."""
    results = []
    for k in range(len(y)):
        others = np.arange(len(y)) != k
        results.append(float(np.polyval(np.polyfit(x[others], y[others], 1), x[k])))
    return np.array(results)


@pytest.mark.parametrize("n_bots", [5, 8, 12])
def test_they_hold_as_many_bots_as_they_claim(n_bots: int) -> None:
    rng = np.random.default_rng(n_bots)
    names = [f"b{k}" for k in range(n_bots)]
    inside = []
    for number in range(300):
        x = rng.normal(size=n_bots)
        y = (number % 2) * x + rng.normal(size=n_bots)
        human = dict(zip(names, y.tolist(), strict=True))
        predicted = dict(zip(names, left_out(x, y).tolist(), strict=True))
        result = intervals_by_errors(predicted, human, dict.fromkeys(names, 9))
        # One bot a study, so that studies are independent.
        low, high = result["b0"].new
        inside.append(low <= human["b0"] <= high)
    assert np.mean(inside) > 0.95 - 2 * np.sqrt(0.95 * 0.05 / 300)


def test_a_fit_prints_how_many_bots_lie_in_its_own_intervals() -> None:
    human = study(n_bots=7, n=10)
    document = fit_hybrid(human, features=FEATURES).to_json()
    by_fold = fit_hybrid(human, features=FEATURES, intercept="fold").to_json()
    bots = document["bots"]
    errors = {bot: one["human_mean"] - one["predicted_fold"] for bot, one in bots.items()}
    n_inside = 0
    for bot, one in bots.items():
        assert one["predicted_fold"] == pytest.approx(by_fold["bots"][bot]["predicted"])
        others = [error for name, error in errors.items() if name != bot]
        half = stats.t.ppf(0.975, 5) * np.sqrt(np.mean(np.square(others)))
        assert one["interval95_new"] == pytest.approx([one["predicted_fold"] - half, one["predicted_fold"] + half])
        assert (one["interval95"], one["n_new"]) == (None, one["n"])
        n_inside += abs(errors[bot]) <= half
    assert document["coverage95"] == {"inside": n_inside, "of": 7}
    few = fit_hybrid(study(n_bots=4), features=FEATURES, preset="paper").to_json()
    assert few["coverage95"] is None
    assert "interval95_new" not in few["bots"]["bot0"]


FEATURES_OF_SELFPLAY_VALUES = ["f", "g"]


def talk(bots, x, n, rng, **columns):
    """Make a table of n conversations of each bot, whose features lie around these means."""
    rows = np.repeat(np.arange(len(bots)), n)
    table = pd.DataFrame(x[rows] + rng.normal(size=(len(rows), 2)), columns=FEATURES_OF_SELFPLAY_VALUES)
    return table.assign(conversation=[f"c{i}" for i in range(len(rows))], bot=np.array(bots)[rows], **columns)


@pytest.fixture(scope="module")
def study_of_selfplay_values():
    rng = np.random.default_rng(3)
    bots = [f"b{k}" for k in range(8)]
    x = rng.normal(scale=1.5, size=(8, 2))
    human = talk(bots, x, 40, rng)
    true = 3 + x @ [0.6, -0.3]
    human["quality"] = np.repeat(true, 40) + rng.normal(size=320)
    return human, bots, x


def test_errors_of_the_other_bots_on_self_play_widen_the_intervals(study_of_selfplay_values) -> None:
    human, bots, x = study_of_selfplay_values
    rng = np.random.default_rng(4)
    # The bots talk to themselves about other things: each is moved by as much as bots differ.
    moved = x + rng.normal(scale=1.5, size=x.shape)
    played = talk([*bots, "new"], np.vstack([moved, [0.5, 0.5]]), 25, rng)
    hybrid = fit_hybrid(human, features=FEATURES_OF_SELFPLAY_VALUES, preset="strong", selfplay=played)
    means = hybrid.fit.means
    at = {bot: played.loc[played["bot"] == bot, FEATURES_OF_SELFPLAY_VALUES].to_numpy() for bot in [*bots, "new"]}
    stated = {bot: means.expected(bot, rows) for bot, rows in at.items()}
    ratings = means.all_bots.by_bot()

    def weighed(others):
        """Return the added variances that are tried, and their weights by the errors of these bots, point by point."""
        noisy = {bot: stated[bot].widened(means.all_bots.new_ratings(bot)[1]) for bot in others}
        tried = np.mean([one.variance[0] for one in noisy.values()]) * np.array([0, *(2.0 ** np.linspace(-3, 8, 12))])
        log = [
            sum(
                np.log(one.weights[0] @ stats.norm.pdf(ratings[bot], one.means[0], np.sqrt(one.variances[0] + more)))
                for bot, one in noisy.items()
            )
            for more in tried
        ]
        weights = np.exp(np.array(log) - max(log))
        return tried, weights / weights.sum()

    for bot in ("b0", "b3", "new"):
        tried, weights = weighed([other for other in bots if other != bot])
        expected_selfplay = hybrid.bots[bot].expected_selfplay
        for end, share in zip(expected_selfplay.true_mean, (0.025, 0.975), strict=True):
            below = sum(
                w * stats.norm.cdf(end, stated[bot].means[0], np.sqrt(stated[bot].variances[0] + v))
                for w, v in zip(weights, tried, strict=True)
            )
            assert stated[bot].weights[0] @ below == pytest.approx(share)
        own = stated[bot].first_interval(0.95)
        assert expected_selfplay.true_mean[1] - expected_selfplay.true_mean[0] > own[1] - own[0]
        low, high = hybrid.bots[bot].selfplay_interval
        assert high - low < expected_selfplay.true_mean[1] - expected_selfplay.true_mean[0]
    tried, weights = weighed(bots)
    assert hybrid.selfplay.added == pytest.approx(weights @ tried)
    document = hybrid.to_json()
    json.dumps(document, allow_nan=False)
    values = document["values_selfplay"]
    assert values["added_variance"] == hybrid.selfplay.added
    assert values["coverage95"]["of"] == 8
    by_fold = {bot: document["bots"][bot]["selfplay"]["predicted_fold"] for bot in bots}
    human_means = np.array([means.all_bots.by_bot()[bot] for bot in bots])
    others = (human_means.sum() - human_means) / 7
    error = ((human_means - list(by_fold.values())) ** 2).sum()
    assert values["q2"]["value"] == pytest.approx(1 - error / ((human_means - others) ** 2).sum(), rel=1e-9)
    codes = [one["code"] for one in document["verdict"]["findings_selfplay"]]
    assert "values" in codes
    assert set(document["selfplay_shifts"]["others"]) == {"shift", "widest"}


def test_where_few_rated_bots_have_self_play_nothing_but_the_order_is_told(study_of_selfplay_values) -> None:
    human, bots, x = study_of_selfplay_values
    rng = np.random.default_rng(5)
    fit = fit_hybrid(human, features=FEATURES_OF_SELFPLAY_VALUES, preset="strong").fit
    few = talk(["new", *bots[:3]], np.vstack([x.mean(axis=0), x[:3]]), 25, rng)
    result = apply_fit(fit, selfplay=few)
    told = result.bots["new"]
    assert told.predicted_selfplay is not None
    assert (told.expected_selfplay, told.selfplay_interval) == (None, None)
    (why,) = [reason for reason in told.reasons if reason.code == "selfplay_unchecked"]
    assert why.values == {"n_bots": 3, "needed": 4}
    assert "selfplay" not in told.to_json()
    assert "no interval: 3 of 4 other bots with ratings and self-play" in result.summary()
    assert from_selfplay(fit.means, design_of(few, FEATURES_OF_SELFPLAY_VALUES)).added is None
    enough = talk(["new", *bots[:4]], np.vstack([x.mean(axis=0), x[:4]]), 25, rng)
    result = apply_fit(fit, selfplay=enough)
    assert result.bots["new"].selfplay_interval is not None
    assert result.bots["b0"].selfplay_interval is None, "three others have ratings and self-play"
    # Where no rated bot has self-play, the shift is that of all of it from the rated bots' centre.
    far = talk(["far"], x.mean(axis=0)[None] + 20, 25, rng)
    alone = apply_fit(fit, selfplay=far).selfplay.shifts["others"]
    away = (
        far[FEATURES_OF_SELFPLAY_VALUES].mean() - human.groupby("bot")[FEATURES_OF_SELFPLAY_VALUES].mean().mean()
    ).to_numpy()
    assert alone["shift"] == pytest.approx(np.sqrt(((away / fit.means.all_bots.scale) ** 2).mean()))
    assert alone["shift"] > alone["widest"]


@pytest.mark.slow
@pytest.mark.parametrize("moved", ["not moved", "all moved by 1, each by 1"])
def test_intervals_from_self_play_hold(moved: str) -> None:
    """40 studies, two bots each; 95 % less three Monte-Carlo errors."""
    result = simulated_selfplay.held(simulated_selfplay.SIZES["8 bots"], simulated_selfplay.SHIFTS[moved], 40)
    assert len(result) == 4
    inside = [held for parts in result.values() for held, _width in parts]
    assert np.mean(inside) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 80)


def test_a_prediction_is_worth_as_many_ratings_as_err_as_much() -> None:
    """By hand: ratings of variance 40 · 0.1 = 4; errors of 1 less their noise of .1 make .9."""
    bots = ["a", "b", "c"]
    noise = dict.fromkeys(bots, (40, 0.1))
    stated = {"a": 3.0, "b": 5.0, "c": 40.0}
    human = dict(zip(bots, [1.0, 2.0, 3.0], strict=True))
    result = effective_ratings({bot: value + 1 for bot, value in human.items()}, human, noise, stated)
    assert result.stated == 5
    assert result.by_error == pytest.approx(4 / 0.9)
    # The sum of squares over what two degrees of freedom of χ² leave below and above.
    low, high = (2 * 1.0 / stats.chi2.ppf(end, 2) - 0.1 for end in (0.025, 0.975))
    assert result.interval == pytest.approx((4 / low, 4 / high))
    close = effective_ratings(dict(human), human, noise, stated)
    assert (close.by_error, close.interval) == (None, (None, None))
    assert effective_ratings({"a": 1.0}, human, noise, stated) is None


def test_the_ceiling_is_the_reliability_of_the_means():
    rng = np.random.default_rng(0)
    n, n_bots = 40, 60
    ratings = {f"b{k}": rng.normal() * 0.5 + rng.normal(size=n) * 2 for k in range(n_bots)}
    result = ceiling_of(ratings)
    true = 0.25 / (0.25 + 4 / n)  # variance of the true means over that of the observed ones
    assert result.reliability == pytest.approx(true, abs=0.12)
    assert result.low < true < result.high
    assert result.best_r == pytest.approx(np.sqrt(result.reliability))


def test_without_true_differences_there_is_nothing_to_predict():
    rng = np.random.default_rng(1)
    ratings = {f"b{k}": rng.normal(size=30) for k in range(40)}
    assert ceiling_of(ratings).reliability < 0.5
    few = ceiling_of({"a": np.arange(4.0), "b": np.arange(1.0)})
    assert few.reliability is None
    assert "1 bot with two" in few.reason


def test_influence_is_r_without_the_bot_minus_r():
    x, y = [1.0, 2.0, 3.0, 9.0], [1.0, 3.0, 2.0, 9.0]
    result = influence_of(x, y, ["a", "b", "c", "d"])
    whole = np.corrcoef(x, y)[0, 1]
    for k, bot in enumerate("abcd"):
        rest = np.corrcoef(np.delete(x, k), np.delete(y, k))[0, 1]
        assert result[bot] == pytest.approx(rest - whole)
    assert influence_of([1, 2, 3], [1, 2, 3], ["a", "b", "c"]) == dict.fromkeys("abc")


def test_the_interval_over_conversations_holds_the_r_of_as_many_others():
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        true = rng.normal(size=8) * 0.4
        score = 0.8 * true + 0.12 * rng.normal(size=8)
        first, other = (
            [(p + 0.3 * rng.normal(size=30), t + rng.normal(size=30)) for p, t in zip(score, true, strict=True)]
            for _ in range(2)
        )
        low, high = interval_over_conversations(first, seed=0)
        here, there = (
            np.corrcoef([p.mean() for p, _ in some], [t.mean() for _, t in some])[0, 1] for some in (first, other)
        )
        assert low < here < high
        held += low <= there <= high
    assert held / 100 > 0.95 - 2 * np.sqrt(0.95 * 0.05 / 100)


def test_a_difference_between_groups_alone_vanishes_within_them():
    predicted = {"a": 1.0, "b": 1.1, "c": 5.0, "d": 5.1, "e": 1.05}
    human = {"a": 2.1, "b": 2.0, "c": 6.1, "d": 6.0, "e": 2.05}
    groups = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "x"}
    assert np.corrcoef(list(predicted.values()), list(human.values()))[0, 1] > 0.99
    assert within_groups_of(predicted, human, groups).r < -0.9
    assert within_groups_of(predicted, human, {}) is None


def table():
    return pd.DataFrame(
        {
            "conversation": [1, 1, 2, 3, 4, 5],
            "bot": ["a", "a", "a", "b", "b", "b"],
            "participant": ["p", "p", None, "q", "q", "r"],
            "f": [1.0, 1.0, 2.0, np.nan, 4.0, 5.0],
            "g": [1.0, 1.0, np.inf, 3.0, 4.0, 5.0],
            "quality": [1, 3, 4, 5, 6, np.nan],
            "fluency": [2, 2, 2, 2, None, 2],
        }
    )


def test_raters_of_one_conversation_are_averaged():
    result = design_of(table(), ["f"], ["quality"])
    assert result.bots.tolist() == ["a", "a", "b", "b"]
    assert result.y[:3].tolist() == [2.0, 4.0, 6.0]
    assert np.isnan(result.y[3])
    assert result.people.tolist() == ["p", None, "q", "r"]


def test_undefined_features_leave_the_conversation_out_and_are_counted():
    result = design_of(table(), ["f", "g"], ["quality"])
    assert result.x.tolist() == [[1, 1], [4, 4], [5, 5]]
    assert result.n_dropped == 2
    assert result.dropped == {"f": 1, "g": 1}
    # the ratings of conversations left out still count for their bot
    assert result.rated["b"][0].tolist() == [5.0, 6.0]


def test_several_targets_are_averaged_and_all_needed():
    result = design_of(table(), ["f"], ["quality", "fluency"])
    assert result.y[:2].tolist() == [2.0, 3.0]
    assert np.isnan(result.y[2])  # no fluency


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (["f"], ["qualitty"], "no column 'qualitty'; did you mean quality"),
        (["h"], ["quality"], "no column 'h'"),
        ([], ["quality"], "no feature"),
    ],
)
def test_missing_columns_are_explained(features, targets, message):
    with pytest.raises(HybridError, match=message):
        design_of(table(), features, targets)


def test_numbers_written_as_text_count():
    texts = table().astype({"f": "object"})
    texts["f"] = ["1.0", "1.0", "2", "none", 4, 5]
    assert design_of(texts, ["f"]).x.ravel().tolist() == [1, 2, 4, 5]


def test_the_papers_features_are_columns_of_registered_metrics():
    columns = {c.name for m in metric_list() for c in m.columns if c.level == "conversation"}
    assert set(PAPER_FEATURES) <= columns
    assert len(PAPER_FEATURES) == 11
