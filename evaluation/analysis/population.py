"""Bots weighted to a target population, and bots by group of raters.

Raters get weights by raking (`evaluation.stats.raking`), so that their groups have the shares of the population. Groups
are those of `evaluation.data.populations.published_groups`, in every number: a group that is too small to be shown has
no weight of its own either, because its mean would follow from the weighted and the plain mean.

- Answers of the population that no rater gave are named; the other answers' shares are divided by their sum.
- Raters without an answer, or with one that the table of shares lacks, keep their share of the raters in that question.
- A bot is left out of weighted and group results if any of the groups has fewer raters of it than are shown.

Intervals and tests are valid for one look. Bots are tested in pairs with Holm's correction; ranks are the ranges that
the tests allow. Ranks by group use the usual comparison within each group. Bot × group is tested by Wald's test with
errors clustered by rater (`evaluation.stats.anova`), corrected by Holm over the questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.analysis.bot_means import within_conditions
from evaluation.analysis.conditions import ConditionResults, condition_results
from evaluation.analysis.leaderboard import format_ranks
from evaluation.analysis.levels import interval_level, order_alpha
from evaluation.data.populations import NO_ANSWER, SMALLEST_GROUP, Margins, label_people, published_groups
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.result_tables import (
    IN_TERMINAL,
    Cell,
    NamedTable,
    Wording,
    count_cell,
    declared_table,
    number_cell,
)
from evaluation.data.tables import SummarisedResult
from evaluation.findings import Reason
from evaluation.number_format import figure, p_value, percent, pluralise
from evaluation.stats.anova import anova
from evaluation.stats.comparisons import Comparison, correct_comparisons, holm, pairwise, rank_ranges
from evaluation.stats.conditions import fit_bots
from evaluation.stats.means import ALL_ALIKE, Interval, MeanSpread, interval_ends
from evaluation.stats.mixed import few_bots
from evaluation.stats.raking import RakingMargin, WeightedMeans, design_effect, rake, weighted_means

NO_MARGINS = Reason("no_margins", "no population is set")
NO_GROUPS = Reason("no_groups_to_weight", "too few raters gave different answers to the population's questions")
NOT_RAKED = Reason("not_raked", "no weights give all groups their shares; leave out a question or an answer")
FEW_IN_GROUP = Reason("few_in_group", "too few raters of the bot in a group")


@dataclass(frozen=True, slots=True)
class RaterGroup:
    """Raters with the same published answer.

    Attributes:
        answers: the answers that it contains; several for merged ones.
        share: share of the raters.
        target: share of the population; None if the question is not in its table, or for no answer.
    """

    question: str
    group: str
    answers: tuple[str, ...]
    n_raters: int
    share: float
    target: float | None


@dataclass(frozen=True, slots=True)
class WeightedEntry:
    """A bot with its mean for the average rater, plain and weighted to the population.

    Attributes:
        ranks, weighted_ranks: best and worst rank that the tests allow, among the bots with a weighted mean; None for
            controls and bots without one.
        weighted: weighted mean with its interval.
        design_effect: Kish's, of the raters of the bot.
    """

    bot: str
    n_raters: int
    mean: float
    weighted: Interval
    design_effect: float | None = None
    ranks: tuple[int, int] | None = None
    weighted_ranks: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class GroupTest:
    """Test of one question: whether differences between bots depend on the group.

    Attributes:
        p_holm: corrected for the number of questions.
        hidden_bots: bots left out, because one of the groups has too few raters of them.
    """

    question: str
    hidden_bots: tuple[str, ...]
    f: float | None = None
    p: float | None = None
    p_holm: float | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, repr=False)
class PopulationResult(SummarisedResult):
    """Bots weighted to a population and by group, by the headline score.

    Attributes:
        smallest_group: minimum number of raters in a group that is shown.
        absent: by question, answers of the population that no rater gave.
        n_raters, n_effective: number of raters, and of equally weighted raters with the same precision.
        n_trimmed: raters whose weight was cut to the limit.
        gap: largest difference between a group's weighted share and its target.
        bots: best weighted mean first; controls last.
        n_pairs, n_told_apart, n_told_apart_weighted: pairs of bots: all, and significant without and with weights.
        by_group: means and comparisons in each group, with questions as factors.
        reason: reason for missing weights.
    """

    dimension: RatingDimension | None
    level: float
    smallest_group: int
    groups: tuple[RaterGroup, ...]
    absent: Mapping[str, tuple[str, ...]]
    n_raters: int
    bots: tuple[WeightedEntry, ...] = ()
    n_effective: float | None = None
    n_trimmed: int = 0
    gap: float | None = None
    n_pairs: int = 0
    n_told_apart: int = 0
    n_told_apart_weighted: int = 0
    by_group: ConditionResults = field(default_factory=lambda: ConditionResults(None, (), ()))
    tests: tuple[GroupTest, ...] = ()
    reason: Reason | None = None

    @property
    def design_effect(self) -> float | None:
        """Kish's design effect of all raters."""
        return None if self.n_effective is None else self.n_raters / self.n_effective

    @property
    def order(self) -> list[str]:
        """Ranked bots by their weighted mean, best first."""
        return [entry.bot for entry in self.bots if entry.weighted_ranks is not None]

    @property
    def plain_order(self) -> list[str]:
        """The same bots by their plain mean."""
        means = {entry.bot: entry.mean for entry in self.bots}
        return sorted(self.order, key=lambda bot: (-means[bot], bot))

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        document = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        dimension = self.dimension.key if self.dimension else None
        return {**document, "dimension": dimension, "design_effect": self.design_effect}

    def tables(self, wording: Wording = IN_TERMINAL) -> list[NamedTable]:
        """Return the tables of raters and of weighted bots."""
        merged = [
            f"{wording.level('question', group.question).text}: {', '.join(group.answers)}"
            for group in self.groups
            if len(group.answers) > 1
        ]
        shares = declared_table(
            "population-groups",
            "Raters and population",
            self.groups,
            ("Question", lambda group: wording.level("question", group.question)),
            ("Group", lambda group: Cell(group.group)),
            ("Raters", lambda group: count_cell(group.n_raters)),
            ("Share", lambda group: Cell(percent(group.share), raw=(group.share,))),
            ("Population", lambda group: Cell(percent(group.target), raw=(group.target,))),
            note=f"Groups of fewer than {self.smallest_group} raters are merged ({'; '.join(merged)})."
            if merged
            else "",
        )
        ends = f"{percent(self.level)} interval"
        weighted = declared_table(
            "population-bots",
            "Bots, weighted to the population",
            self.bots,
            ("Bot", lambda entry: wording.level("bot", entry.bot)),
            ("Rank", lambda entry: Cell(format_ranks(entry.ranks))),
            ("Weighted rank", lambda entry: Cell(format_ranks(entry.weighted_ranks))),
            ("Mean", lambda entry: number_cell(entry.mean, wording.digits)),
            (("Weighted mean", ends), lambda entry: wording.estimate(entry.weighted, wording.digits)),
            ("Raters", lambda entry: count_cell(entry.n_raters)),
            ("Design effect", lambda entry: number_cell(entry.design_effect)),
            method=(
                "Raked weights; both means are for the average rater. Errors by linearisation, clustered by rater. "
                "Ranks are the ranges that the tests allow (Holm’s correction), at one look."
            ),
        )
        return [shares, weighted] if self.bots else [shares]

    def summary(self) -> str:
        """Return the tables for a terminal."""
        lines = [f"{question}: no raters answered {', '.join(answers)}" for question, answers in self.absent.items()]
        if self.reason is None:
            lines.append(f"{pluralise(self.n_raters, 'rater')} count like {figure(self.n_effective, 0)}")
            lines.append(f"weights cut: {self.n_trimmed}")
        else:
            lines.append(f"not weighted: {self.reason}")
        lines += [
            f"bot × {t.question}: F {figure(t.f)}, p {p_value(t.p)}, Holm {p_value(t.p_holm)}" for t in self.tests
        ]
        return "\n\n".join([*(t.printed() for t in self.tables()), self.by_group.summary(), "\n".join(lines)])


