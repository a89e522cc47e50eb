"""The hybrid metric and prediction-powered means of a study, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chatbots.text import quote
from evaluation.analysis.levels import check_level, interval_level
from evaluation.analysis.prediction_powered import PoweredMeans, powered_means
from evaluation.data.study import Study, rated
from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT, Intercept
from evaluation.hybrid.features import LENGTHS, HybridError, preset_get, refuse_retired
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.levels import predict_conversations
from evaluation.hybrid.results import HybridResult, KeptFit
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_list

if TYPE_CHECKING:
    import pandas as pd


def hybrid(
    study: Study,
    *,
    target: str | Sequence[str] | None = None,
    preset: str = "paper",
    features: Sequence[str] | None = None,
    intercept: Intercept = PREFERRED_INTERCEPT,
    selfplay: Study | None = None,
    seed: int = 0,
) -> HybridResult:
    """Fit the leave-bot-out hybrid metric to a study's ratings.

    Required metrics are computed.

    Args:
        target: question to predict, or several for their mean; None: the question that bots are ranked by, preferably
            the one about overall quality.
        preset: "paper" (eleven metrics, least squares) or "strong" (three blocks of metrics, Gaussian process).
        features: metric columns used as features; None: those of the preset.
        intercept: "common", or "fold" as in the paper.
        selfplay: self-play of the bots, to be predicted as well.
        seed: seed of bootstrap and permutations.

    Raises:
        HybridError: if there are no ratings or fewer than three rated bots, or a preset, column or question is unknown.
    """
    chosen = preset_get(preset)
    targets = targets_of(study, target)
    names = tuple(chosen.features if features is None else features)
    metrics = metrics_with([*names, *LENGTHS]) + [study.imported[name] for name in names if name in study.imported]
    human = rated_table(study, metrics)
    played = None if selfplay is None else feature_table(selfplay, metrics)
    identities = {metric.name: metric.identity.as_dict() for metric in metrics}
    return fit_hybrid(
        human,
        features=features,
        targets=targets,
        preset=preset,
        intercept=intercept,
        selfplay=played,
        seed=seed,
        dimensions=study.dimensions,
        metric_identities=identities,
        ratings=study.answers,
        study=study.name,
    )


def scored_table(study: Study, fit: KeptFit) -> pd.DataFrame:
    """Return a study's conversations with a fit's prediction as `hybrid`.

    Required metrics are computed.
    """
    refuse_retired(fit.preset, fit.identity.version)
    table = feature_table(study, metrics_with(fit.features))
    return table.assign(hybrid=predict_conversations(fit, table))[["conversation", "bot", "hybrid"]]


def metrics_with(columns: Sequence[str]) -> list[Metric]:
    """Return the metrics that have these conversation-level columns."""
    column_names = set(columns)
    return [
        metric
        for metric in metric_list()
        if any(c.level == "conversation" and c.name in column_names for c in metric.columns)
    ]


def targets_of(study: Study, target: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the questions to predict."""
    if not study.dimensions:
        raise HybridError(f"{study.name} has no ratings, so there is nothing to fit to")
    if target is None:
        return study.answers.headline
    targets = (target,) if isinstance(target, str) else tuple(target)
    for name in targets:
        if name not in study.dimensions:
            raise HybridError(
                f"{study.name} has no ratings of {quote(name)}; it is rated on {', '.join(study.dimensions)}"
            )
    return targets


def rated_table(study: Study, metrics: Sequence[Metric]) -> pd.DataFrame:
    """Return one row per rated conversation, with features and ratings.

    Columns are those of `feature_table`, mean ratings and participant.
    """
    human = feature_table(study, metrics)
    means = study.answers.per_conversation().drop(columns="bot")
    means = means.rename(columns={"rater": "participant"})
    human = human.drop(columns=[name for name in means.columns if name in human])
    return human.merge(means, left_on="conversation", right_index=True, how="inner")


def feature_table(study: Study, metrics: Sequence[Metric]) -> pd.DataFrame:
    """Return one row per conversation, with the metrics' columns."""
    return study.metrics([metric.name for metric in metrics])


def powered(
    study: Study,
    metric: str | HybridResult,
    column: str | None = None,
    target: str | Sequence[str] | None = None,
    *,
    level: float | None = None,
) -> PoweredMeans:
    """Estimate bot means from ratings and a metric of unrated conversations (PPI++).

    Args:
        metric: name of a metric, or a hybrid metric of this study, which predicts each bot by the fit without it.
        column: column of the metric, such as "words_user"; None if it has only one.
        target: question, or several for their mean; None: the question that bots are ranked by.
        level: confidence level of the intervals; None: .90.

    Returns:
        Means with and without the metric, and the gain, also as a sentence.

    Raises:
        ValueError: if there are no ratings, or the question or column does not exist.
    """
    level = interval_level(check_level(level))
    ratings = rated(study)
    if target is not None:
        ratings = replace(ratings, headline=(target,) if isinstance(target, str) else tuple(target))
    if isinstance(metric, str):
        table = study.metrics([metric])
    else:
        table = scored_table(study, metric.fit)
    names = [str(name) for name in table.columns if name not in ("conversation", "bot")]
    if column is None and len(names) == 1:
        column = names[0]
    if column not in names:
        raise ValueError(f"column is {quote(column)}; {metric} gives {', '.join(names)}")
    return powered_means(
        ratings,
        table["conversation"].astype(str).tolist(),
        table["bot"].astype(str).tolist(),
        np.asarray(table[column], dtype=float),
        predictor=column,
        level=level,
    )
