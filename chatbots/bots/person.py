"""Human partners instead of a bot: another participant or staff (Wizard of Oz).

This module writes no replies. The chat server takes them from the person (`webapp/conversations/services/partners.py`);
any other request for a reply raises an error. Source of the console method: Kelley (1984), "An Iterative
Design Methodology for User-Friendly Natural Language Office Information Applications", ACM TOIS 2(1).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation
from chatbots.registry import bots
from chatbots.validation import InputModel, Many
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

PERSON = "person"
CannedReply = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class PersonOptions(InputModel):
    """Options of a human partner in `bots.yaml`."""

    by: Literal["participant", "staff"] = Field(
        "participant", description="human partner: another participant, or staff at the study's console"
    )
    canned: Annotated[Many[CannedReply], Field(max_length=50)] = Field(
        (), description="replies that staff send with one click"
    )
    suggest_by: str = Field(
        "", max_length=64, description="id of the bot that drafts replies for staff; empty for none"
    )


@register_bot_kind(PERSON)
class PersonBot(ConfiguredBot):
    """Another participant, or a member of staff, who writes the replies."""

    options_type = PersonOptions
    options: PersonOptions

    kind = PERSON
    deterministic = False
    capacity = 1024

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return (
            "A member of staff at the console." if self.options.by == "staff" else "Another participant of the study."
        )

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.options)

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Raise an error: only a person can reply."""
        raise BotError(f"{self.name} is a person, who replies only to study participants; choose another bot")


def people_among(names: Collection[str]) -> list[str]:
    """Return the names of human partners; unregistered names are omitted."""
    return [name for name in names if name in bots and bots.get(name).kind == PERSON]


def staff_among(names: Collection[str]) -> list[str]:
    """Return the names of human partners who are members of staff."""
    return [name for name in people_among(names) if bots.get(name).identity.params.get("by") == "staff"]
