"""Sittings: parts of a study with gaps between them.

A study's file declares them:

    sittings:
      parts:
        - {key: first}
        - {key: second, after_days: {least: 2, most: 4}, pay: 2.5}
      same_bot: true
      bots_remember: true
      pay_for_all: 3

The same participant returns for each part. A part is one task, which stores the part's key. A gap begins when the
previous part is completed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from chatbots.validation import InputModel, Many, Number
from webapp.studies.conditions import ConditionKey, ConditionLabel

MOST_DAYS = 400
SITTING = "sitting"
"""Column with a part's key in exported tables."""


class Gap(InputModel):
    """Gap between two parts, in days."""

    least: Number = Field(
        default=0,
        ge=0,
        le=MOST_DAYS,
        title="Opens after (days)",
        description="Counted from the end of the previous part; 0.5 is twelve hours.",
    )
    most: Number | None = Field(
        default=None,
        ge=0,
        le=MOST_DAYS,
        title="Closes after (days)",
        description="Counted from the end of the previous part. Leave empty if it never closes.",
    )


class Sitting(InputModel):
    """One part of a study."""

    key: ConditionKey
    label: ConditionLabel = Field(
        default="", title="Name", description="Shown to researchers. Leave empty to use the key."
    )
    after_days: Gap | None = Field(
        default=None, title="Gap", description="Time since the previous part. The first part has none."
    )
    pay: Number | None = Field(
        default=None, ge=0, title="Pay for this part", description="Leave empty to use the study's “Pay per task”."
    )

    @property
    def title(self) -> str:
        """Its name for researchers."""
        return self.label or self.key

    @property
    def gap(self) -> Gap:
        """Gap before the part; without one it opens immediately."""
        return self.after_days or Gap()


class Sittings(InputModel):
    """Parts of a study, and what is kept from one to the next."""

    parts: Annotated[Many[Sitting], Field(max_length=20)] = Field(
        default=(),
        title="Parts",
        description="Each participant does them one after another. Leave empty for a study without parts.",
    )
    same_bot: bool = Field(
        default=False,
        title="Same chatbot in all parts",
        description="Otherwise, participants meet every chatbot once before one is repeated.",
    )
    bots_remember: bool = Field(
        default=False,
        title="Chatbots remember earlier parts",
        description="A chatbot gets its earlier conversations with the participant before the new one, as far as its "
        "context window allows.",
    )
    pay_for_all: Number | None = Field(
        default=None,
        ge=0,
        le=1000,
        title="Bonus for all parts",
        description="Additional pay for participants who complete every part.",
    )

    def to_plain(self) -> dict[str, Any]:
        """Return the section as in a study's file, without defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)


@dataclass(frozen=True, slots=True)
class DueSitting:
    """The next part of a participant.

    Attributes:
        number, n_parts: its number from 1, and the number of parts.
        opens_at: None if it was always open: the first part, or a part of a scripted participant.
        closes_at: None if it never closes.
    """

    sitting: Sitting
    number: int
    n_parts: int
    opens_at: datetime | None = None
    closes_at: datetime | None = None

    def is_early(self, now: datetime) -> bool:
        """Return True if the part opens later."""
        return self.opens_at is not None and now < self.opens_at

    def is_late(self, now: datetime) -> bool:
        """Return True if the part has closed."""
        return self.closes_at is not None and now > self.closes_at


def sitting_due(
    sittings: Sittings, done: Mapping[str, datetime], started: Collection[str] = (), *, has_gaps: bool = True
) -> DueSitting | None:
    """Return a participant's next part.

    None if all parts are done or the study has none.

    Args:
        done: when each part was completed, by its key.
        started: keys of parts that the participant began; these no longer close.
        has_gaps: False for scripted participants, who return immediately.
    """
    parts = sittings.parts
    next_part = next(((n, part) for n, part in enumerate(parts, start=1) if part.key not in done), None)
    if next_part is None:
        return None
    number, part = next_part
    if not (done and has_gaps):
        return DueSitting(part, number, len(parts))
    before, gap = max(done.values()), part.gap
    closes_at = before + timedelta(days=gap.most) if gap.most is not None and part.key not in started else None
    return DueSitting(part, number, len(parts), before + timedelta(days=gap.least), closes_at)
