"""The design matrix: which columns predict, which conversations can take part, and which cannot and why.

Ghandeharioun et al. (2019), fact sheet section 3: one row per rated conversation, eleven features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chatbots.names import nearest_names
from chatbots.storable import quote
from evaluation.hybrid.embeddings import block_of

if TYPE_CHECKING:
    import pandas as pd

PAPER_FEATURES = (
    "sentiment_user",
    "sentiment_transition",
    "sentiment_minmax",
    "laughter_user",
    "words_user",
    "sentiment_coherence_user_bot",
    "semantic_similarity_user_bot",
    "word_coherence_average_user_bot",
    "word_coherence_extrema_user_bot",
    "word_coherence_greedy_user_bot",
    "question_bot",
)
"""The eleven features of the paper's method section, as Confab's conversation-level columns."""


class HybridError(Exception):
    """Error for a hybrid metric that cannot be fitted or applied; the message gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Design:
    """Conversations with all features defined.

    Attributes:
        ids: (n,) conversations.
        x: (n, p) features, raw units.
        y: (n,) the target; NaN for a conversation without rating.
        bots: (n,) ids.
        people: (n,) participants, None where unknown.
        ratings: name of a rating dimension to (n,) values.
        extra: further columns, for baselines: name to (n,) values.
        means: name of a rating dimension to the mean of each bot's conversations that have it, those with
            undefined features too.
        rated: bot to its rated conversations' targets and participants, those with undefined features too.
        n_dropped: conversations left out because a feature is undefined.
        dropped: for how many of them each feature, or block of embeddings, is undefined.
        n_partly_rated: conversations with a rating that lacks one of the target dimensions, so without target.
    """

    features: tuple[str, ...]
    ids: np.ndarray
    x: np.ndarray
    y: np.ndarray
    bots: np.ndarray
    people: np.ndarray
    ratings: dict[str, np.ndarray]
    extra: dict[str, np.ndarray]
    means: dict[str, dict[str, float]]
    rated: dict[str, tuple[np.ndarray, np.ndarray]]
    n_dropped: int
    dropped: dict[str, int]
    n_partly_rated: int = 0

    def digest(self) -> str:
        """Return a digest of the rated conversations and their ratings."""
        rated = np.isfinite(self.y)
        lines = sorted(
            json.dumps([str(one), str(bot), float(y)])
            for one, bot, y in zip(self.ids[rated], self.bots[rated], self.y[rated], strict=True)
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def rows(self, keep: np.ndarray) -> Design:
        """Return the conversations chosen by a mask."""
        return replace(
            self,
            ids=self.ids[keep],
            x=self.x[keep],
            y=self.y[keep],
            bots=self.bots[keep],
            people=self.people[keep],
            ratings={name: values[keep] for name, values in self.ratings.items()},
            extra={name: values[keep] for name, values in self.extra.items()},
        )


def design_of(
    table: pd.DataFrame,
    features: Sequence[str],
    targets: Sequence[str] = (),
    *,
    dimensions: Sequence[str] = (),
    extra: Sequence[str] = (),
) -> Design:
    """Make the design matrix of a table.

    A conversation that stands in several rows (one per rater) becomes one, its ratings averaged. The
    target is the mean of the target dimensions; where one of them is missing it is undefined.

    Args:
        table: columns `conversation`, `bot`, the features, and for a human study the rating dimensions
            and, if known, `participant`.
        features: columns that predict.
        targets: rating dimensions; none for self-play.
        dimensions: further rating dimensions to keep.
        extra: further columns to keep where the table has them.

    Raises:
        HybridError: for a missing column, with the nearest name.
    """
    import pandas as pd

    if not features and targets:
        raise HybridError("no feature is chosen; name at least one metric column")
    columns = [str(column) for column in table.columns]
    for name in ("conversation", "bot", *features, *targets, *dimensions):
        if name not in columns:
            near = nearest_names(name, columns)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise HybridError(f"the table has no column {quote(name)}{hint}")
    extra = [name for name in extra if name in columns]
    numeric = list(dict.fromkeys([*features, *targets, *dimensions, *extra]))
    values = table[numeric].apply(pd.to_numeric, errors="coerce")
    values = values.where(np.isfinite(values.to_numpy(dtype=float, na_value=np.nan)))
    keyed = values.assign(
        conversation=table["conversation"].astype(str), bot=table["bot"].astype(str)
    )
    keyed["participant"] = table["participant"] if "participant" in columns else None
    grouped = keyed.groupby("conversation", sort=False)
    one = grouped[numeric].mean()
    bots = grouped["bot"].first().to_numpy(dtype=object)
    people = grouped["participant"].first().astype(object)
    people = people.where(people.notna(), None).to_numpy(dtype=object)

    if targets:
        y = one[list(targets)].mean(axis=1, skipna=False).to_numpy(dtype=float)
    else:
        y = np.full(len(one), np.nan)
    rated = {
        str(bot): (y[mine], people[mine])
        for bot in dict.fromkeys(bots)
        if (mine := (bots == bot) & np.isfinite(y)).any()
    }
    x = one[list(features)].to_numpy(dtype=float).reshape(len(one), len(features))
    undefined = ~np.isfinite(x)
    whole = Design(
        features=tuple(features),
        ids=one.index.to_numpy(dtype=object),
        x=x,
        y=y,
        bots=bots,
        people=people,
        ratings={name: one[name].to_numpy(dtype=float) for name in (*targets, *dimensions)},
        extra={name: one[name].to_numpy(dtype=float) for name in extra},
        means={
            name: _means(one[name].to_numpy(dtype=float), bots) for name in (*targets, *dimensions)
        },
        rated=rated,
        n_dropped=int(undefined.any(axis=1).sum()),
        dropped={
            block_of(name) or name: int(undefined[:, k].sum())
            for k, name in enumerate(features)
            if undefined[:, k].any()
        },
        n_partly_rated=int((one[list(targets)].notna().any(axis=1) & ~np.isfinite(y)).sum())
        if targets
        else 0,
    )
    return whole.rows(~undefined.any(axis=1))


def _means(values: np.ndarray, bots: np.ndarray) -> dict[str, float]:
    """Return the mean of each bot that has a value."""
    return {
        str(bot): float(values[mine].mean())
        for bot in dict.fromkeys(bots)
        if (mine := (bots == bot) & np.isfinite(values)).any()
    }
