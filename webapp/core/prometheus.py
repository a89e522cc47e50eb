"""Prometheus instruments of each process; `/metrics` shows those of all processes.

Labels are names of bots, of parts of Confab and of kinds of failure: never a person, a conversation or an address.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

# When a series began stands in the process's row.
disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
"""Of this process; apart from the client's own, in which libraries may put theirs."""

_REPLY_S = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)

REQUESTS = Histogram(
    "confab_request_duration_seconds",
    "How long pages and calls took, by part of Confab and class of status.",
    ["part", "status"],
    buckets=(0.025, 0.05, 0.1, 0.3, 1, 3, 10),
    registry=registry,
)
SENT_AWAY = Counter(
    "confab_requests_sent_away",
    "Requests that found no free thread in time and were asked to come back.",
    registry=registry,
)
REPLIES = Counter("confab_replies", "Replies of bots to people that were stored.", ["bot"], registry=registry)
REPLY_WHOLE = Histogram(
    "confab_reply_duration_seconds", "From a message to the whole reply.", ["bot"], buckets=_REPLY_S, registry=registry
)
REPLY_FIRST = Histogram(
    "confab_reply_first_token_seconds",
    "From a message to the first words of the reply.",
    ["bot"],
    buckets=_REPLY_S,
    registry=registry,
)
REPLY_FAILURES = Counter(
    "confab_reply_failures",
    "Replies that failed: the bot was busy, or it was its own error.",
    ["bot", "why"],
    registry=registry,
)

Stored = dict[str, list[tuple[str, dict[str, str], float]]]
"""Of each family its samples: name, labels and value."""


def samples_now() -> Stored:
    """Return this process's counts so far, as JSON values; families without a sample are left out."""
    return {
        family.name: [(one.name, dict(one.labels), one.value) for one in family.samples]
        for family in registry.collect()
        if family.samples
    }
