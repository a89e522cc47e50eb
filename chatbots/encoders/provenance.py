"""Provenance of an encoder's weights: source and licence.

Nothing is downloaded by the encoders; what is not shipped with the project a researcher fetches once, as
`fetch` says, and names by its path.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source and terms of an encoder's weights.

    Attributes:
        licence: licence of the weights, by its SPDX name where it has one, and of what they were trained
            on where that matters.
        source: who published them and where.
        fetch: what a person does to have them here.
    """

    licence: str
    source: str
    fetch: str
