"""Which hybrid metrics there are. A preset names its features and how a set of bots is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from chatbots.registry import nearest_names
from evaluation.hybrid.features import PAPER_FEATURES, HybridError


@dataclass(frozen=True, slots=True)
class Preset:
    """A way to fit.

    Attributes:
        version: raised when its numbers could change; part of every fit's identity.
        features: taken where the caller chooses none.
    """

    name: str
    version: str
    title: str
    features: tuple[str, ...]


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "paper",
        "1",
        "Ordinary least squares on the eleven features of Ghandeharioun et al. (2019)",
        PAPER_FEATURES,
    ),
}


def preset_get(name: str) -> Preset:
    """The preset of that name.

    Raises:
        HybridError: for an unknown one, naming those there are.
    """
    if name not in PRESETS:
        near = nearest_names(name, list(PRESETS))
        hint = f"; did you mean {near[0]}?" if near else ""
        raise HybridError(f"there is no preset {name!r}; there is: {', '.join(PRESETS)}{hint}")
    return PRESETS[name]
