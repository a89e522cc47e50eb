"""Raters, their agreement, and the models of ratings, against pandas, scipy and statsmodels on the same numbers."""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.stats import inter_rater

from evaluation.analysis.agreement import ItemSets, SetAgreement, item_sets, rater_agreement
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.rating_models import rating_models
from evaluation.data.ratings import Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.agreement import krippendorff_alpha
from evaluation.stats.icc import icc

FIVE_BOTS = {"a": 5.5, "b": 4.5, "c": 3.5, "d": 3.0, "bad": 1.5}


def twelve_raters() -> pd.DataFrame:
    """Make ratings by twelve careful raters of five bots, twice each, and one who clicks the middle everywhere."""
    rng = np.random.default_rng(5)
    rows = []
    for rater in range(12):
        kind = rng.normal(0, 0.5)
        for bot, level in FIVE_BOTS.items():
            for time in range(2):
                values = np.clip(np.round(level + kind + rng.normal(0, 0.8, 3)), 1, 7)
                rows.append((f"{rater}-{bot}-{time}", bot, f"w{rater}", *values.tolist()))
    rows += [(f"x-{bot}", bot, "idle", 4.0, 4.0, 4.0) for bot in FIVE_BOTS]
    columns = ["conversation", "bot", "rater", "quality", "fluency", "fun"]
    return pd.DataFrame(rows, columns=columns)


def read_three(table: pd.DataFrame) -> Ratings:
    keys = ["quality", "fluency", "fun"]
    return Ratings.from_frame(table, keys, scale=(1, 7), controls=["bad"])


def test_scores_on_own_scales_are_those_of_pandas() -> None:
    table = twelve_raters()
    own_scales = analyse_raters(read_three(table)).own_scales
    keys = ["quality", "fluency", "fun"]
    long = table[table["rater"] != "idle"].melt(["conversation", "bot", "rater"], keys)
    by_rater = long.groupby("rater")["value"]
    long["z"] = (long["value"] - by_rater.transform("mean")) / by_rater.transform("std")
    expected = long.groupby("bot")["z"].mean()
    plain_means = table.groupby("bot")["quality"].mean()
    assert [bot.bot for bot in own_scales.bots] == plain_means.sort_values(ascending=False).index.tolist()
    for bot in own_scales.bots:
        assert bot.own.mean == pytest.approx(expected[bot.bot])
        assert bot.mean == pytest.approx(plain_means[bot.bot])
    real = [bot for bot in FIVE_BOTS if bot != "bad"]
    rho = stats.spearmanr(plain_means[real], expected[real]).statistic
    assert own_scales.order.r == pytest.approx(rho)
    assert (own_scales.n_raters, own_scales.n_left_out, own_scales.n_used) == (12, 1, 120)


def test_leaving_the_flagged_out_is_what_pandas_gives_without_them() -> None:
    table = twelve_raters()
    result = analyse_raters(read_three(table)).screening
    assert [verdict.rater for verdict in result.flagged] == ["idle"]
    assert result.n_raters == 13
    codes = {reason.code for reason in result.flagged[0].reasons}
    assert {"one_answer_to_all", "spread_of_answers", "control_not_lower"} <= codes
    quality = table[table["rater"] != "idle"].groupby("bot")["quality"]
    for bot in result.bots:
        assert bot.kept.mean == pytest.approx(quality.mean()[bot.bot])
        assert (bot.kept.n, bot.flagged, bot.n_flagged) == (24, 4.0, 1)
        assert bot.n == 25
    rules = {rule.rule: rule for rule in result.rules}
    assert (rules["flat"].n_flagged, rules["flat"].n_passed) == (1, 12)
    assert rules["too_fast"].n_undecided == 13
    assert rules["too_fast"].reason.code == "no_times"


def test_times_make_the_fast_known() -> None:
    table = twelve_raters()
    seconds = {row.conversation: 5.0 if row.rater == "w3" else 100.0 + i for i, row in enumerate(table.itertuples())}
    result = analyse_raters(read_three(table), seconds=seconds).screening
    assert {verdict.rater for verdict in result.flagged} == {"w3", "idle"}


def test_a_dimension_that_came_turned_is_judged_as_it_was_worded() -> None:
    table = twelve_raters()
    rules = {r.rule: r for r in analyse_raters(read_three(table)).screening.rules}
    assert rules["contradicts"].n_undecided == 13
    turned = analyse_raters(read_three(table), turned=["fun"]).screening
    assert {r.rule: r for r in turned.rules}["contradicts"].n_undecided == 0


