"""Predictions of single conversations, rated or not, each by the fold that was fitted without its bot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.hybrid.results import KeptFit

if TYPE_CHECKING:
    import pandas as pd


def predicted_singly(fit: KeptFit, table: pd.DataFrame) -> np.ndarray:
    """Return (c,) predictions of a table's conversations, rated or not; NaN where a feature is undefined.

    Args:
        table: `bot` and the fit's features, one row per conversation.

    Raises:
        KeyError: a feature is not among its columns.
    """
    x = table[list(fit.features)].to_numpy(dtype=float)
    bots = table["bot"].astype(str).to_numpy(dtype=object)
    found = np.full(len(table), np.nan)
    defined = np.isfinite(x).all(axis=1)
    for bot in sorted(set(bots.tolist())):
        mine = defined & (bots == bot)
        found[mine] = fit.predict(x[mine], bot)
    return found
