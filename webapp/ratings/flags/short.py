"""Messages much shorter than those of most participants in the study."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy, ngettext

from webapp.ratings.flags.base import Figures, FlagFindings, StudyWork, percent, register_flag

FEWEST = 10
"""Minimum number of tasks for a distribution."""
FEWEST_MESSAGES = 3
HOW_MUCH_SHORTER = 4


@register_flag
class Short:
    """Flag for short messages, relative to the study's participants.

    Length is in characters; a normal length depends on language and task.
    """

    name = "short"
    title = gettext_lazy("Short messages")
    rule = gettext_lazy(
        "At least three messages, half of them shorter than a quarter of the study's usual length. The usual length "
        "is the median over tasks of the median message length, in characters."
    )
    reasons: Mapping[str, Any] = {
        "few": gettext_lazy("This check needs ten tasks with three messages each to know the usual length.")
    }

    def find(self, work: StudyWork) -> FlagFindings:
        lengths = {
            task: statistics.median(len(message.text) for message in messages)
            for task, messages in work.messages.items()
            if len(messages) >= FEWEST_MESSAGES
        }
        if len(lengths) < FEWEST:
            return FlagFindings(why_none="few")
        usual = statistics.median(lengths.values())
        in_order = sorted(lengths.values())
        flagged = {
            task: {
                "chars": length,
                "messages": len(work.messages[task]),
                "longer": len(in_order) - bisect_right(in_order, length),
                "of": len(in_order),
            }
            for task, length in lengths.items()
            if length * HOW_MUCH_SHORTER < usual
        }
        return FlagFindings(flagged, len(lengths), about={"usual": usual})

    def explain(self, figures: Figures, about: Figures) -> str:
        return ngettext(
            "{n} messages, half of them with at most {chars} character; {share} of participants wrote longer ones, "
            "usually of {usual}.",
            "{n} messages, half of them with at most {chars} characters; {share} of participants wrote longer ones, "
            "usually of {usual}.",
            round(figures["chars"]),
        ).format(
            n=figures["messages"],
            chars=f"{figures['chars']:g}",
            share=percent(figures["longer"], figures["of"]),
            usual=f"{about['usual']:g}",
        )
