"""`chat BOT [--message TEXT …] [--seed N]`: talk to a bot in the terminal.

Nothing is stored.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.registry import bot_load
from chatbots.text import quote
from webapp.bots.selectors import bot_find
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand, Usage


class Command(ConfabCommand):
    help = "Chat with a bot in the terminal; with --message, print one reply per message."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("bot", metavar="BOT", help="bot id (see list_bots)")
        parser.add_argument("--message", action="append", metavar="TEXT", help="message to send; repeatable")
        parser.add_argument("--seed", type=int, default=0)

    def run(self, **options: Any) -> dict[str, Any]:
        from chatbots.serving import reply

        name = options["bot"]
        for message in options["message"] or []:
            if not message.strip():
                raise Usage(f"--message is {quote(message)}; write at least one visible character")
        bot_find(name)
        try:
            bot = bot_load(name, settings.CONFAB_DEVICE)
        except BotError as error:
            raise Refused("unavailable", str(error)) from error
        live = options["message"] is None and not options["json"]
        messages = options["message"] or _typed(bot.title)
        conversation = Conversation(id="terminal", seed=options["seed"])
        for message in messages:
            if not message.strip():
                continue
            conversation = conversation.with_turn("human", message)
            answer = reply(bot, [conversation])[0]
            if answer.error is not None or answer.text is None:
                raise Refused("bot_failed", f"{name} did not reply: {answer.error}")
            conversation = conversation.with_turn("bot", answer.text)
            if live:
                self.stdout.write(f"{bot.title}: {answer.text}")
        self._live = live
        return {"bot": name, "turns": [{"speaker": turn.speaker, "text": turn.text} for turn in conversation.turns]}

    def present(self, result: dict[str, Any]) -> None:
        if self._live:
            return
        for turn in result["turns"]:
            self.stdout.write(f"{turn['speaker']}: {turn['text']}")


def _typed(title: str) -> Iterator[str]:
    """Yield lines of standard input until "quit" or the end of input."""
    if sys.stdin.isatty():
        sys.stderr.write(f"{title} is ready. Empty lines are ignored; type quit to end.\n")
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("You: ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line or line.strip().lower() in ("quit", "exit"):
            return
        yield line.rstrip("\n")
