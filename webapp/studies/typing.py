"""Settings for counting how messages are typed, with the consent text about it."""

from __future__ import annotations

from pydantic import Field

from chatbots.outside import Values
from webapp.studies.comfort import Text


class Typing(Values):
    """Settings for counting how messages are typed."""

    counts_typing: bool = Field(
        default=False,
        title="Count how messages are typed",
        description="Keys, pastes, deletions and time of each message, never which keys. By these figures messages are "
        "flagged that were pasted, or that a language model may have written.",
    )
    typing_notice: Text = Field(
        default=(
            "We count how often you press a key, paste and delete in each message, and how long you write. We never "
            "store which keys."
        ),
        max_length=2000,
        title="What people agree to then",
        description="Stands among the points before agreeing where typing is counted; without it nothing is counted.",
    )

    @property
    def is_agreed_to(self) -> bool:
        """True if typing is counted, which requires a notice in the consent."""
        return self.counts_typing and bool(self.typing_notice.strip())
