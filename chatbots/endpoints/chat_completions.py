"""One streamed call of an OpenAI-compatible chat-completions endpoint, and what can go wrong with it.

The servers that speak this format differ at its edges, so nothing that one sends is taken on trust.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from chatbots.bots.base import BotError
from chatbots.trace import CallDelta

if TYPE_CHECKING:
    import httpx2

_AGAIN = {408, 409, 425, 429}
"""Statuses besides 5xx that pass by themselves."""
_SAID = {401: "the key was refused", 403: "the key may not use this model", 404: "not found", 429: "too many requests"}
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|context_length_exceeded|must be <= \d+\. Given", re.IGNORECASE
)
"""How OpenAI's, vLLM's, llama.cpp's and TGI's servers say that a conversation is longer than their context."""
_SHORTER = " A lower `window` in bots.yaml sends fewer turns; or let the server have more context."
_UNKNOWN_FIELD = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:supported|permitted|allowed|recogni[sz]ed)"
    r"|extra (?:inputs?|fields?)|invalid (?:parameter|field|argument)|no such (?:parameter|field)",
    re.IGNORECASE,
)
"""How endpoints refuse a field of a request that they do not know."""
_UNNAMED_FIELD = re.compile(r"^[^\x22'`]*(?:parameter|field|argument)[^\x22'`]*$", re.IGNORECASE)
_OPTIONS = {
    r"\bmax_(?:completion_)?tokens\b": (
        "set max_tokens_field in bots.yaml to max_completion_tokens, or back to max_tokens"
    ),
    r"\bseed\b": "set send_seed: false in bots.yaml",
}
"""Fields that some endpoints do not know, and what to do then."""
_NO_WORDS = "it says nothing"
_ERROR_WORDS = ("error", "message", "detail", "details", "msg")
"""Fields that hold an error's words, from the outer to the inner."""
_NO_SYSTEM = re.compile(r"system role|roles must alternate|only user\b.* roles? (?:is|are) supported", re.IGNORECASE)
"""How the templates of Gemma, Mistral and Llama refuse a system message."""
_MOST_WHOLE_BYTES = 12_000_000
"""Of a whole answer or one event: results of tools are long."""
_MOST_ERROR_BYTES = 20_000
_MOST_ERROR_CHARS = 300
_END_S = 1.0
"""How long the end of the connection is waited for after the end of the reply, to use it again."""


