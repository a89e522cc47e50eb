"""Options of endpoint bots with their validation, and removal of API keys.

Mistakes are reported before any request. Some endpoints repeat API keys in errors and replies, so keys are removed
from everything an endpoint sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import regex
from pydantic import Field, StringConstraints, model_validator

from chatbots.generation.options import ReasoningOptions
from chatbots.identity import canonical_json
from chatbots.text import quote
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import Mistake, NumberAsWritten, ValuesError

_INSTEAD = "[key]"
_LIKE_KEYS = re.compile(r"\b(?:sk-|Bearer )[\w*.-]{8,}")
_LEAST_CHARS = 8
"""Minimum length of a real key. Shorter ones, such as `EMPTY`, are placeholders and may occur as words in a reply."""


def redact_keys(message: str, keys: Iterable[str | None]) -> str:
    """Mask these keys and anything that looks like a key."""
    for key in keys:
        message = message.replace(key, _INSTEAD) if key else message
    return _LIKE_KEYS.sub(_INSTEAD, message)


class KeyFilter:
    """Filter that masks keys in a streamed reply.

    Text that may be the beginning of a key is held back.
    """

    def __init__(self, keys: Iterable[str | None]) -> None:
        long = sorted({key for key in keys if key and len(key) >= _LEAST_CHARS}, key=len)
        self._pattern = regex.compile("|".join(map(regex.escape, reversed(long)))) if long else None
        self._held = ""

    def take(self, piece: str) -> str:
        """Add a piece and return the text that can be passed on."""
        if self._pattern is None:
            return piece
        text = self._pattern.sub(_INSTEAD, self._held + piece)
        match = self._pattern.search(text, partial=True)
        end = match.start() if match else len(text)
        self._held = text[end:]
        return text[:end]

    def end(self) -> str:
        """Return the rest of the text that was held back."""
        text, self._held = self._held, ""
        return text


_OURS = {
    *("model", "messages", "stream", "stream_options", "n", "seed", "temperature", "top_p", "stop"),
    *("max_tokens", "max_completion_tokens"),
}
"""Request fields that the bot sets itself or that would break it."""
_SECRET = re.compile(r"api_?key|secret|password|authorization", re.IGNORECASE)

_Variable = Annotated[
    str,
    StringConstraints(pattern=r"^(?:[A-Za-z_][A-Za-z0-9_]*)?$"),
    TypeDescription("the name of an environment variable, such as OPENAI_API_KEY"),
]
_ADDRESS = r"(?i:https?)://[^/\s?#@]+[^\s?#@]*"
_ADDRESS_WANTED = TypeDescription(
    "an http:// or https:// address without password or question mark, such as https://api.openai.com/v1"
)
_Price = Annotated[NumberAsWritten, Field(ge=0)]


class EndpointOptions(ReasoningOptions):
    """Options of an endpoint bot in `bots.yaml`."""

    model: str = Field(min_length=1, description="name of the model at the endpoint.")
    base_url: Annotated[str, StringConstraints(pattern=f"^{_ADDRESS}$"), _ADDRESS_WANTED] = Field(
        "https://api.openai.com/v1", description="API address, up to and including `/v1`. Redirects are refused."
    )
    # A key entered here by mistake is never shown.
    api_key_env: _Variable = Field(
        "", repr=False, description="environment variable that contains the key; empty for servers without keys."
    )
    system_prompt: str = Field("", description="first message of every request; empty for none.")
    opening_prompt: str = Field(
        "Open the conversation with one short, friendly sentence.",
        description="prompt for the model if it has to open the conversation.",
    )
    temperature: NumberAsWritten | None = Field(
        0.7, ge=0, description="sampling temperature; 0 for the likeliest token; null for the endpoint's default."
    )
    top_p: NumberAsWritten | None = Field(
        None,
        gt=0,
        le=1,
        description=(
            "sample only from the smallest set of tokens with this total probability; None for the endpoint's default."
        ),
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="texts at which a reply ends."
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        description="additional fields of every request, as the endpoint names them (`top_k: 20`).",
    )
    window: int = Field(0, ge=0, description="number of latest turns the model sees; 0 for all.")
    max_new_tokens: int | None = Field(
        200,
        ge=1,
        description="maximum length of a reply in tokens; null for the endpoint's default (not with a cost limit).",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="`max_tokens`, or `max_completion_tokens` if the endpoint requires it."
    )
    takes_images: bool = Field(False, description="send the images of participants' messages to the model.")
    send_seed: bool = Field(True, description="send the reply's seed (31 bits); some endpoints reject this field.")
    price_in: _Price | None = Field(None, description="price of a million prompt tokens; None if unknown.")
    price_out: _Price | None = Field(None, description="price of a million reply tokens; None if unknown.")
    max_cost: _Price | None = Field(
        None, description="maximum total cost of all replies, in the currency of the prices; None for no limit."
    )
    connect_timeout_s: NumberAsWritten = Field(10.0, description="maximum wait for a connection, in seconds.")
    read_timeout_s: NumberAsWritten = Field(60.0, description="maximum wait for the next piece, in seconds.")
    retries: int = Field(2, ge=0, description="number of retries for a request that failed before its first piece.")
    concurrency: int = Field(
        32, ge=1, description="maximum number of concurrent requests, over all bots of a process at this address."
    )
    fallback_url: Annotated[str, StringConstraints(pattern=f"^(?:{_ADDRESS})?$"), _ADDRESS_WANTED] = Field(
        "",
        description="second address that serves the same model at the same prices, used if the first gives no "
        "reply; empty for none.",
    )
    fallback_api_key_env: _Variable = Field(
        "", repr=False, description="environment variable that contains the key for it; empty for servers without keys."
    )
    fallback_model: str = Field("", description="name of the model there; empty if it is the same.")
    fallback_bot: str = Field(
        "",
        description="id of a bot that replies instead if no address gives a reply; empty for none. Its replies are "
        "marked in the conversation.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> EndpointOptions:
        mistakes = [*self._wrong_fallback(), *self._wrong_costs(), *self._wrong_extra_body()]
        if mistakes:
            raise ValuesError(mistakes)
        return self

    def _wrong_fallback(self) -> Iterator[Mistake]:
        for name in ("fallback_api_key_env", "fallback_model"):
            if getattr(self, name) and not self.fallback_url:
                yield Mistake(name, f"{name} is set, but fallback_url, the address that it belongs to, is not")

    def _wrong_costs(self) -> Iterator[Mistake]:
        if self.max_cost is not None and self.max_new_tokens is None:
            yield Mistake(
                "max_new_tokens",
                f"max_cost is {self.max_cost:g}, but max_new_tokens is null, so the cost of a reply is "
                "unlimited; set max_new_tokens",
            )
        for name in ("price_in", "price_out"):
            if self.max_cost is not None and getattr(self, name) is None:
                yield Mistake(
                    name,
                    f"max_cost is {self.max_cost:g}, but {name} is not set, so the cost is unknown; set "
                    f"{name} to the price of a million tokens (0 if they are free)",
                )

    def _wrong_extra_body(self) -> Iterator[Mistake]:
        for name in self.extra_body:
            if name in _OURS:
                yield Mistake(
                    "extra_body",
                    f"extra_body contains {quote(name)}, which the bot sets itself or does not support; remove it. "
                    "Other fields of the endpoint, such as top_k, are allowed",
                )
            if _SECRET.search(name):
                yield Mistake(
                    "extra_body",
                    f"extra_body contains {quote(name)}: this file must not contain secrets; put it into "
                    "an environment variable and name that variable with api_key_env",
                )
        try:
            canonical_json(self.extra_body)
        except (TypeError, ValueError) as error:
            yield Mistake(
                "extra_body",
                f"extra_body cannot be sent as JSON ({error}); it can contain texts, finite numbers, "
                "lists and mappings",
            )
