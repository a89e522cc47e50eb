"""Folded sections of the pages of results, with their choices and forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.forms import Form

from evaluation.data.result_tables import NamedTable
from webapp.insights.narrative.phrases import Section


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice within a section.

    It has the parameter of the address, its label, and options with the chosen one.
    """

    name: str
    label: str
    options: Sequence[tuple[str, str, bool]]


@dataclass(slots=True)
class FoldedSection:
    """A folded section of a page of results.

    Attributes:
        question: its heading, if that is not the title.
        conclusion: one sentence, also shown while it is folded.
        content: None if collapsed or without a result.
        waiting: as in `ShownResult`.
        plan_form, plan: form for planning the next study, and the plan.
        related_studies: `StudiesBeside`, studies with the same bots.
        formula_form: form for a model by a formula, also shown without a result.
    """

    id: str
    title: str
    conclusion: str = ""
    is_open: bool = False
    content: Section | None = None
    waiting: dict[str, Any] | None = None
    choice: Choice | None = None
    plan_form: Form | None = None
    plan: NamedTable | None = None
    related_studies: Any = None
    formula_form: Form | None = None
    question: str = ""
