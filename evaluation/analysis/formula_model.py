"""Formula models of ratings, with raters and items as random effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.analysis.levels import interval_level
from evaluation.data.formats.tables import is_missing
from evaluation.data.ratings import Ratings
from evaluation.data.result_tables import (
    IN_TERMINAL,
    Cell,
    NamedTable,
    Wording,
    count_cell,
    declared_table,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)
from evaluation.data.tables import SummarisedResult
from evaluation.findings import Reason
from evaluation.number_format import percent, pluralise
from evaluation.stats.comparisons import NOT_YET_KNOWN, Comparison, holm, is_equal
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.effect_sizes import Effect, EffectSizes
from evaluation.stats.formulas import Design, Formula, make_design, parse_formula
from evaluation.stats.means import NO_SCALE
from evaluation.threads import with_one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.stats.crossed import CrossedFit

Kind = Literal["linear", "ordinal"]
KINDS: tuple[Kind, ...] = ("linear", "ordinal")
RESPONSE = "y"
"""Column of the headline score."""
BASIC = ("bot", "rater", "item", "conversation")
"""Columns available in every study; for unnamed raters, each conversation counts as a rater."""
MOST_POINTS = 20
"""Maximum number of different answers in an ordinal model."""
MOST_RATINGS = 20_000
ENOUGH_GROUPS = 20
"""Number of raters below which an ordinal model's tests are too liberal, because they treat variances as known."""
LOG_ODDS = Reason("log_odds", "log odds are not points on the scale")


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """An estimate with its interval.

    Attributes:
        term: names of the columns, `bot:scenario`.
        cell: the level of each; `()` for a number, whose value is its slope.
        n: number of ratings in the cell.
    """

    term: str
    cell: tuple[str, ...]
    estimate: float
    low: float | None
    high: float | None
    n: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class TermTest:
    """Joint test that a term has no effect.

    Attributes:
        f: Wald's statistic over df1; df2 is None if the variances are treated as known (chi-squared).
    """

    term: str
    f: float
    df1: int
    df2: float | None
    p: float | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """Standard deviation of a random effect; `group` is "" for the residual.

    Attributes:
        share: share of the variance around the fixed part.
        n: number of levels of the group.
    """

    group: str
    sd: float
    low: float | None
    high: float | None
    share: float
    n: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """Difference between two levels' marginal means, corrected for all pairs.

    Attributes:
        effects: relative to the standard deviation of one rating, including all random effects; the probability of a
            higher rating assumes normal answers.
    """

    factor: str
    pair: Comparison
    effects: EffectSizes


