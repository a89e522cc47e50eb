"""What an input-only EI model reads beside each utterance: its emotions and its reduced sentence embedding.

Ghandeharioun et al. (2019), the ablation "input only": when it generates, too, both encoders run on every
utterance, generated ones included. An empty utterance has uniform emotions, as in the released code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.checkpoints import CheckpointError, Manifest
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.pca import PCA
from chatbots.encoders.sentence import MINILM, encoder_get

if TYPE_CHECKING:
    from pathlib import Path

N_REMEMBERED = 2048
"""Utterances whose numbers are kept: most of a context was read a turn ago."""


def reads_encoders(manifest: Manifest) -> bool:
    """Whether a model needs the encoders to generate."""
    return bool((manifest.config.get("ei") or {}).get("input_only"))


def encoders_missing(manifest: Manifest) -> str | None:
    """Why they cannot be used here, or are not those the model was trained with; or None."""
    sentence, emotion = encoder_get(_sentence_source(manifest)), emotion_encoder()
    for encoder in (sentence, emotion):
        if reason := encoder.unavailable_reason():
            return reason
    trained: dict[str, Any] = manifest.training.get("encoders") or {}
    for name, encoder in (("emotion", emotion), ("sentence", sentence)):
        if trained.get(name) not in (None, encoder.identity.key):
            return f"it was trained with another {name} encoder than the one here"
    return None


def _sentence_source(manifest: Manifest) -> str:
    config = manifest.training.get("config") or {}
    return str((config.get("ei") or {}).get("sentence_encoder", MINILM))


class EIInputs:
    """Emotions and embeddings of utterances.

    Args:
        folder: of the checkpoint, with the PCA its training fitted.
        manifest: the checkpoint's.

    Raises:
        CheckpointError: the PCA is missing, damaged, or does not give the width the model reads.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        try:
            self._pca = PCA.read(folder)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        n, ei = len(self._pca.components), manifest.config["ei"]
        if ei["sentence"] and n != ei["D"]:
            raise CheckpointError(
                f"{folder}: its PCA keeps {n} dimensions, the model reads {ei['D']}"
            )
        source = _sentence_source(manifest)
        self._sentence = encoder_get(source)
        self._emotion = emotion_encoder()
        self._shares_vectors = source == MINILM
        self._known: OrderedDict[str, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(n, K) emotions and (n, D) embeddings."""
        found = {text: self._known[text] for text in texts if text in self._known}
        fresh = [text for text in dict.fromkeys(texts) if text not in found]
        if fresh:
            vectors = self._sentence.encode(fresh)
            emotions = (
                self._emotion.from_embeddings(vectors)
                if self._shares_vectors
                else self._emotion.encode(fresh)
            )
            emotions[[not text.strip() for text in fresh]] = 1 / emotions.shape[1]
            found |= {
                text: (emotion, embedding)
                for text, emotion, embedding in zip(
                    fresh, emotions, self._pca(vectors), strict=True
                )
            }
        for text, numbers in found.items():
            self._known[text] = numbers
            self._known.move_to_end(text)
        while len(self._known) > N_REMEMBERED:
            self._known.popitem(last=False)
        return (
            np.stack([found[text][0] for text in texts]),
            np.stack([found[text][1] for text in texts]),
        )
