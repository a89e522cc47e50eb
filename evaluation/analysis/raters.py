"""Raters of a study: agreement, use of the scale, signs of inattention.

These findings never exclude a rater from a study's results. The rules of `evaluation.stats.rater_filters` only report
which raters would be flagged, and the bots' means without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.agreement import RaterAgreement, rater_agreement
from evaluation.analysis.label_quality import LabelQuality, label_quality
from evaluation.data.ratings import Ratings
from evaluation.data.result_tables import (
    IN_TERMINAL,
    Cell,
    NamedTable,
    Wording,
    count_cell,
    declared_table,
    number_cell,
)
from evaluation.data.tables import SummarisedResult, to_plain
from evaluation.findings import Reason
from evaluation.number_format import percent, pluralise, share
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.correlation import Correlation, correlate
from evaluation.stats.means import Interval, mean_interval
from evaluation.stats.rater_filters import RULES, RaterVerdict, Thresholds, screen_raters
from evaluation.stats.zscores import MIN_RATINGS, rater_zscores

_RULE_TITLES = {
    "flat": "The same answer to all questions",
    "narrow": "Hardly any variation",
    "disagrees": "Disagrees with the other raters",
    "too_fast": "Faster than reading allows",
    "contradicts": "Agrees with opposite statements",
    "control": "Control not rated lower",
}


@dataclass(frozen=True, slots=True)
class ScaledBot:
    """Bot mean on the raters' own scales.

    Attributes:
        mean: mean of its raw ratings.
        own: mean z-score with the ends of its interval.
    """

    bot: str
    mean: float
    own: Interval


@dataclass(frozen=True, slots=True)
class OwnScales:
    """Bot means of ratings standardised within raters.

    Attributes:
        bots: best plain mean first; empty if no rater has enough ratings.
        n_ratings, n_used: number of ratings, and of those by raters with at least `least`.
        n_raters, n_left_out: numbers of included and excluded raters.
        order: Spearman's ρ of the bots' plain means with mean z-scores, without controls.
        reason: reason for missing scores.
    """

    bots: tuple[ScaledBot, ...]
    n_ratings: int
    n_used: int
    n_raters: int
    n_left_out: int
    least: int
    order: Correlation | None = None
    reason: Reason | None = None

    def table(self, wording: Wording = IN_TERMINAL) -> NamedTable:
        """Return the bots' means and z-scores."""
        return _own_table(self, wording)

    def summary(self) -> str:
        """Return the table for a terminal, or the reason for none."""
        if self.reason is not None:
            return f"On each rater's own scale: {self.reason}"
        rho = share(self.order.r) if self.order is not None else "–"
        table = self.table()
        foot = (
            f"{self.n_used:,} of {self.n_ratings:,} ratings by {self.n_raters:,} raters; order of the bots: ρ = {rho}"
        )
        return table.printed(f"{table.method}\n{foot}")


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Numbers of raters by the result of a rule.

    Attributes:
        n_undecided: raters that the rule cannot judge.
        reason: reason for the first of them.
    """

    rule: str
    threshold: float
    n_flagged: int
    n_passed: int
    n_undecided: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class ScreenedBot:
    """A bot's mean with and without the flagged raters.

    Attributes:
        mean, n: from all raters.
        kept: from raters without a flag.
        flagged, n_flagged: from flagged raters; None if none of them rated it.
    """

    bot: str
    mean: float
    n: int
    kept: Interval
    flagged: float | None
    n_flagged: int


@dataclass(frozen=True, slots=True)
class Screening:
    """Raters that the rater filters would flag.

    Attributes:
        n_raters: number of screened raters.
        flagged: verdicts on raters who fail a rule.
        rules: counts in the order of the rules; empty if no rater could be screened.
        bots: best mean first; empty if no rater is flagged.
        least_conversations, least_bots: minimum numbers for the rules.
        reason: reason for a missing screening.
    """

    n_raters: int
    flagged: tuple[RaterVerdict, ...]
    rules: tuple[RuleCount, ...]
    bots: tuple[ScreenedBot, ...]
    least_conversations: int
    least_bots: int
    reason: Reason | None = None

    def tables(self, wording: Wording = IN_TERMINAL) -> list[NamedTable]:
        """Return the results of the rules, and the bots' means without the flagged raters if there are any."""
        flagged = [_unflagged_table(self, wording)] if self.flagged else []
        return [_rules_table(self, wording), *flagged]

    def summary(self) -> str:
        """Return the tables for a terminal, or the reason for none."""
        if self.reason is not None:
            return f"Rater filters: {self.reason}"
        rules, *others = self.tables()
        foot = f"Rater filters would flag {len(self.flagged):,} of {self.n_raters:,} raters"
        return "\n\n".join([rules.printed(foot), *(table.printed() for table in others)])


