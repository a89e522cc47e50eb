"""One streamed call of an OpenAI-compatible chat-completions endpoint, and what can go wrong with it.

The servers that speak this format differ at its edges, so nothing that one sends is taken on trust.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from chatbots.base import BotError

if TYPE_CHECKING:
    import httpx2

_AGAIN = {408, 409, 425, 429}
"""Statuses besides 5xx that pass by themselves."""
_SAID = {
    401: "the key was refused",
    403: "the key may not use this model",
    404: "not found",
    429: "too many requests",
}
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|context_length_exceeded|must be <= \d+\. Given",
    re.IGNORECASE,
)
"""How OpenAI's, vLLM's, llama.cpp's and TGI's servers say that a conversation is longer than their context."""
_SHORTER = " A lower `window` in bots.yaml sends fewer turns; or let the server have more context."
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
        is_down: the address could not be reached or has trouble, whatever is asked of it.
        retry_after_s: how long it asks to be left alone.
    """

    def __init__(
        self,
        text: str,
        *,
        passes: bool = True,
        is_free: bool = False,
        is_down: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.passes = passes
        self.is_free = is_free
        self.is_down = is_down
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the stream: text, why the model ended, tokens of prompt and reply; each may be absent.

    `likely` are the likeliest tokens in the place of the piece's first one with their log-probabilities, where they were
    asked for (`logprobs`) and given.
    """

    text: str = ""
    finish: str | None = None
    usage: tuple[int, int] | None = None
    likely: tuple[tuple[str, float], ...] = ()


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

    began = False
    try:
        async with client.sse(
            f"{base_url.rstrip('/')}/chat/completions",
            method="POST",
            json={**body, "stream": True},
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(read_timeout_s, connect=connect_timeout_s),
        ) as events:
            if not events.response.is_success:
                raise await _refused(events.response)
            began = True
            stream = aiter(events)
            async for event in stream:
                if event.data == "[DONE]":
                    break
                yield _chunk(event.data)
            with contextlib.suppress(TimeoutError, httpx2.HTTPError):
                async with asyncio.timeout(_END_S):
                    async for _ in stream:
                        pass
    except httpx2.ConnectTimeout as error:
        raise CallFailed("no connection within the time-out", is_free=True, is_down=True) from error
    except httpx2.TimeoutException as error:
        raise CallFailed("no answer within the time-out", is_down=True) from error
    except httpx2.SSEError as error:
        raise CallFailed(f"it sent no stream of events: {error}") from error
    except httpx2.ConnectError as error:
        raise CallFailed(f"no connection ({error})", is_free=True, is_down=True) from error
    except httpx2.TransportError as error:
        what = "the connection broke" if began else "no connection"
        raise CallFailed(f"{what} ({error})", is_down=True) from error


async def _refused(response: httpx2.Response) -> CallFailed:
    """Return the error for an answer that is no stream."""
    status = response.status_code
    if response.is_redirect:
        # Following it would take the conversation, and perhaps the key, to an address nobody chose.
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
        f"HTTP {status}, {said}: {message}",
        passes=status >= 500 or status in _AGAIN,
        is_free=True,
        is_down=status >= 500,
        retry_after_s=retry_after_s(response.headers),
    )


def _message(content: bytes) -> str:
    """Return what the body of an error says, shortened."""
    text = content[:_MOST_ERROR_BYTES].decode("utf-8", "replace")
    found: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
    for name in ("error", "message"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return (" ".join(str(found).split()) or "it says nothing")[:_MOST_ERROR_CHARS]


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


def _chunk(data: str) -> Chunk:
    """Parse one event's data.

    Raises:
        CallFailed: it is an error, or nothing that the format knows.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CallFailed(f"it sent something else than a chunk: {data[:_MOST_ERROR_CHARS]}")
    if found.get("error"):
        message = _message(data.encode("utf-8", "replace"))
        too_long = bool(_TOO_LONG.search(message))
        raise CallFailed(
            f"it broke off with an error: {message}{_SHORTER if too_long else ''}",
            passes=not too_long,
            is_free=too_long,
        )
    usage = found.get("usage")
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    choice = choice if isinstance(choice, dict) else {}
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) else None
    finish = choice.get("finish_reason")
    return Chunk(
        text=text if isinstance(text, str) else "",
        finish=str(finish) if finish else None,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        likely=_likely(choice.get("logprobs")),
    )


def _likely(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """Return the first token's alternatives; none where the endpoint gives them in no form known here."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    return tuple(
        (one["token"], float(one["logprob"]))
        for one in (top if isinstance(top, list) else ())
        if isinstance(one, dict)
        and isinstance(one.get("token"), str)
        and isinstance(one.get("logprob"), int | float)
    )


def _usage(usage: dict[str, Any]) -> tuple[int, int] | None:
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts):
        return None
    return counts  # type: ignore[return-value]
