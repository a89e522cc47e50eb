"""Attention checks: replies that say which answer to give, put among what people judge, looking like all the others.

A check is a value of the study. Drawn into a task it is stored as an item that nobody's results count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated

from django.utils.translation import gettext as _
from pydantic import Field

from chatbots.outside import Many, Values
from webapp.studies.questions import Key


class AttentionCheck(Values):
    """One check: what is shown, and the answers that pass."""

    context: Many[str] = Field(default=(), title="The talk before", description="Oldest first.")
    response: str = Field(
        min_length=1,
        max_length=2000,
        title="The reply",
        description="It says which answer to choose, in the middle of an ordinary reply.",
    )
    expected: dict[Key, Annotated[Many[int], Field(min_length=1)]] = Field(
        min_length=1,
        title="Answers that pass",
        description="By the key of a question. Other questions may be answered in any way.",
    )

    @property
    def key(self) -> str:
        """The name of the item that stands for it: the same check has the same one in every version."""
        said = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return f"check/{hashlib.sha256(said.encode()).hexdigest()[:16]}"


class Attention(Values):
    """How it is checked that people read what they judge."""

    attention_checks: Annotated[Many[AttentionCheck], Field(max_length=50)] = Field(
        default=(),
        title="Attention checks",
        description="Whoever misses one is told so at the end, and their work is set apart.",
    )
    n_checks: int = Field(
        default=1,
        ge=0,
        le=5,
        title="Checks a task",
        description="So many of them stand at drawn places among the items.",
    )

    def errors(self, scales: Mapping[str, tuple[float, float]]) -> list[str]:
        """Return what cannot be of these checks in a study with such questions, in sentences.

        Args:
            scales: lowest and highest answer by the question's key.
        """
        told = []
        for number, check in enumerate(self.attention_checks, start=1):
            for key, passing in check.expected.items():
                if key not in scales:
                    words = _(
                        "Check %(number)d expects an answer to “%(key)s”, which is none of %(known)s."
                    )
                    told.append(words % {"number": number, "key": key, "known": ", ".join(scales)})
                    continue
                low, high = scales[key]
                beyond = [one for one in passing if not low <= one <= high]
                if beyond:
                    words = _(
                        "Check %(number)d expects %(answer)g for “%(key)s”, whose scale is %(low)g to %(high)g."
                    )
                    told.append(
                        words
                        % {
                            "number": number,
                            "answer": beyond[0],
                            "key": key,
                            "low": low,
                            "high": high,
                        }
                    )
        return told
