"""The standing of a fit, its findings, its summary and its plot follow from the numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.hybrid.bot_level import BotLevel, BotLevelDiagnostics, BotMeanCeiling, OrderedPairs, most_influential
from evaluation.hybrid.calibration import Combined, prediction_accuracy
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.results import HybridResult
from evaluation.hybrid.rivals import ErrorRatio, Rival, error_ratio
from evaluation.hybrid.summary import points_of
from evaluation.hybrid.verdict import Evidence, verdict_of
from evaluation.stats.correlation import Correlation
from tests.evaluation.hybrid.test_fit import FEATURES, selfplay, study
from tests.validation.values import Tables, permuted


def level(r, null95=0.5):
    return BotLevel(Correlation(r, 0.01, r - 0.2, r + 0.05, 8), null95)


def frame(r, **changed):
    results = {
        "intercepts": {
            "fold": (level(r - 0.3), OrderedPairs(28, 20, 10, 8, "fixed")),
            "common": (level(r), OrderedPairs(28, 24, 10, 9, "fixed")),
        },
        "ceiling": BotMeanCeiling(0.81, 0.5, 0.9, 0.9),
        "influence": {},
        "over_conversations": (r - 0.1, r + 0.02),
        "within_group": None,
    }
    return BotLevelDiagnostics(**{**results, **changed})


def rival(*ends):
    """Return a rival with the interval of the fit's errors over its own."""
    return Rival(0.6, 0.3, 1.0, ErrorRatio(sum(ends) / 2, *ends))


BETTER, UNKNOWN, WORSE = (0.4, 0.8), (0.5, 1.2), (1.1, 1.9)


def evidence(r, *ratios, null95=0.5, pairs=(28, 24, 10, 9, "fixed"), influence=None):
    rivals = {f"rival{k}": rival(*ends) for k, ends in enumerate(ratios or [BETTER])}
    return Evidence(level(r, null95), OrderedPairs(*pairs), rivals, influence or {"a": -0.3, "b": 0.01})


def verdict(result, n_bots=8, *, r=0.9, **played):
    return verdict_of(frame(r), result, n_bots, **played)


def codes(findings):
    return {finding.code: finding.values for finding in findings}


@pytest.mark.parametrize(
    ("r", "ratios", "above_chance", "above_rival", "standing"),
    [
        (0.9, [BETTER, BETTER], True, True, "ranking"),
        (0.3, [BETTER], False, True, "chance"),
        (-0.4, [BETTER], False, True, "chance"),
        (0.8, [BETTER, WORSE, UNKNOWN], True, False, "baseline"),
        (0.9, [BETTER, UNKNOWN], True, None, "unsettled"),
    ],
)
def test_the_standing_follows_from_the_numbers(r, ratios, above_chance, above_rival, standing):
    said = verdict(evidence(r, *ratios), r=r)
    result = codes(said.findings)
    assert said.conclusion == standing
    assert result["correlation"] == {
        "n_bots": 8,
        "r": r,
        "ci95": [r - 0.2, r + 0.05],
        "ci95_over_conversations": [r - 0.1, r + 0.02],
    }
    assert result["chance"] == {"null95": 0.5, "passed": above_chance}
    hardest = max(ratios)
    told = {"r": 0.6, "q2": 0.3, "mae": 1.0, "error_ratio": sum(hardest) / 2, "ci95": list(hardest)}
    assert result["rival"] == {"name": f"rival{ratios.index(hardest)}", **told, "passed": above_rival}
    assert result["influential_bot"] == {"bot": "a", "r_without": r - 0.3}
    assert result["pairs"] == {"resolvable": 10, "ordered": 9, "alpha": pytest.approx(0.1), "test": "fixed"}
    assert result["ceiling"] == {"best_r": 0.9}
    assert ("wrong_order" in result) == (r < 0)
    assert said.selfplay is None
    assert said.findings_selfplay == ()


def test_without_a_rival_nothing_is_known_of_lengths():
    said = verdict(replace(evidence(0.9), rivals={}))
    assert said.conclusion == "unsettled"
    assert "rival" not in codes(said.findings)


