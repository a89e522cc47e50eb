"""Rivals of a hybrid fit: the lengths of conversations, fitted by the same Gaussian process on the same folds.

A fit beats a rival where the 95 % interval of the ratio of their errors, paired by bot, lies below 1.
`docs/research/lengths.md` has the reasons, and how often that is right and wrong in simulated studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums, NoNoise
from evaluation.hybrid.calibration import q_squared
from evaluation.hybrid.features import Design, log_lengths
from evaluation.hybrid.gaussian_process_folds import FoldMeans, fold_means
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.stats.correlation import rowwise

LENGTH_RIVALS = {
    "log_turns": ("log_n_turns",),
    "log_words": ("log_words_user",),
    "log_turns_and_words": ("log_n_turns", "log_words_user"),
}
"""Columns that each rival reads; each column is a block."""
LEVEL = 0.95
FEWEST_BOTS = 5
LOST_DEGREES = 3
"""Degrees of freedom less than bots: each bot is predicted from the others, so errors of two bots hang together."""


@dataclass(frozen=True, slots=True)
class ErrorRatio:
    """Root mean square error of a fit over that of a rival, paired by bot; below 1 the fit is better.

    Attributes:
        low, high: 95 % interval of Pitman and Morgan; None for fewer than five bots.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def is_better(self) -> bool | None:
        """True if the whole interval is below 1, False if above; None: it is not known which errs less."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return None
        return self.high < 1

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "ci95": None if self.low is None else [self.low, self.high]}


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival's accuracy over bots, each predicted without its own ratings.

    Attributes:
        r: Pearson's r with the human means, one intercept for all folds; None where undefined.
        q2, mae: by the intercept of each fold.
        ratio: errors of the fit over those of this rival.
    """

    r: float | None
    q2: float
    mae: float
    ratio: ErrorRatio

    def to_json(self) -> dict[str, Any]:
        return {"r": self.r, "q2": self.q2, "mae": self.mae, "error_ratio": self.ratio.to_json()}


def error_ratio(predicted: np.ndarray, rival: np.ndarray, human: np.ndarray) -> ErrorRatio:
    """Compare the errors of two predictions of the same (K,) means, both with mean 0.

    The interval holds the ratios λ for which e − λf and e + λf are uncorrelated by Student's t (Pitman 1939, Morgan
    1939), e and f being the errors of the fit and of the rival.
    """
    from scipy import stats

    e, f = human - predicted, human - rival
    n, own, other, both = len(human), float(e @ e), float(f @ f), float(e @ f)
    if own == 0 or other == 0:
        value = 1.0 if own == other else 0.0 if own == 0 else float("inf")
        return ErrorRatio(value, *((None, None) if n < FEWEST_BOTS or own == other else (value, value)))
    value = float(np.sqrt(own / other))
    if n < FEWEST_BOTS:
        return ErrorRatio(value, None, None)
    free = n - LOST_DEGREES
    t = float(stats.t.ppf((1 + LEVEL) / 2, free))
    times = float(np.exp(0.5 * np.arccosh(1 + 2 * t**2 * max(0.0, 1 - both**2 / own / other) / free)))
    return ErrorRatio(value, value / times, value * times)


@dataclass(frozen=True)
class RivalPredictions:
    """Predictions of every rival by bot: by the intercept of each fold, and by one for all folds."""

    fold: Mapping[str, Mapping[str, float]]
    common: Mapping[str, Mapping[str, float]]

    def against(self, predicted: Mapping[str, float], human: Mapping[str, float]) -> dict[str, Rival]:
        """Compare each rival with a fit over the bots that both predict.

        Args:
            predicted: by the fit, with the intercept of each fold.
        """
        found = {}
        for name, by_fold in self.fold.items():
            bots = [bot for bot in by_fold if bot in predicted and bot in human]
            y = np.array([human[bot] for bot in bots])
            if len(bots) < 3 or y.min() == y.max():
                continue
            own = np.array([by_fold[bot] for bot in bots])
            r = float(rowwise(np.array([self.common[name][bot] for bot in bots]), y, "pearson")[0])
            found[name] = Rival(
                r if np.isfinite(r) else None,
                float(q_squared(own[None], y[None])[0]),
                float(np.abs(y - own).mean()),
                error_ratio(np.array([predicted[bot] for bot in bots]), own, y),
            )
        return found


