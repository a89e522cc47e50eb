"""Attention checks: replies that state the answer to give, hidden among the items that participants judge.

A check is a value of the study. Drawn into a task it is stored as an item that no result counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from django.utils.translation import gettext as _
from pydantic import Field

from chatbots.outside import Many, Values
from webapp.studies.questions import Key


class AttentionCheck(Values):
    """One check: its text, and the answers that pass."""

    context: Many[str] = Field(default=(), title="The talk before", description="Oldest first.")
    response: str = Field(
        min_length=1,
        max_length=2000,
        title="The reply",
        description="It says which answer to choose, in the middle of an ordinary reply.",
    )
    second_response: str = Field(
        default="",
        max_length=2000,
        title="The second reply",
        description="Where two replies are compared; else it stays empty.",
    )
    reference: str = Field(
        default="",
        max_length=2000,
        title="The known reply",
        description="Where replies are rated beside a known one; else it stays empty.",
    )
    reference_score: float | None = Field(
        default=None, title="Its score", description="As the study's scale has it."
    )
    expected: dict[Key, Annotated[Many[int], Field(min_length=1)]] = Field(
        min_length=1,
        title="Answers that pass",
        description="By the key of a question; of two replies 1 is the first, 0 the same and -1 the second. Other "
        "questions may be answered in any way.",
    )

    @property
    def key(self) -> str:
        """Name of the item that represents it: equal checks have the same name in every version."""
        told = self.model_dump(mode="json")
        for name in ("second_response", "reference", "reference_score"):
            if not told[name]:
                del told[name]  # as checks were known before there was one
        said = json.dumps(told, sort_keys=True)
        return f"check/{hashlib.sha256(said.encode()).hexdigest()[:16]}"


class Attention(Values):
    """Settings for checking that participants read what they judge."""

    attention_checks: Annotated[Many[AttentionCheck], Field(max_length=50)] = Field(
        default=(),
        title="Attention checks",
        description="Whoever misses more than may be missed is told so at the end, and their work is set apart.",
    )
    n_checks: int = Field(
        default=1,
        ge=0,
        le=5,
        title="Checks a task",
        description="So many of them stand at drawn places among the items.",
    )
    n_gold: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold items a task",
        description="So many items whose right answer is known stand among the others. No result counts them.",
    )
    gold_misses_allowed: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold items that may be missed",
        description="In one task. Whoever misses more is told so at the end, and their work is set apart.",
    )
    n_repeated: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Items shown twice",
        description="So many items of a task come again later in it: how far people agree with themselves. The second "
        "answer counts in no result.",
    )

    def errors(self, scales: Mapping[str, tuple[float, float]]) -> list[str]:
        """Return an error message for each check that does not fit the study's questions.

        Args:
            scales: lowest and highest answer by the question's key.
        """
        found = [
            (number, answers_beyond(check.expected, scales))
            for number, check in enumerate(self.attention_checks, start=1)
        ]
        words = _("Check %(number)d: %(wrong)s")
        return [words % {"number": number, "wrong": wrong} for number, wrong in found if wrong]


def answers_beyond(
    expected: Mapping[str, Sequence[float]], scales: Mapping[str, tuple[float, float]]
) -> str:
    """Return an error message if expected answers do not fit the study's questions; else an empty string.

    Args:
        expected: the answers by the question's key.
        scales: lowest and highest answer by the question's key.
    """
    for key, passing in expected.items():
        if key not in scales:
            words = _("an answer to “%(key)s” is expected, which is none of %(known)s.")
            return words % {"key": key, "known": ", ".join(scales)}
        low, high = scales[key]
        beyond = [one for one in passing if not low <= one <= high]
        if beyond:
            words = _("%(answer)g is expected for “%(key)s”, whose scale is %(low)g to %(high)g.")
            return words % {"answer": beyond[0], "key": key, "low": low, "high": high}
    return ""
