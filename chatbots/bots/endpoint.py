"""Bot on an OpenAI-compatible chat-completions endpoint: OpenAI, vLLM, Ollama, llama.cpp.

Replies stream over asynchronous HTTP. A request that fails before its first piece is retried a few times. After that
a failure is an error, because a new reply could contradict what the participant has already read.
Declared in `bots.yaml` (`chatbots/yaml_registry.py`) with the options of `chatbots/endpoints/options.py`.

State shared by all bots of an address (connection limit, requested pauses, circuit breaker) is in
`chatbots/endpoints/addresses.py`, a single call and its errors in `chatbots/endpoints/chat_completions.py`. Reasoning
tokens and template marks are removed (`chatbots/generation/output_filter.py`); reasoning and tool calls go to the
trace (`chatbots/trace.py`) and are never sent back to the model.

Before every call the meter (`chatbots/endpoints/metering.py`) reserves its maximum cost: a prompt token is at least
one byte, and the reply has at most `max_new_tokens`. Afterwards the endpoint's token counts apply; without them
tokens are estimated at four bytes each.

The key is the only value in `chatbots/` that is read from the environment. It must not appear in a file or an
identity, so only the variable's name is configured, and `load` reads its value. A program that stores keys itself
sets `key_source` instead.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from chatbots.bots.base import BotError, ContentRefused, seconds_left
from chatbots.conversation import Conversation
from chatbots.endpoints.addresses import Address, AddressRests, address_of, refusal, wait
from chatbots.endpoints.chat_completions import LENGTH_ENDS, LikelyTokens, call, is_good_end, read_bad_end
from chatbots.endpoints.errors import CallFailed
from chatbots.endpoints.extra_fields import ExtraFields
from chatbots.endpoints.metering import CapReached, ReplyCost, meter_get
from chatbots.endpoints.options import EndpointOptions, KeyFilter, redact_keys
from chatbots.generation.output_filter import MarkdownImageFilter
from chatbots.generation.prompts import (
    IMAGE_MARK,
    chat_messages,
    conditioned_prompt,
    image_parts,
    images_marked,
    turns_joined,
)
from chatbots.generation.streamed_text import SentencePieces
from chatbots.registry import bots
from chatbots.text import quote
from chatbots.trace import current_trace
from chatbots.validation import ValuesError
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

_FIRST_WAIT_S = 0.5
"""Default wait before the second attempt, in seconds; doubled before each further one."""

_BYTES_PER_TOKEN = 4
"""Average for English with common vocabularies; used only if the endpoint reports no token counts."""
_TOKENS_PER_MESSAGE = 16
"""Allowance for a chat template's markup per message, in the maximum cost of a call."""
_TOKENS_PER_IMAGE = 6_000
"""Maximum tokens of an image, 2048 × 2048 pixels at most; one token per 28 × 28 exceeds all known models."""
_MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
_OPTIONAL_FIELDS = {"temperature", "max_tokens", "top_p", "seed", "stream", "stream_options"}
"""Fields omitted if the model rejects them. Not `stop`: replies would run past their end."""
_COSTS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class _Route:
    """One route to the model: an address with its key and options."""

    address: Address
    key: str | None
    model: str
    tries: int


