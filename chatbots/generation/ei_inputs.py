"""Inputs of an input-only EI model: each utterance's emotions and reduced sentence embedding.

Ghandeharioun et al. (2019), the ablation "input only": when it generates, too, both encoders run on every
utterance, generated ones included. An empty utterance has uniform emotions, as in the released code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.checkpoints import CheckpointError, Manifest
from chatbots.encoders.emotion import EmotionEncoder, EmotionHead
from chatbots.encoders.named import (
    GOEMOTIONS,
    EncoderFiles,
    emotion_encoder_named,
    sentence_encoder_named,
)
from chatbots.encoders.pca import PCA
from chatbots.encoders.sentence import MINILM, SentenceEncoder

if TYPE_CHECKING:
    from pathlib import Path

N_REMEMBERED = 2048
"""Utterances whose numbers are kept: most of a context was read a turn ago."""


def reads_encoders(manifest: Manifest) -> bool:
    """Return True if a model needs the encoders to generate."""
    return bool((manifest.config.get("ei") or {}).get("input_only"))


def encoders_missing(manifest: Manifest, files: EncoderFiles) -> str | None:
    """Explain why the encoders cannot be used here, or return None.

    They may be unavailable, or not those that the model was trained with.

    Args:
        files: of the encoders that do not come with the project.
    """
    try:
        emotion, sentence = _encoders(manifest, files)
    except ValueError as error:
        return f"it reads what it heard through {error} (its parameter encoder_files)"
    for encoder in (sentence, emotion):
        if reason := encoder.unavailable_reason():
            return reason
    trained: dict[str, Any] = manifest.training.get("encoders") or {}
    for name, encoder in (("emotion", emotion), ("sentence", sentence)):
        if trained.get(name) not in (None, encoder.identity.key):
            return f"it was trained with another {name} encoder than the one here"
    return None


def _encoders(
    manifest: Manifest, files: EncoderFiles, device: str = "cpu"
) -> tuple[EmotionEncoder, SentenceEncoder]:
    """Return the encoders that the training's config names.

    Raises:
        ValueError: the files of one are not named.
    """
    ei = (manifest.training.get("config") or {}).get("ei") or {}
    return (
        emotion_encoder_named(ei.get("emotion_encoder", GOEMOTIONS), files.deepmoji, device),
        sentence_encoder_named(ei.get("sentence_encoder", MINILM), files.infersent, device),
    )


class EIInputs:
    """Emotions and embeddings of utterances.

    Args:
        folder: of the checkpoint, with the PCA its training fitted.
        manifest: the checkpoint's.
        files: of encoders that do not come with the project.
        device: where the encoders compute.

    Raises:
        CheckpointError: the PCA is missing, damaged, or does not give the width the model reads.
        ValueError: the files of an encoder are not named.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, files: EncoderFiles, device: str = "cpu"
    ) -> None:
        try:
            self._pca = PCA.read(folder)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        n, ei = len(self._pca.components), manifest.config["ei"]
        if ei["sentence"] and n != ei["D"]:
            raise CheckpointError(
                f"{folder}: its PCA keeps {n} dimensions, the model reads {ei['D']}"
            )
        self._emotion, self._sentence = _encoders(manifest, files, device)
        self._known: OrderedDict[str, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts' (n, K) emotions and (n, D) embeddings."""
        found = {text: self._known[text] for text in texts if text in self._known}
        fresh = [text for text in dict.fromkeys(texts) if text not in found]
        if fresh:
            vectors = self._sentence.encode(fresh)
            if isinstance(self._emotion, EmotionHead) and self._emotion.sentence is self._sentence:
                emotions = self._emotion.from_embeddings(vectors)
            else:
                emotions = self._emotion.encode(fresh)
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