def _plain(value: Any) -> Any:
    """Return a part of the result as plain values."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def population_result(
    ratings: Ratings,
    background: Mapping[str, Mapping[str, str]],
    margins: Margins | None = None,
    *,
    smallest: int = SMALLEST_GROUP,
) -> PopulationResult:
    """Weight raters to a population, and compare the bots by group.

    Args:
        background: by question, the answer of each rater; raters may be missing.
        margins: share of each answer in the population, by question; None to compare groups only.
        smallest: minimum number of raters in a group that is shown.
    """
    margins = margins or {}
    ratings = within_conditions(ratings.select(np.isfinite(ratings.values()) & ratings.is_named))
    ratings = ratings.only(ratings.headline) if ratings.headline else ratings
    raters, rater = np.unique(ratings.rater.astype(str), return_inverse=True)
    labels = {
        question: label_people(raters.tolist(), answers, margins.get(question, ()))
        for question, answers in background.items()
    }
    labels = {question: names for question, names in labels.items() if set(names) - {NO_ANSWER}}
    published = {question: published_groups(names, smallest) for question, names in labels.items()}
    absent = {
        question: tuple(margins[question].keys() - published[question]) for question in labels if question in margins
    }
    result = PopulationResult(
        ratings.leading,
        interval_level(ratings.level),
        smallest,
        tuple(
            group for question in labels for group in _groups(question, labels[question], published[question], margins)
        ),
        {question: tuple(sorted(answers)) for question, answers in absent.items() if answers},
        len(raters),
        reason=NO_GROUPS if margins else NO_MARGINS,
    )
    several = [question for question in labels if len(set(published[question].values())) > 1]
    groups = {
        question: np.array([published[question][name] for name in labels[question]])[rater] for question in several
    }
    hidden = {question: _bots_with_small_cells(ratings, groups[question], smallest) for question in several}
    weighting = [question for question in several if question in margins]
    if weighting:
        raked = [_raking_margin(labels[question], published[question], margins[question]) for question in weighting]
        result = _weighted(result, ratings, rater, raked, {bot for question in weighting for bot in hidden[question]})
    levels, tests = [], []
    for question in several:
        keep = ~np.isin(ratings.bot, hidden[question])
        group_ratings, rater_group = ratings.select(keep), groups[question][keep]
        by_factor = condition_results(
            replace(group_ratings, condition={**group_ratings.condition, question: rater_group})
        )
        levels += [level for level in by_factor.levels if level.factor == question]
        tests.append(_test_groups(group_ratings, question, rater_group, hidden[question]))
    tests = [replace(test, p_holm=p) for test, p in zip(tests, holm([test.p for test in tests]), strict=True)]
    by_group = ConditionResults(ratings.leading, tuple(sorted(ratings.bots)), tuple(levels))
    return replace(result, by_group=by_group, tests=tuple(tests))


def _groups(question: str, labels: Sequence[str], published: Mapping[str, str], margins: Margins) -> list[RaterGroup]:
    """Return the published groups of a question in the order of the population's table."""
    shares, counts = margins.get(question, {}), Counter(published[label] for label in labels)
    present, rows = sum(shares.get(label, 0.0) for label in published), []
    for name in dict.fromkeys(published[label] for label in [*shares, *sorted(published)] if label in published):
        members = tuple(label for label in sorted(published) if published[label] == name)
        known = [shares[label] for label in members if label in shares]
        target = sum(known) / present if known else None
        rows.append(RaterGroup(question, name, members, counts[name], counts[name] / len(labels), target))
    return rows


