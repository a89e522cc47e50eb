"""Which hybrid metrics there are. A preset names its features and how a set of bots is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from chatbots.names import nearest_names
from evaluation.hybrid.embeddings import USER_BLOCK
from evaluation.hybrid.features import PAPER_FEATURES, HybridError

METRICS = "metrics"
"""The block of all features that are metric columns."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A way to fit.

    Attributes:
        short: the title in a few words.
        version: raised when its numbers could change; part of every fit's identity.
        features: metric columns, taken where the caller chooses none; there may be none.
        blocks: embeddings that it reads beside them (`evaluation.hybrid.embeddings`).
        penalties: of the ridge, per conversation; none for ordinary least squares.
        choices: sets of blocks to choose from, with every penalty; `metrics` is that of the features, and a
            choice with it is offered where there are features.
    """

    name: str
    version: str
    short: str
    title: str
    features: tuple[str, ...]
    blocks: tuple[str, ...] = ()
    penalties: tuple[float, ...] = ()
    choices: tuple[tuple[str, ...], ...] = ()


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
    """Return the preset called `name`.

    Raises:
        HybridError: there is none; the message names those there are.
    """
    if name not in PRESETS:
        near = nearest_names(name, list(PRESETS))
        hint = f"; did you mean {near[0]}?" if near else ""
        raise HybridError(f"there is no preset {name!r}; there is: {', '.join(PRESETS)}{hint}")
    return PRESETS[name]
