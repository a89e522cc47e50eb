"""Features of the hybrid metric: design matrix and presets.

The design matrix follows Ghandeharioun et al. (2019), fact sheet section 3: one row per rated conversation, eleven
features.

A preset names its features and how to fit a set of bots.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from chatbots.encoders.emotion import LABELS
from chatbots.text import nearest_names, quote

if TYPE_CHECKING:
    import pandas as pd


_COLUMN = re.compile(r"(embedding_(?:user|bot))_\d{3,}")


def block_of(column: str) -> str | None:
    """Return the embedding block of a retired fit's column, or None."""
    match = _COLUMN.fullmatch(column)
    return match[1] if match else None


def shown_names(columns: Sequence[str]) -> list[str]:
    """Return the columns, with each block as a single name."""
    return list(dict.fromkeys(block_of(column) or column for column in columns))


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
    """Error of a hybrid metric that cannot be fitted or applied.

    The message gives the reason and a remedy.
    """


@dataclass(frozen=True, slots=True)
class Design:
    """Conversations with all features defined.

    Attributes:
        ids: (n,) conversations.
        x: (n, p) features, raw units.
        y: (n,) the target; NaN for an unrated conversation.
        bots: (n,) ids.
        people: (n,) participants, None where unknown.
        ratings: name of a rating dimension to (n,) values.
        extra: further columns, for baselines: name to (n,) values.
        means: for each rating dimension, the mean over each bot's conversations that have it, including those with
            undefined features.
        rated: for each bot, targets and participants of its rated conversations, including those with undefined
            features.
        n_dropped: number of conversations skipped because a feature is undefined.
        dropped: number of these conversations in which each feature, or block of embeddings, is undefined.
        n_partly_rated: number of rated conversations that lack a target dimension and so have no target.
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
            json.dumps([str(conversation), str(bot), float(y)])
            for conversation, bot, y in zip(self.ids[rated], self.bots[rated], self.y[rated], strict=True)
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def rows(self, keep: np.ndarray) -> Design:
        """Return the conversations selected by a mask."""
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

    If a conversation has several rows (one per rater), they become one row with the mean rating. The target is the mean
    of the target dimensions; it is undefined if one of them is missing.

    Args:
        table: columns `conversation`, `bot`, the features, and for a human study the rating dimensions
            and, if known, `participant`.
        features: columns to predict from.
        targets: rating dimensions; none for self-play.
        dimensions: further rating dimensions to keep.
        extra: further columns to keep if the table has them.

    Raises:
        HybridError: if a column is missing; the message suggests the nearest name.
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
    keyed = values.assign(conversation=table["conversation"].astype(str), bot=table["bot"].astype(str))
    keyed["participant"] = table["participant"] if "participant" in columns else None
    grouped = keyed.groupby("conversation", sort=False)
    means = grouped[numeric].mean()
    bots = grouped["bot"].first().to_numpy(dtype=object)
    people = grouped["participant"].first().astype(object)
    people = people.where(people.notna(), None).to_numpy(dtype=object)

    if targets:
        y = means[list(targets)].mean(axis=1, skipna=False).to_numpy(dtype=float)
    else:
        y = np.full(len(means), np.nan)
    rated = {
        str(bot): (y[is_of_bot], people[is_of_bot])
        for bot in dict.fromkeys(bots)
        if (is_of_bot := (bots == bot) & np.isfinite(y)).any()
    }
    x = means[list(features)].to_numpy(dtype=float).reshape(len(means), len(features))
    undefined = ~np.isfinite(x)
    design = Design(
        features=tuple(features),
        ids=means.index.to_numpy(dtype=object),
        x=x,
        y=y,
        bots=bots,
        people=people,
        ratings={name: means[name].to_numpy(dtype=float) for name in (*targets, *dimensions)},
        extra={name: means[name].to_numpy(dtype=float) for name in extra},
        means={name: _mean_by_bot(means[name].to_numpy(dtype=float), bots) for name in (*targets, *dimensions)},
        rated=rated,
        n_dropped=int(undefined.any(axis=1).sum()),
        dropped={
            block_of(name) or name: int(undefined[:, k].sum())
            for k, name in enumerate(features)
            if undefined[:, k].any()
        },
        n_partly_rated=int((means[list(targets)].notna().any(axis=1) & ~np.isfinite(y)).sum()) if targets else 0,
    )
    return design.rows(~undefined.any(axis=1))


def _mean_by_bot(values: np.ndarray, bots: np.ndarray) -> dict[str, float]:
    """Return the mean of each bot that has a value."""
    return {
        str(bot): float(values[is_of_bot].mean())
        for bot in dict.fromkeys(bots)
        if (is_of_bot := (bots == bot) & np.isfinite(values)).any()
    }


METRICS = "metrics"
"""Name of the block of all features that are metric columns."""
OTHERS = "others"
"""Name of the block for features of a process that belong to no other block."""

EMOTION_FEATURES = tuple(f"emotion_{label}_user" for label in LABELS)
"""Columns of the metric `emotions`."""
REACTION_FEATURES = tuple(
    f"reaction_{name}_user"
    for name in (
        "log_words",
        "question_mark",
        "short",
        "exclamation",
        "appreciation",
        "negation",
        "confusion",
        "sentiment",
        "sentiment_slope",
        "sentiment_last",
        "self_similarity",
        "overlap",
    )
)
"""Columns of the metric `reactions`."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Features and fitting method of a hybrid metric.

    Attributes:
        short: short title.
        version: raised when the numbers could change; part of every fit's identity.
        features: metric columns used by default.
        parts: blocks of a Gaussian process by name, with their features; None for other fits.
    """

    name: str
    version: str
    short: str
    title: str
    features: tuple[str, ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def parts_of(self, features: Sequence[str]) -> dict[str, list[int]]:
        """Return the feature numbers of each block, without empty blocks."""
        owner = {name: part for part, names in self.parts for name in names}
        parts: dict[str, list[int]] = {part: [] for part, _ in (*self.parts, (OTHERS, ()))}
        for number, name in enumerate(features):
            parts[owner.get(name, OTHERS)].append(number)
        return {part: numbers for part, numbers in parts.items() if numbers}


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "paper",
        "1",
        "eleven metrics, least squares",
        "Ordinary least squares on the eleven features of Ghandeharioun et al. (2019)",
        PAPER_FEATURES,
    ),
    "strong": Preset(
        "strong",
        "3",
        "means of 51 columns in three blocks, Gaussian process",
        "Gaussian process of the bots' mean ratings on their means of the paper's metrics, the participant's emotions "
        "and reactions, with known noise; hyperparameters averaged, rater effects removed",
        (*PAPER_FEATURES, *EMOTION_FEATURES, *REACTION_FEATURES),
        parts=(("paper", PAPER_FEATURES), ("emotions", EMOTION_FEATURES), ("reactions", REACTION_FEATURES)),
    ),
}


RETIRED = {"strong@2": "Confab 0.9.0 up to revision 28f5f300 (28 November 2026)"}
"""Retired presets, by name and version, with the version of Confab that can still apply their fits."""


def refuse_retired(name: str, version: str = "") -> None:
    """Raise HybridError for a retired preset.

    The message names the version that can apply its fits.
    """
    for retired in (name, f"{name}@{version}"):
        if retired in RETIRED:
            raise HybridError(
                f"the preset {quote(retired)} is retired: no new fits can be made; stored fits can be read, "
                f"and {RETIRED[retired]} can apply them"
            )


def preset_get(name: str) -> Preset:
    """Return the preset called `name`, or `name@version`.

    Raises:
        HybridError: if it does not exist or is retired; the message lists the available presets.
    """
    refuse_retired(name)
    for preset in PRESETS.values():
        if name in (preset.name, f"{preset.name.partition('@')[0]}@{preset.version}"):
            return preset
    near = nearest_names(name, list(PRESETS))
    hint = f"; did you mean {near[0]}?" if near else ""
    raise HybridError(f"there is no preset {quote(name)}; available: {', '.join(PRESETS)}{hint}")


LENGTHS = ("words_user", "n_turns")
"""Columns that measure the length of a conversation: words per message of the participant, and turns."""


def log_lengths(extra: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return log(1 + words per message) and log turns by name.

    Only for columns present; NaN if both are missing.
    """
    lengths = {}
    if "words_user" in extra:
        words = np.asarray(extra["words_user"], dtype=float)
        lengths["log_words_user"] = np.log1p(np.where(words >= 0, words, np.nan))
    if "n_turns" in extra:
        turns = np.asarray(extra["n_turns"], dtype=float)
        lengths["log_n_turns"] = np.log(np.where(turns > 0, turns, np.nan))
    return lengths


def column_means(design: Design, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return each bot's (p,) means of columns over complete conversations.

    `LENGTHS` are on the log scale.
    """
    columns = {**design.extra, **log_lengths(design.extra)}
    if not set(names) <= columns.keys():
        return {}
    x = np.stack([np.asarray(columns[name], dtype=float) for name in names], axis=1)
    keep = np.isfinite(x).all(axis=1)
    bots = design.bots.astype(str)
    return {
        str(bot): x[is_of_bot].mean(axis=0) for bot in dict.fromkeys(bots) if (is_of_bot := keep & (bots == bot)).any()
    }


def lengths_by_bot(design: Design) -> dict[str, np.ndarray]:
    """Return each bot's mean log lengths, (2,), where both are known."""
    return column_means(design, ("log_words_user", "log_n_turns"))