def _raking_margin(labels: Sequence[str], published: Mapping[str, str], shares: Mapping[str, float]) -> RakingMargin:
    """Return the groups of a question with the shares that they should have among all raters."""
    names = sorted(set(published.values()))
    unanswered = np.array([label == NO_ANSWER for label in labels], dtype=float)
    target, slopes, f = np.zeros(len(names)), np.zeros(len(names)), float(unanswered.mean())
    present = sum(shares.get(label, 0.0) for label in published)
    for label, name in published.items():
        of_answer = shares[label] / present if label in shares else 0.0
        of_no_answer = float(label == NO_ANSWER)
        target[names.index(name)] += of_answer * (1 - f) + of_no_answer * f
        slopes[names.index(name)] += of_no_answer - of_answer
    group = np.array([names.index(published[label]) for label in labels])
    return RakingMargin(group, target, unanswered, slopes if f else np.zeros(len(names)))


def _bots_with_small_cells(ratings: Ratings, groups: np.ndarray, smallest: int) -> list[str]:
    """Return the bots that too few raters of some group rated.

    Args:
        groups: (k,) group of each rating's rater.
    """
    triples = set(zip(ratings.bot.tolist(), groups.tolist(), ratings.rater.tolist(), strict=True))
    n = {(bot, group): 0 for bot in ratings.bots for group in set(groups.tolist())}
    for bot, group, _rater in triples:
        n[bot, group] += 1
    return sorted({bot for (bot, _group), n_raters in n.items() if n_raters < smallest})