def test_the_ends_of_the_ratio_are_where_sums_and_differences_of_errors_correlate() -> None:
    """Of n pairs with mean 0 the correlation of e − λf and e + λf has the chance p that it has at the ends, .05."""
    rng = np.random.default_rng(0)
    human, e, f = np.zeros(9), rng.normal(size=9), 2 * rng.normal(size=9)
    result = error_ratio(e, f, human)
    for end in (result.low, result.high):
        a, b = e - end * f, e + end * f
        r = a @ b / np.sqrt((a @ a) * (b @ b))
        assert 2 * stats.t.sf(abs(r) * np.sqrt(6 / (1 - r**2)), 6) == pytest.approx(0.05)
    assert result.value == pytest.approx(np.sqrt((e @ e) / (f @ f)))
    assert error_ratio(f, e, human).low == pytest.approx(1 / result.high)
    assert error_ratio(e[:4], f[:4], human[:4]).is_better is None, "four bots say nothing"
    assert [error_ratio(human, f, human).is_better, error_ratio(f, human, human).is_better] == [True, False]


def test_much_hangs_on_the_bot_whose_leaving_changes_r_most_whichever_way():
    influence = {"vhred": -0.2, "retrieval": 0.4, "c": None}
    assert most_influential(influence) == "retrieval"
    result = codes(verdict(evidence(0.5, influence=influence)).findings)
    assert result["influential_bot"] == {"bot": "retrieval", "r_without": 0.9}
    steady = verdict(evidence(0.5, influence={"a": 0.05, "b": -0.01}))
    assert "influential_bot" not in codes(steady.findings)
    assert most_influential({"a": None}) is None


def test_what_is_left_within_groups_is_compared_with_r():
    within = Correlation(0.2, 0.5, None, None, 8)
    result = verdict_of(frame(0.9, within_group=within), evidence(0.9), 8)
    assert codes(result.findings)["within_groups"] == {"r": 0.2, "mostly_between": True}
    halves = frame(0.9, ceiling=BotMeanCeiling(-0.1, -0.4, 0.2, None))
    result = verdict_of(halves, evidence(0.9), 8)
    assert codes(result.findings)["halves_disagree"] == {"reliability": -0.1}


@pytest.mark.parametrize(
    ("left_out", "played", "standings"),
    [
        (evidence(0.9), evidence(0.84), ("ranking", "ranking")),
        (evidence(0.9), evidence(0.3), ("ranking", "chance")),
        (evidence(0.9), evidence(0.6, WORSE), ("ranking", "baseline")),
        (evidence(0.2), evidence(0.3), ("chance", "chance")),
        (evidence(-0.59), evidence(0.84), ("chance", "ranking")),
        (evidence(0.6, WORSE), evidence(0.84), ("baseline", "ranking")),
    ],
)
def test_self_play_has_a_standing_of_its_own(left_out, played, standings):
    said = verdict(left_out, selfplay=played, n_selfplay=8)
    assert (said.conclusion, said.selfplay) == standings
    result = codes(said.findings_selfplay)
    assert result["correlation"]["r"] == played.r
    assert {"chance", "rival"} <= result.keys()
    assert "ceiling" not in result


def test_self_play_of_few_bots_is_counted_and_not_judged():
    said = verdict(evidence(0.9), selfplay=evidence(0.99), n_selfplay=4)
    assert said.selfplay == "few_bots"
    assert codes(said.findings_selfplay) == {"no_correlation": {"n_bots": 4, "reason": None}}


def test_few_bots_and_no_correlation_end_it():
    few = verdict(evidence(0.9), 4)
    assert few.conclusion == "few_bots"
    assert codes(few.findings) == {"no_correlation": {"n_bots": 4, "reason": None}}
    none = BotLevel(Correlation(None, None, None, None, 2, reason=Reason("few_pairs", "only 2 of 3", n_pairs=2)), None)
    said = verdict(Evidence(none, OrderedPairs(1, 0, 0, 0), {}, {}))
    assert said.conclusion == "undefined"
    assert codes(said.findings)["no_correlation"]["reason"] == {"code": "few_pairs", "n_pairs": 2}


@pytest.mark.parametrize(("shift", "passed"), [(0.1, True), (3.0, False)])
def test_values_are_argued_from_the_gain_over_the_mean_of_the_other_bots(shift, passed):
    human = {bot: float(place) for place, bot in enumerate("abcdef")}
    values = prediction_accuracy({bot: mean + shift for bot, mean in human.items()}, human, {})
    said = verdict(replace(evidence(0.9), values=values))
    result = codes(said.findings)["values"]
    assert said.conclusion == ("ranking" if passed else "chance"), "r alone is one look of two"
    # The mean of the other bots misses by 6 / 5 of the distance to the mean of all: 25.2 in squares.
    assert result["q2"] == pytest.approx(1 - 6 * shift**2 / 25.2)
    assert (result["passed"], result["slope"]) == (passed, pytest.approx(1.0))
    assert "values" not in codes(verdict(evidence(0.9)).findings)


