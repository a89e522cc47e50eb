"""Instructions: the points are the second half of the page that asks for consent."""

from __future__ import annotations

from webapp.participant.access import Visit
from webapp.participant.steps.base import Standing, register_step


@register_step
class Instructions:
    """Instructions before the first task."""

    name = "instructions"

    def is_applicable(self, standing: Standing) -> bool:
        return True

    def is_completed(self, standing: Standing) -> bool:
        return standing.task is not None

    def address(self, standing: Standing, visit: Visit) -> str:
        return visit.link("entry", standing.study.key)
