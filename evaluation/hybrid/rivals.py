"""Rivals of a hybrid fit: the lengths of conversations, fitted by the same Gaussian process on the same folds.

A fit beats a rival where the 95 % interval of the difference of their squared errors, paired by bot, lies above 0.
`docs/research/lengths.md` has the reasons, and how often that is right and wrong in simulated studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums, NoNoise
from evaluation.hybrid.calibration import others_mean, q_squared
from evaluation.hybrid.features import Design
from evaluation.hybrid.gaussian_process_folds import FoldMeans, fold_means
from evaluation.hybrid.levels import log_lengths
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.stats.correlation import rowwise

LENGTH_RIVALS = {
    "log_turns": ("log_n_turns",),
    "log_words": ("log_words_user",),
    "log_turns_and_words": ("log_n_turns", "log_words_user"),
}
"""Columns that each rival reads; each column is a block."""
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class GainOver:
    """Q² of a fit less Q² of a rival, over the same bots.

    Attributes:
        low, high: 95 %, by Student's t of the K differences of squared errors; None for fewer than three bots.
    """

    q2: float
    low: float | None
    high: float | None

    @property
    def is_clear(self) -> bool:
        """True if the fit is better, by the whole interval."""
        return self.low is not None and self.low > 0

    @property
    def is_loss(self) -> bool:
        """True if the rival is better, by the whole interval."""
        return self.high is not None and self.high < 0

    def to_json(self) -> dict[str, Any]:
        return {"q2": self.q2, "ci95": None if self.low is None else [self.low, self.high]}


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival's accuracy over bots, each predicted without its own ratings.

    Attributes:
        r: Pearson's r with the human means, one intercept for all folds; None where undefined.
        q2, mae: by the intercept of each fold.
        gain: of the fit over this rival.
    """

    r: float | None
    q2: float
    mae: float
    gain: GainOver

    def to_json(self) -> dict[str, Any]:
        return {"r": self.r, "q2": self.q2, "mae": self.mae, "gain": self.gain.to_json()}


def gain_over(predicted: np.ndarray, rival: np.ndarray, human: np.ndarray) -> GainOver:
    """Compare the squared errors of two predictions of the same (K,) means."""
    from scipy import stats

    terms = (human - rival) ** 2 - (human - predicted) ** 2
    unit = float(((human - others_mean(human[None])[0]) ** 2).sum())
    value, n = float(terms.sum()) / unit, len(terms)
    if n < 3:
        return GainOver(value, None, None)
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * terms.std(ddof=1) * np.sqrt(n)) / unit
    return GainOver(value, value - half, value + half)


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
                gain_over(np.array([predicted[bot] for bot in bots]), own, y),
            )
        return found


def rival_predictions(
    rated: Design, means: FoldMeans | None, groups: Sequence[str] = (), at: Design | None = None
) -> RivalPredictions:
    """Fit every rival without each bot, and predict that bot; none where a column or the noise is unknown.

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
            return RivalPredictions({}, {})
    columns = {**rated.extra, **log_lengths(rated.extra)}
    there = None if at is None else {**at.extra, **log_lengths(at.extra)}
    fold: dict[str, dict[str, float]] = {}
    common: dict[str, dict[str, float]] = {}
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
            seen = _column_means(there, parts, at_codes, len(played))[0] if is_length else None
            points = {
                str(bot): points[bot] if seen is None else seen[k]
                for k, bot in enumerate(played)
                if bot in points and (seen is None or np.isfinite(seen[k]).all())
            }
        # A group is one block, for its columns mean nothing one by one.
        blocks = {part: (k,) for k, part in enumerate(parts)} if is_length else {name: tuple(range(len(parts)))}
        fold[name], common[name] = _predicted(with_features(means, names, x, spread, blocks), points)
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


def _predicted(means: FoldMeans, points: Mapping[str, np.ndarray]) -> tuple[dict[str, float], dict[str, float]]:
    """Return each bot's prediction by its fold, with the fold's own intercept and with that of all bots."""
    fold, common = {}, {}
    for bot, x in points.items():
        own, shared = means.left_out(bot, x)
        fold[bot], common[bot] = float(own[0]), float(shared[0])
    return fold, common
