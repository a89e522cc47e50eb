"""Validation of a study's reply filters: error messages by field."""

from __future__ import annotations

from django.utils.translation import gettext as _

from chatbots.names import did_you_mean
from webapp.studies.models import Study
from webapp.studies.reply_filters.base import reply_filters
from webapp.studies.values import StudyValues

_FIELDS = {"phrases": "filter_phrases", "classifier": "filter_model"}
"""Field at which a filter's missing setting is reported; other filters are named at the list of filters."""


def filters_wrong(before: Study | None, study: Study, values: StudyValues) -> dict[str, str]:
    """Check that every filter is one there is, and when the study opens that it can be used."""
    known = reply_filters.names()
    errors: dict[str, str] = {}
    for name in values.filtering.reply_filters:
        if name not in known:
            said = _("There is no filter “%(name)s”. It must be one of %(known)s.")
            near = did_you_mean(name, known)
            told = said % {"name": name, "known": ", ".join(known)}
            errors["reply_filters"] = f"{told} {near}".strip()
    was_open = before is not None and before.state == Study.State.COLLECTING
    if errors or study.state != Study.State.COLLECTING:
        return errors
    if was_open and before is not None and before.values.filtering == values.filtering:
        return {}
    for name in values.filtering.reply_filters:
        one = reply_filters.get(name)
        if (reason := one.unavailable_reason(values)) is not None:
            said = _("The filter “%(title)s” cannot be used: %(reason)s.")
            field = _FIELDS.get(name, "reply_filters")
            errors[field] = said % {"title": one.title, "reason": reason}
    return errors
