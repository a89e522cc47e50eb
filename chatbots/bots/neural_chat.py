"""An adapter for bots written for the 2019 Neural Chat server.

There a bot was a class with `handle_messages(messages: list[str]) -> str`, given the latest messages,
oldest first, the participant's last. Such a class works here unchanged:

    - id: my-old-bot
      kind: neural_chat
      params: {path: "my_package.my_module:MyBot"}

Declared in `bots.yaml` (`chatbots/configured.py`), never registered by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chatbots.base import BotDefaults, BotError
from chatbots.conversation import Conversation

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(eq=False, kw_only=True)
class NeuralChatBot(BotDefaults):
    """Calls `handle_messages` of a class from outside.

    Args:
        name: the bot's id.
        title: its name for people.
        path: `package.module:ClassName`; the module must be importable.
        window: how many of the latest messages it is given; the 2019 server gave 5.
        arguments: keyword arguments for the class.
        opener: said where the bot has to open the conversation; the 2019 server knew no such case.
        code_version: raise it when the class changes, so that results before and after are told apart.
    """

    name: str = field()
    path: str = field()
    title: str = ""
    window: int = 5
    arguments: dict[str, Any] = field(default_factory=dict)
    opener: str = "Hello!"
    code_version: str = ""

    kind = "plug-in"
    deterministic = False
    version = "1"

    _bot: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.title = self.title or self.name
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"path is {self.path!r}; it must look like package.module:ClassName")
        if self.window < 1:
            raise ValueError(f"window is {self.window!r}; it must be at least 1")
        if not self.opener.strip():
            raise ValueError("opener is blank; it must be a text")

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return f"A class written for the 2019 Neural Chat server: {self.path}."

    @property
    def params(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "window": self.window,
            "arguments": self.arguments,
            "opener": self.opener,
            "code_version": self.code_version,
        }

    def unavailable_reason(self) -> str | None:
        package = self.path.partition(":")[0].partition(".")[0]
        # Only the top-level package: looking for a module inside it would run the package's code.
        if importlib.util.find_spec(package) is None:
            return f"there is no Python package {package!r} to import {self.path} from"
        return None

    def load(self, device: str) -> None:
        """Import and build the class; it decides itself what it does with its device.

        Raises:
            BotError: if it cannot be imported or built, or has no `handle_messages`.
        """
        if self._bot is not None:
            return
        module_name, _, class_name = self.path.partition(":")
        try:
            bot = getattr(importlib.import_module(module_name), class_name)(**self.arguments)
        except Exception as error:  # it is other people's code
            raise BotError(
                f"{self.path} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        if not callable(getattr(bot, "handle_messages", None)):
            raise BotError(f"{self.path} has no method handle_messages(messages)")
        self._bot = bot

    def unload(self) -> None:
        self._bot = None

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """One call of `handle_messages` per context.

        Raises:
            BotError: if it returns something else than a text.
            Exception: whatever it raises; the host then tries each conversation alone.
        """
        self.load("cpu")
        return [self._reply(context) for context in contexts]

    def _reply(self, context: Conversation) -> str:
        messages = list(context.texts[-self.window :])
        if not messages:
            return self.opener
        reply = self._bot.handle_messages(messages)
        if not isinstance(reply, str):
            raise BotError(f"{self.path} returned {reply!r}; handle_messages must return a text")
        return reply
