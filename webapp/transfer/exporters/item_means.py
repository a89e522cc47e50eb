"""One row per item and question, with the mean of its ratings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.analysis.items import item_means
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, register_exporter

_COLUMNS = (
    ExportColumn("item", "text", "Name of the item."),
    ExportColumn("bot", "text", "Model of its reply."),
    ExportColumn("dimension", "text", "Key of the question."),
    ExportColumn("n", "integer", "Ratings of the item on the question."),
    ExportColumn("mean", "number", "Their mean, higher for better."),
    ExportColumn(
        "low", "number", "Lower end of its 90 % interval over raters, on the scale of the question."
    ),
    ExportColumn("high", "number", "Upper end."),
)


@register_exporter
class ItemMeans:
    name = "item_means"
    title = "Means of items"
    description = "One row per item and question, with the mean of its ratings and its interval."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        if not judges_items(study):
            return
        ratings = study_ratings(
            study,
            include_synthetic=options.include_synthetic,
            include_failed=options.include_failed,
            without=options.without,
        )
        if not len(ratings) or ratings.leading is None:
            return
        for question in item_means(ratings).dimensions:
            for one in question.items:
                yield [one.item, one.bot, question.dimension, one.n, one.mean, one.low, one.high]