def test_what_cannot_be_said_has_a_reason() -> None:
    table = twelve_raters()
    unnamed = analyse_raters(read_three(table.assign(rater=None)))
    few = analyse_raters(read_three(table[table["conversation"].str.endswith("a-0")]))
    assert [str(result.reason.code) for result in (unnamed.own_scales, unnamed.screening) if result.reason] == [
        "nobody_named",
        "nobody_named",
    ]
    assert few.own_scales.reason.to_json() == {"code": "no_rater_with", "needed": 10}
    mixed = Ratings.from_frame(table.assign(fun=table["fun"] * 10), ["quality", "fluency", "fun"])
    assert analyse_raters(mixed).screening.reason == "the questions have different scales"


def test_a_result_is_plain_comes_back_and_names_nobody_unless_asked() -> None:
    result = analyse_raters(read_three(twelve_raters()))
    document = json.dumps(result.to_json(), allow_nan=False)
    assert "idle" not in document
    assert json.loads(document)["screening"]["n_flagged"] == 1
    assert "idle" in json.dumps(result.to_json(names=True), allow_nan=False)
    again = result_load(result_dump(result, RaterAnalysis), RaterAnalysis)
    assert again == result
    assert again.to_json(names=True) == result.to_json(names=True)
    assert "would flag 1 of 13 raters" in result.summary()


def three_bots(per: int) -> pd.DataFrame:
    """Make ratings of three bots, six conversations each, rated by `per` of five people."""
    rng = np.random.default_rng(1)
    rows = []
    for bot, level in {"a": 5, "b": 3, "bad": 1}.items():
        for n in range(6):
            for rater in rng.choice(5, per, replace=False):
                value = float(np.clip(level + rng.integers(-1, 2), 1, 7))
                rows.append((f"{bot}{n}", bot, f"w{rater}", value))
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality"])