@dataclass(frozen=True, slots=True, repr=False)
class RaterAnalysis(SummarisedResult):
    """Analysis of a study's raters: agreement, their own scales, screening, and labels of questions that have them."""

    agreement: RaterAgreement
    own_scales: OwnScales
    screening: Screening
    labels: tuple[LabelQuality, ...] = ()

    def to_json(self, *, names: bool = False) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason.

        Args:
            names: True to include the flagged raters and reasons; otherwise only their number.
        """
        screening = to_plain(self.screening)
        screening["n_flagged"] = len(self.screening.flagged)
        if not names:
            del screening["flagged"]
        return {
            "agreement": self.agreement.to_json(),
            "own_scales": to_plain(self.own_scales),
            "screening": screening,
            "labels": [labels.to_json(names=names) for labels in self.labels],
        }

    def summary(self) -> str:
        """Return tables for a terminal."""
        labels = [labels.summary() for labels in self.labels]
        return "\n\n".join([self.agreement.summary(), self.own_scales.summary(), self.screening.summary(), *labels])


def analyse_raters(
    ratings: Ratings, *, seconds: Mapping[str, float] | None = None, turned: Collection[str] = ()
) -> RaterAnalysis:
    """Return rater agreement, own scales, screening, and inferred labels.

    Args:
        seconds: duration of each conversation, if known.
        turned: negatively worded dimensions whose answers were already reversed on import; dimensions marked as
            reversed are known.

    Raises:
        ValueError: if the ratings have no question.
    """
    return RaterAnalysis(
        rater_agreement(ratings), own_scales(ratings), screening(ratings, seconds or {}, turned), label_quality(ratings)
    )


def own_scales(ratings: Ratings) -> OwnScales:
    """Return bot means on each rater's own scale, averaged over dimensions."""
    scores = rater_zscores(ratings.table(), ratings.rater.tolist(), pooled=_one_scale(ratings))
    named_left_out = [name for name in scores.left_out if name]
    n = (scores.n_ratings, scores.n_used, len(scores.raters), len(named_left_out), MIN_RATINGS)
    if not scores.n_used:
        return OwnScales((), *n, reason=_no_scores(ratings))
    of_ratings = np.full(len(ratings), np.nan)
    scored = np.isfinite(scores.values).any(axis=1)
    of_ratings[scored] = np.nanmean(scores.values[scored], axis=1)
    bots = []
    for bot, mean in _means(ratings):
        of_bot = ratings.bot == bot
        interval = mean_interval(
            of_ratings[of_bot], ratings.unit[of_bot], RATING_LEVEL, things=_things(ratings, of_bot)
        )
        bots.append(ScaledBot(bot, mean, interval))
    ranked = [b for b in bots if b.own.mean is not None and b.bot not in ratings.controls]
    order = correlate(
        [bot.mean for bot in ranked],
        [bot.own.mean for bot in ranked if bot.own.mean is not None],
        "spearman",
        interval="fisher",
    )
    return OwnScales(tuple(bots), *n, order=order)


def _no_scores(ratings: Ratings) -> Reason:
    if not ratings.n_raters:
        return Reason("nobody_named", "no rater is named in the data")
    text = f"no rater has {MIN_RATINGS} ratings that differ"
    return Reason("no_rater_with", text, needed=MIN_RATINGS)


def screening(ratings: Ratings, seconds: Mapping[str, float], turned: Collection[str]) -> Screening:
    """Return raters that the filters would flag, and bot means without them.

    Args:
        seconds, turned: as in `analyse_raters`.
    """
    limits = Thresholds()
    least = (limits.min_conversations, limits.min_bots)
    reason = None
    if not ratings.n_raters:
        reason = Reason("nobody_named", "no rater is named in the data")
    elif not _one_scale(ratings):
        reason = Reason("several_scales", "the questions have different scales")
    if reason is not None:
        return Screening(0, (), (), (), *least, reason)
    verdicts = _verdicts(ratings, seconds, turned)
    flagged = tuple(verdict for verdict in verdicts if not verdict.passed)
    names = {verdict.rater for verdict in flagged}
    bots = tuple(_screen_bot(ratings, bot, mean, names) for bot, mean in _means(ratings))
    return Screening(len(verdicts), flagged, _rules(verdicts), bots if flagged else (), *least)


def _verdicts(ratings: Ratings, seconds: Mapping[str, float], turned: Collection[str]) -> list[RaterVerdict]:
    """Screen every named rater with all applicable rules."""
    first = ratings.dimensions[0]
    control = ~ratings.ranked
    negative = [d.reversed or d.key in turned for d in ratings.dimensions]
    took = [seconds.get(conversation, np.nan) for conversation in ratings.conversation]
    return screen_raters(
        ratings.table(),
        ratings.rater.tolist(),
        scale=(first.low, first.high),
        bots=ratings.bot.tolist(),
        control=control.tolist() if control.any() else None,
        seconds=took if seconds else None,
        turned=negative if any(negative) else None,
        # With one question, answers are trivially identical.
        rules=None if len(ratings.dimensions) > 1 else [rule for rule in RULES if rule != "flat"],
    )


