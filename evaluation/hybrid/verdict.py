"""Verdict on a fit: conclusions by source of predictions, with findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.findings import Finding, finding
from evaluation.hybrid.bot_level import BotLevel, BotLevelDiagnostics, OrderedPairs, most_influential
from evaluation.hybrid.calibration import PredictionAccuracy
from evaluation.hybrid.rivals import Rival

FEW_BOTS = 5
"""Minimum number of bots for a correlation over bots."""
MUCH = 0.1
"""Minimum change of r for which the influential bot is named."""

Conclusion = Literal["undefined", "few_bots", "chance", "baseline", "unsettled", "ranking"]
"""Conclusion from a correlation over bots, with one intercept for all folds.

- `undefined`: there is no correlation; `few_bots`: there are too few bots.
- `chance`: r, or Q² by the fold's own intercept, does not exceed its 5 % critical value under chance.
- `baseline`: above chance, but significantly worse than a rival.
- `unsettled`: above chance, but not significantly better than every rival, or without rivals.
- `ranking`: significantly better than every rival. It can rank further bots of the same kind, with the same task and
  type of participants, but not single conversations, other kinds of bots, or bots optimised for the metric.
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Results for one source of predictions.

    Attributes:
        level: Pearson's r over bots, with one intercept for all folds.
        rivals: comparison with each rival, by name.
        influence: by bot, r over the other bots minus r over all.
        values: accuracy of the predicted values with the fold's own intercept; None if unknown.
    """

    level: BotLevel
    pairs: OrderedPairs
    rivals: Mapping[str, Rival]
    influence: Mapping[str, float | None]
    values: PredictionAccuracy | None = None

    @property
    def r(self) -> float | None:
        """Pearson's r over bots."""
        return self.level.correlation.r

    @property
    def beats_chance(self) -> bool:
        """True if r, and Q² if known, exceed 0 and chance.

        The criterion is the 95 % null quantile.
        """
        null95 = self.level.null95
        passed = self.r is not None and self.r > 0 and (null95 is None or self.r > null95)
        return passed and (self.values is None or self.values.q2 is None or values_count(self.values))

    @property
    def strongest(self) -> str | None:
        """Strongest rival by the upper end of the interval; None without rivals."""
        ends = {
            name: rival.ratio.value if rival.ratio.high is None else rival.ratio.high
            for name, rival in self.rivals.items()
        }
        return max(ends, key=lambda name: ends[name], default=None)

    @property
    def beats_rivals(self) -> bool | None:
        """True if better than all rivals, False if worse than one.

        None if neither is significant.
        """
        better = {rival.ratio.is_better for rival in self.rivals.values()}
        return False if False in better else True if better == {True} else None

    def draw_conclusion(self, n_bots: int) -> Conclusion:
        """Return the conclusion supported by r over this number of bots."""
        if self.r is None:
            return "undefined"
        if n_bots < FEW_BOTS:
            return "few_bots"
        if not self.beats_chance:
            return "chance"
        return {True: "ranking", False: "baseline", None: "unsettled"}[self.beats_rivals]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """Verdict on a fit.

    Attributes:
        conclusion: about the prediction from conversations with people.
        findings: reasons for the conclusion; an inconclusive one has a single finding with the cause.
        selfplay: conclusion about the prediction from self-play; None without any, or if `conclusion` is inconclusive.
        findings_selfplay: reasons for `selfplay`.
    """

    conclusion: Conclusion
    findings: tuple[Finding, ...]
    selfplay: Conclusion | None = None
    findings_selfplay: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "intercept": "common",
            "standing": self.conclusion,
            "findings": [reason.to_json() for reason in self.findings],
            "standing_selfplay": self.selfplay,
            "findings_selfplay": [reason.to_json() for reason in self.findings_selfplay],
        }


