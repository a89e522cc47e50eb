"""Parts of a correlation over bots: the intercept, the coefficient with its null, ordered pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.analysis.comparisons import Test, Units
from evaluation.reasons import Reason
from evaluation.stats.correlation import Correlation

Intercept = Literal["fold", "common"]
"""Which intercept the predictions of left-out bots have: of their own fold, or one common to all."""
INTERCEPTS: tuple[Intercept, ...] = ("fold", "common")
PREFERRED_INTERCEPT: Intercept = "common"
"""Taken unless another one is requested, by every command, form and function.

With each fold's own, as the paper has it, a prediction starts from the mean of the *other* bots, which is low
exactly when the left-out bot is good: features that say nothing correlate at nearly −1. With one for all folds
they correlate at about 0.
"""
INTERCEPT_NAMES: dict[str, str] = {
    "common": "one intercept for all folds",
    "fold": "an intercept for each fold",
}


Permuted = tuple[np.ndarray, np.ndarray] | None
"""Predictions by everything fitted and chosen again, and the permuted means they answer to, (P, K) each; None for too
few bots."""
NullOf = Callable[..., Permuted]
"""Takes mean features by bot, and whether the intercept is `common`."""


@dataclass(frozen=True, slots=True)
class BotLevel:
    """Correlation over bots, with the coefficient that chance passes in one case of twenty."""

    correlation: Correlation
    null95: float | None

    def to_json(self) -> dict[str, Any]:
        found = self.correlation.to_json()
        reason = found.pop("reason", None)
        found["null95"] = self.null95
        return with_reason(found, reason)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Number of bot pairs that the predictions order as the human means do.

    Resolvable pairs are significantly different in people's ratings, by the test that bots are
    compared with, corrected for the number of pairs (`evaluation.hybrid.apart.told_apart`).

    Attributes:
        test: the fixed-sample test, or the always-valid one of a study that collects; None where
            nothing was rated.
        units: within which it does not assume independent ratings.
    """

    all: int
    ordered: int
    resolvable: int
    resolvable_ordered: int
    test: Test | None = None
    units: Units = "raters"

    def to_json(self) -> dict[str, Any]:
        return {
            "all": self.all,
            "ordered": self.ordered,
            "resolvable": self.resolvable,
            "resolvable_ordered": self.resolvable_ordered,
            "test": self.test,
            "clusters": self.units,
        }


def with_reason(found: dict[str, Any], reason: Reason | dict[str, Any] | None) -> dict[str, Any]:
    """Return the object with the reason next to it, if there is one."""
    if reason is None:
        return found
    return {**found, "reason": reason.to_json() if isinstance(reason, Reason) else reason}