def rival_folds(
    rated: Design, means: FoldMeans | None, groups: Sequence[str] = (), at: Design | None = None
) -> dict[str, tuple[FoldMeans, dict[str, np.ndarray]]]:
    """Return by rival its process without each bot, and the mean features to predict each bot from.

    A rival is left out where a column or the noise of the ratings is unknown.

    Args:
        rated: rated conversations, with the targets that the fit is compared with.
        means: the ratings' means and noise in each fold, where the fit has them; None: as if each conversation had
            one rating, by a person of its own.
        groups: names of the 0/1 columns of the bots' groups, if there are any.
        at: conversations to predict from, in place of the rated ones.
    """
    names, codes = np.unique(rated.bots.astype(str), return_inverse=True)
    if means is None:
        try:
            means = _means_of_conversations(rated.y, codes, names)
        except NoNoise:
            return {}
    columns = {**rated.extra, **log_lengths(rated.extra)}
    there = None if at is None else {**at.extra, **log_lengths(at.extra)}
    found = {}
    for name, parts in {**LENGTH_RIVALS, **({"group": tuple(groups)} if groups else {})}.items():
        is_length = name in LENGTH_RIVALS
        if not set(parts) <= columns.keys() or (is_length and there is not None and not set(parts) <= there.keys()):
            continue
        x, spread = _column_means(columns, parts, codes, len(names))
        if not np.isfinite(x).all():
            continue
        points = dict(zip(names.tolist(), x, strict=True))
        if at is not None and there is not None:
            played, at_codes = np.unique(at.bots.astype(str), return_inverse=True)
            # Which group a bot is of does not depend on whom it talks to.
            seen = _column_means(there, parts, at_codes, len(played))[0] if is_length else None
            points = {
                str(bot): points[bot] if seen is None else seen[k]
                for k, bot in enumerate(played)
                if bot in points and (seen is None or np.isfinite(seen[k]).all())
            }
        # A group is one block, for its columns mean nothing one by one.
        blocks = {part: (k,) for k, part in enumerate(parts)} if is_length else {name: tuple(range(len(parts)))}
        found[name] = with_features(means, names, x, spread, blocks), points
    return found


def rival_predictions(
    rated: Design, means: FoldMeans | None, groups: Sequence[str] = (), at: Design | None = None
) -> RivalPredictions:
    """Predict each bot by every rival without its own ratings; arguments as of `rival_folds`."""
    fold: dict[str, dict[str, float]] = {}
    common: dict[str, dict[str, float]] = {}
    for name, (of_rival, points) in rival_folds(rated, means, groups, at).items():
        both = {bot: of_rival.left_out(bot, x) for bot, x in points.items()}
        fold[name] = {bot: float(own[0]) for bot, (own, _) in both.items()}
        common[name] = {bot: float(shared[0]) for bot, (_, shared) in both.items()}
    return RivalPredictions(fold, common)


def _means_of_conversations(y: np.ndarray, codes: np.ndarray, names: np.ndarray) -> FoldMeans:
    noise = RatingNoise.of(None, (), np.arange(len(y)), codes, y)
    return fold_means(BotSums(np.zeros((len(y), 0)), y, codes, names.tolist(), noise), {})


def _column_means(
    columns: Mapping[str, np.ndarray], parts: Sequence[str], codes: np.ndarray, n_bots: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (K, p) means of the conversations with all columns, NaN for bots without any, and (p,) their spread."""
    x = np.stack([np.asarray(columns[part], dtype=float) for part in parts], axis=1)
    defined = np.isfinite(x).all(axis=1)
    x, codes = x[defined], codes[defined]
    count = np.bincount(codes, minlength=n_bots)[:, None]
    total = np.stack([np.bincount(codes, weights=column, minlength=n_bots) for column in x.T], axis=1)
    means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    within = ((x - means[codes]) ** 2).sum(axis=0) / max(len(x) - n_bots, 1)
    return means, np.sqrt(within)


def with_features(
    means: FoldMeans,
    names: Sequence[str] | np.ndarray,
    x: np.ndarray,
    scale: np.ndarray,
    blocks: Mapping[str, tuple[int, ...]],
) -> FoldMeans:
    """Return the same ratings with other features.

    Args:
        names: (K,) bots. x: (K, p) their mean features. scale: (p,) standard deviation within bots.
    """
    at = {str(name): k for k, name in enumerate(names)}
    # A column that is constant within bots, as a group's, is taken in units of its own.
    unit = np.where(scale > 0, scale, 1.0) * (np.ptp(x, axis=0) > 0)

    def other(of: BotFeatureMeans) -> BotFeatureMeans:
        return replace(of, x=x[[at[bot] for bot in of.bots]], scale=unit)

    return FoldMeans(blocks, other(means.whole), {bot: other(of) for bot, of in means.folds.items()})
