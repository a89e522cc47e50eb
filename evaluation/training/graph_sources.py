"""Sources of GRADE's graphs and their licences; torch is not loaded for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDNET = "wordnet"
"""Stands in a config's `graph` for the relations that come with Confab."""
RELATIONS = Path(__file__).parent.parent / "shipped" / "wordnet" / "relations.tsv.gz"
WORDNET_LICENCE = RELATIONS.with_name("LICENSE.txt")
LICENCE_BESIDE = "LICENSE.WordNet.txt"
"""What a copy of WordNet's licence is called next to a graph that has its edges."""


def has_wordnet(options: Mapping[str, Any]) -> bool:
    """Return True if a config's options put WordNet's relations into the graph."""
    named = options.get("graph", ())
    return WORDNET in ([named] if isinstance(named, str) else named)


def graph_licences(options: Mapping[str, Any]) -> list[str]:
    """Return the licences of a graph's edges, each with its source in brackets or as its name."""
    return ["CC BY-SA 4.0 (ConceptNet)", *(["WordNet's licence"] if has_wordnet(options) else [])]
