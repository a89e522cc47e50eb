"""Quality of the emotion head: thresholds from the valid part, F1 on the test part, polarity elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chatbots.encoders.valence import LABELS

GRID = np.arange(0.02, 0.81, 0.02)
"""Thresholds tried. Coarse on purpose: emotions with twenty valid comments must not choose a third digit."""

BERT_F1: dict[str, float] = dict(
    zip(
        LABELS,
        (
            *(0.65, 0.80, 0.47, 0.34, 0.36, 0.39, 0.37, 0.54, 0.49, 0.28, 0.39, 0.45, 0.43, 0.34),
            *(0.60, 0.86, 0.00, 0.51, 0.78, 0.35, 0.51, 0.36, 0.21, 0.15, 0.66, 0.49, 0.50, 0.68),
        ),
        strict=True,
    )
)
"""Test F1 of the fine-tuned BERT of Demszky et al. (2020), Table 4; their macro average is .46."""


def f1_scores(present: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Return the F1 of each label: (N, K) and (N, K) bool to (K,), 0 where a label is neither present nor said."""
    both = (present & said).sum(axis=0)
    either = present.sum(axis=0) + said.sum(axis=0)
    return 2 * both / np.maximum(either, 1)


def thresholds_choose(p: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Choose for each label the threshold of `GRID` with the best F1.

    Args:
        p: (N, K) shares of the valid part.
        present: (N, K) bool.

    Returns:
        (K,) thresholds; the middle of them where several are best.
    """
    f1 = np.stack([f1_scores(present, p >= threshold) for threshold in GRID])  # (T, K)
    chosen = []
    for column in f1.T:
        best = np.flatnonzero(column == column.max())
        chosen.append(GRID[best[len(best) // 2]])
    return np.round(chosen, 2)


def test_figures(p: np.ndarray, present: np.ndarray, thresholds: np.ndarray) -> dict[str, Any]:
    """Return the figures of the test part that the model card shows.

    Args:
        p: (N, K) shares.
        present: (N, K) bool.
        thresholds: (K,), chosen elsewhere.

    Returns:
        Macro and micro F1, F1 per label, macro F1 of the single likeliest label, and the cross-entropy in
        nats beside that of the labels' frequencies.
    """
    said = p >= thresholds
    f1 = f1_scores(present, said)
    likeliest = np.eye(p.shape[1], dtype=bool)[p.argmax(axis=1)]
    shares = present / present.sum(axis=1, keepdims=True)
    frequencies = shares.mean(axis=0)
    frequencies = frequencies[frequencies > 0]
    return {
        "n": len(p),
        "macro_f1": _round(f1.mean()),
        "micro_f1": _round(f1_scores(present.reshape(-1, 1), said.reshape(-1, 1))[0]),
        "macro_f1_likeliest": _round(f1_scores(present, likeliest).mean()),
        "cross_entropy": _round(-(shares * np.log(p)).sum(axis=1).mean()),
        "cross_entropy_of_frequencies": _round(-(frequencies * np.log(frequencies)).sum()),
        "f1": {label: _round(value) for label, value in zip(LABELS, f1, strict=True)},
        "comments": dict(zip(LABELS, present.sum(axis=0).tolist(), strict=True)),
    }


def polarity_figures(scores: Mapping[str, np.ndarray], positive: np.ndarray) -> dict[str, Any]:
    """Measure how well scores tell positive from negative texts.

    Args:
        scores: by name, (N,) sentiment scores; above 0 says positive.
        positive: (N,) bool.

    Returns:
        N and, per name, the balanced accuracy of the sign (mean of the recalls of both classes; a score of 0
        is wrong in both) and the area under the ROC curve, which needs no threshold.
    """
    from sklearn.metrics import roc_auc_score

    found: dict[str, Any] = {"n": len(positive)}
    for name, values in scores.items():
        recalls = ((values[positive] > 0).mean(), (values[~positive] < 0).mean())
        found[name] = {
            "balanced_accuracy": _round(np.mean(recalls)),
            "auc": _round(roc_auc_score(positive, values)),
        }
    return found


def _round(value: float) -> float:
    return round(float(value), 4)