@register_bot_kind("endpoint")
class EndpointBot(ConfiguredBot):
    """One model of one endpoint with its prompt and settings.

    Raises:
        ValuesError: with all invalid options at once.
    """

    options_type = EndpointOptions
    options: EndpointOptions

    kind = "endpoint"
    deterministic = False
    version = "4"

    key_source: Callable[[str], str] | None = None
    """Returns the key for `base_url` instead of the environment; may raise `BotError`."""
    public_only = False
    """If True, connections to this machine and private networks are refused."""

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        if self.options.fallback_bot == name:
            raise ValuesError(f"fallback_bot is {quote(name)}, the bot itself; it must be another bot's id")
        # Attributes that host, meter and address read from every bot.
        self.capacity = self.concurrency = self.options.concurrency
        self.max_cost = self.options.max_cost
        self.takes_images = self.options.takes_images
        self.fallback_bot = self.options.fallback_bot
        self._costs: dict[Conversation, ReplyCost] = {}
        self._extras = ExtraFields()
        self._refuse_system: set[str] = set()
        self._rejected: dict[str, set[str]] = {}  # by address: fields that its model rejects
        self._routes: tuple[_Route, ...] = ()
        self._lock = threading.Lock()

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        return f"The model {self.options.model} behind {self.options.base_url}."

    @property
    def params(self) -> dict[str, Any]:
        # Omit the cost limit, because raising it during a study must not change the bot's identity. Omit `takes_images`
        # if false, so that bots older than this option keep their identity.
        left_out = {"max_cost"} if self.takes_images else {"max_cost", "takes_images"}
        return {name: value for name, value in self.options if name not in left_out}

    @property
    def least_bound(self) -> ReplyCost:
        """Return the maximum cost of the cheapest reply, to an empty conversation."""
        return self.bound(Conversation(""))

    def bound(self, context: Conversation) -> ReplyCost:
        """Return the maximum cost of the reply to this context, in a single call."""
        return self._bound(self._messages(context, system_in_user=False))

    def cost_take(self, context: Conversation) -> ReplyCost | None:
        """Remove and return the cost of this context's reply, including failed attempts.

        None if the cost is unknown.
        """
        with self._lock:
            return self._costs.pop(context, None)

    def likely_want(self, context: Conversation, response_format: dict[str, Any] | None = None) -> None:
        """Request log-probabilities and a response format with the reply.

        If the endpoint rejects one of them, the call is repeated without it.
        """
        self._extras.want(context, response_format)

    def likely_take(self, context: Conversation) -> tuple[LikelyTokens, ...]:
        """Remove and return the reply's tokens, each with its likeliest alternatives.

        Empty unless they were requested, by `likely_want` or in `extra_body`, and the endpoint returned them.
        """
        return self._extras.take(context)

    def unavailable_reason(self) -> str | None:
        if self.key_source is not None:
            try:
                self.key_source(self.options.base_url)
            except BotError as error:
                return str(error)
        for name in (self.options.api_key_env, self.options.fallback_api_key_env):
            if name and not os.environ.get(name, "").strip():
                return f"the environment variable {name}, which must contain the key, is not set"
        if self.fallback_bot and self.fallback_bot not in bots:
            return f"fallback_bot is {quote(self.fallback_bot)}, but there is no such bot"
        return None

    def load(self, device: str) -> None:
        reason = self.unavailable_reason()
        if reason is not None:
            raise BotError(f"{self.name} cannot be loaded: {reason}")
        key = self.key_source(self.options.base_url) if self.key_source else _key_in(self.options.api_key_env)
        ways = [(self.options.base_url, key, self.options.model)]
        if self.options.fallback_url:
            ways.append(
                (
                    self.options.fallback_url,
                    _key_in(self.options.fallback_api_key_env),
                    self.options.fallback_model or self.options.model,
                )
            )
        refusals = list(filter(None, (refusal(url, public_only=self.public_only) for url, _, _ in ways)))
        if len(refusals) == len(ways):
            raise BotError(f"{self.name} cannot be loaded: {'; '.join(refusals)}")
        self._routes = tuple(
            _Route(
                address_of(url, self, public_only=self.public_only),
                key,
                model,
                # With a fallback bot, the caller does not wait for a retry.
                tries=1 + (self.options.retries if i == len(ways) - 1 else 0),
            )
            for i, (url, key, model) in enumerate(ways)
        )

    def unload(self) -> None:
        for route in self._routes:
            route.address.customers.discard(self)
        self._routes = ()

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        """Yield the reply as it arrives, without reasoning tokens.

        Raises:
            BotError: there is no reply, or it breaks off; the message never contains the key.
        """
        if not self._routes:
            self.load("cpu")
        spent: list[ReplyCost] = []
        problems: list[str] = []
        is_content = False
        for i, route in enumerate(self._routes):
            n_sent = 0
            try:
                async with aclosing(self._ask(route, context, spent, is_last=route is self._routes[-1])) as pieces:
                    async for piece in pieces:
                        n_sent += len(piece)
                        yield piece
            except CapReached:
                raise
            except Exception as error:
                text = str(error) or type(error).__name__
                if n_sent:
                    text = f"the reply broke off after {n_sent} characters: {text}"
                problems.append(self._clean(text))
                is_content = is_content or isinstance(error, ContentRefused)
                if n_sent:
                    break
            else:
                self._keep(context, spent, "" if i == 0 else route.address.url, self._rejected.get(route.address.url))
                return
        raise (ContentRefused if is_content else BotError)("; ".join(problems)) from None

    async def _ask(
        self, route: _Route, context: Conversation, spent: list[ReplyCost], *, is_last: bool
    ) -> AsyncGenerator[str, None]:
        """Yield the reply of one route, retrying as the options allow."""
        url = route.address.url
        system = bool(conditioned_prompt(self.options.system_prompt, context)) and url not in self._refuse_system
        n_asked = n_failed = 0
        while True:
            has_sent = False
            messages = self._messages(context, system_in_user=url in self._refuse_system)
            n_asked += 1
            try:
                async with aclosing(self._once(route, messages, context, spent, is_last=is_last)) as pieces:
                    async for piece in pieces:
                        has_sent = True
                        yield piece
            except (CapReached, AddressRests):
                raise
            except Exception as error:
                if isinstance(error, CallFailed) and error.is_content:
                    raise ContentRefused(f"{url} refused the conversation: {error}") from None
                if has_sent:
                    raise
                passes = not isinstance(error, CallFailed) or error.passes
                if system and isinstance(error, CallFailed) and error.is_about_system:
                    system = False
                    self._refuse_system.add(url)
                    continue
                if isinstance(error, CallFailed) and self._leave_out(url, error.rejected_params):
                    continue
                if not passes and self._extras.leave_out(context, url, str(error)):
                    continue
                n_failed += 1
                if n_failed >= route.tries or not passes:
                    tries = "once" if n_asked == 1 else f"{n_asked} times"
                    reason = str(error) or type(error).__name__
                    raise BotError(f"{url} gave no reply (tried {tries}): {reason}") from None
                if not isinstance(error, CallFailed) or error.retry_after_s is None:
                    await wait(_FIRST_WAIT_S * 2 ** (n_failed - 1), f"{url} gave no reply: {error}")
            else:
                return

    def _leave_out(self, url: str, rejected: Sequence[str]) -> bool:
        """Omit the first rejected field from now on; False if there is none.

        The reply's length limit is not omitted but sent under its other name: without it the cost has no bound.
        """
        left_out = self._rejected.setdefault(url, set())
        for field in rejected:
            name = "max_tokens" if field in _MAX_TOKENS_FIELDS else field
            if name in _OPTIONAL_FIELDS and name not in left_out:
                left_out.add(name)
                return True
        return False

    async def _once(
        self,
        route: _Route,
        messages: list[dict[str, str]],
        context: Conversation,
        spent: list[ReplyCost],
        *,
        is_last: bool,
    ) -> AsyncGenerator[str, None]:
        """Make one metered call and yield its pieces.

        The cost is appended to `spent`.
        """
        meter = meter_get()
        reply = self.options.reply_filter()
        keys = KeyFilter(route.key for route in self._routes)
        sentences = SentencePieces()
        trace = current_trace()
        trace.restart(self._clean)
        images = MarkdownImageFilter(trace.add_image) if trace.takes_image else None
        async with route.address.client(route.model) as client:
            # Keep half of the time for the second route, in case the first one hangs.
            patience = math.inf if is_last else seconds_left() / 2
            receipt = await meter.reserve(self, context, self._bound(messages))
            cost: ReplyCost | None = None
            finish, reason, n_bytes, has_said = None, "", 0, False
            chunks = call(
                client,
                route.address.url,
                self._body(route, messages, context),
                key=route.key,
                connect_timeout_s=min(self.options.connect_timeout_s, patience),
                read_timeout_s=min(self.options.read_timeout_s, patience),
            )
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        if chunk.usage is not None:
                            cost = self._priced(*chunk.usage)
                        finish, reason = chunk.finish or finish, chunk.finish_detail or reason
                        trace.think(chunk.reasoning)
                        trace.call(chunk.calls)
                        for address in chunk.images:
                            trace.add_image(address)
                        text = images.take(chunk.text) if images else chunk.text
                        if text:
                            if chunk.likely:
                                self._extras.keep(context, chunk.likely, is_first=not n_bytes)
                            n_bytes += len(text.encode("utf-8", "replace"))
                            piece = sentences.take(keys.take(reply.take(text)))
                            trace.think(reply.take_thought())
                            if piece:
                                has_said = True
                                trace.close()
                                yield piece
                if finish is None:
                    raise CallFailed("the stream ended before the model reported that it was done")
                if not is_good_end(finish):
                    raise read_bad_end(finish, reason)
                remainder = reply.take(images.end()) if images else ""
                piece = sentences.take(keys.take(remainder + reply.end()) + keys.end())
                piece += sentences.end(cut=finish in LENGTH_ENDS)
                trace.think(reply.take_thought())
                trace.close()
                if piece:
                    has_said = True
                    yield piece
                if not has_said and trace.image is None:
                    thoughts_note = " apart from reasoning" if reply.has_thought else ""
                    wants = "; Confab runs no tools, so the endpoint must run them" if finish == "tool_calls" else ""
                    raise CallFailed(f"the model sent no text{thoughts_note} (finish reason {quote(finish)}){wants}")
                route.address.answered(route.model)
            except CallFailed as error:
                if error.is_free:
                    cost = self._priced(0, 0)
                model = None if error.is_of_address else route.model
                if error.retry_after_s:
                    route.address.pause(error.retry_after_s, model, self._clean(str(error)))
                if error.is_down:
                    route.address.failed(self._clean(str(error)), model)
                elif error.retry_after_s is None:
                    route.address.answered(route.model)
                raise
            finally:
                cost = cost or self._estimate(messages, n_bytes)
                spent.append(cost)
                # Shielded, so that the reservation is released even if the caller is cancelled.
                await asyncio.shield(meter.settle(receipt, cost))

    def _body(self, route: _Route, messages: list[dict[str, str]], context: Conversation) -> dict[str, Any]:
        options, left_out = self.options, self._rejected.get(route.address.url, set())
        max_tokens_field: str = options.max_tokens_field
        if "max_tokens" in left_out:
            max_tokens_field = next(field for field in _MAX_TOKENS_FIELDS if field != max_tokens_field)
        has_price = options.price_in is not None or options.price_out is not None
        optional: dict[str, Any] = {
            "temperature": options.temperature,
            max_tokens_field: options.max_new_tokens,
            "top_p": options.top_p,
            "stop": options.stop or None,
            "seed": context.reply_seed % 2**31 if options.send_seed else None,
            "stream": True,
            "stream_options": {"include_usage": True} if has_price and "stream" not in left_out else None,
        }
        return {
            **self._extras.fields(context, route.address.url),
            **options.extra_body,
            "model": route.model,
            "messages": [{**message, "content": image_parts(message["content"], context)} for message in messages],
            **{
                name: value
                for name, value in optional.items()
                if value is not None and (name in _MAX_TOKENS_FIELDS or name not in left_out)
            },
        }

    def _messages(self, context: Conversation, *, system_in_user: bool) -> list[dict[str, str]]:
        """Return the last turns as chat messages with alternating roles."""
        return chat_messages(
            turns_joined(images_marked(context), window=self.options.window, thought_marks=self.options.thought_marks),
            system_prompt=conditioned_prompt(self.options.system_prompt, context),
            system_in_user=system_in_user,
            opening=self.options.opening_prompt,
            is_opened=context.is_opened,
        )

    def _priced(self, tokens_in: int, tokens_out: int, *, is_estimated: bool = False) -> ReplyCost:
        cost = None
        if self.options.price_in is not None and self.options.price_out is not None:
            cost = (tokens_in * self.options.price_in + tokens_out * self.options.price_out) / 1e6
        return ReplyCost(tokens_in, tokens_out, cost, is_estimated)

    def _bound(self, messages: list[dict[str, str]]) -> ReplyCost:
        """Return the maximum cost of a call with these messages."""
        n_bytes = sum(len(message["content"].encode()) for message in messages)
        most_in = n_bytes + _TOKENS_PER_MESSAGE * (len(messages) + 1) + _image_tokens(messages)
        if self.options.max_new_tokens is None:
            return replace(self._priced(most_in, 0, is_estimated=True), cost=None)
        return self._priced(most_in, self.options.max_new_tokens, is_estimated=True)

    def _estimate(self, messages: list[dict[str, str]], n_bytes: int) -> ReplyCost:
        """Estimate the cost of a call with a reply of `n_bytes` bytes."""
        prompt = sum(_about(len(message["content"].encode())) for message in messages)
        return self._priced(prompt + _image_tokens(messages), _about(n_bytes), is_estimated=True)

    def _keep(
        self, context: Conversation, spent: list[ReplyCost], answered_by: str, rejected: Iterable[str] | None
    ) -> None:
        total = spent[0]
        for cost in spent[1:]:
            total = total.plus(cost)
        with self._lock:
            self._costs[context] = replace(
                total, answered_by=answered_by, rejected_params=tuple(sorted(rejected or ()))
            )
            # Costs of replies that are never stored are never fetched, so drop the oldest entries.
            while len(self._costs) > _COSTS_KEPT:
                del self._costs[next(iter(self._costs))]

    def _clean(self, text: str) -> str:
        return redact_keys(text, (route.key for route in self._routes))


def _key_in(variable: str) -> str | None:
    """Return the key from an environment variable; None if none is configured."""
    return os.environ[variable].strip() if variable else None


def _image_tokens(messages: list[dict[str, str]]) -> int:
    """Return the maximum number of tokens for the images in these messages."""
    return _TOKENS_PER_IMAGE * sum(message["content"].count(IMAGE_MARK) // 2 for message in messages)


def _about(n_bytes: int) -> int:
    """Estimate the number of tokens in a text of `n_bytes` bytes."""
    return math.ceil(n_bytes / _BYTES_PER_TOKEN)
