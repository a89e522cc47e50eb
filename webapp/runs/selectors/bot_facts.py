"""Facts about a study's bots besides their ratings: how they were made, and figures measured on them.

They come from the researcher's table (`webapp/studies/bot_columns.py`), else from the bots' identities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.studies.bot_columns import GROUP, BotColumns
from webapp.studies.models import Study

FACTORS = {"corpus": "corpus", "architecture": "architecture", "model": "architecture", "ei": "EI"}
"""Parameters of an identity that are factors of a bot's making, and what they are called."""
MEASURED = "metrics"
"""The parameter under which a checkpoint keeps the figures that its training ended with."""

Factors = dict[str, dict[str, str]]
"""Factor to bot to level."""


def bot_versions(study: Study) -> list[BotVersion]:
    """Return the identities that a study's conversations were held with."""
    held = Conversation.objects.filter(study=study).order_by().values("bot").distinct()
    return list(BotVersion.objects.filter(pk__in=held).order_by("bot_id", "created_at"))


def factors_of(versions: Iterable[BotVersion], own: BotColumns) -> Factors:
    """Return the factors of the bots' identities; those of the researcher's table replace them."""
    found: Factors = {}
    for version in versions:
        for name, value in version.params.items():
            factor = FACTORS.get(name.lower())
            if factor == "EI":
                level = "EI" if value else "plain"
            elif factor and isinstance(value, str) and value and "/" not in value:
                level = value
            else:  # no factor, or the path of a model
                continue
            found.setdefault(factor, {}).setdefault(version.bot_id, level)
    return {**found, **{name: dict(levels) for name, levels in own.factors.items()}}


def measured_of(versions: Iterable[BotVersion], own: BotColumns) -> dict[str, dict[str, float]]:
    """Return figures of the bots' checkpoints and of the researcher's table: name to bot to number."""
    found: dict[str, dict[str, float]] = {}
    for version in versions:
        figures = version.params.get(MEASURED)
        for name, value in figures.items() if isinstance(figures, Mapping) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, {})[version.bot_id] = float(value)
    return {**found, **{name: dict(values) for name, values in own.metrics.items()}}


def bot_groups(study: Study) -> dict[str, str]:
    """Return the family of each bot, where families rather than bots might explain the ratings.

    Families come from the column `group` of the researcher's table, else from the corpora, else from the
    architectures: the first of them that gives at least two families and puts two bots into one. Empty where
    none does.
    """
    own = BotColumns.from_json(study.bot_columns)
    factors = factors_of(bot_versions(study), own)
    for name in (GROUP, "corpus", "architecture"):
        labels = factors.get(name, {})
        if 2 <= len(set(labels.values())) < len(labels):
            return labels
    return {}