def _rules(verdicts: list[RaterVerdict]) -> tuple[RuleCount, ...]:
    counts = []
    for findings in zip(*(verdict.findings for verdict in verdicts), strict=True):
        failed = [finding.failed for finding in findings]
        undecided = [finding for finding in findings if finding.failed is None]
        counts.append(
            RuleCount(
                findings[0].rule,
                findings[0].threshold,
                failed.count(True),
                failed.count(False),
                len(undecided),
                undecided[0].reason if undecided else None,
            )
        )
    return tuple(counts)


def _screen_bot(ratings: Ratings, bot: str, mean: float, flagged: Collection[str]) -> ScreenedBot:
    values = ratings.values()
    of_bot = (ratings.bot == bot) & np.isfinite(values)
    bad = of_bot & np.array([rater in flagged for rater in ratings.rater], dtype=bool)
    good = of_bot & ~bad
    unflagged_mean = mean_interval(
        values[good], ratings.unit[good], RATING_LEVEL, scale=ratings.bounds(), things=_things(ratings, good)
    )
    by_flagged = float(values[bad].mean()) if bad.any() else None
    return ScreenedBot(bot, mean, int(of_bot.sum()), unflagged_mean, by_flagged, int(bad.sum()))


def _things(ratings: Ratings, mask: np.ndarray) -> np.ndarray | None:
    """Return labels of shared items; None if each was rated once."""
    return None if ratings.shared is None else ratings.shared[mask]


def _means(ratings: Ratings) -> list[tuple[str, float]]:
    """Return bots with a mean of the leading question, best first."""
    values = ratings.values()
    known = np.isfinite(values)
    means = [
        (bot, float(values[known & (ratings.bot == bot)].mean()))
        for bot in ratings.bots
        if (known & (ratings.bot == bot)).any()
    ]
    return sorted(means, key=lambda bot_mean: (-bot_mean[1], bot_mean[0]))


def _one_scale(ratings: Ratings) -> bool:
    return len({(d.low, d.high) for d in ratings.dimensions}) == 1


def _own_table(own_scales: OwnScales, wording: Wording) -> NamedTable:
    return declared_table(
        "zscores",
        "Standardised within raters",
        own_scales.bots,
        ("Bot", lambda bot: wording.level("bot", bot.bot)),
        ("Mean", lambda bot: number_cell(bot.mean, wording.digits)),
        (("z-score", percent(RATING_LEVEL)), lambda bot: wording.estimate(bot.own)),
        ("n", lambda bot: count_cell(bot.own.n)),
        method=(
            "Each rating minus the rater’s mean, divided by the rater’s standard deviation; raters with at least "
            f"{own_scales.least} ratings. Mean over the dimensions."
        ),
        note=f"Excluded, mostly because of fewer ratings: {pluralise(own_scales.n_left_out, 'rater')}.",
    )


def _rules_table(screening: Screening, wording: Wording) -> NamedTable:
    return declared_table(
        "filters",
        "Results of the rater filters",
        screening.rules,
        ("Rule", lambda rule: Cell(_RULE_TITLES.get(rule.rule, rule.rule))),
        ("Flagged", lambda rule: count_cell(rule.n_flagged)),
        ("Passed", lambda rule: count_cell(rule.n_passed)),
        (
            "Not applicable",
            lambda rule: Cell(f"{rule.n_undecided:,}", reason=wording.reason(rule.reason), raw=(rule.n_undecided,)),
        ),
        ("Threshold", lambda rule: Cell(f"{rule.threshold:.2g}", raw=(rule.threshold,))),
        method=(
            f"One rule is enough to flag a rater. The rules apply from {screening.least_conversations} conversations "
            f"or {screening.least_bots} bots."
        ),
        note=(
            "Choose the rules before looking at results. Excluding raters because of their opinions of the bots can "
            "produce any result."
        ),
    )


def _unflagged_table(screening: Screening, wording: Wording) -> NamedTable:
    """Return the bots' means with and without the flagged raters."""
    return declared_table(
        "unflagged",
        "Results without the flagged raters",
        screening.bots,
        ("Bot", lambda bot: wording.level("bot", bot.bot)),
        ("All raters", lambda bot: number_cell(bot.mean, wording.digits)),
        ("n", lambda bot: count_cell(bot.n)),
        (("Without flagged raters", percent(RATING_LEVEL)), lambda bot: wording.estimate(bot.kept, wording.digits)),
        ("n", lambda bot: count_cell(bot.kept.n)),
        ("Flagged raters only", lambda bot: number_cell(bot.flagged, wording.digits, "no ratings by flagged raters")),
        ("n", lambda bot: count_cell(bot.n_flagged)),
    )
