"""Tool calls of a conversation: number, failures and seconds.

They come from the traces of its replies (`chatbots/trace.py`).
"""

from __future__ import annotations

import math

import numpy as np

from evaluation.data.tables import Column
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import TextCache

NO_CALL = "no reply of the conversation has a tool call"
NO_TIME = "no tool call of the conversation has a time"


@register_metric
class ToolCalls(MetricDefaults):
    """Tool calls of a conversation."""

    name = "tool_calls"
    title = "Tool calls"
    default = False
    languages = ()
    columns = tuple(
        Column(name, "conversation", title, unit, (0, None), "neither", description)
        for name, title, unit, description in (
            ("n_tool_calls", "Tool calls", "calls", "Tool calls that the bot's endpoint reported before its replies."),
            ("n_failed_tool_calls", "Failed tool calls", "calls", "Tool calls that the endpoint reported as failed."),
            (
                "tool_call_seconds",
                "Time of tool calls",
                "s",
                "Seconds from a tool call to its result, summed over calls whose result came after the call.",
            ),
        )
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        rows = []
        for conversation in layout.conversations:
            calls = [step for turn in conversation.turns for step in turn.trace if step.kind == "tool"]
            times = [step.seconds for step in calls if step.seconds is not None]
            failed = sum(step.failed for step in calls) if calls else math.nan
            rows.append((len(calls) or math.nan, failed, sum(times) if times else math.nan))
        n_calls, n_failed, seconds = np.array(rows, dtype=float).reshape(-1, 3).T
        return Measured(
            turns={},
            conversations={"n_tool_calls": n_calls, "n_failed_tool_calls": n_failed, "tool_call_seconds": seconds},
            reasons={
                "n_tool_calls": missing(n_calls, NO_CALL),
                "n_failed_tool_calls": missing(n_failed, NO_CALL),
                "tool_call_seconds": missing(seconds, NO_TIME),
            },
        )
