"""What a reader must know before believing a fit, in plain words."""

from __future__ import annotations

import numpy as np

from evaluation.hybrid.embeddings import block_of
from evaluation.hybrid.features import Design
from evaluation.hybrid.leastsquares import Line
from evaluation.hybrid.levels import features_by_bot
from evaluation.hybrid.presets import METRICS
from evaluation.hybrid.results import KeptFit
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.wording import counted

FAR = 3
"""Standard deviations from which on a bot's mean feature is called far from the fit's conversations."""


def cautions_of(fit: KeptFit, design: Design | None, n_rated: int) -> tuple[str, ...]:
    """What the numbers of this fit call for; `n_rated`: bots with ratings."""
    found = []
    if n_rated < FEW_BOTS:
        found.append(
            f"Only {counted(n_rated, 'bot')} rated: too few for a correlation over bots to mean much."
        )
    if fit.intercept == "fold":
        found.append(
            "Each fold has its own intercept, which carries the left-out bot's mean with a minus sign: "
            "features that say nothing correlate at nearly −1. Compare with the common intercept."
        )
    alone = [name for name in fit.shown if name in fit.features]
    dropped = [
        name for name in alone if any(name in unused(fit, fold) for fold in fit.folds.values())
    ]
    if dropped:
        found.append(f"Constant in at least one fold and dropped there: {', '.join(dropped)}.")
    worst = max((line.condition or 0.0 for line in fit.folds.values()), default=0.0)
    if worst > 30:
        found.append(
            f"Features are nearly collinear (condition number up to {worst:.0f}): single weights mean "
            "little."
        )
    if design is not None and design.n_partly_rated:
        found.append(
            "Counted as unrated, for lack of a rating of one of the target dimensions: "
            f"{counted(design.n_partly_rated, 'conversation')}."
        )
    if design is not None and design.n_dropped:
        found.append(
            f"Left out of the fit for an undefined feature: {counted(design.n_dropped, 'conversation')}."
        )
    return tuple(found)


def extrapolations_of(fit: KeptFit, *designs: Design | None) -> list[str]:
    """Bots whose conversations lie far from all the fit has seen: a line says little out there.

    A bot that repeats its partner, for one, has similarities no real conversation has, and a high score.
    """
    far: dict[str, dict[str, None]] = {}
    for design in designs:
        if design is None:
            continue
        for bot, mean in features_by_bot(design).items():
            distance = np.abs(mean - fit.centre) > FAR * np.where(fit.scale > 0, fit.scale, np.inf)
            names = [
                name
                for name, is_far in zip(fit.features, distance, strict=True)
                if is_far and block_of(name) is None
            ]
            if names:
                far.setdefault(bot, {}).update(dict.fromkeys(names))
    return [
        f"The prediction of {bot} is an extrapolation: its mean {', '.join(names)} is more than {FAR} standard "
        "deviations from the conversations of the fit."
        for bot, names in sorted(far.items())
    ]


def unused(fit: KeptFit, line: Line) -> tuple[str, ...]:
    """Features by themselves that this fold dropped as constant."""
    return tuple(
        name
        for name, used in zip(fit.features, line.used, strict=True)
        if not used and block_of(name) is None and (METRICS in line.blocks or not line.blocks)
    )
