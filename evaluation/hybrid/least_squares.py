"""Least squares without one bot, for every bot, with influence diagnostics.

The rows of a bot enter every fold but one, so they are reduced once to their triangular factor; a fold
stacks the other bots' factors and solves that small system. The normal equations would add up just as
easily but lose half the digits on the nearly collinear word coherences.

Influence diagnostics of a fit by least squares: leverage, Cook's distance and condition, by statsmodels. Cook
(1977), "Detection of influential observation in linear regression", Technometrics 19; of a whole bot Cook and
Weisberg (1982), section 3.6. With p coefficients and s² the mean squared residual, leaving out the rows I moves the
fit by

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
    """A fitted linear predictor in raw units: intercept + x · slopes.

    Attributes:
        slopes: (p,); 0 for a dropped feature.
        used: (p,) which features took part; the others were constant.
        n: conversations fitted on.
        condition: condition number of the standardised features used (of a ridge with its penalty); None
            without features, infinite if one is a sum of others.
        penalty, blocks: what was chosen for a ridge; None and empty for least squares.
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
    """The rows of all rated bots, reduced to one triangular factor each.

    Inside, features are shifted and scaled by about their mean and spread. Least squares with an intercept
    does not notice (it learns nothing from that), rounding errors do.

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
            # One line per column: LAPACK stores matrices by columns, so nothing has to be copied.
            table = np.empty((x.shape[1] + 2, len(bot_rows)))
            table[0] = 1.0
            np.subtract(x.take(bot_rows, axis=0).T, self._shift[:, None], out=table[1:-1])
            table[1:-1] /= self._unit[:, None]
            np.subtract(y[bot_rows], self.target_mean, out=table[-1])
            self._factors.append(_triangle(table))  # (min(n_k, p + 2), p + 2)
        full_factor = self._stacked(range(len(self.bots)))
        n = len(y)
        # The first row of a factor of [1, features, target] has their sums, over ±√n.
        self.centre = self._shift + self._unit * full_factor[0, 1:-1] / full_factor[0, 0]
        spread = self._unit * np.linalg.norm(full_factor[1:, 1:-1], axis=0) / np.sqrt(n)
        self.scale = np.where(_varying(full_factor), spread, 1.0)

    @property
    def n_features(self) -> int:
        return len(self.centre)

    def _stacked(self, members: Sequence[int]) -> np.ndarray:
        """Return the (≤ p + 2, p + 2) triangular factor of these bots' rows of [1, features, target]."""
        return _triangle(np.concatenate([self._factors[k] for k in members]).T)

    def line(self, members: Sequence[int], *, check: bool = True) -> LinearPredictor:
        """Fit on these bots (numbers into `bots`, repeated if resampled).

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
        # Without the row of the sums, what is left is the factor of the centred features.
        condition = _condition(factor[1:, columns[1:]]) if check else None
        return LinearPredictor(intercept, slopes, used, n, condition)

    def leave_out(self, k: int) -> list[int]:
        """Return the numbers of all bots but number k."""
        return [j for j in range(len(self.bots)) if j != k]

    def response(self, k: int, features: np.ndarray, *, common: bool) -> tuple[np.ndarray, float]:
        """Return fold k's prediction at one point as a linear function of the bots' mean ratings.

        The prediction is linear in the ratings. With ratings written as bot mean + rest it is
        `weights @ bot_means + rest`, so other means (such as those of permuted bots) need no new fit.

        Args:
            k: the bot left out.
            features: (p,) features, raw units.
            common: whether the intercept is that of all bots.

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
            # A bot's constant is its column of ones; what remains of its ratings is the last column.
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
"""Singular values below this share of the largest are rounding: one feature is a sum of others."""
_CONSTANT = 1e-11
_SAMPLE = 1000


def _rough_standard(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the mean and the spread of each column, (p,) each, from up to a thousand rows."""
    sample = x[:: max(1, len(x) // _SAMPLE)]
    shift = sample.mean(axis=0)
    spread = sample.std(axis=0)
    rounding = 1e-14 * np.abs(shift)
    return shift, np.where(spread > rounding, spread, np.maximum(np.abs(shift), 1.0))


def _triangle(table: np.ndarray) -> np.ndarray:
    """Return R of the QR factorisation of `table.T`, whose columns are the lines of `table`; Q is never made."""
    from scipy.linalg import lapack

    turned = table.T
    size = min(turned.shape)
    factor, _, _, failed = lapack.dgeqrf(turned, lwork=64 * turned.shape[1], overwrite_a=True)
    if failed:
        raise HybridError("the features cannot be factorised; is one of them undefined?")
    return np.triu(factor[:size])


def _varying(factor: np.ndarray) -> np.ndarray:
    """Return a mask of the features that are not constant, (p,), from a factor of [1, features, target]."""
    features = factor[:, 1:-1]
    rest = np.linalg.norm(features[1:], axis=0)
    return rest > _CONSTANT * np.maximum(np.linalg.norm(features, axis=0), abs(factor[0, 0]))


def _condition(centred: np.ndarray) -> float | None:
    """Return the condition number of the standardised features, from a factor of the centred ones."""
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
"""From such a condition number on a feature is a sum of others, but for rounding."""
N_CONVERSATIONS = 5
"""So many conversations are named, those with the largest Cook's distances."""


@dataclass(frozen=True, slots=True)
class BotInfluence:
    """One bot of a fit.

    Attributes:
        n: its conversations.
        leverage: share of all leverage that they have; compared with n / all it shows how unlike the others they are.
        cooks_distance: by how much the fit moves without the bot; None where nothing is left to fit to.
    """

    n: int
    leverage: float
    cooks_distance: float | None


@dataclass(frozen=True, slots=True)
class ConversationInfluence:
    """One conversation of a fit: its leverage, 0 to 1, and Cook's distance."""

    conversation: str
    bot: str
    leverage: float
    cooks_distance: float


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence diagnostics of the fit on all rated conversations.

    Attributes:
        n, coefficients: rows and columns, the intercept's among them.
        condition: of the standardised features; None where one is a sum of others.
        bots: by id.
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
    """Fit all rated conversations by statsmodels, and return the influence diagnostics.

    Args:
        line: the same fit by the own solver. It stays where a feature is a sum of others, for there statsmodels shares
            out the weights in another way than the folds do.
        folds: by bot the fit without it.
        centre, scale: (p,) of the features; they are fitted standardised.

    Returns:
        The line of the fit, and its diagnostics.
    """
    from statsmodels.regression.linear_model import OLS

    used = np.flatnonzero(line.used)
    z = (rated.x[:, used] - centre[used]) / scale[used]
    exog = np.column_stack([np.ones(len(z)), z])
    with warnings.catch_warnings():
        # That a feature is a sum of others is told by the condition number.
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
