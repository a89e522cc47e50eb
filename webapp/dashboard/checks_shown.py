"""Checks on the page Quality: numbers passed, and participants' agreement with themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evaluation.analysis.self_agreement import OwnAgreement
from evaluation.storing import result_load
from webapp.dashboard.wording.reasons import said
from webapp.quality.models import FlagState
from webapp.ratings.checks import Kind
from webapp.ratings.checks_told import BESIDE
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Study

_KINDS: dict[Kind, Any] = {
    "quiz": "Questions about the instructions, first try",
    "before": "Attention checks before the task",
    "item": "Attention checks among the items",
    "gold": "Items with a known right answer",
    "after": "Attention checks after the task",
    "chat": "Attention checks in the chat",
}


@dataclass(frozen=True, slots=True)
class KindShown:
    """One kind of checks: how many were answered, and how many of them passed."""

    title: Any
    n: int
    n_passed: int


@dataclass(frozen=True, slots=True)
class OwnShown:
    """Self-agreement of participants on one question; `why` gives the reason for a missing value."""

    title: str
    found: OwnAgreement
    why: str


@dataclass(frozen=True, slots=True)
class ChecksShown:
    """Content of the page's part on checks.

    Attributes:
        kinds: kinds of check that at least one participant met.
        own: self-agreement of participants on each question; empty without repeated items.
        people: some of the participants who answered twice, the lowest share first.
        n_people: number of all participants who answered twice.
    """

    kinds: list[KindShown]
    own: list[OwnShown]
    people: list[dict[str, Any]]
    n_people: int


def checks_shown(study: Study, state: FlagState | None) -> ChecksShown | None:
    """Return the results of checks when flags were last computed, or None before that."""
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
