"""Rivals of a hybrid fit, which predict from conversation lengths.

They use the same Gaussian process and the same folds.

A fit beats a rival if the 95 % interval of the ratio of their errors, paired by bot, is below 1.
`docs/research/lengths.md` gives the reasons and the error rates in simulated studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans, BotSums, NoNoise
from evaluation.hybrid.calibration import q_squared
from evaluation.hybrid.features import Design, column_means
from evaluation.hybrid.gaussian_process_folds import FoldMeans, fold_means
from evaluation.hybrid.rating_noise import RatingNoise
from evaluation.number_format import plain_interval
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.correlation import rowwise

LENGTH_RIVALS = {
    "log_turns": ("log_n_turns",),
    "log_words": ("log_words_user",),
    "log_turns_and_words": ("log_n_turns", "log_words_user"),
}
"""Columns of each rival; each column is a block."""
FEWEST_BOTS_COMPARED, FEWEST_BOTS = 3, 5
_LEAST = 1e-18
"""Minimum squared error relative to the other's, because JSON has no infinity."""
LOST_DEGREES = 3
"""Degrees of freedom lost, because errors of bots predicted from each other are correlated."""


@dataclass(frozen=True, slots=True)
class ErrorRatio:
    """Ratio of root mean square errors of a fit and a rival.

    Errors are paired by bot. Below 1, the fit is better.

    Attributes:
        low, high: 95 % interval of Pitman and Morgan; None for fewer than five bots.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def is_better(self) -> bool | None:
        """True if the interval is below 1, False if above; otherwise None."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return None
        return self.high < 1

    def p_value(self, n_bots: int) -> float | None:
        """Return the two-sided p-value of equal errors; None without an interval.

        It is the level at which the interval of Pitman and Morgan would end at 1.
        """
        from scipy import stats

        if self.low is None or self.high is None:
            return None
        free = n_bots - LOST_DEGREES
        spread = np.cosh(np.log(self.high / self.low)) - 1
        if spread <= 0:
            return 1.0 if self.value == 1 else 0.0
        t = stats.t.ppf((1 + SCORE_LEVEL) / 2, free) * np.sqrt((np.cosh(2 * np.log(self.value)) - 1) / spread)
        return float(2 * stats.t.sf(t, free))

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "ci95": plain_interval(self.low, self.high)}


@dataclass(frozen=True, slots=True)
class Rival:
    """Accuracy of a rival over bots, each predicted without its ratings.

    Attributes:
        r: Pearson's r with the human means, one intercept for all folds; None if undefined.
        q2, mae: with the intercept of each fold.
        ratio: errors of the fit divided by those of this rival.
    """

    r: float | None
    q2: float
    mae: float
    ratio: ErrorRatio

    def to_json(self) -> dict[str, Any]:
        return {"r": self.r, "q2": self.q2, "mae": self.mae, "error_ratio": self.ratio.to_json()}


def error_ratio(predicted: np.ndarray, rival: np.ndarray, human: np.ndarray) -> ErrorRatio:
    """Compare the errors of two predictions of the same (K,) means.

    Both errors have mean 0.

    The interval contains the ratios λ for which e − λf and e + λf are uncorrelated by Student's t (Pitman 1939, Morgan
    1939), e and f being the errors of the fit and of the rival.
    """
    from scipy import stats

    e, f = human - predicted, human - rival
    n, fit_error, rival_error, cross_error = len(human), float(e @ e), float(f @ f), float(e @ f)
    if fit_error == rival_error == 0:
        return ErrorRatio(1.0, None, None)
    fit_error, rival_error = max(fit_error, _LEAST * rival_error), max(rival_error, _LEAST * fit_error)
    value = float(np.sqrt(fit_error / rival_error))
    if n < FEWEST_BOTS:
        return ErrorRatio(value, None, None)
    free = n - LOST_DEGREES
    t = float(stats.t.ppf((1 + SCORE_LEVEL) / 2, free))
    times = float(
        np.exp(0.5 * np.arccosh(1 + 2 * t**2 * max(0.0, 1 - cross_error**2 / fit_error / rival_error) / free))
    )
    return ErrorRatio(value, value / times, value * times)


