"""A bot behind an OpenAI-compatible chat-completions endpoint: OpenAI's, vLLM's, Ollama's, llama.cpp's.

Replies stream over asynchronous HTTP. A request that fails before its first piece is tried again a few
times; once a piece has been shown, a failure is an error, since starting anew could contradict what the
participant has read. Declared in `bots.yaml` (`chatbots/configured.py`), never registered by itself.

Every call passes the meter (`chatbots/metering.py`) with the most it can cost: a token of the prompt is at
least one byte, the reply has at most `max_new_tokens`. What it took is counted by the endpoint, or, where
that does not say, estimated at four bytes a token.

The key is the one thing in `chatbots/` that is read from the environment: it must stand in no file, no
database row and no identity, so only the variable's name is passed in, and its value is read at `load`.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from chatbots.base import BotDefaults, BotError
from chatbots.conversation import Conversation
from chatbots.metering import CapReached, ReplyCost, meter_get

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AGAIN = {408, 409, 425, 429}
"""Statuses besides 5xx that pass by themselves."""
_LONGEST_WAIT_S = 10.0


_BYTES_PER_TOKEN = 4
"""Of English in the usual vocabularies; only where the endpoint does not count."""
_TOKENS_PER_MESSAGE = 16
"""Room for a chat template's marks around a message, in the bound of what a call can cost."""
_COSTS_KEPT = 10_000


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
        max_cost: the most all its replies together may cost, in the currency of the prices; None: no cap.
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
    max_cost: float | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0
    retries: int = 2
    concurrency: int = 32

    kind = "endpoint"
    deterministic = False
    version = "1"

    _costs: dict[Conversation, ReplyCost] = field(default_factory=dict, init=False, repr=False)
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
        for name in ("price_in", "price_out", "max_cost"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value!r}; it must be at least 0")
            if value is None and self.max_cost is not None:
                raise ValueError(
                    f"max_cost is {self.max_cost:g}, but {name} is not set, so nobody can tell when it "
                    f"is reached; add {name}, the price of a million tokens (0 where they are free)"
                )

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return f"The model {self.model} behind {self.base_url}."

    @property
    def params(self) -> dict[str, Any]:
        # Not the cap: raising it in the middle of a study must not make another bot of this one.
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.init and f.name not in ("name", "title", "max_cost")
        }

    @property
    def least_bound(self) -> ReplyCost:
        """The most that the cheapest reply, to an empty conversation, may take."""
        return self._bound(self._messages(Conversation("")))

    def cost_take(self, context: Conversation) -> ReplyCost | None:
        """What the reply to this context took, failed tries included; told once."""
        with self._lock:
            return self._costs.pop(context, None)

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
        spent: list[ReplyCost] = []
        n_sent = 0
        for attempt in range(self.retries + 1):
            try:
                async with aclosing(self._once(messages, context, spent)) as pieces:
                    async for piece in pieces:
                        n_sent += len(piece)
                        yield piece
            except CapReached:
                raise
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
                self._keep(context, spent)
                return

    async def _once(
        self, messages: list[dict[str, str]], context: Conversation, spent: list[ReplyCost]
    ) -> AsyncGenerator[str, None]:
        """One call, between the meter's two doors; what it took is added to `spent`."""
        meter = meter_get()
        receipt = await meter.reserve(self, context, self._bound(messages))
        cost: ReplyCost | None = None
        finish, text = None, ""
        try:
            body = self._body(messages, context.reply_seed)
            chunks = await self._client().chat.completions.create(stream=True, **body)
            try:
                async for chunk in chunks:
                    if chunk.usage is not None:
                        cost = self._priced(
                            chunk.usage.prompt_tokens, chunk.usage.completion_tokens
                        )
                    for choice in chunk.choices[:1]:
                        finish = choice.finish_reason or finish
                        if choice.delta is not None and choice.delta.content:
                            text += choice.delta.content
                            yield choice.delta.content
            finally:
                await chunks.close()
            if finish is None:
                raise BotError("the stream ended before the model said that it was done")
            if not text:
                raise BotError(f"the model sent no text (finish reason {finish!r})")
        except Exception as error:
            if _is_free(error):
                cost = self._priced(0, 0)
            raise
        finally:
            cost = cost or self._estimate(messages, text)
            spent.append(cost)
            # Shielded: whoever stops waiting for the reply must not leave its bound set aside.
            await asyncio.shield(meter.settle(receipt, cost))

    def _body(self, messages: list[dict[str, str]], seed: int) -> dict[str, Any]:
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
        return body

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

    def _priced(self, tokens_in: int, tokens_out: int, *, is_estimated: bool = False) -> ReplyCost:
        cost = None
        if self.price_in is not None and self.price_out is not None:
            cost = (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6
        return ReplyCost(tokens_in, tokens_out, cost, is_estimated)

    def _bound(self, messages: list[dict[str, str]]) -> ReplyCost:
        """The most that a call with these messages can take."""
        n_bytes = sum(len(message["content"].encode()) for message in messages)
        most_in = n_bytes + _TOKENS_PER_MESSAGE * (len(messages) + 1)
        return self._priced(most_in, self.max_new_tokens, is_estimated=True)

    def _estimate(self, messages: list[dict[str, str]], text: str) -> ReplyCost:
        """What a call with these messages and this reply took, by the length of the texts."""
        prompt = sum(_about(message["content"]) for message in messages)
        return self._priced(prompt, _about(text), is_estimated=True)

    def _keep(self, context: Conversation, spent: list[ReplyCost]) -> None:
        total = spent[0]
        for cost in spent[1:]:
            total = total.plus(cost)
        with self._lock:
            self._costs[context] = total
            # Nobody asks for the cost of a reply that is stored nowhere: the oldest go.
            while len(self._costs) > _COSTS_KEPT:
                del self._costs[next(iter(self._costs))]

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


def _about(text: str) -> int:
    """Tokens of a text, as a guess."""
    return math.ceil(len(text.encode()) / _BYTES_PER_TOKEN)


def _is_free(error: Exception) -> bool:
    """Whether the endpoint refused the call or never heard of it, so that it cost nothing."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return False
    return isinstance(error, openai.APIStatusError | openai.APIConnectionError)


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
