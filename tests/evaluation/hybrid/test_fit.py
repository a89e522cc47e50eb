"""The hybrid metric from table to document, against an independent fit from rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from threadpoolctl import threadpool_info, threadpool_limits

from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.findings import finding
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.fit import apply_fit, fit_hybrid
from evaluation.hybrid.results import KeptFit
from evaluation.hybrid.summary import predictions_plot
from evaluation.number_format import figure
from evaluation.stats.comparisons import pairwise

FEATURES = ["f", "g", "h"]


def study(seed=0, n_bots=6, n=20):
    rng = np.random.default_rng(seed)
    rows = n_bots * n
    bot = np.repeat([f"bot{k}" for k in range(n_bots)], n)
    x = rng.normal(size=(rows, 3)) + np.repeat(rng.normal(size=(n_bots, 3)), n, axis=0)
    y = 3 + x @ [0.8, -0.4, 0.1] + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "conversation": [f"c{i}" for i in range(rows)],
            "bot": bot,
            "participant": rng.integers(0, 40, rows).astype(str),
            "f": x[:, 0],
            "g": x[:, 1],
            "h": x[:, 2],
            "quality": y,
            "fluency": y + rng.normal(size=rows),
            "words_user": rng.poisson(6, rows).astype(float),
            "n_turns": rng.integers(6, 20, rows),
        }
    )


def selfplay(n_bots=8, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n_bots * 10, 3)), columns=FEATURES)
    frame["bot"] = np.repeat([f"bot{k}" for k in range(n_bots)], 10)
    frame["conversation"] = range(len(frame))
    return frame


def by_hand(human, intercept, at=None):
    """Leave out bot by bot from rows; return bot means of predictions at `at` (the human table by default)."""
    at = human if at is None else at
    x, y = human[FEATURES].to_numpy(), human["quality"].to_numpy()
    results = {}
    for bot in sorted(set(human["bot"])):
        others = (human["bot"] != bot).to_numpy()
        table = np.column_stack([np.ones(others.sum()), x[others]])
        weights = np.linalg.lstsq(table, y[others], rcond=None)[0]
        mine = at.loc[at["bot"] == bot, FEATURES].to_numpy()
        if intercept == "fold":
            results[bot] = (weights[0] + mine @ weights[1:]).mean()
        else:
            results[bot] = (y.mean() + (mine - x.mean(axis=0)) @ weights[1:]).mean()
    return results


@pytest.mark.parametrize("intercept", ["fold", "common"])
def test_predictions_and_correlations_against_a_fit_from_rows(intercept):
    human, played = study(), selfplay()
    hybrid = fit_hybrid(human, features=FEATURES, intercept=intercept, selfplay=played)
    expected, on_selfplay = by_hand(human, intercept), by_hand(human, intercept, played)
    means = human.groupby("bot")["quality"].mean()
    for bot, value in expected.items():
        assert hybrid.bots[bot].predicted == pytest.approx(value, rel=1e-8)
        assert hybrid.bots[bot].predicted_selfplay == pytest.approx(on_selfplay[bot], rel=1e-8)
        assert hybrid.bots[bot].human_mean == pytest.approx(means[bot])
    for method, test in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        for level, scores in ((hybrid.bot_level, expected), (hybrid.selfplay.bot_level, on_selfplay)):
            result = test([scores[b] for b in scores], [means[b] for b in scores])
            assert level[method].correlation.r == pytest.approx(result.statistic)
            correlation = level[method].correlation
            if method == "pearson":  # of ranks p is by the variance of the interval
                assert correlation.p == pytest.approx(result.pvalue)
            assert (correlation.p < 0.05) == (not correlation.low <= 0 <= correlation.high)
    at_rows = hybrid.predictions["predicted"]
    assert hybrid.conversation_level["pearson"].r == pytest.approx(np.corrcoef(at_rows, human["quality"])[0, 1])


def test_coefficients_are_means_over_folds_with_students_interval():
    human = study()
    hybrid = fit_hybrid(human, features=FEATURES)
    weights = []
    for bot in sorted(set(human["bot"])):
        others = human[human["bot"] != bot]
        table = np.column_stack([np.ones(len(others)), others[FEATURES]])
        weights.append(np.linalg.lstsq(table, others["quality"], rcond=None)[0][1:])
    weights = np.array(weights)
    half = stats.t.ppf(0.95, 5) * weights.std(axis=0, ddof=1) / np.sqrt(6)
    for j, name in enumerate(FEATURES):
        c = hybrid.coefficients[name]
        assert c.mean == pytest.approx(weights[:, j].mean())
        assert c.high - c.mean == pytest.approx(half[j])
        assert c.scaled_mean == pytest.approx(c.mean * human[name].std(ddof=0))


@pytest.mark.parametrize("intercept", ["fold", "common"])
def test_a_bots_own_ratings_do_not_move_its_prediction(intercept):
    human = study()
    changed = human.copy()
    mine = changed["bot"] == "bot2"
    changed.loc[mine, "quality"] = 10 - 2 * changed.loc[mine, "quality"]
    hybrid = fit_hybrid(human, features=FEATURES, intercept=intercept)
    two = fit_hybrid(changed, features=FEATURES, intercept=intercept)
    np.testing.assert_allclose(hybrid.fit.folds["bot2"].slopes, two.fit.folds["bot2"].slopes, rtol=1e-9, atol=1e-9)
    # The common intercept is one constant for all bots, so it moves all of them alike.
    moved = two.bots["bot2"].predicted - hybrid.bots["bot2"].predicted
    expected = 0.0 if intercept == "fold" else two.fit.target_mean - hybrid.fit.target_mean
    assert moved == pytest.approx(expected, abs=1e-9)


def test_an_unrated_bot_is_predicted_by_all_rated_ones_with_an_interval():
    human = study()
    hybrid = fit_hybrid(human, features=FEATURES, selfplay=selfplay())
    x = np.column_stack([np.ones(len(human)), human[FEATURES]])
    weights = np.linalg.lstsq(x, human["quality"], rcond=None)[0]
    played = selfplay()
    mine = played[played["bot"] == "bot7"][FEATURES].to_numpy()
    new = hybrid.bots["bot7"]
    assert new.human_mean is None
    assert new.n == 0
    assert new.predicted is None
    assert "no_rating" in [reason.code for reason in new.reasons]
    assert new.predicted_selfplay == pytest.approx((weights[0] + mine @ weights[1:]).mean())
    low, high = new.selfplay_interval
    assert low < new.predicted_selfplay < high
    assert hybrid.selfplay.bot_level["pearson"].correlation.n == 6


def test_an_unrated_bot_with_human_conversations_is_predicted_too():
    human = study()
    human.loc[human["bot"] == "bot5", "quality"] = np.nan
    hybrid = fit_hybrid(human, features=FEATURES)
    assert hybrid.n_bots == 5
    assert hybrid.bots["bot5"].human_mean is None
    assert hybrid.bots["bot5"].predicted is not None
    assert "bot5" not in hybrid.fit.folds


def test_the_score_of_a_partly_rated_bot_is_made_of_its_rated_conversations():
    human = study()
    mine = human.index[human["bot"] == "bot0"]
    human.loc[mine[:12], "quality"] = np.nan
    human.loc[mine[:12], "f"] += 100.0
    hybrid = fit_hybrid(human, features=FEATURES, intercept="fold")
    rated = human[human["quality"].notna()]
    assert hybrid.bots["bot0"].n == 8
    assert hybrid.bots["bot0"].predicted == pytest.approx(by_hand(rated, "fold")["bot0"])
    assert hybrid.n_conversations == 108


def test_undefined_features_and_constant_ones_are_reported_not_fitted():
    human = study()
    human.loc[[3, 4], "g"] = np.nan
    human["flat"] = 1.0
    hybrid = fit_hybrid(human, features=[*FEATURES, "flat"])
    document = hybrid.to_json()
    json.dumps(document, allow_nan=False)
    assert document["dropped"] == {"conversations": 2, "undefined": {"g": 2}}
    assert document["coefficients"]["flat"]["mean"] is None
    assert document["coefficients"]["flat"]["reason"] == {"code": "constant_feature"}
    assert all(fold["dropped"] == ["flat"] for fold in document["folds"])
    assert hybrid.n_conversations == 118
    assert hybrid.bots["bot0"].n == 20  # its human mean is that of all its ratings
    assert finding("constant_features", features=["flat"]) in hybrid.cautions


def test_a_bot_far_from_what_the_fit_has_seen_is_called_an_extrapolation():
    played = selfplay()
    played.loc[played["bot"] == "bot7", "g"] += 40.0
    hybrid = fit_hybrid(study(), features=FEATURES, selfplay=played)
    (caution,) = [c for c in hybrid.cautions if c.code == "extrapolation"]
    assert caution.values == {"bot": "bot7", "features": ["g"], "deviations": 3}


def test_bots_predicted_beyond_the_rating_scale_are_named_and_not_clipped():
    human, played = study(), selfplay()
    played.loc[played["bot"] == "bot7", "g"] += 40.0
    rows = human[["conversation", "bot", "quality"]]
    low, high = human["quality"].min(), human["quality"].max()
    # Ends that were only seen are none: people may rate beyond them.
    hybrid = fit_hybrid(human, features=FEATURES, selfplay=played, ratings=Ratings.from_frame(rows, ["quality"]))
    assert not [c for c in hybrid.cautions if c.code == "beyond_scale"]
    ratings = Ratings.from_frame(rows, ["quality"], scale=(low, high))
    result = fit_hybrid(human, features=FEATURES, selfplay=played, ratings=ratings)
    (caution,) = [c for c in result.cautions if c.code == "beyond_scale"]
    assert caution.values == {"bots": ["bot7"], "low": low, "high": high}
    assert not low <= result.bots["bot7"].predicted_selfplay <= high


@pytest.mark.parametrize("preset", ["paper", "strong"])
@pytest.mark.parametrize("n_bots", [0, 1, 2, 3])
def test_a_kept_fit_is_held_against_ratings_of_few_bots(preset, n_bots):
    human = study()
    fit = fit_hybrid(human, features=FEATURES, preset=preset, study="here").fit
    human.loc[~human["bot"].isin([f"bot{k}" for k in range(n_bots)]), "quality"] = np.nan
    result = apply_fit(fit, human=human, study="here")
    assert result.n_bots == n_bots
    assert result.verdict.conclusion == ("undefined" if n_bots < 3 else "few_bots")
    assert set(result.rivals) == (set() if n_bots < 3 else {"log_turns", "log_words", "log_turns_and_words"})


def test_bots_without_a_defined_feature_do_not_count_for_the_verdict():
    human = study(n_bots=6)
    human.loc[human["bot"].isin(["bot4", "bot5"]), "f"] = np.nan
    hybrid = fit_hybrid(human, features=FEATURES)
    assert len([bot for bot in hybrid.bots.values() if bot.human_mean is not None]) == 6
    assert (hybrid.n_bots, hybrid.verdict.conclusion) == (4, "few_bots")


def test_uninformative_features_and_the_two_intercepts():
    """The trap of section 3's frame: with nothing but noise the fold's intercept gives nearly −1."""
    human = study()
    rng = np.random.default_rng(3)
    human["noise"] = rng.normal(size=len(human))
    fold = fit_hybrid(human, features=["noise"], intercept="fold")
    assert fold.bot_level["pearson"].correlation.r < -0.9
    assert fold.bot_level["pearson"].null95 < 0
    assert finding("fold_intercept") in fold.cautions
    trivial = fold.baselines["mean_of_the_other_bots"]["pearson"].correlation
    assert trivial.r == pytest.approx(-1.0)
    common = fit_hybrid(human, features=["noise"], intercept="common")
    assert 0 < common.bot_level["pearson"].null95 < 1
    trivial = common.baselines["mean_of_the_other_bots"]["pearson"].correlation
    assert trivial.r is None
    assert "constant" in trivial.reason


def test_the_null_is_that_of_refits_from_rows():
    human = study(n_bots=4, n=12)
    hybrid = fit_hybrid(human, features=FEATURES, intercept="common")
    means = human.groupby("bot")["quality"].mean()
    rest = human["quality"] - human["bot"].map(means)
    from itertools import permutations

    rs = []
    for order in permutations(means.index):
        moved = dict(zip(means.index, means[list(order)], strict=True))
        again = human.assign(quality=rest + human["bot"].map(moved))
        predicted = by_hand(again, "common")
        rs.append(np.corrcoef([predicted[b] for b in moved], list(moved.values()))[0, 1])
    assert hybrid.bot_level["pearson"].null95 == pytest.approx(np.quantile(rs, 0.95))


def test_pairs_that_people_can_tell_apart_are_those_of_the_comparison_of_bots():
    """One test wherever bots are told apart, on single ratings by named people."""
    human = study(n=40)
    rng = np.random.default_rng(5)
    ratings = human.loc[human.index.repeat(2), ["conversation", "bot", "quality"]].assign(
        rater=[f"w{i}" for i in rng.integers(0, 25, 2 * len(human))]
    )
    ratings["quality"] += rng.normal(size=len(ratings))
    hybrid = fit_hybrid(human, features=FEATURES, ratings=Ratings.from_frame(ratings, ["quality"]))
    compared = pairwise(
        ratings["quality"],
        ratings["bot"].tolist(),
        [f"p {rater}" for rater in ratings["rater"]],
        ratings["conversation"].tolist(),
        level=0.90,
    ).pairs
    apart = [pair for pair in compared if pair.ordered]
    assert 0 < len(apart) < len(compared)
    right = [
        (hybrid.bots[p.a].human_mean > hybrid.bots[p.b].human_mean)
        == (hybrid.bots[p.a].predicted > hybrid.bots[p.b].predicted)
        for p in apart
    ]
    assert (hybrid.pairs.all, hybrid.pairs.resolvable) == (15, len(apart))
    assert hybrid.pairs.resolvable_ordered == sum(right)
    alone = pairwise(human["quality"], human["bot"].tolist(), human["participant"], level=0.90).pairs
    pairs = fit_hybrid(human, features=FEATURES).pairs
    assert pairs.resolvable == sum(pair.ordered for pair in alone)


def test_several_targets_and_further_dimensions():
    human = study()
    hybrid = fit_hybrid(human, features=FEATURES, targets=["quality", "fluency"])
    assert hybrid.to_json()["target"] == "quality,fluency"
    mean = human.assign(both=human[["quality", "fluency"]].mean(axis=1)).groupby("bot")["both"]
    assert hybrid.bots["bot1"].human_mean == pytest.approx(mean.mean()["bot1"])
    fluency = hybrid.dimensions["fluency"]["predicted"]["pearson"]
    expected = [hybrid.bots[b].predicted for b in sorted(hybrid.bots)]
    assert fluency.r == pytest.approx(np.corrcoef(expected, human.groupby("bot")["fluency"].mean())[0, 1])


def test_baselines_of_self_play_use_the_bots_that_have_it():
    human, played = study(), selfplay().assign(words_user=5.0, n_turns=10.0)
    human["group"] = human["bot"].map(lambda bot: "x" if bot < "bot3" else "y")
    human["is_y"] = (human["group"] == "y").astype(float)
    hybrid = fit_hybrid(human, features=FEATURES, intercept="fold", selfplay=played[played["bot"] != "bot5"])
    means = human.groupby("bot")["quality"].mean().drop("bot5")
    expected = []
    for bot in means.index:
        others = human[human["bot"] != bot]
        slope, base = np.polyfit(others["is_y"], others["quality"], 1)
        expected.append(base + slope * human.loc[human["bot"] == bot, "is_y"].mean())
    group = hybrid.selfplay.baselines["group"]["pearson"].correlation
    assert group.r == pytest.approx(np.corrcoef(expected, means)[0, 1])
    assert group.r != pytest.approx(hybrid.baselines["group"]["pearson"].correlation.r)


def test_the_group_indicator_is_a_baseline():
    human = study()
    human["group"] = human["bot"].map(lambda b: "x" if b < "bot3" else "y")
    human.loc[human["group"] == "y", "quality"] += 5
    hybrid = fit_hybrid(human, features=FEATURES, intercept="common")
    assert hybrid.baselines["group"]["pearson"].correlation.r > 0.8


@pytest.mark.parametrize("intercept", ["fold", "common"])
def test_self_play_is_held_against_trivial_predictors_applied_to_it(intercept):
    human, played = study(), selfplay()
    rng = np.random.default_rng(8)
    # Self-play says nothing of length: the number of turns is fixed, and words go the other way.
    turned = -human.groupby("bot")["words_user"].mean()
    played = played.assign(
        n_turns=10.0, words_user=20 + played["bot"].map(turned).fillna(0.0) + rng.normal(size=len(played))
    )
    human["group"] = human["bot"].map(lambda bot: "x" if bot < "bot3" else "y")
    hybrid = fit_hybrid(human, features=FEATURES, intercept=intercept, selfplay=played)
    means = human.groupby("bot")["quality"].mean()
    for table in (human, played):
        table["log words"], table["log turns"] = (np.log1p(table["words_user"]), np.log(table["n_turns"]))
    for name, column in (
        ("words_per_human_turn", "words_user"),
        ("log_words_per_human_turn", "log words"),
        ("log_number_of_turns", "log turns"),
        ("number_of_turns", "n_turns"),
    ):
        expected = []
        for bot in means.index:
            others = human[human["bot"] != bot]
            slope, base = np.polyfit(others[column], others["quality"], 1)
            if intercept == "common":
                base = human["quality"].mean() - slope * human[column].mean()
            expected.append(base + slope * played.loc[played["bot"] == bot, column].mean())
        level = hybrid.selfplay.baselines[name]["pearson"]
        assert level.correlation.r == pytest.approx(np.corrcoef(expected, means)[0, 1])
        assert level.null95 is not None
        assert level.correlation.r != hybrid.baselines[name]["pearson"].correlation.r
    # Which group a bot is of does not depend on whom it talks to.
    assert hybrid.selfplay.baselines["group"] == hybrid.baselines["group"]
    assert hybrid.selfplay.n_bots == 6
    document = hybrid.to_json()
    pearson = document["baselines_selfplay"]["number_of_turns"]["bot_level"]["pearson"]
    assert pearson["r"] == level.correlation.r
    played_before, played = played, document["verdict"]["findings_selfplay"][0]
    assert (played["code"], played["n_bots"]) == ("correlation", 6)
    by_common = fit_hybrid(human, features=FEATURES, selfplay=played_before).to_json()
    assert document["verdict"] == by_common["verdict"], "a fit has one verdict, whatever its intercept"
    assert played["r"] == by_common["bot_level_selfplay"]["pearson"]["r"]
    assert set(by_common["rivals_selfplay"]) == {"log_turns", "log_words", "log_turns_and_words", "group"}
    assert by_common["rivals_selfplay"]["log_turns"]["r"] != by_common["rivals"]["log_turns"]["r"]
    assert by_common["rivals_selfplay"]["group"]["r"] == pytest.approx(by_common["rivals"]["group"]["r"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "strongest"}, "no preset 'strongest'; available: paper, strong"),
        ({"intercept": "none"}, "'fold' or 'common'"),
        ({"targets": []}, "no target"),
        ({"features": ["f", "f"]}, "'f' is given twice"),
        ({"features": ["F"]}, "no column 'F'"),
        ({"targets": ["empathy"]}, "no column 'empathy'"),
    ],
)
def test_wrong_arguments_are_explained(change, message):
    with pytest.raises(HybridError, match=message):
        fit_hybrid(study(), **{"features": FEATURES, **change})


def test_fewer_than_three_bots_are_refused():
    with pytest.raises(HybridError, match=r"2 bots with rated conversations.*at least 3"):
        fit_hybrid(study(n_bots=2), features=FEATURES)
    unrated = study(n_bots=4)
    unrated.loc[unrated["bot"] > "bot1", "quality"] = np.nan
    with pytest.raises(HybridError, match="2 bots"):
        fit_hybrid(unrated, features=FEATURES)


@pytest.mark.parametrize("intercept", ["fold", "common"])
def test_a_kept_fit_applies_without_its_data(tmp_path, intercept):
    human, played = study(), selfplay()
    hybrid = fit_hybrid(human, features=FEATURES, intercept=intercept, selfplay=played, study="here")
    hybrid.fit.save(tmp_path / "fit.json")
    result = KeptFit.load(tmp_path / "fit.json")
    assert result.identity.key == hybrid.fit.identity.key
    again = apply_fit(result, human=human, selfplay=played, study="here")
    assert again.bots == hybrid.bots
    assert again.folds == hybrid.folds
    assert again.coefficients == hybrid.coefficients
    alone = apply_fit(result, selfplay=played)
    assert alone.bots["bot7"].predicted_selfplay == hybrid.bots["bot7"].predicted_selfplay
    assert alone.conversation_level["pearson"].r is None
    json.dumps(alone.to_json(), allow_nan=False)


@pytest.mark.parametrize("origin", ["here", ""])
def test_a_fit_of_another_study_or_of_an_unknown_one_gives_ranks_and_no_values(origin):
    train, other = study(), study(seed=9)
    other["bot"] = "new " + other["bot"]
    fit = fit_hybrid(train, features=FEATURES, study=origin).fit
    result = apply_fit(fit, human=other, selfplay=selfplay(), study="there")
    x = np.column_stack([np.ones(len(train)), train[FEATURES]])
    weights = np.linalg.lstsq(x, train["quality"], rcond=None)[0]
    scores = (weights[0] + other[FEATURES] @ weights[1:]).groupby(other["bot"]).mean()
    ranks = scores.rank(ascending=False)
    assert {bot: one.rank for bot, one in result.bots.items() if one.rank} == ranks.to_dict()
    assert result.bot_level["pearson"].correlation.r == pytest.approx(
        np.corrcoef(scores, other.groupby("bot")["quality"].mean())[0, 1]
    )
    document = result.to_json()
    told = [document["bots"], result.summary(), predictions_plot(document).svg]
    numbers = [figure(value) for value in scores]
    assert not any(f"{value:.6f}"[:6] in str(told[0]) for value in scores)
    assert all(bot["predicted"] is None for bot in document["bots"].values())
    assert all(bot["predicted_selfplay"] is None for bot in document["bots"].values())
    best = ranks.idxmin()
    assert next(line for line in told[1].splitlines() if best in line).split()[3:5] == ["rank", "1"]
    assert not result.predictions
    assert "rank by people" in told[2]
    assert not any(f"predicted {number}" in told[2] for number in numbers)
    assert finding("other_study", study=origin) in result.cautions
    assert finding("scale_unknown", of_fit=True, of_ratings=True) in result.cautions
    unrated = apply_fit(fit, human=other.drop(columns=["quality"]), study="there")
    assert unrated.bots["new bot0"].rank == ranks["new bot0"]
    assert unrated.bots["new bot0"].human_mean is None
    assert not [caution for caution in unrated.cautions if caution.code == "scale_unknown"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "confab-hybrid-fit-1"}', "\x00\xff"])
def test_a_damaged_fit_file_is_refused(tmp_path, content):
    path = tmp_path / "fit.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(HybridError):
        KeptFit.load(path)
    with pytest.raises(HybridError, match="nothing to apply"):
        apply_fit(fit_hybrid(study(), features=FEATURES).fit)


def test_a_stored_fit_of_a_retired_preset_is_read_and_the_version_that_applies_it_is_named():
    document = json.loads((Path(__file__).parents[2] / "cases" / "kept_fit_strong_2.json").read_text())
    stored_fit = KeptFit.from_json(document)
    assert stored_fit.to_json() == document
    message = r"strong@2' is retired: .* Confab 0\.9\.0 up to revision 28f5f300"
    with pytest.raises(HybridError, match=message):
        apply_fit(stored_fit, human=study())
    with pytest.raises(HybridError, match=message):
        fit_hybrid(study(), features=FEATURES, preset="strong@2")


def test_a_fit_of_means_is_kept_with_its_intervals_and_says_where_it_ends():
    human, played = study(n_bots=5, n=12), selfplay(n_bots=6)
    ratings = Ratings.from_frame(human.rename(columns={"participant": "rater"}), ["quality"], scale=(-20, 20))
    hybrid = fit_hybrid(human, features=FEATURES, preset="strong", selfplay=played, ratings=ratings, study="here")
    document = hybrid.to_json()
    json.dumps(document, allow_nan=False)
    assert set(document["coverage95"]) == {"inside", "of"}
    bot = document["bots"]["bot1"]
    low, high = bot["interval95"]
    further = bot["interval95_new"]
    assert further[0] < low < bot["predicted_fold"] < high < further[1]
    assert bot["n_new"] == 12
    # Bots that nobody rated are predicted by all rated ones.
    assert document["bots"]["bot5"]["selfplay"]["interval95"][0] < (document["bots"]["bot5"]["predicted_selfplay"])
    unit = np.sqrt(human.groupby("bot")[FEATURES].var().mean())
    rated = [f"bot{k}" for k in range(5)]
    means, own = human.groupby("bot")[FEATURES].mean(), played.groupby("bot")[FEATURES].mean()
    shift = ((own.loc[rated] - means).mean() / unit).pow(2).mean() ** 0.5
    assert document["selfplay_shifts"]["others"]["shift"] == pytest.approx(shift)
    stored_fit = KeptFit.from_json(json.loads(json.dumps(hybrid.fit.to_json())))
    again = apply_fit(stored_fit, human=human, selfplay=played, ratings=ratings, study="here")
    assert again.bots == hybrid.bots
    assert again.values.inside == hybrid.values.inside
    # What each says of single conversations adds up to what it says of the bot.
    mine = human["bot"] == "bot1"
    line = stored_fit.folds["bot1"]
    assert line.predict(human.loc[mine, FEATURES].to_numpy()).mean() == pytest.approx(bot["predicted_fold"])
    elsewhere = apply_fit(stored_fit, human=human, ratings=ratings, study="there")
    assert finding("other_study", study="here") in elsewhere.cautions
    assert elsewhere.bots["bot1"].expected is None
    assert elsewhere.to_json()["q2"]["value"] is None
    other = Ratings.from_frame(human.rename(columns={"participant": "rater"}), ["quality"], scale=(-50, 50))
    with pytest.raises(HybridError, match=r"scale of -20 to 20.* rated on -50 to 50"):
        apply_fit(stored_fit, human=human, ratings=other)


@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_a_replication_by_the_same_instrument_has_values_of_its_own_ratings(preset):
    def rated_by(table, title="Quality", low=-9.0):
        asked = [RatingDimension("quality", title, low, 15.0)]
        return Ratings.from_frame(table.assign(rater=table["participant"]), asked)

    old, new = study(), study(seed=9)
    new["quality"] += 1.0
    fit = fit_hybrid(old, features=FEATURES, preset=preset, ratings=rated_by(old), study="one").fit
    stored_fit = KeptFit.from_json(json.loads(json.dumps(fit.to_json())))
    result = apply_fit(stored_fit, human=new, ratings=rated_by(new), study="two", same_instrument=True)
    means = new.groupby("bot")["quality"].mean()
    assert {bot: one.human_mean for bot, one in result.bots.items()} == pytest.approx(means.to_dict())
    assert all(bot.predicted is not None and bot.rank is None for bot in result.bots.values())
    assert (result.held_against, result.to_json()["q2"]["value"] is None) == ("given", False)
    assert finding("same_instrument", study="one") in result.cautions
    for ratings, why in (
        (rated_by(new, title="Fun"), "title Quality of the fit, Fun here"),
        (None, "the scale of quality here is unknown"),
    ):
        with pytest.raises(HybridError, match=why):
            apply_fit(stored_fit, human=new, ratings=ratings, study="two", same_instrument=True)


@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_values_are_judged_by_the_intercept_of_the_fold(preset):
    human = study(n_bots=7)
    hybrids = [fit_hybrid(human, features=FEATURES, preset=preset, intercept=kind) for kind in ("fold", "common")]
    assert hybrids[0].values == hybrids[1].values
    fold = hybrids[0]
    target = {bot: result.target for bot, result in fold.bots.items()}
    errors = [target[bot] - fold.bots[bot].predicted for bot in target]
    means = [np.mean([target[o] for o in target if o != bot]) for bot in target]
    of_mean = [target[bot] - mean for bot, mean in zip(target, means, strict=True)]
    assert fold.values.q2 == pytest.approx(1 - np.sum(np.square(errors)) / np.sum(np.square(of_mean)))
    assert fold.values.mae == pytest.approx(np.mean(np.abs(errors)))
    assert fold.values.mae_of_mean == pytest.approx(np.mean(np.abs(of_mean)))
    assert fold.values.q2_null95 < fold.values.q2
    slope = np.polyfit([fold.bots[bot].predicted for bot in target], list(target.values()), 1)[0]
    assert fold.values.slope == pytest.approx(slope)


@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_an_applied_fit_is_compared_with_its_rivals_as_they_were_fitted(preset):
    human = study(n_bots=6, n=12)
    human = human.assign(words_user=np.random.default_rng(3).uniform(3, 9, len(human)), n_turns=8.0 + human.index % 5)
    fitted = fit_hybrid(human, features=FEATURES, preset=preset, study="here")
    assert fitted.rivals
    stored_fit = KeptFit.from_json(json.loads(json.dumps(fitted.fit.to_json())))
    again = apply_fit(stored_fit, human=human, study="here")
    assert {name: rival.q2 for name, rival in again.rivals.items()} == pytest.approx(
        {name: rival.q2 for name, rival in fitted.rivals.items() if name != "group"}
    )
    # Ratings turned round refit nothing: the rivals predict what they predicted.
    turned = human.assign(quality=-human.quality)
    other = apply_fit(stored_fit, human=turned, study="here")
    assert other.rivals["log_words"].r == pytest.approx(-again.rivals["log_words"].r)
    assert other.values.q2_null95 is None
    assert "chance not computed" in other.summary()
    old = replace(stored_fit, rivals=None)
    earlier = apply_fit(old, human=human, study="here")
    assert (earlier.rivals, [caution.code for caution in earlier.cautions].count("rivals_not_kept")) == ({}, 1)


def test_a_fit_that_fails_for_undefined_features_names_them_with_counts():
    human = study(n_bots=4, n=10)
    human[FEATURES[0]] = np.nan
    human.loc[:6, FEATURES[1]] = np.nan
    with pytest.raises(
        HybridError, match=rf"40 conversations with an undefined feature: {FEATURES[0]} in 40, {FEATURES[1]} in 7"
    ):
        fit_hybrid(human, features=FEATURES)


def test_fits_hold_blas_to_one_thread(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(
        "evaluation.hybrid.fit.fit_least_squares",
        lambda *_args: seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"),
    )
    with threadpool_limits(2, user_api="blas"), pytest.raises(TypeError):
        fit_hybrid(study(), features=FEATURES)
    assert set(seen) == {1}


def test_a_conversation_that_lacks_a_target_dimension_is_counted_and_left_out():
    human = study(n_bots=4, n=10)
    human.loc[[0, 1], "fluency"] = np.nan
    hybrid = fit_hybrid(human, features=FEATURES, targets=["quality", "fluency"])
    assert hybrid.n_conversations == 38
    assert finding("partly_rated", n_conversations=2) in hybrid.cautions


def rated_by(table):
    return Ratings.from_frame(table.rename(columns={"participant": "rater"}), ["quality"], scale=(-20, 20))


@pytest.mark.parametrize("preset", ["paper", "strong"])
def test_a_kept_fit_is_held_against_the_ratings_that_it_is_given(preset):
    human = study(n_bots=7, n=24)
    first = np.arange(len(human)) % 2 == 0
    old, new = human[first], human[~first].copy()
    # People have come to rate the bots in another order, and each bot has half as many ratings.
    moved = {f"bot{k}": move for k, move in enumerate([3, -3, 2, -2, 1, -1, 0])}
    new["quality"] += new["bot"].map(moved)
    new = new[new.groupby("bot").cumcount() < 6]
    stored_fit = fit_hybrid(old, features=FEATURES, preset=preset, ratings=rated_by(old), study="s").fit
    stored_fit = KeptFit.from_json(json.loads(json.dumps(stored_fit.to_json())))
    fit = apply_fit(stored_fit, human=new, selfplay=selfplay(n_bots=7), ratings=rated_by(new), study="s")
    document = fit.to_json()
    bots = document["bots"]
    if preset == "strong":
        afresh = fit_hybrid(new, features=FEATURES, preset=preset, ratings=rated_by(new)).to_json()
        human_means = {bot: one["adjusted_mean"] for bot, one in afresh["bots"].items()}
        assert {bot: one["adjusted_mean"] for bot, one in bots.items()} == human_means
        for bot, one in bots.items():
            assert one["adjusted_ci95"] == pytest.approx(afresh["bots"][bot]["combined"]["ratings_ci95"])
        assert {bot["n_new"] for bot in bots.values()} == {6}
        assert document["coverage95"]["of"] == 7
        assert not any("combined" in bot for bot in bots.values())
        reasons = [reason["code"] for bot in bots.values() for reason in bot["reasons"]]
        assert reasons == ["not_combined"] * 7
        assert document["ratings_worth"] is None
    else:
        human_means = {bot: float(mean) for bot, mean in new.groupby("bot")["quality"].mean().items()}
    predicted = [bots[bot]["predicted"] for bot in human_means]
    r = np.corrcoef(predicted, list(human_means.values()))[0, 1]
    assert document["bot_level"]["pearson"]["r"] == pytest.approx(r)
    from_selfplay = [bots[bot]["predicted_selfplay"] for bot in human_means]
    assert document["bot_level_selfplay"]["pearson"]["r"] == pytest.approx(
        np.corrcoef(from_selfplay, list(human_means.values()))[0, 1]
    )
    by_fold = np.array([bots[bot]["predicted_fold"] for bot in human_means])
    assert document["mae"] == pytest.approx(np.abs(by_fold - list(human_means.values())).mean())
    assert document["held_against"] == "given"
    assert finding("given_ratings", n_given=42, n_fitted=84) in fit.cautions
    assert "current ratings" in fit.summary()
    own = apply_fit(stored_fit, human=old, ratings=rated_by(old), study="s").to_json()
    assert own["held_against"] == "fit"
    assert all("combined" in bot for bot in own["bots"].values()) == (preset == "strong")


def test_new_ratings_that_never_differ_give_no_mean_less_raters_habits():
    human = study(n_bots=5)
    fit = fit_hybrid(human, features=FEATURES, preset="strong", study="s").fit
    new = human.assign(quality=3.0, conversation="new " + human["conversation"])
    document = apply_fit(fit, human=new, study="s").to_json()
    for bot in document["bots"].values():
        assert "adjusted_mean" not in bot
        assert [why["code"] for why in bot["reasons"]] == ["not_adjusted", "not_combined"]
    assert document["bot_level"]["pearson"]["r"] is None
