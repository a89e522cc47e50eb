"""Reads of what changes within a conversation: votes and metrics of turns, by exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from evaluation.analysis.trajectories import by_exchange
from evaluation.columns import ends_of
from evaluation.metrics.registry import metric_list
from webapp.conversations.models import Conversation, Turn
from webapp.runs.models import MetricResult
from webapp.runs.selectors.metrics import versions_current

VOTES = "votes"
"""Stands for the participants' votes on replies among the columns."""
_MOST_IDS = 1000
_Rows = dict[str, list[float | None]]


def turn_values(
    conversations: QuerySet[Conversation], ids: Sequence[str], columns: Sequence[str]
) -> dict[str, _Rows]:
    """Return per column and conversation the values by exchange, the first one first.

    An exchange begins with a participant's first message after the bot's turn; several values within it are
    averaged. What a bot says before anybody has written belongs to none. A column that nobody has a value
    of is left out; so are votes where nobody voted, for that is no indifference.

    Args:
        conversations: all of the study's, of which `ids` are some.
        columns: of metrics of turns, or `VOTES`.
    """
    wanted = set(ids)
    # Many ids do not fit into one query, and several queries would grow with the study.
    which: Any = list(ids) if len(ids) <= _MOST_IDS else conversations.values("pk")
    found: dict[str, _Rows] = {name: {} for name in columns}
    exchanges: dict[str, list[int]] = {}
    spoke: dict[str, str] = {}
    turns = Turn.objects.filter(conversation__in=which).order_by("conversation", "index")
    for pk, speaker, vote in turns.values_list("conversation_id", "speaker", "vote").iterator():
        key = str(pk)
        if key not in wanted:
            continue
        own = exchanges.setdefault(key, [])
        human = speaker == Turn.Speaker.HUMAN
        at = own[-1] if own else 0
        own.append(at + 1 if human and spoke.get(key) != speaker else at)
        spoke[key] = speaker
        if VOTES in found:
            found[VOTES].setdefault(key, []).append(None if human else float(vote))
    metrics = [
        m for m in metric_list() if {c.name for c in m.columns if c.level == "turn"} & set(columns)
    ]
    results = MetricResult.objects.filter(
        conversation__in=which, metric__in=list(versions_current(metrics).values())
    )
    for pk, values in results.values_list("conversation_id", "turns").iterator():
        if str(pk) in wanted:
            for name in values.keys() & found.keys():
                found[name][str(pk)] = values[name]
    return {
        name: {key: by_exchange(exchanges.get(key, []), row) for key, row in rows.items()}
        for name, rows in found.items()
        if any(
            value if name == VOTES else value is not None for row in rows.values() for value in row
        )
    }


def participants_of(
    conversations: QuerySet[Conversation], ids: Sequence[str]
) -> dict[str, str | None]:
    """Return the participant by conversation, None where there is none.

    Args:
        conversations: all of the study's, of which `ids` are some.
    """
    wanted = set(ids)
    which = conversations.filter(pk__in=ids) if len(ids) <= _MOST_IDS else conversations
    return {
        str(pk): None if person is None else str(person)
        for pk, person in which.values_list("pk", "participant")
        if str(pk) in wanted
    }


def scales_of(columns: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """Return the ends that the values of these columns cannot leave, infinite on an open side; None without any end."""
    found: dict[str, tuple[float, float] | None] = {}
    for metric in metric_list():
        for column in metric.columns:
            if column.level == "turn" and column.name in columns:
                found[column.name] = ends_of(column.range)
    return {**found, VOTES: (-1.0, 1.0)}
