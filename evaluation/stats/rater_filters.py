"""Filters for inattentive raters: transparent rules with reasons.

Every rule checks one thing that a researcher can explain to a reviewer: the same answer to all questions, hardly any
variation, disagreement with the other raters, answers faster than reading allows, agreement with opposite statements,
and a deliberately poor control not rated lower than the real bots. The last is the quality control of Ji et al. (2022),
Achieving Reliable Human Assessment of Open-Domain Dialogue Systems.

A rater who fails at least `min_failed` rules fails. Rules that cannot judge a rater (too few ratings, no times) report
this and do not count. Choose the rules before looking at results: excluding raters for their opinions of the bots,
rather than for how they answer, can produce any result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import figure, pluralise, share
from evaluation.stats.zscores import is_unknown


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the rules.

    Attributes:
        flat_share: share of conversations in which all questions got the same answer.
        min_spread: standard deviation of all of a rater's answers, as a share of the scale.
        min_correlation: correlation with the other raters' means for the same bots and dimensions.
        min_speed: median time per conversation, as a share of the median over raters.
        max_contradiction: excess of the sum of answers to opposite statements over the two ends of the
            scale, as a share of it: affirming both fully is 1, denying both −1.
        control_p: p of a one-sided rank test that the control is rated lower than the other bots.
        min_conversations, min_bots: minimum numbers for a rule to judge a rater.
    """

    flat_share: float = 0.5
    min_spread: float = 0.05
    min_correlation: float = 0.0
    min_speed: float = 1 / 3
    max_contradiction: float = 0.4
    control_p: float = 0.05
    min_conversations: int = 3
    min_bots: int = 4


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Result of a rule for a rater.

    Attributes:
        failed: None if the rule cannot judge the rater.
        value: value compared with the threshold; None if there is none.
        reason: finding of the rule, even if the rater passed; or the reason why the rule cannot judge.
    """

    rule: str
    failed: bool | None
    value: float | None
    threshold: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class RaterVerdict:
    """Verdict on whether to keep a rater.

    Attributes:
        passed: True if fewer rules failed than needed to exclude the rater.
        findings: one per rule, in the order of the rules.
        n: number of conversations rated.
    """

    rater: str
    passed: bool
    findings: tuple[RuleResult, ...]
    n: int

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Codes of the failed rules."""
        return tuple(finding.reason for finding in self.findings if finding.failed)


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """Ratings of all raters; rows are conversations."""

    values: np.ndarray  # (k, d), higher is better
    worded: np.ndarray  # (k, d), answers to the original wording
    turned: np.ndarray  # (d,), True for negative wording
    bots: np.ndarray | None
    control: np.ndarray | None
    control_dimensions: np.ndarray  # (d,), True where the control should be lower
    seconds: np.ndarray | None
    low: float
    high: float
    usual_seconds: float
    limits: Thresholds
    sums: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


_Rule = Callable[[_Study, np.ndarray], RuleResult]