@dataclass(frozen=True, slots=True, repr=False)
class FormulaModel(SummarisedResult):
    """A fitted formula.

    Attributes:
        formula: formula as given.
        kind: linear, or ordinal in log odds.
        tests: test of each term.
        effects: by cell, the deviation of a term from the lower-order terms; for a number, the slope.
        means: by cell of each term, with the other factors' levels weighted equally; for an ordinal model, log odds
            relative to their average.
        differences: differences between the levels of every factor.
        smallest: smallest difference of interest, in points.
        components: variance components.
        merged: groups with one rating each, whose effects are part of the residual.
        thresholds: of an ordinal model, between neighbouring `points`.
        n, n_dropped: number of ratings used, and excluded for a missing value.
        converged: True if the optimum was found; `reason` is then empty.
        reason: reason for a missing fit.
        caution: note to consider before quoting the tests and intervals.
    """

    formula: str
    kind: Kind
    tests: tuple[TermTest, ...] = ()
    effects: tuple[ModelEstimate, ...] = ()
    means: tuple[ModelEstimate, ...] = ()
    components: tuple[VarianceComponent, ...] = ()
    thresholds: tuple[float, ...] = ()
    points: tuple[float, ...] = ()
    log_likelihood: float | None = None
    n: int = 0
    n_dropped: int = 0
    converged: bool = False
    reason: Reason | None = None
    level: float = RATING_LEVEL
    differences: tuple[LevelDifference, ...] = ()
    smallest: float | None = None
    merged: tuple[str, ...] = ()
    caution: Reason | None = None

    def get_differences(self, factor: str) -> list[LevelDifference]:
        """Return the differences between the levels of a factor."""
        return [difference for difference in self.differences if difference.factor == factor]

    def is_equal(self, difference: LevelDifference) -> bool | None:
        """Return True if two levels are practically equal; None if untestable."""
        return is_equal(difference.pair, self.smallest)

    def summary(self) -> str:
        """Return the tables for a terminal."""
        if self.reason is not None:
            return f"{self.formula}: {self.reason}"
        foot = f"{pluralise(self.n, 'rating')}, {self.n_dropped:,} excluded because a value is missing"
        if self.caution is not None:
            foot += f"\nCaution: {self.caution}."
        tests, *others = self.tables(self.formula)
        return "\n\n".join([tests.printed(foot), *(table.printed() for table in others)])

    def tables(self, outcome: str, wording: Wording = IN_TERMINAL) -> list[NamedTable]:
        """Return tests, differences, means, effects and variance components."""
        return list(_tables(self, outcome, wording))

    def describe(self, difference: LevelDifference) -> str:
        """Return the conclusion on a difference, in words."""
        words = [
            ("clearly different", difference.pair.ordered),
            ("equal for practical purposes", self.is_equal(difference)),
        ]
        return ", yet ".join(word for word, holds in words if holds) or NOT_YET_KNOWN


def term_title(name: str) -> str:
    """Return the title of a term, `bot × scenario`."""
    return name.replace(":", " × ")


