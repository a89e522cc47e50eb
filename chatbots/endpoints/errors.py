"""Errors of endpoints: messages, retries, and advice for the researcher."""

from __future__ import annotations

import contextlib
import html
import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from chatbots.bots.base import BotError
from chatbots.endpoints.addresses import LONGEST_PAUSE_S, format_wait

_AGAIN = {408, 409, 425, 429}
"""Temporary statuses besides 5xx."""
_STATUS_WORDS = {
    401: "the key was refused",
    403: "the key may not use this model",
    404: "not found",
    429: "too many requests",
}
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|context_length_exceeded|must be <= \d+\. Given", re.IGNORECASE
)
"""Messages of OpenAI, vLLM, llama.cpp and TGI about a conversation that exceeds the context length."""
_SHORTER = " Lower `window` in bots.yaml to send fewer turns, or increase the server's context length."
_UNKNOWN_FIELD = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)"
    r"|not (?:\w+ )?(?:support|permit|allow|recogni[sz]e|available|compatible)"
    r"|extra (?:inputs?|fields?)|invalid[ _](?:parameter|field|argument)|no such (?:parameter|field)"
    r"|deprecated|only (?:the default|be set to|supports|\S+ is (?:allowed|supported))|cannot both|no longer"
    r"|verified to stream",
    re.IGNORECASE,
)
"""Messages about request fields that the endpoint or model does not support."""
_UNNAMED_FIELD = re.compile(r"^[^\x22'`]*(?:parameter|field|argument)[^\x22'`]*$", re.IGNORECASE)
_FIELDS = re.compile(
    r"\b(temperature|top_p|seed|max_tokens|max_completion_tokens|stream_options|top_logprobs|logprobs)\b"
    r"|\b(stream)(?:ing\b|(?=['\"`]| this model))",
    re.IGNORECASE,
)
"""Request fields added by Confab, as errors name them."""
_OPTIONS = {
    "max_tokens": "set max_tokens_field in bots.yaml to max_completion_tokens, or back to max_tokens",
    "seed": "set send_seed: false in bots.yaml",
    "temperature": "set temperature: null in bots.yaml",
}
"""Options to set for a field that an endpoint does not support."""
_CONTENT = re.compile(
    r"content[ _-]?(?:filter|polic|management policy|exists risk|safety|moderation)|responsible_?ai|data_inspection"
    r"|moderation|flagged|inappropriate content|invalid_prompt|prohibited[ _]content|usage polic|guardrail"
    r"|safety (?:system|filter|setting|reason)|(?:input|output) new_sensitive|sensitive content|敏感",
    re.IGNORECASE,
)
"""Messages of content filters."""
_OF_ACCOUNT = re.compile(
    r"\b(?:account|api[ _-]?key|your key|ip(?: address)?|all models|insufficient_quota|billing|credits?)\b",
    re.IGNORECASE,
)
"""Messages about limits that affect more than one model."""
_NO_QUOTA = re.compile(r"insufficient_quota|billing")
_PERMANENT = re.compile(r"insufficient_quota|billing|invalid|authentication|permission|not_found|unsupported")
_NO_WORDS = "no message"
_ERROR_WORDS = ("error", "message", "detail", "details", "msg")
"""Fields with an error's message, from the outermost to the innermost."""
_NO_SYSTEM = re.compile(r"system role|roles must alternate|only user\b.* roles? (?:is|are) supported", re.IGNORECASE)
"""Messages of the templates of Gemma, Mistral and Llama that reject a system message."""
MOST_ERROR_BYTES = 20_000
MOST_ERROR_CHARS = 300


