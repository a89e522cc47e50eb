"""The hybrid metric as rows of the correlation matrices: the paper's Figures 5 and 8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.stats.correlation import Correlation
from webapp.dashboard import counts
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.hybrid_rows import (
    correlation_read,
    intercept_in_words,
    selfplay_bots,
)
from webapp.dashboard.plots.matrix import Found
from webapp.runs.models import HybridFit

Rows = dict[str, list[Correlation]]
"""By title a correlation with each dimension, as `StudyData.all_dimensions` has them."""


@dataclass(slots=True)
class HybridRows:
    """What the fit that all pages speak of says of every dimension, number for number.

    Attributes:
        of_conversations: Spearman's ρ of predictions of single conversations, and r within bots.
        of_bots: Pearson's r of the bots' scores, from rated conversations and from self-play.
        missing: why there are fewer rows.
        note: what the rows are.
    """

    of_conversations: tuple[Rows, Rows] = field(default_factory=lambda: ({}, {}))
    of_bots: Rows = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    note: str = ""

    @classmethod
    def of(cls, data: StudyData, fit: HybridFit | None) -> HybridRows:
        """Read a stored fit."""
        rows = cls()
        if fit is None or fit.result is None:
            rows.missing.append(_("The hybrid metric’s rows: none is fitted."))
            return rows
        result = fit.result
        if not result.get("dimensions_conversation_level"):
            rows.missing.append(
                _("The hybrid metric’s rows: fit {pk} has none of single conversations.").format(
                    pk=fit.pk
                )
            )
            return rows
        controls = any(
            bot in data.bots and data.bots[bot].is_control and found["human_mean"] is not None
            for bot, found in result["bots"].items()
        )
        rows.note = _(
            "Rows of the hybrid metric are those of fit {pk} ({intercept}{controls}) and take no part in the "
            "correction: chance is told on its page."
        ).format(
            pk=fit.pk,
            intercept=intercept_in_words(result),
            controls=_(", controls in") if controls else "",
        )
        title = _("Hybrid metric, bot left out")
        rows.of_conversations = (
            {title: [_of_conversations(result, d.key, "spearman") for d in data.all_dimensions]},
            {title: [_of_conversations(result, d.key, "within_bots") for d in data.all_dimensions]},
        )
        if result["n_bots"] < FEW_BOTS:
            rows.missing.append(
                _("The hybrid metric’s rows over bots: {bots}, too few.").format(
                    bots=counts.bots(result["n_bots"])
                )
            )
            return rows
        rows.of_bots[_("Hybrid metric (rated chats)")] = [
            _of_bots(result, d.key, "predicted") for d in data.all_dimensions
        ]
        if selfplay_bots(result) >= FEW_BOTS:
            rows.of_bots[_("Hybrid metric (self-play)")] = [
                _of_bots(result, d.key, "predicted_selfplay") for d in data.all_dimensions
            ]
        else:
            rows.missing.append(
                _(
                    "The hybrid metric’s row on self-play: fit {pk} was applied to no run with {n} of its bots."
                ).format(pk=fit.pk, n=FEW_BOTS)
            )
        return rows


def cells(rows: Rows) -> Found:
    """The rows by (row, column), from row 0 on."""
    return {
        (i, j): value for i, values in enumerate(rows.values()) for j, value in enumerate(values)
    }


def _is_target(result: Mapping[str, Any], key: str) -> bool:
    """Whether a headline that is no dimension of its own is what was predicted: the mean of all."""
    return key not in result["dimensions"] and set(result["target"].split(",")) == set(
        result["dimensions"]
    )


def _of_conversations(result: Mapping[str, Any], key: str, method: str) -> Correlation:
    found = (result["dimensions_conversation_level"].get(key) or {}).get(method)
    if found is None and method == "spearman" and _is_target(result, key):
        found = result["conversation_level"].get(method)
    return correlation_read(found, result["n_conversations"])


def _of_bots(result: Mapping[str, Any], key: str, source: str) -> Correlation:
    found = ((result["dimensions"].get(key) or {}).get(source) or {}).get("pearson")
    n = result["n_bots"]
    if found is None and _is_target(result, key):
        played = source == "predicted_selfplay"
        found = (result["bot_level_selfplay" if played else "bot_level"] or {}).get("pearson")
        n = selfplay_bots(result) if played else n
    return correlation_read(found, n)
