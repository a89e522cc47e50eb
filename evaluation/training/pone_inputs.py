"""Input of PONE's network: vectors of a frozen encoder, kept in the cache folder, or the words of RUBER's texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.sentence import encoder_get
from chatbots.identity import Identity, canonical_json
from evaluation.models.pone_words import WordTexts
from evaluation.training.config import MetricTrainingConfig


def inputs_of(
    queries: Sequence[tuple[str, ...]],
    said: Sequence[str],
    config: MetricTrainingConfig,
    device: str,
) -> tuple[np.ndarray | WordTexts, list[str], dict[tuple[str, ...], int]]:
    """Return the network's input for texts and queries, the texts in that order, and each query's position."""
    options = config.own
    distinct = list(dict.fromkeys(queries))
    if options.sentences == "recurrent":
        joined = [" ".join(query) for query in distinct]
        texts = list(dict.fromkeys([*said, *joined]))
        place = {text: k for k, text in enumerate(texts)}
        return (
            WordTexts(texts),
            texts,
            {query: place[text] for query, text in zip(distinct, joined, strict=True)},
        )
    texts = list(dict.fromkeys([*said, *(text for query in distinct for text in query)]))
    place = {text: k for k, text in enumerate(texts)}
    vectors = _vectors(texts, config.backbone.model, device)
    if options.window == 1:
        return vectors, texts, {query: place[query[0]] for query in distinct}
    means = np.stack([vectors[[place[t] for t in query]].mean(axis=0) for query in distinct])
    both = np.concatenate([vectors, means.astype(np.float32)])
    return both, texts, {query: len(texts) + k for k, query in enumerate(distinct)}


def _vectors(texts: Sequence[str], model: str, device: str) -> np.ndarray:
    """Return (T, d) sentence vectors of length 1, which the cache folder keeps."""
    encoder = encoder_get(model, device)
    digest = hashlib.sha256(canonical_json(list(texts)).encode()).hexdigest()
    identity = Identity(
        "metric_training_vectors", "1", {"encoder": encoder.identity.as_dict(), "texts": digest}
    )
    return arrays_cached(identity, lambda: {"vectors": encoder.encode(texts)})["vectors"]
