"""Practice before comparisons: pairs with known answers, all of which must be right.

Researchers write them as a list in YAML or JSON:

    - context: [My dog died last week.]
      first: Oh no. How long did you have him?
      second: Dogs are animals.
      answers: {quality: first, empathy: first}
      why: The first one asks about the person's loss.

For questions without an answer here, every answer is right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from chatbots.outside import Many, Values
from webapp.studies.questions import Key

MOST_ATTEMPTS = 2

Said = Annotated[str, Field(min_length=1, max_length=20_000)]
Which = Literal["first", "same", "second"]
NUMBERS: dict[Which, int] = {"first": 1, "same": 0, "second": -1}
"""How an answer is stored, as with any pair."""


class TrainingPair(Values):
    """A pair of replies whose right answers are known.

    Attributes:
        answers: the right answer to each question that counts, by its key.
        why: explanation after a wrong answer.
    """

    context: Many[Said] = ()
    first: Said
    second: Said
    answers: dict[Key, Which]
    why: Said

    @model_validator(mode="after")
    def _has_answers(self) -> TrainingPair:
        if not self.answers:
            raise ValueError("answers must name at least one question: nothing could be wrong")
        return self

    @property
    def digest(self) -> str:
        """Digest of the pair: equal in every version of the study that has it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def missed(self, answers: Mapping[str, float]) -> list[str]:
        """Return the keys of the questions whose answers are not right."""
        return [key for key, which in self.answers.items() if answers.get(key) != NUMBERS[which]]


class Training(Values):
    """Settings of the practice before the first task."""

    training_pairs: Annotated[Many[TrainingPair], Field(max_length=50)] = Field(
        default=(),
        title="Practice pairs",
        description="Pairs with known answers. Whoever misses one twice is screened out.",
    )
