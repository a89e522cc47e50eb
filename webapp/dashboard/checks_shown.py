"""What the page Quality says of checks: how many were passed, and how far people agree with themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from evaluation.analysis.self_agreement import OwnAgreement
from webapp.dashboard.wording.reasons import said
from webapp.ratings.checks import Kind, checks_answered
from webapp.ratings.repeats import OwnOfPerson, own_of_people, own_of_questions, repeats_answered
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Outcome, Study, Task

_MOST_PEOPLE = 50
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
        people: those who answered twice, the lowest share first; at most 50.
        n_people: all of them.
    """

    kinds: list[KindShown]
    own: list[OwnShown]
    people: list[OwnOfPerson]
    n_people: int


def checks_shown(study: Study) -> ChecksShown:
    """Return what people's checks came to; scripted people and those who withdrew are left out."""
    tasks = Task.objects.filter(participant__study=study, participant__is_synthetic=False)
    met: Counter[Kind] = Counter()
    passed: Counter[Kind] = Counter()
    for one in checks_answered(tasks.exclude(outcome=Outcome.WITHDRAWN)):
        if one.attempt == 1:
            met[one.kind] += 1
            passed[one.kind] += one.passed
    again = list(repeats_answered(study))
    own = own_of_questions(study, again)
    people = own_of_people(again)
    titles = {dimension.key: dimension.title for dimension in study_dimensions(study)}
    return ChecksShown(
        kinds=[KindShown(title, met[k], passed[k]) for k, title in _KINDS.items() if met[k]],
        own=[OwnShown(titles[key], found, said(found.same.reason)) for key, found in own.items()],
        people=people[:_MOST_PEOPLE],
        n_people=len(people),
    )
