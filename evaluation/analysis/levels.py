"""Confidence level of a study's intervals and tests."""

from __future__ import annotations

from evaluation.stats.comparisons import ORDER_ALPHA
from evaluation.stats.constants import RATING_LEVEL

NEW_STUDIES = 0.95
"""Confidence level of new studies; their tests are at .05."""
MODEL_ALPHA = 0.05
"""Confidence level of model tests without a setting."""


def interval_level(level: float | None) -> float:
    """Return the confidence level of intervals; None means no setting."""
    return RATING_LEVEL if level is None else level


def order_alpha(level: float | None) -> float:
    """Return the accepted probability of a wrong order among all bots."""
    return ORDER_ALPHA if level is None else round(1 - level, 10)


def model_alpha(level: float | None) -> float:
    """Return the level of the tests of rating models."""
    return MODEL_ALPHA if level is None else round(1 - level, 10)


def check_level(level: float | None) -> float | None:
    """Return a confidence level between .5 and 1.

    Raises:
        ValueError: if the level is not between .5 and 1.
    """
    if level is not None and not 0.5 <= level <= 0.999:
        raise ValueError(f"level is {level:g}; it must be from 0.5 to 0.999, such as 0.95")
    return level