def _tables(model: FormulaModel, outcome: str, wording: Wording) -> Iterator[NamedTable]:
    digits, level, is_ordinal = wording.digits, percent(model.level), model.kind == "ordinal"
    unit = "Log odds" if is_ordinal else "Mean"

    def cell_of(term: str, levels: Sequence[str]) -> Cell:
        names = term.split(":")
        cells = [wording.level(*factor_level) for factor_level in zip(names, levels, strict=False)]
        return cells[0] if len(cells) == 1 else Cell(", ".join(cell.text for cell in cells) or "per unit")

    def pair_of(difference: LevelDifference) -> Cell:
        keys = (difference.pair.a, difference.pair.b)
        return Cell(f"{difference.factor}: {' − '.join(wording.level(difference.factor, key).text for key in keys)}")

    yield declared_table(
        "formula-tests",
        f"Tests of the terms for {outcome}",
        model.tests,
        ("Term", lambda test: Cell(term_title(test.term))),
        ("F", lambda test: number_cell(test.f)),
        ("df", lambda test: count_cell(test.df1)),
        ("error df", lambda test: number_cell(test.df2, 1, "variances are treated as known")),
        ("p", lambda test: p_cell(test.p, wording.reason(test.reason))),
        method=_method(model),
    )
    if model.differences:
        yield declared_table(
            "formula-differences",
            "Differences between levels",
            model.differences,
            ("Pair", pair_of),
            (
                ("Log odds" if is_ordinal else "Difference", level),
                lambda difference: wording.estimate(difference.pair, digits, attribute="difference"),
            ),
            ("p (Holm)", lambda difference: p_cell(difference.pair.p_holm)),
            ("Conclusion", lambda difference: Cell(model.describe(difference))),
            method="Differences of marginal means. p is corrected by Holm for all pairs of a factor.",
        )
        yield declared_table(
            "formula-sizes",
            "Effect sizes of the differences",
            model.differences,
            ("Pair", pair_of),
            (
                ("Standard deviations", level),
                lambda difference: wording.estimate(difference.effects.standardised, attribute="value"),
            ),
            (
                ("Share of the scale", level),
                lambda difference: wording.estimate(difference.effects.share, attribute="value"),
            ),
            (
                ("Chance of a higher rating", level),
                lambda difference: wording.estimate(difference.effects.superiority, attribute="value"),
            ),
            method=(
                "Standard deviations: the difference divided by the standard deviation of one rating, including all "
                "random effects. Chance of a higher rating: for normally distributed answers with this standard "
                "deviation; 0.50 means no difference."
            ),
        )
    yield declared_table(
        "formula-means",
        "Marginal means" + (", in log odds relative to their average" if is_ordinal else ""),
        model.means,
        ("Term", lambda mean: Cell(term_title(mean.term))),
        ("Level", lambda mean: cell_of(mean.term, mean.cell)),
        ((unit, level), lambda mean: wording.estimate(mean, digits, attribute="estimate")),
        ("n", lambda mean: count_cell(mean.n)),
        method="The levels of all other factors have equal weight; numeric variables are at their mean.",
    )
    yield declared_table(
        "formula-effects",
        "Coefficients",
        model.effects,
        ("Term", lambda effect: Cell(term_title(effect.term))),
        ("Level", lambda effect: cell_of(effect.term, effect.cell)),
        (("Effect", level), lambda effect: wording.estimate(effect, attribute="estimate")),
        method=(
            "Sum contrasts: the deviation of a cell from the prediction of lower-order terms. For numeric variables: "
            "the slope."
        ),
    )
    yield declared_table(
        "formula-variance",
        "Variance components",
        model.components,
        ("Part", lambda component: Cell(component.group or "Residual")),
        ("Levels", lambda component: count_cell(component.n if component.group else None, "single ratings")),
        ("Standard deviation", lambda component: number_cell(component.sd)),
        (level, lambda component: span_cell(component.low, component.high, reason=wording.reason(component.reason))),
        ("Share", lambda component: share_cell(component.share)),
        method="Intervals are computed on the logarithm of the standard deviation.",
    )
    if model.thresholds:
        yield declared_table(
            "formula-thresholds",
            "Thresholds between adjacent answers",
            list(zip(model.points, model.points[1:], model.thresholds, strict=False)),
            ("Between", lambda row: Cell(f"{row[0]:g} and {row[1]:g}")),
            ("Log odds", lambda row: number_cell(row[2])),
        )


def _method(model: FormulaModel) -> str:
    if model.kind == "ordinal":
        return "Cumulative logit model with crossed random effects (Laplace approximation); Wald tests."
    return "Linear mixed model (restricted maximum likelihood, sum contrasts); Satterthwaite degrees of freedom."


def model_frame(
    ratings: Ratings,
    meta: Mapping[str, Mapping[str, Any]] | None = None,
    factors: Mapping[str, Mapping[str, str | float]] | None = None,
) -> pd.DataFrame:
    """Return one row per rating with the columns available to formulas.

    Controls are excluded.

    The columns are the questions (higher is better), `y`, those of `BASIC`, the conditions, and the known properties of
    bots and conversations. If two columns have the same name, the first in this order is used.

    Args:
        meta: fields of each conversation.
        factors: properties of the bots: name to bot to level or number.
    """
    import pandas as pd

    ranked = ratings.select(ratings.ranked)
    columns: dict[str, Any] = {key: ranked.values(key) for key in ranked.answers}
    thing = ranked.conversation if ranked.context is None else ranked.context
    extra_columns: dict[str, Any] = {
        RESPONSE: ranked.values(),
        **dict(zip(BASIC, (ranked.bot, ranked.unit, thing, ranked.conversation), strict=True)),
        **{name: [level or None for level in levels.tolist()] for name, levels in ranked.condition.items()},
        **{name: [levels.get(bot) for bot in ranked.bot.tolist()] for name, levels in (factors or {}).items()},
    }
    names = dict.fromkeys(name for fields in (meta or {}).values() for name in fields)
    for name in names:
        extra_columns.setdefault(name, [(meta or {}).get(key, {}).get(name) for key in ranked.conversation.tolist()])
    return pd.DataFrame({**extra_columns, **columns, **{name: extra_columns[name] for name in BASIC}})


