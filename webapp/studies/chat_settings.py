"""Settings of chats: content notice, reports, typing, pacing, and reply filters.

One pace holds for all chatbots of a study: when a reply begins and how fast it goes on are drawn alike for each of
them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from chatbots.identity import derive_seed
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Number


def text_lines(text: str) -> str:
    """End lines by a line feed alone: a browser's form ends them in another way, and that makes no other text."""
    return text.replace("\r\n", "\n")


LongText = Annotated[str, AfterValidator(text_lines)]
"""A text of several lines."""


class Comfort(InputModel):
    """Settings of the content notice and of reporting replies."""

    content_notice: LongText = Field(
        default="",
        max_length=2000,
        title="Content notice",
        description="Such as “Chatbots may say hurtful things.” It stands in a frame of its own before people agree, "
        "and is part of what they agree to. Empty: none.",
    )
    content_notice_ticked: bool = Field(
        default=True,
        title="The notice has a box of its own",
        description="Participants must tick that they have read the content notice before they can start.",
    )
    lets_report: bool = Field(
        default=True,
        title="People can report a reply",
        description="Beside every reply of a chatbot stands “Report”. You see the reports on the page Reports.",
    )

    @property
    def notice_must_be_ticked(self) -> bool:
        """True if there is a notice that participants must tick before they begin."""
        return bool(self.content_notice.strip()) and self.content_notice_ticked


class Typing(InputModel):
    """Settings for counting how messages are typed."""

    counts_typing: bool = Field(
        default=False,
        title="Count how messages are typed",
        description="Keys, pastes, deletions and time of each message, never which keys. By these figures messages are "
        "flagged that were pasted, or that a language model may have written.",
    )
    typing_notice: LongText = Field(
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


LONGEST_PACED_REPLY_S = 45.0
"""No word is held back until later than this after its message: whatever is left of a reply is shown then."""


class Pacing(InputModel):
    """Settings for the pace at which replies appear."""

    paces_alike: bool = Field(
        default=False,
        title="Pace all chatbots alike",
        description="Replies begin after the time below and go on at the speed below, whichever chatbot writes. One "
        "that is slower by itself stays slower; its own times are kept and exported.",
    )
    first_words_s: Number = Field(
        default=2.0,
        ge=0.1,
        le=20,
        title="Seconds until the first words",
        description="The median: half of the replies begin sooner.",
    )
    first_words_spread: Number = Field(
        default=1.4,
        ge=1,
        le=3,
        title="Spread of that time",
        description="A factor: two replies in three begin between the median divided by it and the median times it. "
        "1: always the same time.",
    )
    words_per_s: Number = Field(
        default=6.0, ge=0.5, le=100, title="Words a second", description="Once a reply has begun."
    )

    def draw(self, seed: int, turn: int) -> ReplyPace:
        """Return the pace of one reply: the same for the same seed and turn, whichever bot gives it.

        The time to the first words is log-normal: its logarithm has the median's as its mean, and the spread's as its
        standard deviation.
        """
        share = random.Random(derive_seed(seed, "pace", turn)).uniform(0.001, 0.999)
        first_s = math.exp(
            math.log(self.first_words_s) + math.log(self.first_words_spread) * NormalDist().inv_cdf(share)
        )
        return ReplyPace(first_s, self.words_per_s)


@dataclass(frozen=True, slots=True)
class ReplyPace:
    """When the words of one reply are shown, in seconds after the message that it answers.

    Attributes:
        first_s: when its first word is.
        words_per_s: how many follow in a second.
    """

    first_s: float
    words_per_s: float


FilterAction = Literal["mark", "withhold"]


def _by_filter(given: object) -> object:
    """Read lines “filter: mark” of a form; return a value that is no text unchanged."""
    if not isinstance(given, str):
        return given
    found: dict[str, str] = {}
    for line in given.splitlines():
        if line.strip():
            name, _colon, action = line.partition(":")
            found[name.strip()] = action.strip()
    return found


FilterActions = Annotated[
    dict[str, FilterAction], BeforeValidator(_by_filter), TypeDescription("mark or withhold for each filter's name")
]


class Filtering(InputModel):
    """Settings of the filters that check replies before participants read them."""

    reply_filters: FilterActions = Field(
        default={"names_model": "mark"},
        title="Filters of replies",
        description="Mark: people read the reply, and you see what was found. Withhold: people read that a reply was "
        "withheld, and you see the reply. Replies then appear only once they are complete and checked.",
    )
    filter_phrases: Many[str] = Field(
        default=(),
        max_length=1000,
        title="Phrases to look for",
        description="For the filter “Your phrases”. One a line; capitals make no difference, and a phrase is found as "
        "whole words.",
    )
    filter_model: str = Field(
        default="",
        max_length=300,
        title="Classifier",
        description="For the filter “Classifier”: a folder on the server with a text classifier of transformers, or "
        "the hub id of one that was downloaded before.",
    )
    filter_label: str = Field(
        default="toxic",
        max_length=100,
        title="Its label",
        description="Which of the classifier's labels is looked for.",
    )
    filter_from: Number = Field(
        default=0.5,
        ge=0,
        le=1,
        title="From which probability",
        description="A reply is found where the classifier gives the label at least this probability.",
    )
