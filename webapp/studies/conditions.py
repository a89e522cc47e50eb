"""Conditions of a study: texts that vary by the levels of factors.

A study's file declares them:

    conditions:
      factors:
        - key: scenario
          varies: within
          levels:
            - {key: trip, scenario: You plan a weekend in Rome., goal: Find a hotel.}
            - {key: refund, scenario: Your parcel is broken., bots: [shop]}   # only with this bot
        - key: told
          levels:
            - {key: program, disclosure: You talk with a computer program.}
            - {key: nothing, is_control: true}
      n_each_cell: 20

A condition is one level of each factor: `{"scenario": "trip", "told": "nothing"}`. A cell is a condition with a bot.
Factors are crossed with each other and with the bots; a level that names bots is nested in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field

from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many
from webapp.studies.protocol_settings import LongText

Condition = Mapping[str, str]

MOST_COMBINATIONS = 500
"""Maximum number of conditions per study: every draw checks each condition with each bot."""

TAKEN_FACTOR_KEYS = frozenset(
    {
        *("answered_by", "better", "bot", "bot_version", "bots", "code", "comment", "completion_code"),
        *("condition", "consent_version", "consented_at", "conversation", "cost", "created_at"),
        *("dialogue_id", "ended_at", "entered_at", "external_id", "first", "first_bot", "first_ms", "flags", "goes_on"),
        *("id", "image", "image_description", "is_synthetic", "item", "kept_both", "language", "late_ms", "latency_ms"),
        *(
            "messages",
            "n_chats",
            "n_exchanges",
            "n_human_turns_answered",
            "n_refused",
            "outcome",
            "participant",
            "platform",
            "rater",
        ),
        *("rating", "ratings", "recruitment", "refused", "rejected_params"),
        *("second", "second_bot", "seed", "shown_first_ms", "shown_ms", "sitting"),
        *("source", "speaker", "state", "study", "submissions", "submitted_at", "target", "task", "text"),
        *("tokens_estimated", "tokens_in", "tokens_out", "trace", "turn", "turns", "version", "vote", "withheld"),
    }
)
"""Column names of exported chats and ratings, which factors must not use."""


def _single_line(text: str) -> str:
    if text != " ".join(text.split()):
        raise ValueError("it must be one line without spaces at the ends")
    return text


ConditionKey = Annotated[
    str, Field(pattern="^[A-Za-z0-9_]{1,40}$"), TypeDescription("letters, digits and _, at most 40 of them")
]
ConditionLabel = Annotated[str, Field(max_length=100), AfterValidator(_single_line)]
ConditionText = Annotated[LongText, Field(max_length=4000)]


@dataclass(frozen=True, slots=True)
class ConditionTexts:
    """Texts of a condition, taken from its levels in order of the factors.

    Attributes:
        scenario, goal, success, topic, persona, instructions, disclosure: shown to the participant.
        bot_prompt: given to the bot, in place of `{condition}` in its prompt.
        opening: the bot's first message.
    """

    scenario: str = ""
    goal: str = ""
    success: str = ""
    topic: str = ""
    persona: str = ""
    bot_prompt: str = ""
    opening: str = ""
    disclosure: str = ""
    instructions: str = ""

    def for_participants(self) -> dict[str, str]:
        """Return the texts that participants read, by name.

        Empty texts are left out.
        """
        texts = {text_field.name: getattr(self, text_field.name) for text_field in fields(self)}
        return {name: text for name, text in texts.items() if text and name not in ("bot_prompt", "opening")}


TEXT_NAMES = tuple(each.name for each in fields(ConditionTexts))


class Level(InputModel):
    """One level of a factor, with its texts."""

    key: ConditionKey
    label: ConditionLabel = Field(
        default="", title="Name", description="Shown to researchers. Leave empty to use the key."
    )
    scenario: ConditionText = Field(
        default="", title="Scenario", description="The situation that the participant imagines being in."
    )
    goal: ConditionText = Field(default="", title="Goal", description="What the participant wants to achieve.")
    success: ConditionText = Field(default="", title="Success", description="When the goal counts as achieved.")
    topic: ConditionText = Field(default="", title="Topic", description="What the chat is about.")
    persona: ConditionText = Field(
        default="", title="Participant’s persona", description="The person that the participant plays."
    )
    bot_prompt: ConditionText = Field(
        default="",
        title="Chatbot’s prompt",
        description="Persona or instructions for every chatbot. Replaces {condition} in its prompt.",
    )
    opening: ConditionText = Field(
        default="", title="Opening line", description="The first message of the chat, sent by the chatbot."
    )
    disclosure: ConditionText = Field(
        default="", title="Disclosure", description="For example “You talk with a computer program.”"
    )
    instructions: ConditionText = Field(default="", title="Instructions", description="One point per line.")
    is_control: bool = Field(default=False, title="Control", description="No text: participants see nothing")
    bots: Many[str] = Field(
        default=(), title="Only with these chatbots", description="Select none to cross the level with all chatbots."
    )

    @property
    def has_text(self) -> bool:
        """True if any of its texts is not blank."""
        return any(getattr(self, name).strip() for name in TEXT_NAMES)

    @property
    def title(self) -> str:
        """Its name for researchers."""
        return self.label or self.key


class Factor(InputModel):
    """One factor of a study's conditions."""

    key: ConditionKey
    label: ConditionLabel = Field(
        default="", title="Name", description="Shown to researchers. Leave empty to use the key."
    )
    varies: Literal["between", "within"] = Field(
        default="between",
        title="Varies",
        description=(
            "Between participants: each stays in one level. Within participants: each goes through the levels, in a "
            "counterbalanced order."
        ),
    )
    levels: Annotated[Many[Level], Field(max_length=20)] = Field(title="Levels")

    @property
    def title(self) -> str:
        """Its name for researchers."""
        return self.label or self.key

    def level(self, key: str) -> Level | None:
        """Return the level with this key; None if there is none."""
        return next((level for level in self.levels if level.key == key), None)