@pytest.mark.parametrize(
    ("q2", "null95", "standing"), [(0.5, 0.3, "ranking"), (0.2, 0.3, "chance"), (None, None, "ranking")]
)
def test_a_ranking_needs_q2_beyond_chance(q2, null95, standing):
    human = {bot: float(place) for place, bot in enumerate("abcdef")}
    values = replace(prediction_accuracy(human, human, {}), q2=q2, q2_null95=null95)
    assert verdict(replace(evidence(0.9), values=values)).conclusion == standing


def test_a_slope_has_no_interval_that_would_hold_too_little() -> None:
    """Predictions near the mean of the other bots have a negative slope, whatever the bots are like."""
    human = {bot: float(place) for place, bot in enumerate("abcdefgh")}
    near = prediction_accuracy({bot: 4.0 - mean / 5 for bot, mean in human.items()}, human, {})
    assert near.slope == pytest.approx(-5)
    assert (near.slope_interval, near.to_json()["slope"]["reason"]["code"]) == (None, "no_gain_no_slope")
    for n, reason in ((7, "few_bots_for_values"), (8, None)):
        some = {str(place): float(place) for place in range(n)}
        result = prediction_accuracy({bot: mean + 0.1 * (bot < "3") for bot, mean in some.items()}, some, {})
        assert (result.slope_interval is None) == (n == 7)
        assert (result.slope_reason.code if result.slope_reason else None) == reason


def test_a_permuted_study_does_not_pass() -> None:
    """A study whose features tell the bots apart is believed; dealt out to other bots its ratings are not."""
    rng = np.random.default_rng(6)
    n_bots, n = 8, 25
    x = np.repeat(rng.normal(size=(n_bots, 2)), n, axis=0)
    human = pd.DataFrame(x + 0.7 * rng.normal(size=x.shape), columns=["f", "g"]).assign(
        conversation=[f"c{i}" for i in range(n_bots * n)],
        bot=np.repeat([f"b{k}" for k in range(n_bots)], n),
        quality=x @ [1.0, -0.5] + rng.normal(size=n_bots * n),
        words_user=rng.poisson(8, n_bots * n),
        n_turns=rng.integers(6, 20, n_bots * n),
    )
    ratings = Ratings.from_frame(human.assign(rater=None), ["quality"])
    tables = Tables(human, ratings, ("quality",))

    def believed(given: Tables) -> bool:
        fit = fit_hybrid(given.human, features=["f", "g"], preset="strong", ratings=given.ratings)
        return fit.verdict.conclusion == "ranking"

    assert believed(tables)
    assert sum(believed(permuted(tables, seed)) for seed in range(4)) == 0


@pytest.fixture(scope="module")
def found() -> HybridResult:
    return fit_hybrid(study(n_bots=4), features=FEATURES, selfplay=selfplay(n_bots=5))


def test_bots_stand_by_their_human_means_and_unrated_ones_last(found: HybridResult) -> None:
    points = points_of(found.to_json(), "predicted_selfplay")
    assert [point.human is None for point in points] == [False] * 4 + [True]
    rated = [point.human for point in points[:4]]
    assert rated == sorted(rated, reverse=True)
    assert {p.title: p.predicted for p in points} == {
        bot: of_bot.predicted_selfplay for bot, of_bot in found.bots.items()
    }


def test_the_mean_that_is_compared_takes_the_place_of_the_plain_one(found: HybridResult) -> None:
    """Less the habits of its raters, with the 90 % of the normal distribution whose 95 % the document has."""
    bot, one = next((bot, one) for bot, one in found.bots.items() if one.human_mean is not None)
    adjusted = Combined(2.0, (2 - 1.959964, 2 + 1.959964), 2.5, (2.0, 3.0), 0.5, 3.0)
    changed = replace(one, adjusted_mean=2.0, combined=adjusted)
    (point,) = points_of({"bots": {bot: changed.to_json()}}, "predicted")
    assert point.human == changed.target == 2.0 != one.human_mean
    assert point.human_span == pytest.approx((2 - 1.644854, 2 + 1.644854), abs=1e-5)
    assert "human mean 2.00" in point.says


def test_what_cannot_be_drawn_is_explained() -> None:
    alone = fit_hybrid(study(n_bots=4), features=FEATURES)
    with pytest.raises(ValueError, match="no rated bot is predicted from selfplay"):
        alone.plot("selfplay")
    with pytest.raises(ValueError, match="it must be one of conversations, selfplay"):
        alone.plot("chats")  # type: ignore[arg-type]