def rival_folds(
    rated: Design, means: FoldMeans | None, groups: Sequence[str] = (), selfplay: Design | None = None
) -> dict[str, tuple[FoldMeans, dict[str, np.ndarray]]]:
    """Return each rival's leave-one-out processes and mean features by bot.

    A rival is omitted if a column or the noise of the ratings is unknown.

    Args:
        rated: rated conversations, with the targets that the fit is compared with.
        means: means and noise of the ratings in each fold, if the fit has them; None: assume one rating per
            conversation, each by a different rater.
        groups: names of the 0/1 columns of the bots' groups, if any.
        selfplay: self-play to predict from, instead of the rated conversations.
    """
    names, codes = np.unique(rated.bots.astype(str), return_inverse=True)
    if len(names) < FEWEST_BOTS_COMPARED:
        return {}
    if means is None:
        noise = RatingNoise.match(None, (), np.arange(len(codes)), codes, rated.y)
        try:
            means = fold_means(BotSums(np.zeros((len(codes), 0)), rated.y, codes, names.tolist(), noise), {})
        except NoNoise:
            return {}
    folds = {}
    for name, parts in {**LENGTH_RIVALS, **({"group": tuple(groups)} if groups else {})}.items():
        x = column_means(rated, parts)
        points = x if selfplay is None else column_means(selfplay, parts)
        blocks: dict[str, tuple[int, ...]] = {part: (k,) for k, part in enumerate(parts)}
        if name == "group":
            # Its columns have no individual meaning, and self-play has the same bots.
            blocks = {name: tuple(range(len(parts)))}
            points = x if selfplay is None else {bot: x[bot] for bot in selfplay.bots.astype(str) if bot in x}
        if len(x) == len(names):
            folds[name] = _with_features(means, x, blocks), {bot: points[bot] for bot in x if bot in points}
    return folds


def _with_features(means: FoldMeans, x: Mapping[str, np.ndarray], blocks: Mapping[str, tuple[int, ...]]) -> FoldMeans:
    """Return the same ratings with other features.

    Kernels have the same trace whatever the unit of a column.
    """

    def replace_features(bot_means: BotFeatureMeans) -> BotFeatureMeans:
        features = np.stack([x[bot] for bot in bot_means.bots])
        return replace(bot_means, x=features, scale=np.ones(features.shape[1]))

    return FoldMeans(
        blocks, replace_features(means.all_bots), {bot: replace_features(fold) for bot, fold in means.folds.items()}
    )


@dataclass(frozen=True, slots=True)
class KeptRivals:
    """Stored rivals, for comparisons when their fit is applied.

    Attributes:
        means: means of the fitted ratings; None: those of the fit itself.
        x: mean columns by rival and bot; rivals with groups of bots are not stored, because groups belong to one study.
    """

    means: FoldMeans | None
    x: Mapping[str, Mapping[str, np.ndarray]]

    @classmethod
    def from_folds(
        cls, folds: Mapping[str, tuple[FoldMeans, Mapping[str, np.ndarray]]], means: FoldMeans | None
    ) -> KeptRivals | None:
        """Convert the output of `rival_folds` for storage; None without rivals."""
        features = {
            name: dict(zip(fitted.all_bots.bots, fitted.all_bots.x, strict=True))
            for name, (fitted, _points) in folds.items()
            if name in LENGTH_RIVALS
        }
        if not features:
            return None
        if means is None:
            first = next(folds[name][0] for name in features)
            nothing = {bot: np.zeros(0) for bot in first.all_bots.bots}
            means_kept: FoldMeans | None = _with_features(first, nothing, {})
        else:
            means_kept = None
        return cls(means_kept, features)

    def folds_for(self, means: FoldMeans | None, design: Design) -> dict[str, tuple[FoldMeans, dict[str, np.ndarray]]]:
        """Return the output of `rival_folds` for other conversations of the fitted bots.

        Args:
            means: means of the fit that the rivals belong to.
        """
        base = self.means or means
        if base is None:
            return {}
        folds = {}
        for name, x in self.x.items():
            points = column_means(design, LENGTH_RIVALS[name])
            blocks = {part: (k,) for k, part in enumerate(LENGTH_RIVALS[name])}
            folds[name] = _with_features(base, x, blocks), {bot: points[bot] for bot in x if bot in points}
        return folds

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` reads back."""
        return {
            "means": None if self.means is None else self.means.to_json(),
            "x": {name: {bot: row.tolist() for bot, row in x.items()} for name, x in self.x.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeptRivals:
        """Read the output of `to_json`."""
        return cls(
            None if value["means"] is None else FoldMeans.from_json(value["means"]),
            {
                name: {bot: np.array(row, dtype=float) for bot, row in x.items()}
                for name, x in value["x"].items()
                if name in LENGTH_RIVALS
            },
        )


def compare_rivals(
    folds: Mapping[str, tuple[FoldMeans, Mapping[str, np.ndarray]]],
    predicted: Mapping[str, float],
    human: Mapping[str, float],
) -> dict[str, Rival]:
    """Compare each rival with a fit, over the bots that both predict.

    Args:
        folds: output of `rival_folds`.
        predicted: predictions of the fit, with the intercept of each fold.
    """
    rivals = {}
    for name, (means, points) in folds.items():
        bots = [bot for bot in points if bot in predicted and bot in human]
        y = np.array([human[bot] for bot in bots])
        if len(bots) < FEWEST_BOTS_COMPARED or y.min() == y.max():
            continue
        fold, common = np.array([means.left_out(bot, points[bot]) for bot in bots])[:, :, 0].T
        r = float(rowwise(common, y, "pearson")[0])
        rivals[name] = Rival(
            r if np.isfinite(r) else None,
            float(q_squared(fold[None], y[None])[0]),
            float(np.abs(y - fold).mean()),
            error_ratio(np.array([predicted[bot] for bot in bots]), fold, y),
        )
    return rivals
