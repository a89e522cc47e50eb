"""Bots that need parameters, declared in a YAML file (`bots.yaml`): one list entry, one bot.

    - id: qwen-small
      kind: transformers
      name: Qwen, small
      params: {model: path/or/hub-id, temperature: 0.7, window: 10}

A kind is a bot class on `ConfiguredBot` in a file of `chatbots/bots` or of a plug-in, which names the model of its
options and registers itself. No secret may stand in the file.

    class ShoutOptions(Values):
        volume: int = Field(1, ge=1, description="how many exclamation marks")

    @register_bot_kind("shout")
    class Shout(ConfiguredBot):
        options_type = ShoutOptions
        options: ShoutOptions
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import StringConstraints

from chatbots.base import Bot, BotDefaults
from chatbots.entries import Configured, Kind
from chatbots.outside import Values, values_read
from chatbots.outside_types import Wanted, words_of
from chatbots.registry import Registry, bots

C = TypeVar("C", bound="type[ConfiguredBot]")

bot_kinds: Registry[Kind[Bot]] = Registry("kind of bot", "chatbots.bots")
"""The kinds that `bots.yaml` may name. Their files import nothing heavy."""

BotId = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$", max_length=64),
    Wanted("up to 64 lower-case letters, digits and hyphens, such as qwen-small"),
]

configured_bots: Configured[Bot] = Configured(
    bots, bot_kinds, id_type=BotId, is_id_needed=True, may_replace=False
)
"""The bots of `bots.yaml`."""


def load_bots(path: Path | str) -> list[str]:
    """Register the bots that a file such as `bots.yaml` declares, and return their ids.

    They take the place of those that an earlier call registered. Warns of each broken entry, which is left out.

    Raises:
        EntriesError: if the file cannot be read.
    """
    names = configured_bots.register(path)
    for broken in configured_bots.broken:
        warnings.warn(str(broken), stacklevel=2)
    return names


class ConfiguredBot(BotDefaults):
    """Base of the bots that take options.

    Args:
        name: the bot's id.
        title: its name for people; the id if empty.
        options: by the names of the fields of `options_type`.

    Raises:
        ValuesError: with everything that is wrong with the options.
    """

    options_type: ClassVar[type[Values]]
    options: Any

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        self.options = values_read(self.options_type, options)
        self.name = name
        self.title = title or name


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kind, for the catalogue. `default` means nothing where `required` is true."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


def register_bot_kind(name: str) -> Callable[[C], C]:
    """Decorate a class whose bots are described by entries of `bots.yaml` that say `kind: name`."""

    def register(cls: C) -> C:
        bot_kinds.add(Kind(name, cls, cls.options_type))
        return cls

    return register


def kind_parameters(kind: str) -> tuple[Parameter, ...]:
    """Return the parameters that a kind takes, in the order of its model.

    Raises:
        UnknownName: with the nearest names.
    """
    return tuple(
        Parameter(
            name=name,
            type=words_of(Annotated[field.rebuild_annotation(), None]),
            required=field.is_required(),
            default=field.get_default(call_default_factory=True),
            description=field.description or "",
        )
        for name, field in bot_kinds.get(kind).options.model_fields.items()
    )
