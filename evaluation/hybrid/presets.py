"""Presets of the hybrid metric. A preset names its features and the way to fit a set of bots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatbots.encoders.valence import LABELS
from chatbots.names import nearest_names
from chatbots.storable import quote
from evaluation.hybrid.embeddings import USER_BLOCK
from evaluation.hybrid.features import PAPER_FEATURES, HybridError

METRICS = "metrics"
"""The block of all features that are metric columns."""
OTHERS = "others"
"""The block of features of a process that none of its own blocks names."""

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
    """A way to fit.

    Attributes:
        short: the title in a few words.
        version: raised when its numbers could change; part of every fit's identity.
        features: metric columns, taken where the caller chooses none; there may be none.
        blocks: embeddings that it reads besides them (`evaluation.hybrid.embeddings`).
        penalties: of the ridge, per conversation; none for ordinary least squares.
        choices: sets of blocks to choose from, with every penalty; `metrics` is that of the features, and a
            choice with it is offered where there are features.
        parts: of a Gaussian process, its blocks by name with their features; none for other fits.
    """

    name: str
    version: str
    short: str
    title: str
    features: tuple[str, ...]
    blocks: tuple[str, ...] = ()
    penalties: tuple[float, ...] = ()
    choices: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def parts_of(self, features: Sequence[str]) -> dict[str, list[int]]:
        """Return by block the numbers of these features that belong to it; blocks without any are left out."""
        owner = {name: part for part, names in self.parts for name in names}
        found: dict[str, list[int]] = {part: [] for part, _ in (*self.parts, (OTHERS, ()))}
        for number, name in enumerate(features):
            found[owner.get(name, OTHERS)].append(number)
        return {part: numbers for part, numbers in found.items() if numbers}


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
        parts=(
            ("paper", PAPER_FEATURES),
            ("emotions", EMOTION_FEATURES),
            ("reactions", REACTION_FEATURES),
        ),
    ),
    "strong@2": Preset(
        "strong@2",
        "2",
        "embedded answers, ridge",
        "Ridge regression on the mean sentence embedding of the participant's answers, the penalty chosen by nested "
        "leave-bot-out, rater effects removed, weighted by rating noise",
        (),
        blocks=(USER_BLOCK,),
        # From nearly none to nearly nothing but the mean: a factor of about three between neighbours.
        penalties=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
        choices=((USER_BLOCK,), (METRICS, USER_BLOCK)),
    ),
}


def preset_get(name: str) -> Preset:
    """Return the preset called `name`, or `name@version`.

    Raises:
        HybridError: there is none; the message names those there are.
    """
    for preset in PRESETS.values():
        if name in (preset.name, f"{preset.name.partition('@')[0]}@{preset.version}"):
            return preset
    near = nearest_names(name, list(PRESETS))
    hint = f"; did you mean {near[0]}?" if near else ""
    raise HybridError(f"there is no preset {quote(name)}; there is: {', '.join(PRESETS)}{hint}")
