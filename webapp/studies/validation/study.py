"""Validation of a whole study: all validators, and the errors by field."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, cast

from webapp.studies.models import Rubric, Study
from webapp.studies.settings import StudyValues
from webapp.studies.validation.checks import (
    validate_bot_choice,
    validate_bot_quotas,
    validate_bots_in_a_row,
    validate_cap,
    validate_closing,
    validate_earlier_studies,
    validate_fixed_values,
    validate_helper,
    validate_key,
    validate_margins,
    validate_names,
    validate_own_marking,
    validate_pay,
    validate_questions,
    validate_reference,
    validate_scales,
    validate_selection,
    validate_smallest_difference,
    validate_spread_source,
)
from webapp.studies.validation.opening import validate_opening
from webapp.studies.validation.sections import (
    SECTION_VALIDATORS,
    Checked,
    Errors,
    section_errors,
    validate_attention,
    validate_cells,
    validate_chat_checks,
    validate_check_items,
    validate_conditions,
    validate_filters,
    validate_goals,
    validate_gold_items,
    validate_images,
    validate_people,
    validate_points,
    validate_safety,
    validate_sittings,
)


def study_errors(
    *, before: Study | None, study: Study, values: StudyValues, rubric: Rubric | None, unread: Collection[str] = ()
) -> Errors:
    """Return a study's errors by field, one sentence each.

    Args:
        before: the study as it is stored; None for a new one.
        rubric: the questions after a task if the values have none; None: no questions then.
        unread: parts of the values that could not be parsed; checks that need one of them are skipped.
    """
    if unread:
        values = cast(StudyValues, _ReadPart(values, unread))
    errors: Errors = {}
    for section in SECTION_VALIDATORS:
        with suppress(_Unread):
            errors |= section_errors(section, getattr(values, section))
    on = Checked(before, study, values, rubric)
    for validate in VALIDATORS:
        with suppress(_Unread):
            errors |= validate(on)
    return errors


class _Unread(Exception):
    """Raised when a check needs a part that could not be parsed."""


class _ReadPart:
    """Values of a study, some parts of which could not be parsed."""

    def __init__(self, values: StudyValues, unread: Collection[str]) -> None:
        self._values, self._unread = values, unread

    def __getattr__(self, name: str) -> Any:
        # Methods may read any part.
        if name in self._unread or name not in StudyValues.model_fields:
            raise _Unread(name)
        return getattr(self._values, name)


VALIDATORS: tuple[Callable[[Checked], Errors], ...] = (
    validate_cap,
    validate_closing,
    validate_spread_source,
    validate_smallest_difference,
    validate_margins,
    validate_bot_quotas,
    validate_earlier_studies,
    validate_bots_in_a_row,
    validate_bot_choice,
    validate_filters,
    validate_safety,
    validate_pay,
    validate_opening,
    validate_questions,
    validate_points,
    validate_chat_checks,
    validate_images,
    validate_conditions,
    validate_goals,
    validate_check_items,
    validate_attention,
    validate_gold_items,
    validate_scales,
    validate_reference,
    validate_helper,
    validate_selection,
    validate_own_marking,
    validate_cells,
    validate_sittings,
    validate_people,
    validate_names,
    validate_key,
    validate_fixed_values,
)
