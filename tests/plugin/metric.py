"""A metric."""

from __future__ import annotations

from evaluation.data.tables import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import TextCache


@register_metric
class Capitals(MetricDefaults):
    """Share of capitals in the bot's turns."""

    name = "capitals"
    title = "Capitals"
    columns = per_turn(
        "capitals_bot",
        "Capitals, bot",
        unit="1",
        range=(0, 1),
        direction="neither",
        description="Share of capital letters.",
    )

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        turns = layout.bot
        shares = [sum(c.isupper() for c in t) / max(1, len(t)) for t in layout.texts_at(turns)]
        return Measured(turns={"capitals_bot": layout.spread(turns, shares)})