@with_one_blas_thread
def formula_model(
    frame: pd.DataFrame,
    formula: str,
    *,
    kind: Kind = "linear",
    level: float | None = None,
    ratings: Ratings | None = None,
) -> FormulaModel:
    """Fit a formula to a table of one row per rating.

    Args:
        frame: output of `model_frame`, or any table with these columns.
        kind: linear, or ordinal (a cumulative logit, which does not assume equal steps between answers).
        ratings: ratings in the table, for the scale of the answers and the smallest difference of interest.

    Raises:
        ValueError: if the formula is invalid, names an unknown column, or the kind is unknown.
    """
    level = interval_level(ratings.level if level is None and ratings is not None else level)
    if kind not in KINDS:
        raise ValueError(f"there is no model kind {kind!r}; available: {', '.join(KINDS)}")
    read = parse_formula(formula, [str(name) for name in frame.columns])
    columns = {name: _column(frame[name].tolist(), name in (*read.groups, "bot")) for name in read.columns}
    known = np.ones(len(frame), dtype=bool)
    for column in columns.values():
        known &= (
            np.isfinite(column)
            if column.dtype.kind == "f"
            else np.array([label is not None for label in column], dtype=bool)
        )
    columns = {name: column[known] for name, column in columns.items()}
    n, dropped = int(known.sum()), int((~known).sum())

    def nothing(reason: Reason) -> FormulaModel:
        return FormulaModel(formula, kind, n=n, n_dropped=dropped, reason=reason, level=level)

    y = columns[read.response]
    if y.dtype.kind != "f":
        raise ValueError(f"{read.response} contains text; a rating must be a number")
    n_levels = {name: len(set(columns[name].tolist())) for name in read.groups}
    merged = tuple(name for name, k in n_levels.items() if k == n > 1)
    read = replace(read, groups=tuple(name for name in read.groups if name not in merged))
    reason = _find_problem(y, read, columns, kind)
    if reason is not None:
        return nothing(reason)
    design = make_design(read, columns)
    if isinstance(design, Reason):
        return nothing(design)
    from evaluation.stats.crossed import fit_linear, fit_ordinal

    groups = [np.unique(columns[name].astype(str), return_inverse=True)[1] for name in read.groups]
    points, point = np.unique(y, return_inverse=True)
    fit = fit_linear(y, design.x, groups) if kind == "linear" else fit_ordinal(point, design.x[:, 1:], groups)
    if not fit.converged:
        return nothing(Reason("model_no_optimum", "the fit did not converge: the ratings of some cells hardly overlap"))
    bounds, smallest = _scale(ratings, read.response) if kind == "linear" else (None, None)
    return FormulaModel(
        formula,
        kind,
        tuple(_tests(fit, design)),
        tuple(_estimates(fit, design, columns, level, of_means=False)),
        tuple(_estimates(fit, design, columns, level, of_means=True)),
        tuple(_components(fit, read.groups, groups, n, level)),
        tuple(fit.thresholds.tolist()),
        tuple(points.tolist()) if kind == "ordinal" else (),
        fit.log_likelihood,
        n,
        dropped,
        converged=True,
        level=level,
        differences=tuple(_differences(fit, design, level, bounds, LOG_ODDS if kind == "ordinal" else NO_SCALE)),
        smallest=smallest,
        merged=merged,
        caution=_get_caution(kind, read.groups, groups),
    )