class CallFailed(BotError):
    """A call gave no complete reply.

    Args:
        text: what went wrong, in a sentence.
        passes: the same call may succeed a moment later.
        is_free: the endpoint refused the call or never heard of it, so it cost nothing.
        is_down: the address or the model has trouble, whatever is asked of it.
        is_of_address: the trouble is the address's, whichever model is asked.
        is_about_system: the model's template takes no system message there.
        retry_after_s: how long it asks to be left alone.
    """

    def __init__(
        self,
        text: str,
        *,
        passes: bool = True,
        is_free: bool = False,
        is_down: bool = False,
        is_of_address: bool = False,
        is_about_system: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.passes = passes
        self.is_free = is_free
        self.is_down = is_down
        self.is_of_address = is_of_address
        self.is_about_system = is_about_system
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the stream: text, reasoning, calls, images, why the model ended, tokens; each may be absent.

    `likely` are the likeliest tokens in the place of the piece's first one with their log-probabilities, where they
    were asked for (`logprobs`) and given.
    """

    text: str = ""
    finish: str | None = None
    usage: tuple[int, int] | None = None
    likely: tuple[tuple[str, float], ...] = ()
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()
    images: tuple[str, ...] = ()


async def call(
    client: httpx2.AsyncClient,
    base_url: str,
    body: dict[str, Any],
    *,
    key: str | None,
    connect_timeout_s: float,
    read_timeout_s: float,
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of one streamed completion, until the endpoint says that it is done.

    Raises:
        CallFailed: the call was refused, broke off or took too long.
    """
    import httpx2

    began = is_done = False
    try:
        async with client.stream(
            "POST",
            f"{base_url.rstrip('/')}/chat/completions",
            json={**body, "stream": True},
            headers={"Accept": "text/event-stream", **({"Authorization": f"Bearer {key}"} if key else {})},
            timeout=httpx2.Timeout(read_timeout_s, connect=connect_timeout_s),
        ) as response:
            if not response.is_success:
                raise await _refused(response)
            began = True
            if "html" in (kind := response.headers.get("content-type", "")):
                raise CallFailed(f"it sent no stream of events but a page ({kind})")
            data = response.aiter_bytes()
            head = await _head(data)
            if head.lstrip()[:1] in (b"{", b"["):
                yield await _whole(head, data)
                return
            stream = aiter(_events(head, data, response.request))
            async for event in stream:
                if not (said := event.data.strip()):
                    continue
                if said == "[DONE]":
                    if not is_done:
                        yield Chunk(finish="stop")
                    is_done = True
                    break
                chunk = _chunk(said, is_error=event.event == "error")
                is_done = is_done or chunk.finish is not None
                yield chunk
            with contextlib.suppress(TimeoutError, httpx2.HTTPError):
                async with asyncio.timeout(_END_S):
                    async for _ in stream:
                        pass
    except httpx2.ConnectTimeout as error:
        raise CallFailed("no connection within the time-out", is_free=True, is_down=True, is_of_address=True) from error
    except httpx2.ConnectError as error:
        raise CallFailed(f"no connection ({error})", is_free=True, is_down=True, is_of_address=True) from error
    except httpx2.SSEError as error:
        raise CallFailed(f"it sent no stream of events: {error}") from error
    except httpx2.TransportError as error:
        if is_done:  # The model had ended its reply: nothing of it is missing.
            return
        if isinstance(error, httpx2.TimeoutException):
            raise CallFailed("no answer within the time-out", is_down=True) from error
        what = "the connection broke" if began else "no connection"
        raise CallFailed(f"{what} ({error})", is_down=True) from error


async def _head(data: AsyncIterator[bytes]) -> bytes:
    """Read until the body shows what it is; without a byte-order mark."""
    head = b""
    async for part in data:
        head += part
        if len(head) >= len(codecs.BOM_UTF8) and head.removeprefix(codecs.BOM_UTF8).strip():
            break
    return head.removeprefix(codecs.BOM_UTF8)


def _events(head: bytes, data: AsyncIterator[bytes], request: httpx2.Request) -> httpx2.EventSource:
    """Read a body as events in UTF-8, whatever its headers call it."""
    import httpx2

    async def body() -> AsyncIterator[bytes]:
        yield head
        async for part in data:
            yield part
        yield b"\n\n"  # Some end with `data: [DONE]` alone, and only a blank line ends an event.

    kind = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx2.Response(200, headers=kind, content=body(), request=request)
    return httpx2.EventSource(response, max_event_size=_MOST_WHOLE_BYTES)


async def _whole(head: bytes, data: AsyncIterator[bytes]) -> Chunk:
    """Read a whole completion, or an error, from an endpoint that does not stream."""
    body = bytearray(head)
    async for part in data:
        body += part
        if len(body) > _MOST_WHOLE_BYTES:
            raise CallFailed(f"it sent an answer of more than {_MOST_WHOLE_BYTES:,} bytes")
    chunk = _chunk(body.decode("utf-8", "replace"), is_whole=True)
    # A server that gives no reason has given all that it will say.
    return replace(chunk, finish=chunk.finish or "stop")


async def _refused(response: httpx2.Response) -> CallFailed:
    """Return the error for an answer that is no stream."""
    status = response.status_code
    if response.is_redirect:
        # Following it would take the conversation, and perhaps the key, to an address that no researcher chose.
        to = response.headers.get("location", "")[:_MOST_ERROR_CHARS]
        return CallFailed(
            f"HTTP {status}, it redirects to {to}, which is not followed; base_url in bots.yaml must "
            "be the address itself",
            passes=False,
            is_free=True,
        )
    content = b""
    async for part in response.aiter_bytes():
        content += part
        if len(content) >= _MOST_ERROR_BYTES:
            break
    said, message = _SAID.get(status, "an error"), _message(content)
    if status < 500 and _TOO_LONG.search(message):
        said, message = "the conversation is too long for it", message + _SHORTER
    return CallFailed(
        f"HTTP {status}, {said}: {message}{_advice(status, message)}",
        passes=status >= 500 or status in _AGAIN,
        is_free=True,
        is_down=status >= 500 or status == 429,
        is_of_address=status == 429,
        is_about_system=bool(_NO_SYSTEM.search(message)),
        retry_after_s=retry_after_s(response.headers),
    )


def _advice(status: Any, message: str) -> str:
    """Name the options that change the field which the endpoint refused."""
    is_silent = message == _NO_WORDS
    if status not in (400, 422) or not (is_silent or _UNKNOWN_FIELD.search(message)):
        return ""
    options = [advice for field, advice in _OPTIONS.items() if re.search(field, message)]
    if not options and (is_silent or _UNNAMED_FIELD.search(message)):
        options = list(_OPTIONS.values())
    return f". If it takes no such field, {' and '.join(options)}" if options else ""


def _message(content: bytes) -> str:
    """Extract the words from the body of an error, shortened."""
    text = content[:_MOST_ERROR_BYTES].decode("utf-8", "replace")
    found: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        found = _first(json.loads(text))
    for name in _ERROR_WORDS:
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return (" ".join(str(found).split()) or _NO_WORDS)[:_MOST_ERROR_CHARS]


def _first(found: Any) -> Any:
    """Unwrap a list of one, in which some endpoints send an answer."""
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the endpoint asks to wait, by number or date; None if it asks for nothing readable."""
    asked = headers.get("retry-after", "").strip()
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _chunk(data: str, *, is_error: bool = False, is_whole: bool = False) -> Chunk:
    """Parse one event's data, or a whole answer.

    Args:
        is_error: the endpoint calls the event an error.
        is_whole: nothing came before it, so an error has cost nothing.

    Raises:
        CallFailed: it is an error, or nothing that the format knows.
    """
    try:
        found = _first(json.loads(data))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CallFailed(f"it sent something else than a chunk: {data[:_MOST_ERROR_CHARS]}")
    choices = found.get("choices")
    has_words = not choices and any(found.get(name) for name in _ERROR_WORDS)
    if is_error or found.get("error") or has_words:
        raise _broke_off(found, data, is_free=is_whole)
    usage = found.get("usage")
    choice = _choice(choices)
    finish = choice.get("finish_reason")
    # A `message` beside a `delta` repeats what the deltas said.
    delta = choice.get("delta", choice.get("message"))
    delta = delta if isinstance(delta, dict) else {}
    is_result = delta.get("role") == "tool" or bool(delta.get("tool_call_id"))
    return Chunk(
        text="" if is_result else _text(delta),
        reasoning="" if is_result else _reasoning(delta),
        calls=tuple(_calls(delta, is_result=is_result)),
        images=() if is_result else tuple(_images(delta)),
        finish=str(finish) if finish else None,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        likely=_likely(choice.get("logprobs")),
    )


def _broke_off(found: dict[str, Any], data: str, *, is_free: bool) -> CallFailed:
    """Return the error that a stream or a whole answer holds, in the endpoint's words."""
    message = _message(data.encode("utf-8", "replace"))
    too_long = bool(_TOO_LONG.search(message))
    inner = found.get("error")
    status = inner.get("code") if isinstance(inner, dict) else found.get("code")
    passes = not isinstance(status, int) or not 400 <= status < 500 or status in _AGAIN
    return CallFailed(
        f"it broke off with an error: {message}{_SHORTER if too_long else _advice(status, message)}",
        passes=passes and not too_long,
        is_free=is_free or too_long,
    )


def _choice(choices: Any) -> dict[str, Any]:
    """Return the first of the model's choices; an event may hold others only."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return {}


def _text(delta: dict[str, Any]) -> str:
    """Return the text of a delta without its reasoning; a refusal counts as text."""
    text = _parts(delta.get("content"), "text", ("text", "output_text")) or delta.get("refusal")
    return text if isinstance(text, str) else ""


def _reasoning(delta: dict[str, Any]) -> str:
    """Return the reasoning of a delta.

    `reasoning_content` is DeepSeek's, llama.cpp's and older vLLM's field, `reasoning` Ollama's, Groq's and vLLM's;
    OpenRouter sends both. Mistral has parts of the content.
    """
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := delta.get(name), str) and text:
            return text
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    thoughts = [part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking"]
    return "".join(_parts(thought, "text", ("text",)) for thought in thoughts)


def _parts(content: Any, field: str, kinds: tuple[str, ...]) -> str:
    """Return a text, or the texts of the parts that it is made of."""
    if isinstance(content, list):
        found = (part for part in content if isinstance(part, dict) and part.get("type", "text") in kinds)
        content = "".join(text for part in found if isinstance(text := part.get(field), str))
    return content if isinstance(content, str) else ""


def _images(delta: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of the images in a delta.

    OpenRouter, LiteLLM and Vercel send a list `images` beside the content, vLLM-Omni parts of the content.
    """
    for entries in (delta.get("images"), delta.get("content")):
        for entry in entries if isinstance(entries, list) else ():
            found = entry.get("image_url") if isinstance(entry, dict) else None
            address = found.get("url") if isinstance(found, dict) else found
            if isinstance(address, str):
                yield address


def _calls(delta: dict[str, Any], *, is_result: bool) -> Iterator[CallDelta]:
    """Yield the parts of tool calls in a delta.

    Endpoints that run tools report their results in one of three ways: as a message of the role `tool`, as `result`
    or `output` of an entry of `tool_calls`, or as `executed_tools` (Groq).
    """
    if is_result:
        result = delta.get("content")
        yield CallDelta(id=_written(delta.get("tool_call_id")), result=_written(result), failed=_failed(delta))
    for name in ("tool_calls", "executed_tools"):
        entries = delta.get(name)
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            function = entry.get("function")
            call = function if isinstance(function, dict) else entry
            result = entry.get("result", entry.get("output"))
            index = entry.get("index")
            yield CallDelta(
                index=index if isinstance(index, int) else None,
                id=_written(entry.get("id")),
                name=_written(call.get("name") or (entry.get("type") if call is entry else "")),
                arguments=_written(call.get("arguments")),
                result=None if result is None else _written(result),
                failed=_failed(entry),
            )


def _failed(entry: dict[str, Any]) -> bool:
    return bool(entry.get("is_error") or entry.get("error")) or entry.get("status") in ("error", "failed")


def _written(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _likely(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """Return the first token's alternatives; none where the endpoint gives them in no form known here."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    return tuple(
        (one["token"], float(one["logprob"]))
        for one in (top if isinstance(top, list) else ())
        if isinstance(one, dict) and isinstance(one.get("token"), str) and isinstance(one.get("logprob"), int | float)
    )


def _usage(usage: dict[str, Any]) -> tuple[int, int] | None:
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts):
        return None
    return counts  # type: ignore[return-value]
