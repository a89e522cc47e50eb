"""Models by a formula: what is read and refused, marginal means, and why there is no fit."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.miscmodels.ordinal_model import OrderedModel

import confab
from evaluation.analysis.formula_model import FormulaModel, formula_model, model_frame
from evaluation.data.ratings import Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.formulas import parse_formula

FORMULA = "quality ~ bot * scenario + (1|rater) + (1|item)"


def frame(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    result = pd.DataFrame(
        {
            "bot": rng.choice(["a", "b"], n, p=[0.7, 0.3]),
            "scenario": rng.choice(["trip", "refund", "chat"], n),
            "rater": [f"w{k}" for k in rng.integers(0, 25, n)],
            "item": [f"i{k}" for k in rng.integers(0, 10, n)],
            "turns": rng.integers(2, 20, n).astype(float),
        }
    )
    result["conversation"] = [f"c{k}" for k in range(n)]
    kind = dict(zip(result.rater.unique(), rng.normal(0, 0.8, 25), strict=True))
    moved = (result.bot == "a") * 1.0 + (result.scenario == "trip") * 0.5 + result.rater.map(kind) + rng.normal(0, 1, n)
    result["quality"] = np.clip(np.round(4 + moved), 1, 7)
    return result


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("quality ~ bto + (1|rater)", r"no column 'bto' \(do you mean bot\?\); available: bot, conversation, item"),
        ("quality ~ bot + (1|who)", "no column 'who'"),
        ("quality ~ bot", r"add \(1\|rater\)"),
        ("quality ~ C(bot) + (1|rater)", "cannot be read"),
        ("quality ~ __import__('os').system('true') + (1|rater)", "cannot be read"),
        ("quality ~ bot - 1 + (1|rater)", "cannot be read"),
        ("quality ~ bot:scenario + (1|rater)", "bot:scenario also needs bot"),
        ("quality ~ bot + (bot|rater)", "cannot be read"),
        ("quality ~ rater + (1|rater)", "occurs in two roles"),
        ("quality ~ bot\x00 + (1|rater)", "cannot be read"),
        ("bot" * 300, "the maximum is 500"),
    ],
)
def test_what_is_no_formula_is_refused(formula: str, told: str):
    with pytest.raises(ValueError, match=told):
        formula_model(frame(), formula)


def test_stars_are_expanded_and_groups_may_stand_anywhere():
    read = parse_formula("y ~ (1|rater) + a * b + (1 | item) + c")
    assert read.terms == (("a",), ("b",), ("c",), ("a", "b"))
    assert read.groups == ("rater", "item")


def test_an_ordinal_model_of_few_raters_has_a_caution():
    data = frame()
    few = data[data.rater.isin(data.rater.unique()[:12])]
    fit = formula_model(few, "quality ~ bot + (1|rater)", kind="ordinal")
    assert (fit.caution.code, fit.caution.values) == ("few_groups_ordinal", {"group": "rater", "n": 12, "needed": 20})
    assert "Caution: only 12 levels of rater" in fit.summary()
    assert fit.to_json()["caution"]["n"] == 12
    assert result_load(result_dump(fit, FormulaModel), FormulaModel) == fit
    assert formula_model(few, "quality ~ bot + (1|rater)").caution is None
    assert formula_model(data, "quality ~ bot + (1|rater)", kind="ordinal").caution is None


@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
def test_marginal_means_and_tests_are_those_of_statsmodels():
    data = frame()
    result = formula_model(data, FORMULA)
    data["one"] = 1
    model = smf.mixedlm(
        "quality ~ C(bot, Sum) * C(scenario, Sum)",
        data,
        groups="one",
        re_formula="0",
        vc_formula={"rater": "0 + C(rater)", "item": "0 + C(item)"},
    ).fit()
    cells = pd.DataFrame([(a, b) for a in "ab" for b in ("chat", "refund", "trip")], columns=["bot", "scenario"])
    cells["predicted"] = model.predict(cells)
    means = {(mean.term, mean.cell): mean for mean in result.means}
    for row in cells.itertuples():
        one = means["bot:scenario", (row.bot, row.scenario)]
        assert one.estimate == pytest.approx(row.predicted, abs=1e-3)
        assert one.n == ((data.bot == row.bot) & (data.scenario == row.scenario)).sum()
    for bot, mean in cells.groupby("bot").predicted.mean().items():
        assert means["bot", (bot,)].estimate == pytest.approx(mean, abs=1e-3)
    tests = {test.term: test for test in result.tests}
    assert [test.df1 for test in result.tests] == [1, 2, 2]
    assert tests["bot"].f == pytest.approx(model.tvalues["C(bot, Sum)[S.a]"] ** 2, rel=0.01)
    assert tests["bot"].p < 0.001 < 0.05 < tests["bot:scenario"].p
    effects = {(effect.term, effect.cell): effect.estimate for effect in result.effects}
    assert effects["scenario", ("trip",)] == pytest.approx(
        -sum(effects["scenario", (one,)] for one in ("chat", "refund"))
    )
    assert sum(component.share for component in result.components) == pytest.approx(1)


def test_numbers_are_slopes_and_gaps_are_left_out():
    data = frame()
    data.loc[:9, "turns"] = np.nan
    result = formula_model(data, "quality ~ bot + turns + (1|rater)", kind="linear")
    assert (result.n, result.n_dropped) == (390, 10)
    assert [(effect.term, effect.cell) for effect in result.effects] == [
        ("bot", ("a",)),
        ("bot", ("b",)),
        ("turns", ()),
    ]
    assert [mean.term for mean in result.means] == ["bot", "bot"]


def test_an_ordinal_model_has_thresholds_and_log_odds_about_their_average():
    result = formula_model(frame(), "quality ~ bot * scenario + (1|rater)", kind="ordinal")
    assert len(result.thresholds) == len(result.points) - 1
    bots = [mean.estimate for mean in result.means if mean.term == "bot"]
    assert sum(bots) == pytest.approx(0, abs=1e-9)
    assert result.tests[0].df2 is None
    assert result.components[-1].reason.code == "fixed_by_model"
    assert result_load(result_dump(result, FormulaModel), FormulaModel) == result
    assert json.loads(json.dumps(result.to_json()))["converged"] is True
    assert "Log odds" in result.summary()


@pytest.mark.parametrize(
    ("change", "formula", "code"),
    [
        (lambda d: d.assign(rater="w"), "quality ~ bot + (1|rater)", "one_of_group"),
        (lambda d: d.assign(twin=d.rater), "quality ~ bot + (1|rater) + (1|twin)", "groups_alike"),
        (lambda d: d[(d.bot == "a") | (d.scenario != "trip")], FORMULA, "empty_cell"),
        (lambda d: d.assign(twin=d.bot), "quality ~ bot + twin + (1|rater)", "confounded"),
        (lambda d: d[d.bot == "a"], "quality ~ bot + (1|rater)", "one_level"),
        (lambda d: d.assign(quality=3.0), "quality ~ bot + (1|rater)", "no_answers_differ"),
        (lambda d: d.assign(bot=d.conversation), "quality ~ bot + (1|rater)", "many_levels"),
    ],
)
def test_without_a_fit_there_is_a_reason(change, formula: str, code: str):
    result = formula_model(change(frame()), formula)
    assert (result.reason.code, result.converged, result.means) == (code, False, ())
    assert str(result.reason) in result.summary()


def test_raters_of_one_rating_each_leave_ordinary_least_squares():
    data = frame()
    result = formula_model(data, "quality ~ bot * scenario + (1|conversation)")
    model = smf.ols("quality ~ C(bot, Sum) * C(scenario, Sum)", data).fit()
    assert (result.merged, len(result.components)) == (("conversation",), 1)
    assert result.tests[0].f == pytest.approx(model.tvalues["C(bot, Sum)[S.a]"] ** 2)
    assert result.tests[0].df2 == pytest.approx(model.df_resid)
    assert result.components[0].sd == pytest.approx(np.sqrt(model.scale))
    ordinal = formula_model(data, "quality ~ bot + (1|conversation)", kind="ordinal")
    logit = OrderedModel(data.quality.astype(int), (data.bot == "a").astype(float).to_frame(), distr="logit")
    assert ordinal.get_differences("bot")[0].pair.difference == pytest.approx(
        logit.fit(method="bfgs", disp=0).params["bot"], abs=1e-3
    )


def test_differences_have_effect_sizes_and_one_of_three_conclusions():
    data = frame()
    ratings = Ratings.from_frame(data, ["quality"], scale=(1, 7))
    result = formula_model(data, "quality ~ bot + scenario + (1|rater)", ratings=ratings)
    [bots] = result.get_differences("bot")
    means = {mean.cell: mean.estimate for mean in result.means}
    gap = means[("a",)] - means[("b",)]
    sd = np.sqrt(sum(component.sd**2 for component in result.components))
    assert bots.pair.difference == pytest.approx(gap)
    assert bots.effects.standardised.value == pytest.approx(gap / sd)
    assert bots.effects.share.value == pytest.approx(gap / 6)
    assert bots.effects.superiority.value == pytest.approx(stats.norm.cdf(gap / sd / np.sqrt(2)))
    assert bots.pair.ordered
    assert result.is_equal(bots) is False
    corrected = [difference.pair.p_holm / difference.pair.p for difference in result.get_differences("scenario")]
    assert max(corrected) == pytest.approx(3)
    alike = formula_model(data.assign(quality=data.quality.sample(frac=1, random_state=1).to_numpy()), result.formula)
    assert alike.is_equal(alike.get_differences("bot")[0]) is None, "no scale is known"
    wide = replace(ratings, smallest_share=0.4)
    assert formula_model(data, result.formula, ratings=wide).is_equal(bots) is True
    odds = formula_model(data, result.formula, kind="ordinal", ratings=ratings).get_differences("bot")[0]
    assert odds.effects.share.reason.code == "log_odds"
    assert odds.effects.standardised.value == pytest.approx(bots.effects.standardised.value, abs=0.15)


def test_the_interval_of_a_standardised_difference_holds_its_level():
    held, n_studies = 0, 300
    for seed in range(n_studies):
        rng = np.random.default_rng(seed)
        of_raters, rater = rng.normal(0, 0.7, 30), np.repeat(np.arange(30), 4)
        data = pd.DataFrame({"bot": np.tile(["a", "b"], 60), "rater": rater.astype(str)})
        data["y"] = 0.9 * (data.bot == "a") + of_raters[rater] + rng.normal(size=120)
        effect = formula_model(data, "y ~ bot + (1|rater)").get_differences("bot")[0].effects.standardised
        held += effect.low <= 0.9 / np.hypot(0.7, 1) <= effect.high
    assert abs(held / n_studies - 0.9) <= 2 * np.sqrt(0.9 * 0.1 / n_studies)


def test_exact_answers_are_no_fit():
    data = frame().assign(quality=lambda d: np.where(d.bot == "a", 2.0, 1.0))
    assert formula_model(data, "quality ~ bot + (1|conversation)").reason.code == "model_no_optimum"


def test_separated_answers_have_no_optimum():
    data = frame().assign(quality=lambda d: np.where(d.bot == "a", 2.0, 1.0))
    assert formula_model(data, "quality ~ bot + (1|rater)", kind="ordinal").reason.code == "model_no_optimum"


def test_a_study_brings_its_conditions_meta_and_bots(tmp_path):
    data = frame(120)
    lines = [
        {
            "dialogue_id": row.conversation,
            "bot": row.bot,
            "source": "s",
            "turns": [{"speaker": "human", "text": "Hi"}, {"speaker": "bot", "text": "Hello"}],
            "meta": {"scenario": row.scenario, "turns_planned": 4 + n % 3},
            "ratings": [{"rater": row.rater, "quality": row.quality}],
        }
        for n, row in enumerate(data.itertuples())
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    study = confab.read(path)
    corpus = {"corpus": {"a": "reddit", "b": "news"}}
    result = confab.model(study, "y ~ corpus * scenario + turns_planned + (1|rater)", factors=corpus)
    known = data.assign(corpus=data.bot.map(corpus["corpus"]), turns_planned=[4 + n % 3 for n in range(120)])
    alone = confab.model(known, "quality ~ corpus * scenario + turns_planned + (1|rater)")
    assert result.means == alone.means
    assert result.reason is None
    with pytest.raises(ValueError, match="available: bot, conversation, corpus, item, quality, rater, scenario"):
        confab.model(study, "y ~ topic + (1|rater)", factors=corpus)
    usual, strict, of_table = (
        confab.model(data_source, "quality ~ bot + (1|rater)", level=level)
        for data_source, level in ((study, None), (study, 0.95), (data, 0.95))
    )
    assert (usual.level, strict.level, of_table.level) == (0.9, 0.95, 0.95)
    assert "95 %" in strict.summary()
    assert strict.to_json()["level"] == 0.95
    for narrow, wide in zip(usual.means, strict.means, strict=True):
        assert wide.low < narrow.low < narrow.estimate == wide.estimate < narrow.high < wide.high
    assert strict.differences[0].pair.p == usual.differences[0].pair.p
    with pytest.raises(ValueError, match="level is 95; it must be from"):
        confab.model(study, "quality ~ bot", level=95)


def test_conditions_are_columns_and_controls_are_left_out():
    n = 8
    ratings = Ratings.from_frame(
        pd.DataFrame(
            {
                "conversation": [f"c{k}" for k in range(n)],
                "bot": ["a", "b", "bad", "a"] * 2,
                "rater": ["x", "y"] * 4,
                "quality": range(n),
                "condition_scenario": ["trip", "refund"] * 4,
            }
        ),
        ["quality"],
        scale=(0, 10),
        controls=["bad"],
    )
    made = model_frame(ratings)
    assert made.bot.tolist() == ["a", "b", "a"] * 2
    assert made.scenario.tolist() == ["trip", "refund", "refund"] * 2
