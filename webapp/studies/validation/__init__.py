"""Validation of a study: error messages for the researcher, by field."""

from __future__ import annotations

from webapp.studies.validation.checks import RESERVED_KEYS, outcomes_possible
from webapp.studies.validation.study import study_errors

__all__ = ["RESERVED_KEYS", "outcomes_possible", "study_errors"]
