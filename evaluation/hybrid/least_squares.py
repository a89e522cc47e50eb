"""Least squares without one bot, for every bot, with influence diagnostics.

A bot's rows are part of every fold but one, so they are reduced once to a triangular factor; a fold stacks the factors
of the other bots and solves this small system. Normal equations could be added up just as easily, but would lose half
the digits on the nearly collinear word coherences.

statsmodels computes the influence diagnostics: leverage, Cook's distance and condition number. Cook (1977), "Detection
of influential observation in linear regression", Technometrics 19; for whole bots Cook and Weisberg (1982), section
3.6. With p coefficients and mean squared residual s², leaving out the rows I changes the fit by

    D_I = Σ (ŷ − ŷ_(I))² / (p s²), summed over all rows
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.hybrid.features import Design, HybridError


@dataclass(frozen=True, slots=True)
class LinearPredictor:
    """Fitted linear predictor in raw units: intercept + x · slopes.

    Attributes:
        slopes: (p,); 0 for a dropped feature.
        used: (p,) True for features in the fit; the others were constant.
        n: number of conversations in the fit.
        condition: condition number of the standardised features (for a ridge, with its penalty); None without features,
            infinite if they are linearly dependent.
        penalty, blocks: settings of a ridge; None and empty for least squares.
    """

    intercept: float
    slopes: np.ndarray
    used: np.ndarray
    n: int
    condition: float | None
    penalty: float | None = None
    blocks: tuple[str, ...] = ()

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predict from (n, p) features: (n,)."""
        return self.intercept + x @ self.slopes