def _get_caution(kind: Kind, names: Sequence[str], groups: Sequence[np.ndarray]) -> Reason | None:
    """Return an ordinal model's caution if a group has too few levels.

    The group with the fewest levels is named.
    """
    n_levels = {name: int(codes.max()) + 1 for name, codes in zip(names, groups, strict=True)}
    group = min(n_levels, key=lambda name: n_levels[name], default="")
    if kind != "ordinal" or not group or n_levels[group] >= ENOUGH_GROUPS:
        return None
    text = (
        f"only {n_levels[group]} levels of {group}: with fewer than {ENOUGH_GROUPS}, an ordinal model gives "
        "p-values that are too small and intervals that are too narrow for differences between levels of "
        f"{group}; compare the linear model"
    )
    return Reason("few_groups_ordinal", text, group=group, n=n_levels[group], needed=ENOUGH_GROUPS)


def _scale(ratings: Ratings | None, response: str) -> tuple[tuple[float, float] | None, float | None]:
    """Return an outcome's scale ends and smallest difference; None if unknown."""
    if ratings is None or (response not in ratings.answers and response != RESPONSE):
        return None, None
    key = response if response in ratings.answers else None
    return ratings.bounds(key), ratings.smallest_difference(key)


def _column(values: Sequence[Any], is_label: bool) -> np.ndarray:
    """Return a column as numbers or labels.

    Numbers become float with NaN for missing ones, others text with None; booleans are labels.
    """
    known = [None if is_missing(value) else value for value in values]
    numbers = all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in known)
    if numbers and not is_label:
        return np.array([np.nan if value is None else float(value) for value in known], dtype=float)
    column = np.empty(len(known), dtype=object)
    column[:] = [None if value is None else str(value) for value in known]
    return column


def _find_problem(y: np.ndarray, read: Formula, columns: Mapping[str, np.ndarray], kind: Kind) -> Reason | None:
    """Return the reason why the ratings do not support the model, or None."""
    from evaluation.stats.crossed import MOST_EFFECTS

    n, n_points = len(y), len(np.unique(y))
    if n > MOST_RATINGS:
        text = f"{pluralise(n, 'rating')}; a model takes at most {MOST_RATINGS}"
        return Reason("many_ratings", text, n_ratings=n, most=MOST_RATINGS)
    if n_points < 2:
        return Reason("no_answers_differ", "fewer than two different answers, so there is nothing to explain")
    if kind == "ordinal" and n_points > MOST_POINTS:
        text = f"{n_points} different answers; an ordinal model takes at most {MOST_POINTS}"
        return Reason("many_points", text, n_points=n_points, most=MOST_POINTS)
    n_levels = {name: len(set(columns[name].tolist())) for name in read.groups}
    for name, k in n_levels.items():
        if k < 2:
            return Reason("one_of_group", f"{name} has only one value, so its effect cannot be estimated", group=name)
    for i, a in enumerate(read.groups):
        for b in read.groups[i + 1 :]:
            if n_levels[a] == n_levels[b] == len(set(zip(columns[a].tolist(), columns[b].tolist(), strict=True))):
                text = f"{a} and {b} group the ratings identically; remove one"
                return Reason("groups_alike", text, first=a, second=b)
    if sum(n_levels.values()) > MOST_EFFECTS:
        text = f"{sum(n_levels.values())} random effects; at most {MOST_EFFECTS} are fitted"
        return Reason("many_effects", text, n_effects=sum(n_levels.values()), most=MOST_EFFECTS)
    return None


def _tests(fit: CrossedFit, design: Design) -> list[TermTest]:
    tests = []
    for i, term in enumerate(design.formula.terms):
        rows = np.eye(design.x.shape[1])[1:][design.terms == i][:, -len(fit.beta) :]
        f, df2, p = fit.test(rows)
        reason = None
        if p is None:
            reason = Reason("few_of_group", "the random effects have too few levels to test the whole term")
        tests.append(TermTest(":".join(term), f, len(rows), df2, p, reason))
    return tests


