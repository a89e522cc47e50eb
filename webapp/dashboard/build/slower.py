"""Bots of a study that are slower than its common pace of replies."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from webapp.conversations.models import Turn
from webapp.studies.models import Study

_MOST = 2000
"""So many of the latest replies of the study's bots are looked at, of all studies together."""
_LEAST = 5
"""With fewer replies nothing is said of a bot."""


@dataclass(frozen=True, slots=True)
class Slower:
    """A bot that falls behind the pace.

    Attributes:
        first_s: the median of the seconds until its own first words; words_per_s: of its own speed after them, None
            where it gives its whole reply at once.
    """

    bot_id: str
    first_s: float
    words_per_s: float | None


def slower_bots(study: Study) -> list[Slower]:
    """Return the study's bots whose usual reply cannot keep to its pace, by their latest replies, in one query."""
    pacing = study.values.pacing
    if not pacing.paces_alike or not study.bots:
        return []
    rows = (
        Turn.objects.filter(conversation__bot__bot_id__in=study.bots, first_ms__isnull=False)
        .order_by("-pk")
        .values_list("conversation__bot__bot_id", "first_ms", "latency_ms", "text")[:_MOST]
    )
    first: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    for bot_id, first_ms, whole_ms, text in rows:
        assert first_ms is not None, "only such replies are asked for"
        first.setdefault(bot_id, []).append(first_ms / 1000)
        if whole_ms is not None and whole_ms > first_ms:
            words_after = max(0, len(text.split()) - 1)
            speeds.setdefault(bot_id, []).append(1000 * words_after / (whole_ms - first_ms))
    found = []
    for bot_id in study.bots:
        if len(first.get(bot_id, ())) < _LEAST:
            continue
        first_s, speed = median(first[bot_id]), median(speeds.get(bot_id, [float("inf")]))
        is_behind = speed < pacing.words_per_s
        if first_s > pacing.first_words_s or is_behind:
            found.append(Slower(bot_id, first_s, speed if is_behind else None))
    return found
