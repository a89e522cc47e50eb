"""Adapter for bots written for the 2019 Neural Chat server.

There a bot was a class with `handle_messages(messages: list[str]) -> str`, called with the latest messages, oldest
first, the last one from the participant. Such a class works here unchanged:

    - id: my-old-bot
      kind: neural_chat
      params: {path: "my_package.my_module:MyBot"}

Declared in `bots.yaml` (`chatbots/yaml_registry.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from chatbots.bots.base import BotError
from chatbots.conversation import Conversation
from chatbots.text import quote
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind


class NeuralChatOptions(InputModel):
    """Options of a Neural Chat bot in `bots.yaml`."""

    path: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"),
        TypeDescription("like package.module:ClassName"),
    ] = Field(description="`package.module:ClassName`; the module must be importable.")
    window: int = Field(5, ge=1, description="number of latest messages it receives; the 2019 server passed 5.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="keyword arguments for the class.")
    opener: Annotated[str, StringConstraints(pattern=r"\S"), TypeDescription("a text that is not blank")] = Field(
        "Hello!", description="reply if the bot has to open the conversation, which the 2019 server did not support."
    )
    code_version: str = Field(
        "", description="increase it when the class changes, so that results before and after can be distinguished."
    )


@register_bot_kind("neural_chat")
class NeuralChatBot(ConfiguredBot):
    """Bot that calls `handle_messages` of a third-party class."""

    options_type = NeuralChatOptions
    options: NeuralChatOptions

    kind = "plug-in"
    deterministic = False
    version = "1"

    _bot: Any = None

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return f"A class written for the 2019 Neural Chat server: {self.options.path}."

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.options)

    def unavailable_reason(self) -> str | None:
        package = self.options.path.partition(":")[0].partition(".")[0]
        # Only the top-level package: looking for a module inside it would run the package's code.
        if importlib.util.find_spec(package) is None:
            return f"there is no Python package {quote(package)} to import {self.options.path} from"
        return None

    def load(self, device: str) -> None:
        """Import and instantiate the class, which chooses its own device.

        Raises:
            BotError: it cannot be imported or instantiated, or has no `handle_messages`.
        """
        if self._bot is not None:
            return
        module_name, _, class_name = self.options.path.partition(":")
        try:
            bot = getattr(importlib.import_module(module_name), class_name)(**self.options.arguments)
        except Exception as error:  # third-party code may raise anything
            raise BotError(f"{self.options.path} cannot be loaded: {type(error).__name__}: {error}") from error
        if not callable(getattr(bot, "handle_messages", None)):
            raise BotError(f"{self.options.path} has no method handle_messages(messages)")
        self._bot = bot

    def unload(self) -> None:
        self._bot = None

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Call `handle_messages` once for each context and return the replies.

        Raises:
            BotError: it does not return a string.
            Exception: any error of the class; the host then retries each conversation alone.
        """
        self.load("cpu")
        return [self._reply(context) for context in contexts]

    def _reply(self, context: Conversation) -> str:
        messages = list(context.texts[-self.options.window :])
        if not messages:
            return self.options.opener
        reply = self._bot.handle_messages(messages)
        if not isinstance(reply, str):
            raise BotError(f"{self.options.path} returned {quote(reply)}; handle_messages must return a text")
        return reply