def _estimates(
    fit: CrossedFit, design: Design, columns: Mapping[str, np.ndarray], level: float, *, of_means: bool
) -> list[ModelEstimate]:
    """Return each term's effects or marginal means by cell."""
    from scipy.special import stdtrit

    estimates = []
    for i, term in enumerate(design.formula.terms):
        cells = design.cells(term)
        rows = [design.mean(term, cell) if of_means else design.effect(term, cell) for cell in cells]
        if not cells and not of_means and len(term) == 1:
            cells, rows = [()], [np.eye(design.x.shape[1])[1:][design.terms == i][0]]
        for cell, full_row in zip(cells, rows, strict=True):
            # An ordinal model has thresholds instead of an intercept.
            row = full_row[-len(fit.beta) :]
            here = np.ones(len(design.x), dtype=bool)
            for name, label in zip(term, cell, strict=False):
                here &= columns[name] == label
            value, error = float(row @ fit.beta), float(np.sqrt(row @ fit.covariance @ row))
            half = float(stdtrit(fit.freedom(row), 0.5 + level / 2)) * error
            estimates.append(ModelEstimate(":".join(term), cell, value, value - half, value + half, int(here.sum())))
    return estimates


def _differences(
    fit: CrossedFit, design: Design, level: float, bounds: tuple[float, float] | None, no_share: Reason
) -> list[LevelDifference]:
    """Return the differences of the marginal means of every factor's levels.

    Args:
        no_share: reason for a missing share of the scale.
    """
    from scipy.special import ndtr, stdtrit
    from scipy.stats import t

    sd, sd_error = fit.rating_sd()
    differences = []
    for term in design.formula.terms:
        cells = design.cells(term) if len(term) == 1 else []
        pairs, effects = [], []
        for a, b in combinations(cells, 2):
            row = (design.mean(term, a) - design.mean(term, b))[-len(fit.beta) :]
            gap, error, df = float(row @ fit.beta), float(np.sqrt(row @ fit.covariance @ row)), fit.freedom(row)
            reach = float(stdtrit(df, 0.5 + level / 2))
            p = float(2 * t.sf(abs(gap) / error, df))
            pairs.append(
                Comparison(a[0], b[0], gap, gap - reach * error, gap + reach * error, p, None, False, None, error, df)
            )
            d, half = gap / sd, reach * float(np.hypot(error / sd, gap / sd * sd_error))
            share = Effect(reason=no_share)
            if bounds is not None:
                width = bounds[1] - bounds[0]
                share = Effect(gap / width, (gap - reach * error) / width, (gap + reach * error) / width)
            above = Effect(*ndtr(np.array([d, d - half, d + half]) / np.sqrt(2)).tolist())
            effects.append(EffectSizes(Effect(d, d - half, d + half), share, above))
        for pair, p_holm, sizes in zip(pairs, holm([pair.p for pair in pairs]), effects, strict=True):
            ordered = p_holm is not None and p_holm < 1 - level
            differences.append(LevelDifference(term[0], replace(pair, p_holm=p_holm, ordered=ordered), sizes))
    return differences


def _components(
    fit: CrossedFit, names: Sequence[str], groups: Sequence[np.ndarray], n: int, level: float
) -> list[VarianceComponent]:
    """Return the standard deviations, with intervals on the log scale."""
    from scipy import stats

    z = float(stats.norm.ppf(0.5 + level / 2))
    total = float((fit.tau**2).sum() + fit.sigma**2)
    components = []
    rows = [
        *zip(names, fit.tau, fit.tau_errors, [int(codes.max()) + 1 for codes in groups], strict=True),
        ("", fit.sigma, fit.sigma_error, n),
    ]
    for name, sd, error, count in rows:
        low = high = reason = None
        if np.isfinite(error):
            low, high = (float(sd * np.exp(sign * z * error)) for sign in (-1, 1))
        elif name:
            reason = Reason("zero_variance", "estimated as 0, which does not prove that they are equal")
        else:
            reason = Reason("fixed_by_model", "fixed by the model: the variance of a logistic error")
        components.append(VarianceComponent(name, float(sd), low, high, float(sd**2) / total, count, reason))
    return components
