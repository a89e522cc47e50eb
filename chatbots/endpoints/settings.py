"""What is wrong with the settings of an endpoint bot, said before anything is asked."""

from __future__ import annotations

import re
from typing import Protocol

from chatbots.identity import canonical_json

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL = re.compile(r"https?://[^/\s?#@]+[^\s?#@]*", re.IGNORECASE)
_OURS = {
    *("model", "messages", "stream", "stream_options", "n", "seed", "temperature", "top_p", "stop"),
    *("max_tokens", "max_completion_tokens"),
}
"""Fields of a request that the bot sets, or cannot do with."""
_SECRET = re.compile(r"api_?key|secret|password|authorization", re.IGNORECASE)


class _Settings(Protocol):
    name: str
    base_url: str
    api_key_env: str
    temperature: float
    top_p: float | None
    stop: list[str]
    extra_body: dict
    window: int
    max_new_tokens: int
    max_tokens_field: str
    price_in: float | None
    price_out: float | None
    max_cost: float | None
    retries: int
    concurrency: int
    fallback_url: str
    fallback_api_key_env: str
    fallback_model: str
    fallback_bot: str


def settings_check(bot: _Settings) -> None:
    """Refuse settings that cannot work.

    Raises:
        ValueError: at the first mistake, with the value and what would be right.
    """
    _check_address(bot)
    _check_numbers(bot)
    _check_costs(bot)
    if not all(bot.stop):
        raise ValueError(f"stop is {bot.stop!r}; each must be a text that is not empty")
    _check_extra_body(bot)
    if bot.fallback_bot == bot.name:
        raise ValueError(
            f"fallback_bot is {bot.fallback_bot!r}, the bot itself; it must be another bot's id"
        )


def _check_address(bot: _Settings) -> None:
    for name in ("api_key_env", "fallback_api_key_env"):
        if getattr(bot, name) and not _ENV_NAME.fullmatch(getattr(bot, name)):
            # The value is not shown: it may well be a key that somebody put here by mistake.
            raise ValueError(
                f"{name} must be the name of an environment variable, such as OPENAI_API_KEY"
            )
    for name in ("base_url", "fallback_url"):
        url = getattr(bot, name)
        if not _URL.fullmatch(url) and (url or name == "base_url"):
            shown = re.sub(r"//[^/]*@", "//…@", url)
            raise ValueError(
                f"{name} is {shown!r}; it must be an address that begins with http:// or https:// and "
                "holds no password and no question mark, such as https://api.openai.com/v1"
            )
    for name in ("fallback_api_key_env", "fallback_model"):
        if getattr(bot, name) and not bot.fallback_url:
            raise ValueError(f"{name} is set, but fallback_url, the address it belongs to, is not")


def _check_numbers(bot: _Settings) -> None:
    if bot.max_tokens_field not in ("max_tokens", "max_completion_tokens"):
        raise ValueError(
            f"max_tokens_field is {bot.max_tokens_field!r}; it must be max_tokens or max_completion_tokens"
        )
    for name, least in (
        ("max_new_tokens", 1),
        ("retries", 0),
        ("window", 0),
        ("concurrency", 1),
        ("temperature", 0),
    ):
        if getattr(bot, name) < least:
            raise ValueError(f"{name} is {getattr(bot, name)!r}; it must be at least {least}")
    if bot.top_p is not None and not 0 < bot.top_p <= 1:
        raise ValueError(f"top_p is {bot.top_p!r}; it must be above 0 and at most 1")


def _check_costs(bot: _Settings) -> None:
    for name in ("price_in", "price_out", "max_cost"):
        value = getattr(bot, name)
        if value is not None and value < 0:
            raise ValueError(f"{name} is {value!r}; it must be at least 0")
        if value is None and bot.max_cost is not None:
            raise ValueError(
                f"max_cost is {bot.max_cost:g}, but {name} is not set, so nobody can tell when it "
                f"is reached; add {name}, the price of a million tokens (0 where they are free)"
            )


def _check_extra_body(bot: _Settings) -> None:
    for name in bot.extra_body:
        if name in _OURS:
            raise ValueError(
                f"extra_body holds {name!r}, which the bot sets itself or cannot do with; it may hold "
                "other fields that the endpoint knows, such as top_k"
            )
        if not isinstance(name, str):
            raise ValueError(f"extra_body holds the name {name!r}; it must be a text")
        if _SECRET.search(name):
            raise ValueError(
                f"extra_body holds {name!r}: no secret may stand in this file; put it into an environment "
                "variable and name that variable with api_key_env"
            )
    try:
        canonical_json(bot.extra_body)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"extra_body cannot be sent as JSON ({error}); it may hold texts, finite numbers, lists and "
            "mappings"
        ) from None
