"""An exported table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, conversations_included, register_exporter


@register_exporter
class Lengths:
    name = "lengths"
    title = "Lengths"
    description = "One row per conversation, with its exchanges."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return (ExportColumn("bot", "text", "Id of the bot."), ExportColumn("n_exchanges", "integer", "Exchanges."))

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for conversation in conversations_included(study, options).iterator():
            yield [conversation.bot.bot_id, conversation.n_exchanges]
