"""The step of what people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatbots.storable import is_blank
from webapp.core.speaking import plural
from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.fields import (
    SettingsForm,
    section_fields,
    section_title,
    title_of_value,
)

NEEDED = ("title", "consent_points", "instructions_text", "thanks_text")
"""A page without one of these would have a hole."""
_LATER = {
    "instructions_text": "Instructions",
    "thanks_text": "Words of thanks, and whom to write to",
    "rights": "Withdrawing after the end, and how long things are kept",
}


def texts_missing(plan: Plan) -> list[str]:
    """Return the titles of required texts that are empty."""
    texts = plan.study.values.texts
    return [title_of_value(name) for name in NEEDED if is_blank(getattr(texts, name))]


class TextsStep(BuildStep):
    name = "texts"
    title = "Texts"
    heading = "What do people read?"

    def state(self, plan: Plan) -> StepState:
        n = len(texts_missing(plan))
        if not n:
            return StepState("complete", "good")
        return StepState(plural(n, "%(n)d is empty", "%(n)d are empty") % {"n": n}, "warn")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        fields = section_fields("texts")
        instructions = {"instructions_text": fields.pop("instructions_text")}
        thanks = {name: fields.pop(name) for name in ("thanks_text", "organisation", "contact")}
        groups = [
            ("", fields),
            (section_title("comfort"), section_fields("comfort")),
            (str(_LATER["instructions_text"]), instructions),
            (str(_LATER["thanks_text"]), thanks),
            (str(_LATER["rights"]), section_fields("rights")),
        ]
        return SettingsForm(data, groups=groups, initial=plan.study.values.flat())