def screen_raters(
    values: Sequence[Sequence[float]] | np.ndarray,
    raters: Sequence[Any],
    *,
    scale: tuple[float, float],
    bots: Sequence[str] | None = None,
    control: Sequence[bool] | None = None,
    control_dimensions: Sequence[bool] | None = None,
    seconds: Sequence[float] | np.ndarray | None = None,
    turned: Sequence[bool] | None = None,
    rules: Sequence[str] | None = None,
    thresholds: Thresholds | None = None,
    min_failed: int = 1,
) -> list[RaterVerdict]:
    """Judge every rater by every rule.

    Args:
        values: (k, d) ratings of k conversations on d dimensions, or (k,); NaN if undefined. Higher must be better in
            all of them: negative statements are already reversed.
        raters: (k,) rater of each; rows by unknown raters are excluded.
        scale: lowest and highest value.
        bots: (k,) bot of each row, for "disagrees".
        control: (k,) True if the row rates a deliberately poor control, for "control".
        control_dimensions: (d,) dimensions on which the control is poor; by default those not worded negatively,
            because a bot that talks at random is not repetitive.
        seconds: (k,) time spent, NaN if unknown, for "too_fast".
        turned: (d,) True for dimensions worded negatively and reversed, for "contradicts" and "flat".
        rules: names from `RULES`; all by default.
        thresholds: see `Thresholds`.
        min_failed: number of failed rules that excludes a rater.

    Returns:
        Verdicts in the order of the raters' first rating.

    Raises:
        ValueError: if shapes do not match, values lie outside the scale or a rule is unknown.
    """
    table = np.asarray(values, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    k, d = table.shape
    columns = {"raters": raters, "bots": bots, "control": control, "seconds": seconds}
    for name, column in columns.items():
        if column is not None and len(column) != k:
            raise ValueError(f"{name} has {len(column)} entries for {k} rows of ratings")
    low, high = scale
    if not low < high:
        raise ValueError(f"the scale is {scale}; the lowest value must come first")
    known = table[np.isfinite(table)]
    if len(known) and (known.min() < low or known.max() > high):
        raise ValueError(f"ratings outside the scale {low:g} … {high:g}")
    unknown = [rule for rule in rules or () if rule not in RULES]
    if unknown:
        raise ValueError(f"no rule {unknown[0]!r}; available: {', '.join(RULES)}")
    turn = np.zeros(d, dtype=bool) if turned is None else np.asarray(turned, dtype=bool)
    lower = np.asarray(control_dimensions, dtype=bool) if control_dimensions is not None else ~turn
    for name, flags in (("turned", turn), ("control_dimensions", lower)):
        if len(flags) != d:
            raise ValueError(f"{name} has {len(flags)} entries for {d} dimensions")
    times = None if seconds is None else np.asarray(seconds, dtype=float)
    rows_by_rater: dict[str, list[int]] = {}
    for i, rater in enumerate(raters):
        if not is_unknown(rater) and np.isfinite(table[i]).any():
            rows_by_rater.setdefault(str(rater), []).append(i)
    usual = np.nan
    if times is not None:
        medians = [_median(times[rater_rows]) for rater_rows in rows_by_rater.values()]
        usual = _median(np.array(medians))
    study = _Study(
        table,
        np.where(turn[None], low + high - table, table),
        turn,
        None if bots is None else np.asarray(bots, dtype=object).astype(str),
        None if control is None else np.asarray(control, dtype=bool),
        lower,
        times,
        low,
        high,
        usual,
        thresholds or Thresholds(),
    )
    if study.bots is not None:
        for bot in np.unique(study.bots):
            rated = np.where(study.bots[:, None] == bot, table, np.nan)
            study.sums[bot] = (np.nansum(rated, axis=0), np.isfinite(rated).sum(axis=0))
    verdicts = []
    for rater, rater_rows in rows_by_rater.items():
        findings = tuple(RULES[rule](study, np.array(rater_rows)) for rule in rules or RULES)
        failed = sum(finding.failed is True for finding in findings)
        verdicts.append(RaterVerdict(rater, failed < min_failed, findings, len(rater_rows)))
    return verdicts


def _flat(study: _Study, rows: np.ndarray) -> RuleResult:
    """Check for the same answer to all questions as worded.

    Negative statements then get the same answer as positive ones.
    """
    limit = study.limits.flat_share
    worded = study.worded[rows]
    is_long = np.isfinite(worded).sum(axis=1) >= 3
    if is_long.sum() < study.limits.min_conversations:
        n = int(is_long.sum())
        text = f"only {pluralise(n, 'conversation')} with at least three answers"
        return _make_undecided("flat", limit, Reason("few_long_forms", text, n_conversations=n))
    worded = worded[is_long]
    share = float((np.nanmax(worded, axis=1) == np.nanmin(worded, axis=1)).mean())
    n = int(is_long.sum())
    words = f"the same answer to all questions in {share:.0%} of {pluralise(n, 'conversation')}"
    reason = Reason("one_answer_to_all", words, percent=share, n_conversations=n)
    return RuleResult("flat", share >= limit, share, limit, reason)


def _narrow(study: _Study, rows: np.ndarray) -> RuleResult:
    limit = study.limits.min_spread
    known = study.worded[rows][np.isfinite(study.worded[rows])]
    if len(rows) < study.limits.min_conversations or len(known) < 2:
        return _make_undecided("narrow", limit, _few_conversations(rows))
    spread = float(known.std(ddof=1)) / (study.high - study.low)
    words = f"answers vary by {spread:.1%} of the scale (standard deviation)"
    reason = Reason("spread_of_answers", words, spread=spread)
    return RuleResult("narrow", spread < limit, spread, limit, reason)


def _disagrees(study: _Study, rows: np.ndarray) -> RuleResult:
    """Correlate the rater with the other raters' means, centred within each dimension."""
    limit = study.limits.min_correlation
    if study.bots is None:
        return _make_undecided("disagrees", limit, Reason("no_bots", "no bots given"))
    bots = study.bots[rows]
    own_means, other_means = [], []
    for bot in np.unique(bots):
        values = study.values[rows[bots == bot]]
        total, number = study.sums[bot]
        n_others = number - np.isfinite(values).sum(axis=0)
        rest = total - np.nansum(values, axis=0)
        other_means.append(np.divide(rest, n_others, out=np.full(len(rest), np.nan), where=n_others > 0))
        size = np.isfinite(values).sum(axis=0)
        mean = np.divide(np.nansum(values, axis=0), size, out=np.full(len(rest), np.nan), where=size > 0)
        own_means.append(mean)
    is_shared = np.isfinite(own_means) & np.isfinite(other_means)
    n_shared = int(is_shared.any(axis=1).sum())
    if n_shared < study.limits.min_bots:
        text = f"only {pluralise(n_shared, 'bot')} also rated by others"
        return _make_undecided("disagrees", limit, Reason("few_shared_bots", text, n_bots=n_shared))
    x, y = (_centre_columns(np.where(is_shared, side, np.nan)) for side in (own_means, other_means))
    size = float(np.sqrt((x**2).sum() * (y**2).sum()))
    if size <= 1e-9 * (study.high - study.low) ** 2:
        text = "the same rating for every bot"
        return _make_undecided("disagrees", limit, Reason("same_for_every_bot", text))
    r = float((x * y).sum() / size)
    words = f"r = {share(r)} with the other raters over {pluralise(n_shared, 'bot')}"
    reason = Reason("r_with_others", words, r=r, n_bots=n_shared)
    return RuleResult("disagrees", r < limit, r, limit, reason)


def _too_fast(study: _Study, rows: np.ndarray) -> RuleResult:
    limit = study.limits.min_speed
    if study.seconds is None or not np.isfinite(study.usual_seconds):
        return _make_undecided("too_fast", limit, Reason("no_times", "no times given"))
    median = _median(study.seconds[rows])
    if not np.isfinite(median) or study.usual_seconds <= 0:
        return _make_undecided("too_fast", limit, Reason("no_times_of_rater", "no times known"))
    share = median / study.usual_seconds
    words = f"{median:.0f} s per conversation; raters usually take {study.usual_seconds:.0f} s"
    reason = Reason("time_taken", words, seconds=median, usual_seconds=study.usual_seconds)
    return RuleResult("too_fast", share < limit, share, limit, reason)


def _contradicts(study: _Study, rows: np.ndarray) -> RuleResult:
    """Check for agreement (or disagreement) with both a statement and its opposite."""
    limit = study.limits.max_contradiction
    if study.turned.all() or not study.turned.any():
        text = "no pair of opposite statements"
        return _make_undecided("contradicts", limit, Reason("no_opposites", text))
    if len(rows) < study.limits.min_conversations:
        return _make_undecided("contradicts", limit, _few_conversations(rows))
    worded = study.worded[rows]
    sides = [_mean(worded[:, study.turned]), _mean(worded[:, ~study.turned])]
    imbalance = float(sum(sides)) - study.low - study.high
    share = imbalance / (study.high - study.low)
    if not np.isfinite(share):
        text = "one side of the opposite statements was never answered"
        return _make_undecided("contradicts", limit, Reason("one_side_unanswered", text))
    words = f"opposite statements: {share:+.0%} of the scale beyond balance"
    reason = (
        Reason("affirms_opposites", f"affirms {words}", percent=share)
        if share > 0
        else Reason("denies_opposites", f"denies {words}", percent=-share)
    )
    return RuleResult("contradicts", abs(share) > limit, share, limit, reason)


def _control(study: _Study, rows: np.ndarray) -> RuleResult:
    """Test whether the rater rates controls lower than bots.

    Answers about one conversation are correlated, so p is an index, not an error probability.
    """
    from scipy import stats

    limit = study.limits.control_p
    if study.control is None:
        return _make_undecided("control", limit, Reason("no_control", "no control bot in the study"))
    is_control = study.control[rows]
    judged = study.values[rows][:, study.control_dimensions]
    bad, real = judged[is_control], judged[~is_control]
    bad, real = bad[np.isfinite(bad)], real[np.isfinite(real)]
    if not len(bad):
        return _make_undecided("control", limit, Reason("rated_no_control", "rated no control"))
    if not len(real):
        return _make_undecided("control", limit, Reason("rated_no_bot", "rated only the control bot"))
    p = 1.0
    if np.ptp(np.concatenate([bad, real])) > 0:
        p = float(stats.mannwhitneyu(bad, real, alternative="less", method="asymptotic").pvalue)
    means = {"control_mean": float(bad.mean()), "bots_mean": float(real.mean())}
    means_text = f"control rated {figure(bad.mean())}, real bots {figure(real.mean())}"
    reason = (
        Reason("control_not_lower", f"{means_text}: not clearly lower (p = {p:.2g})", **means, p=p)
        if p >= limit
        else Reason("control_lower", f"{means_text}: lower (p = {p:.2g})", **means, p=p)
    )
    return RuleResult("control", p >= limit, p, limit, reason)


RULES: dict[str, _Rule] = {
    "flat": _flat,
    "narrow": _narrow,
    "disagrees": _disagrees,
    "too_fast": _too_fast,
    "contradicts": _contradicts,
    "control": _control,
}
"""Rules by name; each checks one rater's rows of the study."""


def _make_undecided(rule: str, threshold: float, reason: Reason) -> RuleResult:
    return RuleResult(rule, None, None, threshold, reason)


def _few_conversations(rows: np.ndarray) -> Reason:
    n = len(rows)
    return Reason("few_conversations", pluralise(n, "conversation"), n_conversations=n)


def _median(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _centre_columns(table: np.ndarray) -> np.ndarray:
    """Centre each column of the table; missing values become 0."""
    known = np.isfinite(table)
    number = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, table, 0.0).sum(axis=0) / number
    return np.where(known, table - means, 0.0)