def verdict_of(
    frame: BotLevelDiagnostics,
    left_out: Evidence,
    n_bots: int,
    *,
    selfplay: Evidence | None = None,
    n_selfplay: int = 0,
) -> FitVerdict:
    """Judge a fit by the diagnostics of its correlation over bots.

    Args:
        left_out: bots predicted from their conversations with people, without their own ratings.
        n_bots: rated bots.
        selfplay: the same bots predicted from self-play.
        n_selfplay: number of rated bots with self-play.
    """
    conclusion = left_out.draw_conclusion(n_bots)
    if conclusion in ("undefined", "few_bots"):
        return FitVerdict(conclusion, _correlation_findings(left_out, n_bots))
    findings = [*_correlation_findings(left_out, n_bots, frame.over_conversations)]
    findings += _values(left_out.values)
    findings += _limits(frame, left_out.r or 0.0)
    if selfplay is None:
        return FitVerdict(conclusion, tuple(findings))
    # With few bots their number is the reason for a missing correlation, so check it first.
    played: Conclusion = "few_bots" if n_selfplay < FEW_BOTS else selfplay.draw_conclusion(n_selfplay)
    findings_selfplay = _correlation_findings(selfplay, n_selfplay)
    if played != "few_bots":
        findings_selfplay = (*findings_selfplay, *_values(selfplay.values))
    return FitVerdict(conclusion, tuple(findings), played, findings_selfplay)


def _correlation_findings(
    evidence: Evidence, n_bots: int, over_conversations: tuple[float, float] | None = None
) -> tuple[Finding, ...]:
    """Return findings about r: intervals, chance, rivals, pairs, and influential bots."""
    r, correlation, null95 = evidence.r, evidence.level.correlation, evidence.level.null95
    if n_bots < FEW_BOTS or r is None:
        reason = correlation.reason.to_json() if correlation.reason is not None else None
        return (finding("no_correlation", n_bots=n_bots, reason=reason),)
    known = correlation.low is not None and correlation.high is not None
    findings = [
        finding(
            "correlation",
            n_bots=n_bots,
            r=r,
            ci95=[correlation.low, correlation.high] if known else None,
            ci95_over_conversations=list(over_conversations) if over_conversations else None,
        )
    ]
    if r < 0:
        findings.append(finding("wrong_order", r=r))
    if null95 is not None:
        findings.append(finding("chance", null95=null95, passed=r > null95))
    if (name := evidence.strongest) is not None:
        rival = evidence.rivals[name]
        ratio = rival.ratio.to_json()
        findings.append(
            finding(
                "rival",
                name=name,
                r=rival.r,
                q2=rival.q2,
                mae=rival.mae,
                error_ratio=ratio["value"],
                ci95=ratio["ci95"],
                passed=evidence.beats_rivals,
            )
        )
    if evidence.pairs.resolvable:
        findings.append(
            finding(
                "pairs",
                resolvable=evidence.pairs.resolvable,
                ordered=evidence.pairs.resolvable_ordered,
                alpha=evidence.pairs.alpha,
                test=evidence.pairs.test,
            )
        )
    bot = most_influential(evidence.influence)
    change = None if bot is None else evidence.influence[bot]
    if change is not None and abs(change) > MUCH:
        findings.append(finding("influential_bot", bot=bot, r_without=r + change))
    return tuple(findings)


def _values(values: PredictionAccuracy | None) -> list[Finding]:
    """Return a finding about the accuracy of predicted values."""
    if values is None or values.q2 is None:
        return []
    ends = values.slope_interval
    return [
        finding(
            "values",
            q2=values.q2,
            null95=values.q2_null95,
            passed=values_count(values),
            slope=values.slope,
            slope_ci95=None if ends is None else list(ends),
            inside=values.inside,
            of=values.n_intervals,
        )
    ]


def values_count(values: PredictionAccuracy) -> bool:
    """Return True if Q² exceeds 0 and chance."""
    return values.q2 is not None and values.q2 > max(0.0, values.q2_null95 or 0.0)


def _limits(frame: BotLevelDiagnostics, r: float) -> list[Finding]:
    """Return findings about the reliability ceiling and correlation within groups."""
    findings = []
    if frame.ceiling.best_r is not None:
        findings.append(finding("ceiling", best_r=frame.ceiling.best_r))
    elif frame.ceiling.reliability is not None:
        findings.append(finding("halves_disagree", reliability=frame.ceiling.reliability))
    if frame.within_group is not None and frame.within_group.r is not None:
        within = frame.within_group.r
        findings.append(finding("within_groups", r=within, mostly_between=within < r / 2))
    return findings
