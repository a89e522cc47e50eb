"""Extra fields of single requests for judges: log-probabilities and response format."""

from __future__ import annotations

import threading
from typing import Any

from chatbots.conversation import Conversation
from chatbots.endpoints.chat_completions import LikelyTokens

_MOST_LIKELY = 20
"""Number of alternatives per token; the maximum of OpenAI and vLLM."""
_MOST_KEPT = 10_000


class ExtraFields:
    """Extra fields by conversation, the rejected ones by address, and returned tokens."""

    def __init__(self) -> None:
        self._wanted: dict[Conversation, dict[str, Any]] = {}
        self._refused: dict[str, set[str]] = {}  # by address
        self._likely: dict[Conversation, tuple[LikelyTokens, ...]] = {}
        self._lock = threading.Lock()

    def want(self, context: Conversation, response_format: dict[str, Any] | None) -> None:
        """Add log-probabilities and an optional response format to this reply's request."""
        form = {"response_format": response_format} if response_format else {}
        with self._lock:
            self._wanted[context] = {**form, "logprobs": True, "top_logprobs": _MOST_LIKELY}

    def fields(self, context: Conversation, url: str) -> dict[str, Any]:
        """Return the fields to send to this address, without those it rejected."""
        refused = self._refused.get(url, set())
        return {name: value for name, value in self._wanted.get(context, {}).items() if name not in refused}

    def leave_out(self, context: Conversation, url: str, reason: str) -> bool:
        """Omit the field named by a refusal, or the first.

        False if none was sent.
        """
        sent = list(self.fields(context, url))
        if not sent:
            return False
        refused = next((name for name in sent if name in reason), sent[0])
        names = {refused} if refused == "response_format" else {"logprobs", "top_logprobs"}
        self._refused.setdefault(url, set()).update(names)
        return True

    def keep(self, context: Conversation, likely: tuple[LikelyTokens, ...], *, is_first: bool) -> None:
        """Store a piece's tokens.

        The first piece of a retry replaces earlier ones.
        """
        with self._lock:
            self._likely[context] = likely if is_first else self._likely.get(context, ()) + likely
            while len(self._likely) > _MOST_KEPT:
                del self._likely[next(iter(self._likely))]

    def take(self, context: Conversation) -> tuple[LikelyTokens, ...]:
        """Remove and return the reply's tokens with their likeliest alternatives."""
        with self._lock:
            self._wanted.pop(context, None)
            return self._likely.pop(context, ())
