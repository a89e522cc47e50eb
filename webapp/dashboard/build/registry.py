"""The steps of the builder, in their order; they are links and may be taken in any."""

from __future__ import annotations

from webapp.dashboard.build.base import BuildStep
from webapp.dashboard.build.bots import BotsStep
from webapp.dashboard.build.check import CheckStep
from webapp.dashboard.build.checking import ChecksStep
from webapp.dashboard.build.pay import PayStep
from webapp.dashboard.build.questions import QuestionsStep
from webapp.dashboard.build.texts import TextsStep

STEPS: tuple[BuildStep, ...] = (
    BotsStep(),
    TextsStep(),
    QuestionsStep(),
    PayStep(),
    CheckStep(),
)


WITHIN: tuple[BuildStep, ...] = (ChecksStep(),)
"""Pages that belong to a step and are opened from it."""


def step_of(name: str) -> BuildStep | None:
    """Return the step of this name, or the page within one, if there is one."""
    return next((step for step in (*STEPS, *WITHIN) if step.name == name), None)


def step_after(step: BuildStep) -> BuildStep | None:
    """Return the step that follows; None after the last."""
    place = _place(step)
    return STEPS[place + 1] if place + 1 < len(STEPS) else None


def step_before(step: BuildStep) -> BuildStep | None:
    """Return the step before, or the one that a page belongs to; None for the first."""
    place = _place(step)
    if step.within:
        return STEPS[place]
    return STEPS[place - 1] if place else None


def _place(step: BuildStep) -> int:
    return next(at for at, one in enumerate(STEPS) if one.name == (step.within or step.name))