def _weighted(
    result: PopulationResult, ratings: Ratings, rater: np.ndarray, margins: Sequence[RakingMargin], hidden: set[str]
) -> PopulationResult:
    """Add the weighted means.

    Args:
        rater: (k,) number of each rating's rater, as in the margins.
        hidden: bots without weighted results.
    """
    raked, values, bounds, alpha = rake(margins), ratings.values(), ratings.bounds(), order_alpha(ratings.level)
    names, codes = np.unique(ratings.bot.astype(str), return_inverse=True)
    if not raked.is_converged or len(raked.weights) < sum(len(margin.shares) for margin in margins) + 5:
        return replace(result, reason=NO_GROUPS if raked.is_converged else NOT_RAKED)
    fit = fit_bots(values, codes, rater, ratings.conditions)
    weighted, toward = weighted_means(fit, values, raked, margins), np.eye(len(names))
    column_of_bot = {bot: k for k, bot in enumerate(names.tolist()) if bot not in hidden}
    ranked = [bot for bot in column_of_bot if bot not in ratings.controls]
    within = None if ratings.conditions is None else ratings.conditions.tolist()
    tested = pairwise(values, ratings.bot.tolist(), ratings.unit.tolist(), conditions=within, scale=bounds)
    plain = correct_comparisons([pair for pair in tested.pairs if {pair.a, pair.b} <= set(ranked)], 1 - alpha)
    pairs = [
        _compare(weighted, a, b, toward[column_of_bot[a]] - toward[column_of_bot[b]])
        for a, b in combinations(ranked, 2)
    ]
    pairs = correct_comparisons(pairs, 1 - alpha)
    ranks, weighted_ranks, entries = rank_ranges(ranked, plain), rank_ranges(ranked, pairs), []
    for k, bot in enumerate(names.tolist()):
        weights = raked.weights[np.unique(rater[codes == k])]
        n, effect, mean = len(weights), design_effect(weights), float(weighted.means[k])
        entry = WeightedEntry(bot, n, float(fit.means[k]), Interval(None, None, None, n, FEW_IN_GROUP))
        if bot in column_of_bot:
            ends = interval_ends(mean, MeanSpread(*weighted.spread(toward[k]), n / effect), result.level, bounds)
            low, high = ends or (None, None)
            interval = Interval(mean, low, high, n, None if ends else ALL_ALIKE)
            entry = replace(entry, weighted=interval, design_effect=effect)
        entries.append(replace(entry, ranks=ranks.get(bot), weighted_ranks=weighted_ranks.get(bot)))
    return replace(
        result,
        bots=tuple(sorted(entries, key=lambda e: (e.weighted_ranks is None, -(e.weighted.mean or e.mean), e.bot))),
        n_effective=len(raked.weights) / raked.design_effect,
        n_trimmed=raked.n_trimmed,
        gap=raked.gap,
        n_pairs=len(pairs),
        n_told_apart=sum(pair.ordered for pair in plain),
        n_told_apart_weighted=sum(pair.ordered for pair in pairs),
        reason=None,
    )


def _compare(weighted: WeightedMeans, a: str, b: str, toward: np.ndarray) -> Comparison:
    """Compare the weighted means of two bots by Student's t.

    Args:
        toward: (B,) factors of the means in their difference.
    """
    from scipy.special import stdtr

    difference, (variance, df) = float(toward @ weighted.means), weighted.spread(toward)
    p = 2 * float(stdtr(df, -abs(difference) / np.sqrt(variance))) if variance > 0 else None
    return Comparison(a, b, difference, None, None, p, None, ordered=False)


def _test_groups(ratings: Ratings, question: str, groups: np.ndarray, hidden: Sequence[str]) -> GroupTest:
    """Test bot × group, without controls.

    Args:
        groups: (k,) group of each rating's rater.
    """
    ranked = ratings.select(ratings.ranked)
    test = GroupTest(question, tuple(hidden), reason=FEW_IN_GROUP if hidden else few_bots(len(ranked.bots)))
    if len(ranked.bots) < 2:
        return test
    table = anova(
        ranked.values(), {"bot": ranked.bot.tolist(), "group": groups[ratings.ranked].tolist()}, ranked.unit.tolist()
    )
    term = next((term for term in table.terms if term.name == "bot:group"), None)
    if term is None:
        return replace(test, reason=table.reason)
    return replace(test, f=term.f, p=term.p, reason=table.reason or term.reason)
