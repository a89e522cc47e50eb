"""Replies and errors that no page, prompt or database should meet as they are."""

from typing import NoReturn

from chatbots.bots.base import BotError

HOSTILE_REPLIES = {
    "nul": "Before\x00 and after",
    "surrogate": "Half \ud83d of a pair",
    "empty": "",
    "whitespace": " \n\t ",
    "invisible": "\x00\u200b\ufeff\udc00",
    "huge": "Ten million characters. " * 420_000,
}
"""What no page, prompt or database should meet as it is, by what is wrong with it."""


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("an error that cannot say what it is")


HOSTILE_ERRORS: dict[str, BaseException] = {
    "raising-nul": BotError("no \x00 reply"),
    "raising-surrogate": ValueError("half \ud83d of a pair\nand a second line"),
    "raising-huge": BotError("no reply, and why " * 500_000),
    "raising-nothing": RuntimeError(),
    "raising-unspeakable": _Unspeakable(),
    "raising-exit": SystemExit(3),
}
"""Errors whose messages do not let themselves be stored, or that are meant to end the process."""


def raise_it(error: BaseException) -> NoReturn:
    """Raise, where only an expression may stand."""
    raise error
