"""A single streamed call of an OpenAI-compatible chat-completions endpoint.

Servers differ in the details of this format, so everything they send is validated.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chatbots.endpoints.errors import (
    MOST_ERROR_BYTES,
    MOST_ERROR_CHARS,
    CallFailed,
    address_advice,
    has_error_words,
    read_broken_off,
    read_refusal,
    redirect_refused,
    unwrap,
)
from chatbots.text import quote
from chatbots.trace import CallDelta

if TYPE_CHECKING:
    import httpx2

_MOST_WHOLE_BYTES = 12_000_000
"""Maximum size of a whole response or one event; tool results can be long."""
_END_S = 1.0
"""Maximum wait after the reply for token counts and the end of the stream, so that the connection can be reused."""
_HEARTBEAT = re.compile(r":.*|\W?(?:ping|heart[-_ ]?beat|keep[-_ ]?alive)\W?", re.IGNORECASE | re.DOTALL)
"""Data of heartbeat events."""
_GOOD_ENDS = {
    *("stop", "length", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "max_tokens", "model_length"),
    *("end", "done", "complete", "completed", "finished", "normal"),
}
"""Finish reasons of complete replies and of replies at their maximum length (`LENGTH_ENDS`)."""
LENGTH_ENDS = {"length", "max_tokens", "model_length"}
_TOOL_ENDS = {"tool_calls", "function_call", "tool_use"}
"""The model waits for a tool. Endpoints that run tools continue in the same stream."""
_CONTENT_ENDS = {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal"}

LikelyTokens = tuple[str, tuple[tuple[str, float], ...]]
"""A token of a reply, and its likeliest alternatives with log-probabilities."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of the stream; every field may be absent.

    `finish` is the finish reason in lower case, `finish_detail` the provider's own term.

    `likely` has the piece's tokens, each with its likeliest alternatives and their log-probabilities, if they were
    requested (`logprobs`) and returned.
    """

    text: str = ""
    finish: str | None = None
    finish_detail: str = ""
    usage: tuple[int, int] | None = None
    likely: tuple[LikelyTokens, ...] = ()
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
    """Yield the chunks of one streamed completion until its end.

    Raises:
        CallFailed: the call was refused, broke off or took too long.
    """
    import httpx2

    began = has_text = False
    finish: str | None = None
    loop = asyncio.get_running_loop()
    end_by: float | None = None
    try:
        async with client.stream(
            "POST",
            f"{base_url.rstrip('/')}/chat/completions",
            json=body,
            headers={"Accept": "text/event-stream", **({"Authorization": f"Bearer {key}"} if key else {})},
            timeout=httpx2.Timeout(read_timeout_s, connect=connect_timeout_s),
        ) as response:
            if not response.is_success:
                raise await _refused(response, base_url)
            began = True
            if "html" in (kind := response.headers.get("content-type", "")):
                raise CallFailed(f"it sent a page instead of an event stream ({kind}){address_advice(base_url)}")
            data = response.aiter_bytes()
            head = await _head(data)
            if head.lstrip()[:1] in (b"{", b"["):
                yield await _read_completion(head, data)
                return
            stream = aiter(_events(head, data, response.request))
            while True:
                try:
                    # The reply is followed by token counts and the end of the stream, or by heartbeats only.
                    async with asyncio.timeout_at(end_by):
                        event = await anext(stream, None)
                except TimeoutError:
                    return
                if event is None:
                    return
                text = event.data.strip().removeprefix("data:").lstrip()
                if not text or _HEARTBEAT.fullmatch(text):
                    continue
                if text == "[DONE]":
                    if finish is None:
                        yield Chunk(finish="stop")
                    finish = finish or "stop"
                else:
                    try:
                        chunk = _chunk(text, is_error=event.event == "error", has_text=has_text)
                    except CallFailed:
                        if finish in _GOOD_ENDS and has_text:
                            return
                        raise
                    has_text = has_text or bool(chunk.text)
                    # The reply continues after a tool call.
                    finish = chunk.finish or (None if finish in _TOOL_ENDS and chunk.text else finish)
                    yield chunk
                if end_by is None and finish is not None and finish not in _TOOL_ENDS:
                    end_by = loop.time() + _END_S
    except httpx2.ConnectTimeout as error:
        raise CallFailed("no connection within the time-out", is_free=True, is_down=True, is_of_address=True) from error
    except httpx2.ConnectError as error:
        raise CallFailed(f"no connection ({error})", is_free=True, is_down=True, is_of_address=True) from error
    except httpx2.TransportError as error:
        if finish is not None:  # The model has ended its reply, so it is complete.
            return
        if isinstance(error, httpx2.SSEError):
            raise CallFailed(f"it sent an invalid event stream: {error}") from error
        if isinstance(error, httpx2.TimeoutException):
            raise CallFailed("no answer within the time-out", is_down=True) from error
        failure = "the connection broke" if began else "no connection"
        raise CallFailed(f"{failure} ({error})", is_down=True) from error


def is_good_end(finish: str) -> bool:
    """Return True if a finish reason ends a valid reply.

    Tool calls may follow text.
    """
    return finish in _GOOD_ENDS or finish in _TOOL_ENDS


def read_bad_end(finish: str, reason: str) -> CallFailed:
    """Return the error for any other finish reason.

    `reason` is the endpoint's term.
    """
    if finish in _CONTENT_ENDS:
        return CallFailed(
            f"a content filter ended the reply (finish reason {quote(finish)})", passes=False, is_content=True
        )
    reason_note = f", {reason}" if reason else ""
    return CallFailed(f"the endpoint broke off the reply (finish reason {quote(finish)}{reason_note})")


async def _head(data: AsyncIterator[bytes]) -> bytes:
    """Read the body until its format is clear; strips a byte-order mark."""
    head = b""
    async for part in data:
        head += part
        if len(head) >= len(codecs.BOM_UTF8) and head.removeprefix(codecs.BOM_UTF8).strip():
            break
    return head.removeprefix(codecs.BOM_UTF8)


def _events(head: bytes, data: AsyncIterator[bytes], request: httpx2.Request) -> httpx2.EventSource:
    """Read a body as UTF-8 events, regardless of its headers."""
    import httpx2

    async def body() -> AsyncIterator[bytes]:
        yield head
        async for part in data:
            yield part
        yield b"\n\n"  # Some streams end with `data: [DONE]` without the blank line that ends an event.

    kind = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx2.Response(200, headers=kind, content=body(), request=request)
    return httpx2.EventSource(response, max_event_size=_MOST_WHOLE_BYTES)


async def _read_completion(head: bytes, data: AsyncIterator[bytes]) -> Chunk:
    """Read a completion or an error from an endpoint without streaming."""
    body = bytearray(head)
    async for part in data:
        body += part
        if len(body) > _MOST_WHOLE_BYTES:
            raise CallFailed(f"it sent a response of more than {_MOST_WHOLE_BYTES:,} bytes")
    chunk = _chunk(body.decode("utf-8", "replace"), is_whole=True)
    # Without a finish reason, assume that the reply is complete.
    return replace(chunk, finish=chunk.finish or "stop")


async def _refused(response: httpx2.Response, base_url: str) -> CallFailed:
    """Read the error of a response that is not a stream."""
    if response.is_redirect:
        return redirect_refused(response.status_code, response.headers.get("location", ""))
    content = b""
    async for part in response.aiter_bytes():
        content += part
        if len(content) >= MOST_ERROR_BYTES:
            break
    return read_refusal(response.status_code, response.headers, content, base_url)


def _chunk(data: str, *, is_error: bool = False, is_whole: bool = False, has_text: bool = False) -> Chunk:
    """Parse the data of one event, or a whole response.

    Args:
        is_error: the endpoint marks the event as an error.
        is_whole: this is the first event, so an error has cost nothing.
        has_text: part of the reply's text has been received.

    Raises:
        CallFailed: it is an error, or does not follow the format.
    """
    try:
        body = unwrap(json.loads(data))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise CallFailed(f"it sent something other than a chunk: {data[:MOST_ERROR_CHARS]}")
    choices = body.get("choices")
    if is_error or body.get("error") or (not choices and has_error_words(body)):
        raise read_broken_off(body, data, is_free=is_whole)
    usage = body.get("usage")
    choice = _choice(choices)
    finish = choice.get("finish_reason")
    finish = str(finish).lower() if finish and finish != "null" else None
    if error := choice.get("error"):
        error_body = {"error": error}
        raise read_broken_off(error_body, json.dumps(error_body), is_free=False)
    delta, message = choice.get("delta"), choice.get("message")
    # A `message` next to a `delta` repeats the text of the deltas, if they had any.
    if isinstance(message, dict) and not (isinstance(delta, dict) and (has_text or _text(delta) or not _text(message))):
        delta = message
    delta = delta if isinstance(delta, dict) else {"content": choice.get("text")}
    is_result = delta.get("role") == "tool" or bool(delta.get("tool_call_id"))
    return Chunk(
        text="" if is_result else _text(delta),
        reasoning="" if is_result else _reasoning(delta),
        calls=tuple(_calls(delta, is_result=is_result)),
        images=() if is_result else tuple(_images(delta)),
        finish=finish,
        finish_detail=str(choice.get("native_finish_reason") or ""),
        usage=_usage(usage) if isinstance(usage, dict) else None,
        likely=_likely(choice.get("logprobs")),
    )


def _choice(choices: Any) -> dict[str, Any]:
    """Return the model's first choice, which an event may lack."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return {}


