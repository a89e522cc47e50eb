"""What the page Quality says of checks: how many were passed, and how far people agree with themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from evaluation.analysis.self_agreement import OwnAgreement
from evaluation.storing import result_load
from webapp.dashboard.wording.reasons import said
from webapp.quality.models import FlagState
from webapp.ratings.checks import Kind
from webapp.ratings.checks_told import BESIDE
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Study

_KINDS: dict[Kind, Any] = {
    "quiz": _("Questions about the instructions, first try"),
    "before": _("Attention checks before the task"),
    "item": _("Attention checks among the items"),
    "gold": _("Items with a known right answer"),
    "after": _("Attention checks after the task"),
    "chat": _("Attention checks in the chat"),
}


@dataclass(frozen=True, slots=True)
class KindShown:
    """One kind of checks: how many were answered, and how many of them passed."""

    title: Any
    n: int
    n_passed: int


@dataclass(frozen=True, slots=True)
class OwnShown:
    """How far people agree with themselves on one question; `why` says what cannot be told."""

    title: str
    found: OwnAgreement
    why: str


@dataclass(frozen=True, slots=True)
class ChecksShown:
    """What stands on the page.

    Attributes:
        kinds: those that somebody met.
        own: for each question its title and how far people agree with themselves; empty without repeated items.
        people: those who answered twice, the lowest share first; some of them.
        n_people: all of them.
    """

    kinds: list[KindShown]
    own: list[OwnShown]
    people: list[dict[str, Any]]
    n_people: int


def checks_shown(study: Study, state: FlagState | None) -> ChecksShown | None:
    """Return what people's checks came to when flags were made last; None where nobody has looked yet."""
    told = state.found.get(BESIDE) if state is not None else None
    if told is None:
        return None
    titles = {dimension.key: dimension.title for dimension in study_dimensions(study)}
    kinds = told["kinds"]
    return ChecksShown(
        kinds=[KindShown(title, **kinds[kind]) for kind, title in _KINDS.items() if kind in kinds],
        own=[
            OwnShown(titles[key], found, said(found.same.reason))
            for key, one in told["own"].items()
            if key in titles
            for found in [result_load(one, OwnAgreement)]
        ],
        people=told["people"],
        n_people=told["n_people"],
    )
