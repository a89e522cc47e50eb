"""Bots' means with the help of unrated conversations: by the hybrid metric and by every stored metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.powered import PoweredMeans, powered_by
from evaluation.hybrid.features import HybridError
from evaluation.hybrid.results import KeptFit
from evaluation.hybrid.single import predicted_singly
from webapp.results.study_data import StudyData
from webapp.runs.models import HybridFit
from webapp.runs.selectors.fits import fit_leading
from webapp.runs.selectors.metrics import metric_titles
from webapp.studies.selectors import judges_items

HYBRID = "hybrid"
PREFERRED = (HYBRID, "sentiment_user", "words_user")
"""Default metric: the first of these that exists. Fixed, because the best of many looks better than it is."""


@dataclass(frozen=True, slots=True)
class StudyPowered:
    """Means with and without predictions of unrated conversations.

    Attributes:
        first: what predicts unless another is asked for; None where nothing can.
        fit: id of the hybrid fit that predicts; None without one.
        n_unrated: conversations that nobody rated.
        by: what predicts, "hybrid" or a column of a metric, to what it gives.
    """

    first: str | None
    fit: int | None
    n_unrated: int
    by: Mapping[str, PoweredMeans]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "first": self.first,
            "fit": self.fit,
            "n_unrated": self.n_unrated,
            "by": {name: found.to_json() for name, found in self.by.items()},
        }


def study_powered(data: StudyData) -> StudyPowered:
    """Return the gain by predictions of the study's unrated conversations; empty where items are rated."""
    if judges_items(data.study):
        return StudyPowered(None, None, 0, {})
    frame = data.metrics
    values = data.ratings.values()
    rated = set(data.ratings.conversation[np.isfinite(values)].tolist())
    is_unrated = ~frame.index.isin(rated) & frame["bot"].isin(data.ratings.bots)
    n_unrated = int(is_unrated.sum())
    if not n_unrated:
        return StudyPowered(None, None, 0, {})
    # A column helps where both kinds of conversations have it.
    predicted = {
        name: frame[name].to_numpy(dtype=float)
        for name in metric_titles(ingredients=False)
        if name in frame and frame.loc[is_unrated, name].notna().any()
    }
    fit = fit_leading(data.study, data.without)
    by_fit = None if fit is None else _by_fit(fit, data)
    if by_fit is not None:
        predicted = {HYBRID: by_fit, **predicted}
    found = powered_by(data.ratings, frame.index.tolist(), frame["bot"].tolist(), predicted)
    first = next((name for name in (*PREFERRED, *sorted(found)) if name in found), None)
    return StudyPowered(
        first, fit.pk if fit is not None and by_fit is not None else None, n_unrated, found
    )


def _by_fit(fit: HybridFit, data: StudyData) -> np.ndarray | None:
    """Return the fit's predictions; None where it reads values that are not stored, such as sentence embeddings."""
    try:
        kept = KeptFit.from_json(fit.kept or {})
        predicted = predicted_singly(kept, data.metrics)
    except (HybridError, KeyError):
        return None
    return predicted if np.isfinite(predicted).any() else None