class CallFailed(BotError):
    """Failure of a call to return a complete reply.

    Args:
        text: the problem, in one sentence.
        passes: a retry may succeed.
        is_free: the endpoint rejected or never received the call, so it cost nothing.
        is_down: the address or the model fails for any request.
        is_of_address: the problem affects all models of the address.
        is_about_system: the model's template does not support a system message there.
        is_content: a content filter refused the conversation.
        rejected_params: request fields that the endpoint does not support.
        retry_after_s: pause in seconds that the endpoint asks for.
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
        is_content: bool = False,
        rejected_params: tuple[str, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.passes = passes
        self.is_free = is_free
        self.is_down = is_down
        self.is_of_address = is_of_address
        self.is_about_system = is_about_system
        self.is_content = is_content
        self.rejected_params = rejected_params
        self.retry_after_s = retry_after_s


def read_refusal(status: int, headers: Mapping[str, str], content: bytes, base_url: str) -> CallFailed:
    """Return the error for a response with a status other than 2xx."""
    message, code = read_message(content), _code_of(_parse(content))
    words = _STATUS_WORDS.get(status, "an error")
    too_long = status < 500 and bool(_TOO_LONG.search(message))
    if too_long:
        words, message = "the conversation is too long for it", message + _SHORTER
    is_content = status in (400, 403, 422, 451) and not too_long and _is_content(content.decode("utf-8", "replace"))
    if is_content:
        words = "a content filter refused the conversation"
    wait_s = retry_after_s(headers)
    advice = address_advice(base_url) if status in (404, 405) else _advice(status, message)
    if wait_s:
        advice += f"; it asks to wait {format_wait(wait_s)}"
    is_lasting = (wait_s or 0) > LONGEST_PAUSE_S or (status == 429 and bool(_NO_QUOTA.search(code)))
    return CallFailed(
        f"HTTP {status}, {words}: {message}{advice}",
        passes=(status >= 500 or status in _AGAIN) and not is_lasting,
        is_free=True,
        is_down=status >= 500 or status == 429,
        is_of_address=status == 429 and bool(_OF_ACCOUNT.search(f"{code} {message}")),
        is_about_system=bool(_NO_SYSTEM.search(message)),
        is_content=is_content,
        rejected_params=() if is_content or status not in (400, 404, 422) else _rejected_params(message, content),
        retry_after_s=wait_s,
    )


def read_broken_off(body: dict[str, Any], data: str, *, is_free: bool) -> CallFailed:
    """Return the error in a stream or a whole response.

    Args:
        body: the error's JSON.
        data: its text.
    """
    message = read_message(data.encode("utf-8", "replace"))
    too_long = bool(_TOO_LONG.search(message))
    status = _status_of(body)
    is_content = status in (None, 400, 403, 422, 451) and not too_long and _is_content(data)
    passes = not (status is not None and 400 <= status < 500 and status not in _AGAIN)
    return CallFailed(
        f"it broke off with an error: {message}{_SHORTER if too_long else _advice(status, message)}",
        passes=passes and not too_long and not is_content and not _PERMANENT.search(_code_of(body)),
        is_free=is_free or too_long,
        is_content=is_content,
        rejected_params=() if is_content else _rejected_params(message, data.encode("utf-8", "replace")),
    )


def redirect_refused(status: int, target: str) -> CallFailed:
    """Return the error for a redirect.

    Following it would send the conversation, and perhaps the key, to an address that no researcher chose.
    """
    return CallFailed(
        f"HTTP {status}, it redirects to {target[:MOST_ERROR_CHARS]}. Confab does not follow redirects; set base_url "
        "in bots.yaml to the final address",
        passes=False,
        is_free=True,
    )


def address_advice(base_url: str) -> str:
    """Explain a common mistake in an address without chat completions.

    Empty if none applies.
    """
    path = urlsplit(base_url).path.rstrip("/")
    if path.endswith("/completions"):
        short = base_url.rstrip("/").removesuffix("/completions").removesuffix("/chat")
        return f". Confab adds /chat/completions itself: set base_url in bots.yaml to {short}"
    if not re.search(r"/v\d", path):
        return f". Most addresses end in /v1: try base_url: {base_url.rstrip('/')}/v1 in bots.yaml"
    return ""


def unwrap(body: Any) -> Any:
    """Unwrap the one-element list in which some endpoints send a response."""
    return body[0] if isinstance(body, list) and len(body) == 1 else body


def read_message(content: bytes) -> str:
    """Extract the message from an error body, shortened and without HTML tags."""
    text = content[:MOST_ERROR_BYTES].decode("utf-8", "replace")
    body = _parse(content)
    words: Any = text if body is None else body
    for name in _ERROR_WORDS:
        if isinstance(words, dict) and words.get(name):
            words = words[name]
    if body is None and text.lstrip().startswith("<"):
        text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", " ", text)
        words = html.unescape(text)
    return (" ".join(str(words).split()) or _NO_WORDS)[:MOST_ERROR_CHARS]


def has_error_words(body: Mapping[str, Any]) -> bool:
    """Return True if a body without choices contains an error message."""
    return any(body.get(name) for name in _ERROR_WORDS)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds from Retry-After (number or date), or None."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _parse(content: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return unwrap(json.loads(content[:MOST_ERROR_BYTES].decode("utf-8", "replace")))
    return None


def _parts_of(body: Any) -> list[Mapping[str, Any]]:
    """Return the inner error object and the object around it."""
    inner = body.get("error") if isinstance(body, dict) else None
    return [part for part in (inner, body) if isinstance(part, dict)]


def _status_of(body: Any) -> int | None:
    """Return the HTTP status, number or text, in an error body."""
    for part in _parts_of(body):
        for name in ("code", "status", "status_code", "http_status"):
            with contextlib.suppress(ValueError):
                if 100 <= (status := int(str(part.get(name)))) < 600:
                    return status
    return None


def _code_of(body: Any) -> str:
    return " ".join(str(part.get(name, "")) for part in _parts_of(body) for name in ("code", "type"))


def _is_content(text: str) -> bool:
    # A flagged account fails for any conversation.
    return bool(_CONTENT.search(text)) and not re.search(r"\b(?:your|this) (?:account|organi[sz]ation)\b", text)


def _rejected_params(message: str, content: bytes) -> tuple[str, ...]:
    """Return the request fields that an error rejects, in its order."""
    if not _UNKNOWN_FIELD.search(message):
        return ()
    params = [part["param"] for part in _parts_of(_parse(content)) if isinstance(part.get("param"), str)]
    params += [(match[1] or match[2]).lower() for match in _FIELDS.finditer(message)]
    return tuple(dict.fromkeys(params))


def _advice(status: Any, message: str) -> str:
    """Name the options that control the rejected field."""
    is_silent = message == _NO_WORDS
    if status not in (400, 422) or not (is_silent or _UNKNOWN_FIELD.search(message)):
        return ""
    fields = {match[0].lower().replace("max_completion_tokens", "max_tokens") for match in _FIELDS.finditer(message)}
    options = [advice for field, advice in _OPTIONS.items() if field in fields]
    if not options and (is_silent or _UNNAMED_FIELD.search(message)):
        options = list(_OPTIONS.values())
    return f". If it does not support this field, {' and '.join(options)}" if options else ""
