"""Metrics that need parameters, declared in a YAML file (`metrics.yaml`): one list entry, one metric.

    - kind: perplexity
      params: {model: path/or/hub-id, window: 5}
    - id: toxicity_bert
      kind: toxicity
      params: {model: path/or/hub-id, label: toxic}

A kind is a registered metric that takes parameters, and the parameters are the arguments of its class. An
entry without an id takes the place of the registered metric; with one it stands beside it, and its columns
begin with the id.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from chatbots.entries import BrokenEntry, Entries, EntriesError, entries_read
from chatbots.names import nearest_names
from evaluation.metrics.base import Metric
from evaluation.metrics.pair_scores import Coherence, Contradiction
from evaluation.metrics.perplexity import Perplexity
from evaluation.metrics.registry import metrics
from evaluation.metrics.semantic_similarity import InferSentSimilarity
from evaluation.metrics.sentiment_deepmoji import DeepMojiSentiment
from evaluation.metrics.toxicity import Toxicity
from evaluation.metrics.word_coherence import FileWordCoherence

KINDS: dict[str, Any] = {
    "perplexity": Perplexity,
    "toxicity": Toxicity,
    "contradiction": Contradiction,
    "coherence": Coherence,
    "deepmoji": DeepMojiSentiment,
    "infersent": InferSentSimilarity,
    "word2vec": FileWordCoherence,
}
_NEEDED = {
    "deepmoji": ("weights", "vocabulary"),
    "infersent": ("weights", "vectors"),
    "word2vec": ("path",),
}
_KEYS = ["id", "kind", "name", "params"]
_OBJECTS = {"name", "title", "replies", "classifier", "encoder"}
_ID = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


class MetricsFileError(ValueError):
    """A `metrics.yaml` that cannot be used; the message names the entry and what would be right."""


def configured_load(path: Path | str, device: str = "cpu") -> list[Metric]:
    """Make the metrics of a file, nothing loaded. A file that is not there holds none.

    Args:
        device: where those compute whose entry names no device of its own.

    Raises:
        MetricsFileError: at the first mistake.
    """
    found = _read(path, device)
    if found.broken:
        raise MetricsFileError(str(found.broken[0]))
    return found.made


def _read(path: Path | str, device: str, taken: Collection[str] = ()) -> Entries[Metric]:
    try:
        return entries_read(path, partial(_make, device=device), what="metric", taken=taken)
    except EntriesError as error:
        raise MetricsFileError(str(error)) from error


_configured: set[str] = set()
_broken: list[BrokenEntry] = []


def configured_register(path: Path | str, device: str = "cpu") -> list[str]:
    """Register the metrics of a file, in place of those of an earlier call; returns their names.

    A broken entry is left out and told of by `configured_broken`.

    Args:
        device: where those compute whose entry names no device of its own.

    Raises:
        MetricsFileError: if no entry can be read; nothing is changed.
    """
    found = _read(path, device, taken=set(metrics.names()) - {*KINDS, *_configured})
    _broken[:] = found.broken
    for name in _configured:
        metrics.discard(name)
        if name in KINDS:
            metrics.add(KINDS[name]())
    _configured.clear()
    for metric in found.made:
        metrics.discard(metric.name)
        metrics.add(metric)
        _configured.add(metric.name)
    return [metric.name for metric in found.made]


def configured_broken() -> list[BrokenEntry]:
    """The broken entries of the file that was registered last."""
    return list(_broken)


def _make(entry: Any, device: str) -> Metric:
    if not isinstance(entry, dict):
        raise ValueError(f"it is {entry!r}; it must be a mapping with kind and params")
    for key in entry:
        if key not in _KEYS:
            raise ValueError(f"there is no key {key!r}{_near(key, _KEYS)}")
    kind, params = entry.get("kind"), entry.get("params") or {}
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}{_near(kind, list(KINDS))}")
    identifier = entry.get("id", kind)
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise ValueError(f"id is {identifier!r}; it must be lower-case words joined by underscores")
    if not isinstance(params, dict):
        raise ValueError(f"params is {params!r}; it must be a mapping")
    taken = [name for name in inspect.signature(KINDS[kind]).parameters if name not in _OBJECTS]
    for key in params:
        if key not in taken:
            raise ValueError(f"{kind} has no parameter {key!r}{_near(key, taken)}")
    for needed in _NEEDED.get(kind, ("model",)):
        if needed not in params:
            raise ValueError(f"{kind} needs the parameter {needed}")
    if "device" in taken:
        params = {"device": device, **params}
    title = {"title": str(entry["name"])} if "name" in entry else {}
    try:
        return KINDS[kind](name=identifier, **title, **params)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _near(name: Any, names: list[str]) -> str:
    near = nearest_names(str(name), names)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