def _text(delta: dict[str, Any]) -> str:
    """Return the text of a delta without reasoning.

    A refusal counts as text.
    """
    text = _parts(delta.get("content"), "text", ("text", "output_text")) or _parts(delta.get("refusal"), "text", ())
    return text or _parts(delta.get("content"), "refusal", ("refusal",))


def _reasoning(delta: dict[str, Any]) -> str:
    """Return the reasoning of a delta.

    `reasoning_content` is DeepSeek's, llama.cpp's and older vLLM's field, `reasoning` Ollama's, Groq's and vLLM's;
    OpenRouter sends both. Mistral puts it into parts of the content.
    """
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := delta.get(name), str) and text:
            return text
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    thoughts = [part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking"]
    return "".join(_parts(thought, "text", ("text",)) for thought in thoughts)


def _parts(content: Any, field: str, kinds: tuple[str, ...]) -> str:
    """Return a text, or the joined texts of its parts.

    Accepts a single part.
    """
    if isinstance(content, str):
        return content if field == "text" else ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and part.get("type", "text") in kinds:
            text = part.get(field)
            texts.append(text.get("value") if isinstance(text, dict) else text)
    return "".join(text for text in texts if isinstance(text, str))


def _images(delta: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of the images in a delta.

    OpenRouter, LiteLLM and Vercel send a list `images` next to the content, vLLM-Omni parts of the content.
    """
    for entries in (delta.get("images"), delta.get("content")):
        for entry in entries if isinstance(entries, list) else ():
            image = entry.get("image_url") if isinstance(entry, dict) else None
            address = image.get("url") if isinstance(image, dict) else image
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
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _likely(logprobs: Any) -> tuple[LikelyTokens, ...]:
    """Return the tokens with their alternatives; none if the format is unknown."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return tuple(
        (token["token"], _alternatives(token.get("top_logprobs")))
        for token in (content if isinstance(content, list) else ())
        if isinstance(token, dict) and isinstance(token.get("token"), str)
    )


def _alternatives(top: Any) -> tuple[tuple[str, float], ...]:
    return tuple(
        (candidate["token"], float(candidate["logprob"]))
        for candidate in (top if isinstance(top, list) else ())
        if isinstance(candidate, dict)
        and isinstance(candidate.get("token"), str)
        and isinstance(candidate.get("logprob"), int | float)
    )


def _usage(usage: dict[str, Any]) -> tuple[int, int] | None:
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts):
        return None
    return counts  # type: ignore[return-value]