def read_quality(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality"], scale=(1, 7), controls=["bad"])


def test_shared_conversations_give_alpha_over_items() -> None:
    table = three_bots(3)
    result = rater_agreement(read_quality(table))
    places = table.assign(place=table.groupby("conversation").cumcount())
    items = places.pivot(index="conversation", columns="place", values="quality").to_numpy()
    assert result.same_conversation == krippendorff_alpha(items, "ordinal")
    codes = [(coefficient.about, coefficient.code) for coefficient in result.coefficients]
    assert ("conversation", "fleiss") in codes
    assert ("conversation", "cohen_median") in codes


def test_controls_take_no_part_in_agreement_about_bots() -> None:
    table = three_bots(2)
    result = rater_agreement(read_quality(table))
    real = table[table["bot"] != "bad"].groupby(["bot", "rater"])["quality"].mean().reset_index()
    places = real.assign(place=real.groupby("bot").cumcount())
    by_bot = places.pivot(index="bot", columns="place", values="quality").to_numpy()
    assert result.reliability_of_bots.value == pytest.approx(icc(by_bot, "icc1_k").value)
    assert result.reliability_of_bots.n_items == 2


def test_one_persons_two_ratings_of_a_conversation_are_no_agreement() -> None:
    table = three_bots(1)
    twice = pd.concat([table, table], ignore_index=True)
    for given in (table, twice):
        result = rater_agreement(read_quality(given)).same_conversation
        assert result.value is None
        assert result.reason.to_json() == {"code": "few_shared", "n_shared": 0, "n_conversations": 18}


# Krippendorff (2011), section C: four observers, twelve units; alpha .743 nominal, .815 ordinal, .849 interval.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def ratings_of(rows: list[tuple[str, str | None, float, float]]) -> Ratings:
    """Return ratings of (item, rater, good, slider)."""
    frame = pd.DataFrame(rows, columns=["conversation", "rater", "good", "slider"])
    frame["bot"] = "a"
    return Ratings.from_frame(frame, ["good", "slider"], scale=(1, 100))


@pytest.fixture(scope="module")
def found() -> ItemSets:
    rng = np.random.default_rng(3)
    rows: list[tuple[str, str | None, float, float]] = []
    for rater, answers in enumerate(PUBLISHED):
        rows += [(f"p/{unit}", f"r{rater}", value, 1.0) for unit, value in enumerate(answers) if value is not None]
    for item in range(40):  # two raters of the second set
        true = int(rng.integers(1, 6))
        for rater in ("x", "y"):
            answer = float(np.clip(true + rng.integers(-1, 2), 1, 5))
            rows.append((f"q/{item}", rater, answer, 20 * answer + rng.uniform(-9, 0)))
    rows.append(("alone", None, 3.0, 3.0))
    sets = {item: item.partition("/")[0] for item, *_ in rows if "/" in item}
    return item_sets(ratings_of(rows), sets, shared=2)


def pairs_of(result: ItemSets) -> np.ndarray:
    """Return the answers of the two raters of the second set again: (40, 2)."""
    rng = np.random.default_rng(3)
    pairs = []
    for _ in range(40):
        true = int(rng.integers(1, 6))
        pair = []
        for _rater in range(2):
            pair.append(float(np.clip(true + rng.integers(-1, 2), 1, 5)))
            rng.uniform(-9, 0)
        pairs.append(pair)
    return np.array(pairs)


def set_named(results: ItemSets, items: str, dimension: str) -> SetAgreement:
    [agreement] = [row for row in results.sets if (row.items, row.dimension) == (items, dimension)]
    return agreement


def test_every_set_has_its_own_coefficients_with_intervals(found: ItemSets) -> None:
    assert [(one.items, one.dimension) for one in found.sets] == [
        (name, key) for name in ("", "p", "q") for key in ("good", "slider")
    ]
    published = set_named(found, "p", "good")
    assert published.level == "ordinal"
    assert published.alpha.value == pytest.approx(0.815, abs=5e-4)
    assert (published.n_items, published.n_shared, published.n_raters) == (12, 11, 4)
    assert published.n_pairs == 6
    two = set_named(found, "q", "good")
    pairs = pairs_of(found)
    expected = cohen_kappa_score(pairs[:, 0], pairs[:, 1], weights="linear")
    assert two.cohen.value == pytest.approx(expected)
    counts, _categories = inter_rater.aggregate_raters(pairs.astype(int))
    assert two.fleiss.value == pytest.approx(inter_rater.fleiss_kappa(counts))
    assert published.cohen.reason.code == "few_items_for_interval"
    for one in (published.alpha, published.fleiss, two.alpha, two.cohen):
        assert one.low < one.value <= one.high


def test_what_is_undefined_says_why(found: ItemSets) -> None:
    alone = set_named(found, "", "good")
    assert alone.alpha.reason.code == "few_items"
    assert alone.cohen.reason.code == "not_named"
    slider = set_named(found, "q", "slider")
    assert slider.level == "interval"
    assert slider.alpha.value is not None
    assert slider.fleiss.reason.code == slider.cohen.reason.code == "many_answers"  # type: ignore[union-attr]
    same = set_named(found, "p", "slider")
    assert same.alpha.reason.code == "all_the_same"
    assert result_load(result_dump(found, ItemSets), ItemSets) == found
    assert "0.8" in repr(found) or ".82" in repr(found)


def test_two_points_are_nominal() -> None:
    answers = {"x": [0, 1, 1, 0, 1, 0], "y": [0, 1, 0, 0, 1, 1]}
    rows = [(str(i), rater, v) for rater, answer in answers.items() for i, v in enumerate(answer)]
    frame = pd.DataFrame(rows, columns=["conversation", "rater", "fits"]).assign(bot="a")
    [one] = item_sets(Ratings.from_frame(frame, ["fits"], scale=(0, 1)), {}).sets
    assert one.level == "nominal"
    assert one.cohen.value == pytest.approx(cohen_kappa_score(answers["x"], answers["y"]))


LEVELS = {"a": 5.0, "b": 4.2, "c": 3.9, "d": 3.0, "bad": 1.0}
FACTORS = {
    "corpus": {"a": "reddit", "b": "reddit", "c": "cornell", "d": "cornell"},
    "EI": {"a": "EI", "b": "plain", "c": "EI", "d": "plain"},
}


def frame(raters: int = 24) -> pd.DataFrame:
    """Make ratings in which every rater rates every bot on two questions, a few answers missing."""
    rng = np.random.default_rng(7)
    rows = []
    for rater in range(raters):
        kind = rng.normal(0, 0.7)
        for bot, level in LEVELS.items():
            values = [float(np.clip(np.round(level + kind + rng.normal()), 1, 7)) for _ in range(2)]
            rows.append((f"{rater}-{bot}", bot, f"w{rater}", *values))
    table = pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])
    table.loc[table.index.isin([3, 11]), "fluency"] = np.nan
    return table


def read(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7), controls=["bad"])


