"""Influence diagnostics of a fit by least squares: leverage, Cook's distance and condition, by statsmodels.

Cook (1977), "Detection of influential observation in linear regression", Technometrics 19; of a whole bot Cook and
Weisberg (1982), section 3.6. With p coefficients and s² the mean squared residual, leaving out the rows I moves the
fit by

    D_I = Σ (ŷ − ŷ_(I))² / (p s²), summed over all rows
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.hybrid.features import Design
from evaluation.hybrid.leastsquares import Line

_RANK = 1e12
"""From such a condition number on a feature is a sum of others, but for rounding."""
N_CONVERSATIONS = 5
"""So many conversations are named, those with the largest Cook's distances."""


@dataclass(frozen=True, slots=True)
class CarryingBot:
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
class CarryingConversation:
    """One conversation of a fit: its leverage, 0 to 1, and Cook's distance."""

    conversation: str
    bot: str
    leverage: float
    cooks_distance: float


@dataclass(frozen=True, slots=True)
class Carrying:
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
    bots: Mapping[str, CarryingBot]
    conversations: tuple[CarryingConversation, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "n": self.n,
            "coefficients": self.coefficients,
            "condition": self.condition,
            "bots": {
                bot: {
                    "n": one.n,
                    "leverage": one.leverage,
                    "cooks_distance": one.cooks_distance,
                }
                for bot, one in self.bots.items()
            },
            "conversations": [
                {
                    "conversation": one.conversation,
                    "bot": one.bot,
                    "leverage": one.leverage,
                    "cooks_distance": one.cooks_distance,
                }
                for one in self.conversations
            ],
        }


def fitted_whole(
    rated: Design, line: Line, folds: Mapping[str, Line], centre: np.ndarray, scale: np.ndarray
) -> tuple[Line, Carrying]:
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
        found = OLS(rated.y, exog).fit()
        influence = found.get_influence()
        leverage = np.asarray(influence.hat_matrix_diag)
        cooks = np.asarray(influence.cooks_distance[0])
        condition = float(found.condition_number)
    full = line.condition is None or line.condition < _RANK
    if full:
        slopes = np.zeros(len(line.slopes))
        slopes[used] = found.params[1:] / scale[used]
        line = replace(line, slopes=slopes, intercept=float(found.params[0] - centre @ slopes))
    size = exog.shape[1] * float(found.mse_resid)
    now = line.predict(rated.x)
    bots = {}
    for bot in dict.fromkeys(rated.bots.astype(str)):
        mine = rated.bots == bot
        moved = float(((now - folds[bot].predict(rated.x)) ** 2).sum()) if bot in folds else None
        bots[bot] = CarryingBot(
            n=int(mine.sum()),
            leverage=float(leverage[mine].sum() / leverage.sum()),
            cooks_distance=None if moved is None or not size > 0 else moved / size,
        )
    known = np.flatnonzero(np.isfinite(cooks))
    first = known[np.argsort(-cooks[known], kind="stable")][:N_CONVERSATIONS]
    conversations = tuple(
        CarryingConversation(
            str(rated.ids[i]), str(rated.bots[i]), float(leverage[i]), float(cooks[i])
        )
        for i in first
    )
    return line, Carrying(
        len(rated.y), exog.shape[1], condition if full else None, bots, conversations
    )
