"""The three models of ratings, against statsmodels on the same numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.miscmodels.ordinal_model import OrderedModel

from evaluation.analysis.rating_models import rating_models
from evaluation.ratings import Ratings

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
            given = [float(np.clip(np.round(level + kind + rng.normal()), 1, 7)) for _ in range(2)]
            rows.append((f"{rater}-{bot}", bot, f"w{rater}", *given))
    table = pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])
    table.loc[table.index.isin([3, 11]), "fluency"] = np.nan
    return table


def read(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7), controls=["bad"])


def test_the_analysis_of_variance_is_type_iii_of_the_sum_of_the_ratings() -> None:
    table = frame()
    found = rating_models(read(table), FACTORS).factorial
    assert found is not None
    real = table[table["bot"] != "bad"].assign(total=table["quality"] + table["fluency"]).dropna()
    for name, levels in FACTORS.items():
        real[name] = real["bot"].map(levels)
    fit = smf.ols("total ~ C(corpus, Sum) * C(EI, Sum)", real).fit()
    expected = sm.stats.anova_lm(fit, typ=3)
    for term, row in {"corpus": "C(corpus, Sum)", "EI": "C(EI, Sum)", "corpus:EI": "C(corpus, Sum):C(EI, Sum)"}.items():
        assert found.table.term(term).ss == pytest.approx(expected.loc[row, "sum_sq"])
    # Raters rate several bots here, so the tests are by errors clustered by rater: of two levels that of their
    # difference.
    for pair in found.table.contrasts:
        assert found.table.term(pair.factor).p == pytest.approx(pair.p)
    assert (found.of, found.max_order, found.table.n_dropped) == ("sum", None, 2)
    assert set(found.shown) == {term.name for term in found.table.terms if term.p is not None and term.p < 0.05}
    assert {*found.shown, *found.not_shown} == {"corpus", "EI", "corpus:EI"}


def test_the_mixed_model_is_that_of_statsmodels() -> None:
    table = frame()
    found = rating_models(read(table), FACTORS).mixed
    assert found is not None
    real = table[table["bot"] != "bad"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("quality ~ 0 + bot", real, groups=real["rater"]).fit(reml=True)
    means = {bot.bot: bot.mean for bot in found.bots}
    for bot in FACTORS["corpus"]:
        assert means[bot] == pytest.approx(fit.params[f"bot[{bot}]"], abs=1e-4)
    between, rest = float(fit.cov_re.iloc[0, 0]), fit.scale
    assert found.rater_share == pytest.approx(between / (between + rest), abs=1e-3)


def test_the_proportional_odds_are_those_of_statsmodels() -> None:
    table = frame()
    models = rating_models(read(table), FACTORS)
    found = models.ordinal
    assert found is not None
    real = table[table["bot"] != "bad"]
    dummies = pd.get_dummies(real["bot"], dtype=float).drop(columns="a")
    fit = OrderedModel(real["quality"].to_numpy(), dummies.to_numpy(), distr="logit").fit(method="bfgs", disp=False)
    effects = np.array([0.0, *fit.params[:3]])
    expected = dict(zip("abcd", effects - effects.mean(), strict=True))
    for bot in found.bots:
        assert bot.effect == pytest.approx(expected[bot.bot], abs=1e-3)
    best = max(expected, key=lambda bot: expected[bot])
    assert set(models.above_best) == set("abcd") - {best}
    assert all(0 < chance < 0.5 for chance in models.above_best.values())
    assert models.odds_are_proportional == (found.deviance_p >= 0.05)  # type: ignore[operator]


def test_factors_that_cannot_be_used_say_why() -> None:
    factors: dict[str, Any] = {
        **FACTORS,
        "size": {"a": "big", "b": "small", "c": "big"},
        "language": dict.fromkeys("abcd", "English"),
        "teacher": {"a": "x", "b": "y", "c": "y", "d": "x"},
        "decoder": {"a": "x", "b": "y", "c": "y", "d": "y"},
    }
    found = rating_models(read(frame()), factors)
    assert {one.code: dict(one.values) for one in found.unused} == {
        "factor_unknown": {"factor": "size", "bots": ["d"]},
        "factor_constant": {"factor": "language"},
        "factor_beyond": {"factor": "decoder", "most": 3},
    }
    # Three factors of two levels have eight combinations, of which four are rated.
    assert found.factorial is not None
    assert (found.factorial.factors, found.factorial.max_order) == (("corpus", "EI", "teacher"), 1)


def test_without_factors_the_bots_are_the_factor() -> None:
    table = frame()
    found = rating_models(read(table)).factorial
    assert found is not None
    assert (found.factors, found.factors_reason) == ((), None)
    assert [term.name for term in found.table.terms] == ["bot"]


def test_factors_that_are_one_and_the_same_leave_the_bots_and_a_reason() -> None:
    same = {"corpus": FACTORS["corpus"], "again": FACTORS["corpus"]}
    found = rating_models(read(frame()), same).factorial
    assert found is not None
    assert found.factors == ()
    assert found.factors_reason is not None
    assert found.factors_reason.code == "empty_cells"
    assert [term.name for term in found.table.terms] == ["bot"]


def test_who_is_not_named_stands_as_a_conversation() -> None:
    table = frame()
    table.loc[table["rater"] == "w0", "rater"] = None
    found = rating_models(read(table))
    assert (found.n_raters, found.n_unnamed) == (23, 4)  # the control's chat does not count


def test_one_bot_has_no_model() -> None:
    table = frame()
    found = rating_models(read(table[table["bot"].isin(["a", "bad"])]))
    assert (found.factorial, found.mixed, found.ordinal) == (None, None, None)
    assert "fewer than two bots" in found.summary()