def test_the_analysis_of_variance_is_type_iii_of_the_sum_of_the_ratings() -> None:
    table = frame()
    factorial = rating_models(read(table), FACTORS).factorial
    real = table[table["bot"] != "bad"].assign(total=table["quality"] + table["fluency"]).dropna()
    for name, levels in FACTORS.items():
        real[name] = real["bot"].map(levels)
    fit = smf.ols("total ~ C(corpus, Sum) * C(EI, Sum)", real).fit()
    expected = sm.stats.anova_lm(fit, typ=3)
    for term, row in {"corpus": "C(corpus, Sum)", "EI": "C(EI, Sum)", "corpus:EI": "C(corpus, Sum):C(EI, Sum)"}.items():
        assert factorial.table.term(term).ss == pytest.approx(expected.loc[row, "sum_sq"])
    # Raters rate several bots here, so the tests are by errors clustered by rater: of two levels that of their
    # difference.
    for pair in factorial.table.contrasts:
        assert factorial.table.term(pair.factor).p == pytest.approx(pair.p)
    assert (factorial.of, factorial.max_order, factorial.table.n_dropped) == ("sum", None, 2)
    assert set(factorial.significant_terms) == {
        term.name for term in factorial.table.terms if term.p is not None and term.p < 0.05
    }
    assert {*factorial.significant_terms, *factorial.other_terms} == {"corpus", "EI", "corpus:EI"}


def test_the_mixed_model_is_that_of_statsmodels() -> None:
    table = frame()
    result = rating_models(read(table), FACTORS).mixed
    real = table[table["bot"] != "bad"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("quality ~ 0 + bot", real, groups=real["rater"]).fit(reml=True)
    means = {bot.bot: bot.mean for bot in result.bots}
    for bot in FACTORS["corpus"]:
        assert means[bot] == pytest.approx(fit.params[f"bot[{bot}]"], abs=1e-4)
    between, rest = float(fit.cov_re.iloc[0, 0]), fit.scale
    assert result.rater_share == pytest.approx(between / (between + rest), abs=1e-3)


def test_the_proportional_odds_are_those_of_statsmodels() -> None:
    table = frame()
    models = rating_models(read(table), FACTORS)
    ordinal = models.ordinal
    real = table[table["bot"] != "bad"]
    dummies = pd.get_dummies(real["bot"], dtype=float).drop(columns="a")
    fit = OrderedModel(real["quality"].to_numpy(), dummies.to_numpy(), distr="logit").fit(method="bfgs", disp=False)
    effects = np.array([0.0, *fit.params[:3]])
    expected = dict(zip("abcd", effects - effects.mean(), strict=True))
    for bot in ordinal.bots:
        assert bot.effect == pytest.approx(expected[bot.bot], abs=1e-3)
    best = max(expected, key=lambda bot: expected[bot])
    assert set(models.above_best) == set("abcd") - {best}
    assert all(0 < chance < 0.5 for chance in models.above_best.values())
    assert models.odds_are_proportional == (ordinal.deviance_p >= 0.05)  # type: ignore[operator]


def test_factors_that_cannot_be_used_say_why() -> None:
    factors: dict[str, Any] = {
        **FACTORS,
        "size": {"a": "big", "b": "small", "c": "big"},
        "language": dict.fromkeys("abcd", "English"),
        "teacher": {"a": "x", "b": "y", "c": "y", "d": "x"},
        "decoder": {"a": "x", "b": "y", "c": "y", "d": "y"},
    }
    result = rating_models(read(frame()), factors)
    assert {one.code: dict(one.values) for one in result.unused} == {
        "factor_unknown": {"factor": "size", "bots": ["d"]},
        "factor_constant": {"factor": "language"},
        "factor_beyond": {"factor": "decoder", "most": 3},
    }
    # Three factors of two levels have eight combinations, of which four are rated.
    assert (result.factorial.factors, result.factorial.max_order) == (("corpus", "EI", "teacher"), 1)


def test_without_factors_the_bots_are_the_factor() -> None:
    table = frame()
    factorial = rating_models(read(table)).factorial
    assert (factorial.factors, factorial.factors_reason) == ((), None)
    assert [term.name for term in factorial.table.terms] == ["bot"]


def test_factors_that_are_one_and_the_same_leave_the_bots_and_a_reason() -> None:
    same = {"corpus": FACTORS["corpus"], "again": FACTORS["corpus"]}
    factorial = rating_models(read(frame()), same).factorial
    assert factorial.factors == ()
    assert factorial.factors_reason.code == "empty_cells"
    assert [term.name for term in factorial.table.terms] == ["bot"]


def test_who_is_not_named_stands_as_a_conversation() -> None:
    table = frame()
    table.loc[table["rater"] == "w0", "rater"] = None
    result = rating_models(read(table))
    assert (result.n_raters, result.n_unnamed) == (23, 4)  # the control's chat does not count


def test_one_bot_has_no_model() -> None:
    table = frame()
    result = rating_models(read(table[table["bot"].isin(["a", "bad"])]))
    assert (result.factorial, result.mixed, result.ordinal) == (None, None, None)
    assert "fewer than two bots" in result.summary()
