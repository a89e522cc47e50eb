"""Correlation over bots, with null distribution, reliability ceiling and influence.

The ceiling is the reliability of the human bot means: the intraclass correlation of form (1, k), with its interval from
the F distribution. Influence is measured by leaving each bot out of the correlation. Uncertainty comes from resampling
bots (elsewhere) and conversations within bots (here). Both intercepts are covered (see `evaluation.hybrid.fit`), and so
is the relation within groups of bots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.analysis.comparisons import Test, Units
from evaluation.findings import Reason
from evaluation.number_format import pluralise
from evaluation.stats.comparisons import ORDER_ALPHA
from evaluation.stats.correlation import Correlation, rowwise, within_groups
from evaluation.stats.icc import icc

Intercept = Literal["fold", "common"]
"""Intercept of predictions for left-out bots: one per fold or one for all."""
INTERCEPTS: tuple[Intercept, ...] = ("fold", "common")
PREFERRED_INTERCEPT: Intercept = "common"
"""Default intercept of every command, form and function.

With one intercept per fold, as in the paper, a prediction starts from the mean of the *other* bots. That mean is low
exactly when the left-out bot is good, so uninformative features correlate at nearly −1. With the common intercept they
correlate at about 0.
"""
INTERCEPT_NAMES: dict[str, str] = {"common": "one intercept for all folds", "fold": "one intercept per fold"}


Permuted = tuple[np.ndarray, np.ndarray] | None
"""Predictions after refitting on permuted means, and these means, (P, K) each; None with too few bots."""
NullOf = Callable[..., Permuted]
"""Function of mean features by bot, and of whether the intercept is `common`."""


@dataclass(frozen=True, slots=True)
class BotLevel:
    """Correlation over bots, with its 5 % critical value under chance.

    Attributes:
        p: one-sided p-value of the same permutations; not stored.
    """

    correlation: Correlation
    null95: float | None
    p: float | None = None

    def to_json(self) -> dict[str, Any]:
        fields = self.correlation.to_json()
        reason = fields.pop("reason", None)
        fields["null95"] = self.null95
        return with_reason(fields, reason)


@dataclass(frozen=True, slots=True)
class OrderedPairs:
    """Number of bot pairs that the predictions order like the human means.

    Resolvable pairs differ significantly in people's ratings, by the same test as in bot comparisons, corrected for the
    number of pairs (`evaluation.hybrid.levels.significant_pairs`).

    Attributes:
        test: the fixed-sample test, or the always-valid test while a study collects data; None without ratings.
        units: groups of ratings that the test does not assume to be independent.
    """

    all: int
    ordered: int
    resolvable: int
    resolvable_ordered: int
    test: Test | None = None
    units: Units = "raters"
    alpha: float = ORDER_ALPHA

    def to_json(self) -> dict[str, Any]:
        return {
            "all": self.all,
            "ordered": self.ordered,
            "resolvable": self.resolvable,
            "resolvable_ordered": self.resolvable_ordered,
            "test": self.test,
            **({} if self.alpha == ORDER_ALPHA else {"alpha": self.alpha}),
            "clusters": self.units,
        }


def with_reason(fields: dict[str, Any], reason: Reason | dict[str, Any] | None) -> dict[str, Any]:
    """Return the object, with its `reason` if there is one."""
    if reason is None:
        return fields
    return {**fields, "reason": reason.to_json() if isinstance(reason, Reason) else reason}


FEWEST_BOTS = 3
N_DRAWS = 2000
_NEARLY_1 = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class BotMeanCeiling:
    """Reliability of the human means, which limits correlations with them.

    Attributes:
        reliability: share of the variance of bot means that is due to the bots, from 0 to 1; None if undefined.
        low, high: 95 % interval.
        best_r: √reliability, the average correlation of perfect predictions of the true means.
    """

    reliability: float | None
    low: float | None
    high: float | None
    best_r: float | None
    reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        known = self.low is not None and self.high is not None
        fields: dict[str, Any] = {
            "reliability": self.reliability,
            "ci95": [self.low, self.high] if known else None,
            "best_r": self.best_r,
        }
        return with_reason(fields, self.reason)


@dataclass(frozen=True, slots=True)
class BotLevelDiagnostics:
    """Diagnostics for the correlation over bots.

    Attributes:
        intercepts: by intercept, `fold` and `common`: Pearson's r over bots and the pairs.
        ceiling: reliability of the human means.
        influence: by bot, r without that bot minus r over all bots (predictions unchanged).
        over_conversations: 95 % interval of Pearson's r over bots in new samples of the same size from these bots.
        within_group: Pearson's r after subtracting each group's mean; None without groups.
    """

    intercepts: Mapping[str, tuple[BotLevel, OrderedPairs]]
    ceiling: BotMeanCeiling
    influence: Mapping[str, float | None]
    over_conversations: tuple[float, float] | None
    within_group: Correlation | None

    def to_json(self) -> dict[str, Any]:
        within = self.within_group
        return {
            "intercepts": {
                name: {"bot_level": {"pearson": level.to_json()}, "pairs": pairs.to_json()}
                for name, (level, pairs) in self.intercepts.items()
            },
            "ceiling": self.ceiling.to_json(),
            "influence": dict(self.influence),
            "bot_level_ci95_over_conversations": None
            if self.over_conversations is None
            else list(self.over_conversations),
            "within_group": None if within is None else within.to_json(),
        }


def ceiling_of(ratings: Mapping[str, np.ndarray]) -> BotMeanCeiling:
    """Estimate the reliability of the bots' mean ratings.

    Conversations are assumed to be independent within bots.

    Args:
        ratings: targets of each bot's rated conversations.
    """
    bots = [values for values in ratings.values() if len(values) > 1]
    if len(bots) < FEWEST_BOTS:
        explanation = (
            f"{pluralise(len(bots), 'bot')} with two rated conversations; {FEWEST_BOTS} are needed to estimate the "
            "reliability of means"
        )
        reason = Reason("few_bots_for_reliability", explanation, n_bots=len(bots), needed=FEWEST_BOTS)
        return BotMeanCeiling(None, None, None, None, reason)
    table = np.full((len(bots), max(map(len, bots))), np.nan)
    for row, values in zip(table, bots, strict=True):
        row[: len(values)] = values
    reliability = icc(table, "icc1_k")
    if reliability.value is None or reliability.low is None or reliability.high is None:
        return BotMeanCeiling(None, None, None, None, reliability.reason)
    # A share of variance cannot be negative, but by chance means can differ less than expected from noise alone.
    value, low, high = (max(0.0, end) for end in (reliability.value, reliability.low, reliability.high))
    return BotMeanCeiling(value, low, high, float(np.sqrt(value)) if value > 0 else None)


def influence_of(predicted: Sequence[float], human: Sequence[float], bots: Sequence[str]) -> dict[str, float | None]:
    """Return the change of r without each bot, by bot.

    None with fewer than four bots.
    """
    x, y = np.asarray(predicted, dtype=float), np.asarray(human, dtype=float)
    if len(x) < 4:
        return dict.fromkeys(bots)
    r_of_all = rowwise(x, y, "pearson")[0]
    is_other = ~np.eye(len(x), dtype=bool)
    n = len(x) - 1
    columns = np.nonzero(is_other)[1].reshape(len(x), n)
    change = rowwise(x[columns], y[columns], "pearson") - r_of_all
    return {bot: float(value) if np.isfinite(value) else None for bot, value in zip(bots, change, strict=True)}


def most_influential(influence: Mapping[str, float | None]) -> str | None:
    """Return the bot whose removal changes r most, or None."""
    changes = {bot: abs(change) for bot, change in influence.items() if change is not None}
    return max(changes, key=lambda bot: changes[bot], default=None)


def interval_over_conversations(bots: Sequence[tuple[np.ndarray, np.ndarray]], seed: int) -> tuple[float, float] | None:
    """Return the 95 % interval of r over new conversations of the bots.

    The observed r and a new one both contain noise, and neither is larger on average: on Fisher's scale their
    difference has mean 0 and twice the variance of one. This variance is estimated by redrawing each bot's two means,
    which are approximately jointly normal (central limit theorem), so the cost does not depend on the number of
    conversations. Percentiles of the redrawn r would be too low, because redrawn means contain the noise twice: they
    covered r in 75 to 83 % of simulated studies.

    Args:
        bots: predictions and ratings of each bot's conversations.
    """
    from scipy import stats

    if len(bots) < 3 or any(len(target) < 2 for _, target in bots):
        return None
    means = np.array([[predicted.mean(), target.mean()] for predicted, target in bots])
    noise = [np.cov(np.stack(both)) / len(both[0]) for both in bots]
    # The spread of the means includes their noise. Subtract it to get the spread of the true means, so that adding
    # noise again gives the observed spread.
    spread, of_noise = means.var(axis=0, ddof=1), np.mean([np.diag(covariance) for covariance in noise], axis=0)
    true_share = 1 - np.divide(of_noise, spread, out=np.ones(2), where=spread > 0)
    centres = means.mean(axis=0) + (means - means.mean(axis=0)) * np.sqrt(np.maximum(true_share, 0))
    rng = np.random.default_rng(seed)
    drawn_means = np.empty((N_DRAWS, len(bots), 2))
    for k, covariance in enumerate(noise):
        drawn_means[:, k] = rng.multivariate_normal(centres[k], covariance, size=N_DRAWS, method="eigh")
    r = rowwise(drawn_means[..., 0], drawn_means[..., 1], "pearson")
    r = r[np.isfinite(r)]
    if len(r) < N_DRAWS / 2:
        return None
    here = rowwise(means[:, 0], means[:, 1], "pearson")[0]
    if not np.isfinite(here):
        return None
    middle = np.arctanh(np.clip(here, -_NEARLY_1, _NEARLY_1))
    # With few bots the variance has only about K − 1 degrees of freedom: a normal quantile would cover 91 to
    # 94 %.
    t = stats.t.ppf(0.975, len(bots) - 1)
    half = t * np.sqrt(2) * np.arctanh(np.clip(r, -_NEARLY_1, _NEARLY_1)).std()
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


def within_groups_of(
    predicted: Mapping[str, float], human: Mapping[str, float], groups: Mapping[str, str]
) -> Correlation | None:
    """Correlate over bots within groups; None without groups.

    Each group's mean is subtracted on both sides.
    """
    bots = [bot for bot in predicted if bot in human and bot in groups]
    if len({groups[bot] for bot in bots}) < 2:
        return None
    return within_groups(
        [predicted[b] for b in bots], [human[b] for b in bots], [groups[b] for b in bots], interval="fisher"
    )
