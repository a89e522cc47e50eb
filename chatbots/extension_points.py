"""Extension points of `chatbots`: registries that new files extend by a decorator.

`docs/extend.md` shows them with examples. A corpus format needs no decorator: it is a module of
`chatbots/corpora/formats` with a function `read`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chatbots.bots.base import Bot
from chatbots.participants.base import SimulatedParticipant, participants, register_participant
from chatbots.registry import Registry, bots, register_bot
from chatbots.yaml_registry import ConfiguredBot, bot_kinds, register_bot_kind


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """Registry that a new file extends without changes to other files."""

    name: str
    """Name with article, as in `docs/extend.md`."""
    folder: str
    """Folder for its files, relative to the repository root."""
    decorator: Callable[..., Any]
    """Decorator that registers a class."""
    contract: type
    """Protocol or base class of such a class."""
    registry: Registry[Any]


EXTENSION_POINTS: tuple[ExtensionPoint, ...] = (
    ExtensionPoint("a bot", "chatbots/bots", register_bot, Bot, bots),
    ExtensionPoint("a kind of bot for `bots.yaml`", "chatbots/bots", register_bot_kind, ConfiguredBot, bot_kinds),
    ExtensionPoint(
        "a simulated participant", "chatbots/participants", register_participant, SimulatedParticipant, participants
    ),
)
