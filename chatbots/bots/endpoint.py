"""A bot behind an OpenAI-compatible chat-completions endpoint: OpenAI's, vLLM's, Ollama's, llama.cpp's.

Replies stream over asynchronous HTTP. A request that fails before its first piece is tried again a few
times; once a piece has been shown, a failure is an error, since starting anew could contradict what the
participant has read. Declared in `bots.yaml` (`chatbots/configured.py`), never registered by itself.

The key is the one thing in `chatbots/` that is read from the environment: it must stand in no file, no
database row and no identity, so only the variable's name is passed in, and its value is read at `load`.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from chatbots.base import BotDefaults, BotError
from chatbots.conversation import Conversation

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AGAIN = {408, 409, 425, 429}
"""Statuses besides 5xx that pass by themselves."""
_LONGEST_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What an endpoint has charged for since it was loaded; tokens as the endpoint counts them."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    """In the currency of `price_in` and `price_out`."""


@dataclass(eq=False, kw_only=True)
class EndpointBot(BotDefaults):
    """One model of one endpoint with its prompt and settings.

    Args:
        name: the bot's id.
        title: its name for people.
        model: the endpoint's name of the model.
        base_url: where the API is, up to and with `/v1`.
        api_key_env: name of the environment variable that holds the key; empty for servers without keys.
        system_prompt: first message of every request; none if empty.
        opening_prompt: what the model is asked when it has to open the conversation.
        temperature: sampling temperature; 0 for the likeliest token.
        window: how many of the latest turns the model sees; 0 for all.
        max_new_tokens: the longest reply, in tokens.
        max_tokens_field: `max_tokens`, or `max_completion_tokens` where the endpoint wants that.
        send_seed: pass the reply's seed (31 bits of it); some endpoints refuse the field.
        price_in: price of a million prompt tokens; None if unknown.
        price_out: price of a million reply tokens; None if unknown.
        connect_timeout_s: longest wait for a connection.
        read_timeout_s: longest wait for the next piece.
        retries: how often a request is repeated that failed before its first piece.
        concurrency: the most requests under way at once.
    """

    name: str = field()
    model: str = field()
    title: str = ""
    base_url: str = "https://api.openai.com/v1"
    api_key_env: str = ""
    system_prompt: str = ""
    opening_prompt: str = "Open the conversation with one short, friendly sentence."
    temperature: float = 0.7
    window: int = 0
    max_new_tokens: int = 200
    max_tokens_field: str = "max_tokens"
    send_seed: bool = True
    price_in: float | None = None
    price_out: float | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0
    retries: int = 2
    concurrency: int = 32

    kind = "endpoint"
    deterministic = False
    version = "1"

    usage: Usage = field(default_factory=Usage, init=False)
    _key: str | None = field(default=None, init=False, repr=False)
    _loaded: bool = field(default=False, init=False, repr=False)
    _clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = field(
        default_factory=weakref.WeakKeyDictionary, init=False, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.title = self.title or self.name
        self.capacity = self.concurrency
        if self.api_key_env and not _ENV_NAME.fullmatch(self.api_key_env):
            # The value is not shown: it may well be a key that somebody put here by mistake.
            raise ValueError(
                "api_key_env must be the name of an environment variable, such as OPENAI_API_KEY"
            )
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"base_url is {self.base_url!r}; it must begin with http:// or https://"
            )
        if self.max_tokens_field not in ("max_tokens", "max_completion_tokens"):
            raise ValueError(
                f"max_tokens_field is {self.max_tokens_field!r}; "
                "it must be max_tokens or max_completion_tokens"
            )
        for name, least in (
            ("max_new_tokens", 1),
            ("retries", 0),
            ("window", 0),
            ("concurrency", 1),
            ("temperature", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be at least {least}")

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return f"The model {self.model} behind {self.base_url}."

    @property
    def params(self) -> dict[str, Any]:
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.init and f.name not in ("name", "title")
        }

    def unavailable_reason(self) -> str | None:
        if self.api_key_env and not os.environ.get(self.api_key_env, "").strip():
            return (
                f"the environment variable {self.api_key_env}, which must hold the key, is not set"
            )
        return None

    def load(self, device: str) -> None:
        reason = self.unavailable_reason()
        if reason is not None:
            raise BotError(f"{self.name} cannot be loaded: {reason}")
        self._key = os.environ[self.api_key_env].strip() if self.api_key_env else None
        self._loaded = True

    def unload(self) -> None:
        self._key = None
        self._loaded = False
        self._clients.clear()

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        """The reply in the pieces in which the endpoint sends it.

        Raises:
            BotError: if there is no reply or it breaks off; the message never holds the key.
        """
        if not self._loaded:
            self.load("cpu")
        messages = self._messages(context)
        n_sent = 0
        for attempt in range(self.retries + 1):
            try:
                async for piece in self._once(messages, context.reply_seed):
                    n_sent += len(piece)
                    yield piece
            except Exception as error:
                if n_sent:
                    raise BotError(
                        self._clean(
                            f"the reply broke off after {n_sent} characters: {_text(error)}"
                        )
                    ) from None
                if attempt == self.retries or not _passes(error):
                    tries = "once" if attempt == 0 else f"{attempt + 1} times"
                    raise BotError(
                        self._clean(
                            f"{self.base_url} was asked {tries} and gave no reply: {_text(error)}"
                        )
                    ) from None
                await asyncio.sleep(_wait_s(error, attempt))
            else:
                return

    async def _once(self, messages: list[dict[str, str]], seed: int) -> AsyncIterator[str]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            self.max_tokens_field: self.max_new_tokens,
        }
        if self.send_seed:
            body["seed"] = seed % 2**31
        if self.price_in is not None or self.price_out is not None:
            body["stream_options"] = {"include_usage": True}
        chunks = await self._client().chat.completions.create(stream=True, **body)
        finish = None
        n_characters = 0
        try:
            async for chunk in chunks:
                if chunk.usage is not None:
                    self._count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                for choice in chunk.choices[:1]:
                    finish = choice.finish_reason or finish
                    if choice.delta is not None and choice.delta.content:
                        n_characters += len(choice.delta.content)
                        yield choice.delta.content
        finally:
            await chunks.close()
        if finish is None:
            raise BotError("the stream ended before the model said that it was done")
        if not n_characters:
            raise BotError(f"the model sent no text (finish reason {finish!r})")

    def _messages(self, context: Conversation) -> list[dict[str, str]]:
        """The window as chat messages; the turns of one speaker's run are one message."""
        messages: list[dict[str, str]] = []
        turns = context.last(self.window or None).turns
        for turn in turns:
            role = "user" if turn.speaker == "human" else "assistant"
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += f"\n{turn.text}"
            else:
                messages.append({"role": role, "content": turn.text})
        if not messages:
            messages.append({"role": "user", "content": self.opening_prompt})
        if self.system_prompt:
            messages.insert(0, {"role": "system", "content": self.system_prompt})
        return messages

    def _client(self) -> AsyncOpenAI:
        """The client of the running event loop: connections cannot change loops."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                from openai import AsyncOpenAI, Timeout

                client = self._clients[loop] = AsyncOpenAI(
                    api_key=self._key
                    or "none",  # the library insists on one; keyless servers ignore it
                    base_url=self.base_url,
                    max_retries=0,
                    timeout=Timeout(
                        self.read_timeout_s,
                        connect=self.connect_timeout_s,
                        pool=self.read_timeout_s,
                    ),
                )
            return client

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        cost = (tokens_in * (self.price_in or 0.0) + tokens_out * (self.price_out or 0.0)) / 1e6
        with self._lock:
            self.usage = Usage(
                self.usage.tokens_in + tokens_in,
                self.usage.tokens_out + tokens_out,
                self.usage.cost + cost,
            )

    def _clean(self, text: str) -> str:
        """Take the key out of a message: endpoints like to quote it back."""
        text = text.replace(self._key, "[key]") if self._key else text
        return re.sub(r"\b(?:sk-|Bearer )[\w*.-]{8,}", "[key]", text)


def _text(error: Exception) -> str:
    """What went wrong, in a sentence for the log and the researcher."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return "no answer within the time-out"
    if isinstance(error, openai.APIStatusError):
        names = {
            401: "the key was refused",
            403: "the key may not use this model",
            404: "not found",
        }
        status = error.status_code
        said = names.get(status, "too many requests" if status == 429 else "an error")
        return f"HTTP {status}, {said}: {error.message[:300]}"
    if isinstance(error, openai.APIConnectionError):
        return f"no connection ({error.__cause__ or error})"
    return str(error) or type(error).__name__


def _passes(error: Exception) -> bool:
    """Whether the same request may succeed a moment later."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code >= 500 or error.status_code in _AGAIN
    return isinstance(error, openai.APIConnectionError) or not isinstance(error, openai.OpenAIError)


def _wait_s(error: Exception, attempt: int) -> float:
    """Seconds before the next try: what the endpoint asks for, else doubling from half a second."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    try:
        return min(max(float(asked), 0.0), _LONGEST_WAIT_S)
    except ValueError:
        return min(0.5 * 2**attempt, _LONGEST_WAIT_S)
