"""Settings of a study that rates replies next to a reference whose score is known."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Many, Values
from webapp.studies.questions import Key


class Referencing(Values):
    """Settings for asking questions of certain items only, and for the weight of each question."""

    asked_only_of: dict[Key, Many[str]] = Field(
        default_factory=dict,
        title="Questions for one kind of talk alone",
        description="By the key of a question, the kinds of talk (`task` of an item) that it is asked of.",
    )
    weights_study: str = Field(
        default="",
        max_length=60,
        title="Study of what is important",
        description="Key of a study in which people chose what is important: its shares give the weights of the "
        "overall score. Empty: all questions count alike.",
    )

    def not_asked(self, task: str) -> frozenset[str]:
        """Return the keys of the questions that are not asked of an item of this kind of talk."""
        return frozenset(key for key, tasks in self.asked_only_of.items() if task not in tasks)