class Factors:
    """Rows of all rated bots, reduced to one triangular factor per bot.

    Internally, features are roughly standardised. This does not change a least-squares fit with an intercept, but
    reduces rounding errors.

    Args:
        x: (n, p) features.
        y: (n,) targets, all defined.
        bots: (n,) ids.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, bots: np.ndarray) -> None:
        import pandas as pd

        codes, names = pd.factorize(np.asarray(bots, dtype=object), sort=True)
        self.bots: tuple[str, ...] = tuple(str(name) for name in names)
        self.counts = np.bincount(codes, minlength=len(names))
        self.bot_means = np.bincount(codes, weights=y, minlength=len(names)) / self.counts
        self.target_mean = float(y.mean())
        self._shift, self._unit = _rough_standard(x)
        self._factors: list[np.ndarray] = []
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(self.counts)[:-1])
        for bot_rows in rows:
            # Transposed, because LAPACK stores matrices by columns; this avoids a copy.
            table = np.empty((x.shape[1] + 2, len(bot_rows)))
            table[0] = 1.0
            np.subtract(x.take(bot_rows, axis=0).T, self._shift[:, None], out=table[1:-1])
            table[1:-1] /= self._unit[:, None]
            np.subtract(y[bot_rows], self.target_mean, out=table[-1])
            self._factors.append(_triangle(table))  # (min(n_k, p + 2), p + 2)
        full_factor = self._stacked(range(len(self.bots)))
        n = len(y)
        # The first row of a factor of [1, features, target] contains the column sums divided by ±√n.
        self.centre = self._shift + self._unit * full_factor[0, 1:-1] / full_factor[0, 0]
        spread = self._unit * np.linalg.norm(full_factor[1:, 1:-1], axis=0) / np.sqrt(n)
        self.scale = np.where(_varying(full_factor), spread, 1.0)

    @property
    def n_features(self) -> int:
        return len(self.centre)

    def _stacked(self, members: Sequence[int]) -> np.ndarray:
        """Return the triangular factor of these bots' rows, (≤ p + 2, p + 2).

        The columns are [1, features, target].
        """
        return _triangle(np.concatenate([self._factors[k] for k in members]).T)

    def line(self, members: Sequence[int], *, check: bool = True) -> LinearPredictor:
        """Fit on these bots, given as indices into `bots`.

        Resampled bots can be repeated.

        Raises:
            HybridError: if there are no more conversations than coefficients.
        """
        factor = self._stacked(members)
        used = _varying(factor)
        n = int(self.counts[list(members)].sum())
        if check and n <= used.sum() + 1:
            raise HybridError(
                f"{n} conversations cannot determine {int(used.sum())} features and an intercept; choose "
                "fewer features or collect more rated conversations"
            )
        columns = np.flatnonzero(np.concatenate([[True], used]))
        solved = np.linalg.lstsq(factor[:, columns], factor[:, -1], rcond=_RCOND)[0]
        slopes = np.zeros(self.n_features)
        slopes[used] = solved[1:] / self._unit[used]
        intercept = self.target_mean + float(solved[0]) - float(self._shift @ slopes)
        # Without the row of sums, the remaining rows are the factor of the centred features.
        condition = _condition(factor[1:, columns[1:]]) if check else None
        return LinearPredictor(intercept, slopes, used, n, condition)

    def leave_out(self, k: int) -> list[int]:
        """Return the indices of all bots except k."""
        return [j for j in range(len(self.bots)) if j != k]

    def response(self, k: int, features: np.ndarray, *, common: bool) -> tuple[np.ndarray, float]:
        """Return fold k's prediction as a linear function of mean ratings.

        The prediction is linear in the ratings. With ratings written as bot mean + rest it is `weights @ bot_means +
        rest`, so other means, such as permuted ones, need no new fit.

        Args:
            k: index of the left-out bot.
            features: (p,) features, raw units.
            common: True to use the intercept of all bots.

        Returns:
            weights (K,) and the rest.
        """
        members = self.leave_out(k)
        used = _varying(self._stacked(members))
        columns = np.flatnonzero(np.concatenate([[True], used]))
        blocks = [self._factors[j] for j in members]
        stack = np.vstack(blocks)
        n_bots = len(self.bots)
        right = np.zeros((len(stack), n_bots + 1))
        start = 0
        for j, block in zip(members, blocks, strict=True):
            stop = start + len(block)
            # Each bot has an indicator column; the last column contains the rest of the ratings.
            right[start:stop, j] = block[:, 0]
            right[start:stop, -1] = block[:, -1] - block[:, 0] * (self.bot_means[j] - self.target_mean)
            start = stop
        solved = np.linalg.lstsq(stack[:, columns], right, rcond=None)[0]  # (1 + used, K + 1)
        origin = self.centre if common else self._shift
        point = ((features - origin) / self._unit)[used]
        effect = point @ solved[1:] + (0.0 if common else solved[0])
        weights, rest = effect[:-1].copy(), float(effect[-1])
        if common:
            weights += self.counts / self.counts.sum()
        return weights, rest


_RCOND = 1e-13
"""Share of the largest singular value below which others are rounding error: a feature is a sum of others."""
_CONSTANT = 1e-11
_SAMPLE = 1000


def _rough_standard(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate each column's mean and spread, (p,), from 1,000 rows."""
    sample = x[:: max(1, len(x) // _SAMPLE)]
    shift = sample.mean(axis=0)
    spread = sample.std(axis=0)
    rounding = 1e-14 * np.abs(shift)
    return shift, np.where(spread > rounding, spread, np.maximum(np.abs(shift), 1.0))


def _triangle(table: np.ndarray) -> np.ndarray:
    """Return R of the QR factorisation of `table.T`, without forming Q."""
    from scipy.linalg import lapack

    turned = table.T
    size = min(turned.shape)
    factor, _, _, failed = lapack.dgeqrf(turned, lwork=64 * turned.shape[1], overwrite_a=True)
    if failed:
        raise HybridError("the features cannot be factorised; check for undefined values")
    return np.triu(factor[:size])


def _varying(factor: np.ndarray) -> np.ndarray:
    """Return the (p,) mask of non-constant features.

    It is computed from a factor of [1, features, target].
    """
    features = factor[:, 1:-1]
    rest = np.linalg.norm(features[1:], axis=0)
    return rest > _CONSTANT * np.maximum(np.linalg.norm(features, axis=0), abs(factor[0, 0]))


def _condition(centred: np.ndarray) -> float | None:
    """Return the standardised features' condition number from the centred factor."""
    if not centred.shape[1]:
        return None
    lengths = np.linalg.norm(centred, axis=0)
    singular = np.linalg.svd(centred / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    smallest = float(singular[-1])
    return float(singular[0]) / smallest if smallest > 1e-15 else float("inf")


def line_to_json(line: LinearPredictor) -> dict[str, Any]:
    """Return plain JSON values that `line_from_json` reads back."""
    condition = line.condition
    return {
        "intercept": line.intercept,
        "slopes": line.slopes.tolist(),
        "used": line.used.tolist(),
        "n": line.n,
        "condition": "infinite" if condition is not None and math.isinf(condition) else condition,
        "penalty": line.penalty,
        "blocks": list(line.blocks),
    }


def line_from_json(value: Mapping[str, Any]) -> LinearPredictor:
    """Read the output of `line_to_json`."""
    condition = value["condition"]
    return LinearPredictor(
        float(value["intercept"]),
        np.array(value["slopes"], dtype=float),
        np.array(value["used"], dtype=bool),
        int(value["n"]),
        math.inf if condition == "infinite" else condition,
        value.get("penalty"),
        tuple(value.get("blocks", ())),
    )


_RANK = 1e12
"""Condition number above which a feature is a sum of others, apart from rounding."""
N_CONVERSATIONS = 5
"""Number of conversations listed, those with the largest Cook's distances."""


@dataclass(frozen=True, slots=True)
class BotInfluence:
    """Influence of a bot on a fit.

    Attributes:
        n: number of its conversations.
        leverage: their share of total leverage; above their share of conversations, they are unlike the others.
        cooks_distance: change of the fit without the bot; None if no data would remain.
    """

    n: int
    leverage: float
    cooks_distance: float | None


@dataclass(frozen=True, slots=True)
class ConversationInfluence:
    """Influence of a conversation: leverage, 0 to 1, and Cook's distance."""

    conversation: str
    bot: str
    leverage: float
    cooks_distance: float


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence diagnostics of the fit on all rated conversations.

    Attributes:
        n, coefficients: numbers of rows and of columns, including the intercept.
        condition: condition number of the standardised features; None if they are linearly dependent.
        bots: influence by bot id.
        conversations: those with the largest Cook's distances.
    """

    n: int
    coefficients: int
    condition: float | None
    bots: Mapping[str, BotInfluence]
    conversations: tuple[ConversationInfluence, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "n": self.n,
            "coefficients": self.coefficients,
            "condition": self.condition,
            "bots": {
                bot: {"n": influence.n, "leverage": influence.leverage, "cooks_distance": influence.cooks_distance}
                for bot, influence in self.bots.items()
            },
            "conversations": [
                {
                    "conversation": influence.conversation,
                    "bot": influence.bot,
                    "leverage": influence.leverage,
                    "cooks_distance": influence.cooks_distance,
                }
                for influence in self.conversations
            ],
        }


def fit_all_bots(
    rated: Design, line: LinearPredictor, folds: Mapping[str, LinearPredictor], centre: np.ndarray, scale: np.ndarray
) -> tuple[LinearPredictor, Influence]:
    """Fit all rated conversations with statsmodels for influence diagnostics.

    Args:
        line: the same fit from this module's solver. It is returned if features are linearly dependent, because
            statsmodels then distributes the weights differently from the folds.
        folds: fit without each bot.
        centre, scale: (p,) for standardising the features.

    Returns:
        The line of the fit, and the diagnostics.
    """
    from statsmodels.regression.linear_model import OLS

    used = np.flatnonzero(line.used)
    z = (rated.x[:, used] - centre[used]) / scale[used]
    exog = np.column_stack([np.ones(len(z)), z])
    with warnings.catch_warnings():
        # The condition number already reports linear dependence.
        warnings.simplefilter("ignore")
        full_fit = OLS(rated.y, exog).fit()
        influence = full_fit.get_influence()
        leverage = np.asarray(influence.hat_matrix_diag)
        cooks = np.asarray(influence.cooks_distance[0])
        condition = float(full_fit.condition_number)
    full = line.condition is None or line.condition < _RANK
    if full:
        slopes = np.zeros(len(line.slopes))
        slopes[used] = full_fit.params[1:] / scale[used]
        line = replace(line, slopes=slopes, intercept=float(full_fit.params[0] - centre @ slopes))
    size = exog.shape[1] * float(full_fit.mse_resid)
    now = line.predict(rated.x)
    bots = {}
    for bot in dict.fromkeys(rated.bots.astype(str)):
        is_of_bot = rated.bots == bot
        moved = float(((now - folds[bot].predict(rated.x)) ** 2).sum()) if bot in folds else None
        bots[bot] = BotInfluence(
            n=int(is_of_bot.sum()),
            leverage=float(leverage[is_of_bot].sum() / leverage.sum()),
            cooks_distance=None if moved is None or not size > 0 else moved / size,
        )
    known = np.flatnonzero(np.isfinite(cooks))
    first = known[np.argsort(-cooks[known], kind="stable")][:N_CONVERSATIONS]
    conversations = tuple(
        ConversationInfluence(str(rated.ids[i]), str(rated.bots[i]), float(leverage[i]), float(cooks[i])) for i in first
    )
    return line, Influence(len(rated.y), exog.shape[1], condition if full else None, bots, conversations)