class Conditions(InputModel):
    """Factors of a study, and the conversations wanted in each cell."""

    factors: Annotated[Many[Factor], Field(max_length=4)] = Field(
        default=(),
        title="Factors",
        description="Each conversation has one level of every factor, drawn together with its bot.",
    )
    n_each_cell: Annotated[int, Field(ge=0, le=2_000_000_000)] = Field(
        default=0,
        title="Conversations wanted per cell",
        description="A cell is a chatbot with one level of each factor. A full cell gets no new participants. 0 for "
        "no limit.",
    )

    @property
    def has_quota(self) -> bool:
        """True if full cells get no new participants."""
        return bool(self.factors and self.n_each_cell)

    @property
    def n_combinations(self) -> int:
        """Number of conditions, whether or not any bot has them."""
        return prod(len(factor.levels) for factor in self.factors)

    def combinations(self) -> Iterator[tuple[Level, ...]]:
        """Yield one level of each factor, in every combination."""
        return product(*(factor.levels for factor in self.factors))

    def build_condition(self, levels: Sequence[Level]) -> dict[str, str]:
        """Return the condition with these levels, one of each factor."""
        return {factor.key: level.key for factor, level in zip(self.factors, levels, strict=True)}

    def to_plain(self) -> dict[str, Any]:
        """Return the section as in a study's file.

        Texts that a level lacks are left out.
        """
        factors = [factor.model_dump(mode="json", exclude_defaults=True) for factor in self.factors]
        return {"factors": factors, "n_each_cell": self.n_each_cell}


class HasConditions(Protocol):
    """Values of a study, as `StudyValues`, which has this section."""

    @property
    def conditions(self) -> Conditions: ...


def bots_of(levels: Sequence[Level], bots: Collection[str]) -> list[str]:
    """Return the bots that all of these levels allow."""
    return [bot_id for bot_id in bots if all(not level.bots or bot_id in level.bots for level in levels)]


def condition_key(condition: Condition) -> str:
    """Return a short key of a condition for counting its cells.

    Empty without factors.
    """
    if not condition:
        return ""
    text = "\n".join(f"{factor}={level}" for factor, level in sorted(condition.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def condition_texts(values: HasConditions, condition: Condition) -> ConditionTexts:
    """Return the texts of a condition.

    Texts of several levels are joined, one below the other.
    """
    levels = [factor.level(condition.get(factor.key, "")) for factor in values.conditions.factors]
    known_levels = [level for level in levels if level is not None]
    return ConditionTexts(
        **{
            name: "\n".join(filter(None, (getattr(level, name).strip() for level in known_levels)))
            for name in TEXT_NAMES
        }
    )
