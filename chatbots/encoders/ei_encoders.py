"""Encoders of EI models by name, and the model inputs they compute.

    emotion_encoder_named("deepmoji", DeepMojiFiles(weights="…/pytorch_model.bin", vocabulary="…/vocabulary.json"))
    sentence_encoder_named("infersent", InferSentFiles(weights="…/infersent1.pkl", vectors="…/glove.840B.300d.txt"))

Encoders are shipped with Confab, or are those of the 2019 paper if their files are configured. Training computes its
EI targets with them.

An input-only EI model (Ghandeharioun et al. 2019, ablation "input only") reads each utterance's emotions and reduced
sentence embedding, so both encoders also run during generation, on generated utterances too. An empty utterance has
uniform emotions, as in the released code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_validator

from chatbots.checkpoints import CheckpointError, Manifest
from chatbots.encoders.emotion import EmotionEncoder, EmotionHead, emotion_encoder
from chatbots.encoders.sentence import MINILM, PCA, SentenceEncoder, encoder_get
from chatbots.text import quote
from chatbots.validation import InputModel

if TYPE_CHECKING:
    from pathlib import Path

    from chatbots.encoders.deepmoji import DeepMojiEncoder
    from chatbots.encoders.infersent import InferSentEncoder

GOEMOTIONS, DEEPMOJI, INFERSENT = "goemotions", "deepmoji", "infersent"


class DeepMojiFiles(InputModel):
    """Paths of DeepMoji's files.

    Attributes:
        weights: torchMoji's `pytorch_model.bin`, or the same tensors as `.safetensors`.
        vocabulary: torchMoji's `vocabulary.json`.
    """

    weights: str
    vocabulary: str

    def below(self, folder: Path) -> DeepMojiFiles:
        """Return a copy whose relative paths begin in `folder`."""
        return DeepMojiFiles(weights=str(folder / self.weights), vocabulary=str(folder / self.vocabulary))


class InferSentFiles(InputModel):
    """Paths and version of InferSent's files.

    Attributes:
        weights: `infersent1.pkl` or `infersent2.pkl`, or the same tensors as `.safetensors`.
        vectors: GloVe's file for version 1, fastText's for version 2, unpacked.
        version: 1 or 2; the paper's is 1.
        compat_padding: include the batch's padding in version 1's maximum, as the 2019 code does.
    """

    weights: str
    vectors: str
    version: Literal[1, 2] = 1
    compat_padding: bool = False

    @model_validator(mode="after")
    def _has_fault(self) -> InferSentFiles:
        if self.compat_padding and self.version == 2:
            raise ValueError("compat_padding is only for version 1; version 2 does not have this error")
        return self

    def below(self, folder: Path) -> InferSentFiles:
        """Return a copy whose relative paths begin in `folder`."""
        paths = {"weights": str(folder / self.weights), "vectors": str(folder / self.vectors)}
        return self.model_copy(update=paths)


class EncoderFiles(InputModel):
    """Paths of encoder files that are not shipped; a researcher provides them."""

    deepmoji: DeepMojiFiles | None = None
    infersent: InferSentFiles | None = None


def emotion_encoder_named(name: str, files: DeepMojiFiles | None = None, device: str = "cpu") -> EmotionEncoder:
    """Return the emotion encoder called `name`, not loaded.

    Args:
        name: "goemotions", the shipped head, or "deepmoji".
        files: DeepMoji's files.

    Raises:
        ValueError: the name is unknown, or DeepMoji's files are not configured.
    """
    if name == GOEMOTIONS:
        return emotion_encoder(device)
    if name != DEEPMOJI:
        raise ValueError(f"the emotion encoder is {quote(name)}; it must be {GOEMOTIONS} or {DEEPMOJI}")
    if files is None:
        raise ValueError(f"{DEEPMOJI} needs the paths of its files: weights and vocabulary")
    return _deepmoji(files, device)


def sentence_encoder_named(name: str, files: InferSentFiles | None = None, device: str = "cpu") -> SentenceEncoder:
    """Return the sentence encoder called `name`, not loaded.

    Args:
        name: "infersent", whose vectors are not normalised, as in the paper, or a name for `encoder_get`.
        files: InferSent's files.

    Raises:
        ValueError: InferSent's files are not configured.
    """
    if name != INFERSENT:
        return encoder_get(name, device)
    if files is None:
        raise ValueError(f"{INFERSENT} needs the paths of its files: weights and vectors")
    return _infersent(files, device)


def _deepmoji(files: DeepMojiFiles, device: str) -> DeepMojiEncoder:
    from chatbots.encoders.deepmoji import DeepMojiEncoder

    return DeepMojiEncoder(files.weights, files.vocabulary, device)


def _infersent(files: InferSentFiles, device: str) -> InferSentEncoder:
    from chatbots.encoders.infersent import InferSentEncoder

    return InferSentEncoder(
        files.weights, files.vectors, files.version, normalise=False, compat=files.compat_padding, device=device
    )


N_CACHED_UTTERANCES = 2048
"""Number of cached utterances; most of a context was already encoded a turn ago."""


def reads_encoders(manifest: Manifest) -> bool:
    """Return True if a model needs the encoders to generate."""
    return bool((manifest.config.get("ei") or {}).get("input_only"))


def encoders_missing(manifest: Manifest, files: EncoderFiles) -> str | None:
    """Explain why the encoders cannot be used here, or return None.

    They may be unavailable, or differ from those that the model was trained with.

    Args:
        files: files of the encoders that are not shipped.
    """
    try:
        emotion, sentence = _encoders(manifest, files)
    except ValueError as error:
        return f"{error}; set the parameter encoder_files"
    for encoder in (sentence, emotion):
        if reason := encoder.unavailable_reason():
            return reason
    trained: dict[str, Any] = manifest.training.get("encoders") or {}
    for name, encoder in (("emotion", emotion), ("sentence", sentence)):
        if trained.get(name) not in (None, encoder.identity.key):
            return f"it was trained with a different {name} encoder"
    return None


def _encoders(manifest: Manifest, files: EncoderFiles, device: str = "cpu") -> tuple[EmotionEncoder, SentenceEncoder]:
    """Return the encoders of the training config.

    Raises:
        ValueError: an encoder's files are not configured.
    """
    ei = (manifest.training.get("config") or {}).get("ei") or {}
    return (
        emotion_encoder_named(ei.get("emotion_encoder", GOEMOTIONS), files.deepmoji, device),
        sentence_encoder_named(ei.get("sentence_encoder", MINILM), files.infersent, device),
    )


class EIInputs:
    """Emotions and embeddings of utterances.

    Args:
        folder: the checkpoint's folder, with the PCA fitted in training.
        manifest: the checkpoint's manifest.
        files: files of the encoders that are not shipped.
        device: device of the encoders.

    Raises:
        CheckpointError: the PCA is missing, damaged or of another width than the model expects.
        ValueError: an encoder's files are not configured.
    """

    def __init__(self, folder: Path, manifest: Manifest, files: EncoderFiles, device: str = "cpu") -> None:
        try:
            self._pca = PCA.read(folder)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        n, ei = len(self._pca.components), manifest.config["ei"]
        if ei["sentence"] and n != ei["D"]:
            raise CheckpointError(f"{folder}: its PCA has {n} dimensions, but the model needs {ei['D']}")
        self._emotion, self._sentence = _encoders(manifest, files, device)
        self._known: OrderedDict[str, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts' (n, K) emotions and (n, D) embeddings."""
        known = {text: self._known[text] for text in texts if text in self._known}
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            vectors = self._sentence.encode(fresh)
            if isinstance(self._emotion, EmotionHead) and self._emotion.sentence is self._sentence:
                emotions = self._emotion.from_embeddings(vectors)
            else:
                emotions = self._emotion.encode(fresh)
            emotions[[not text.strip() for text in fresh]] = 1 / emotions.shape[1]
            known |= {
                text: (emotion, embedding)
                for text, emotion, embedding in zip(fresh, emotions, self._pca(vectors), strict=True)
            }
        for text, numbers in known.items():
            self._known[text] = numbers
            self._known.move_to_end(text)
        while len(self._known) > N_CACHED_UTTERANCES:
            self._known.popitem(last=False)
        return (np.stack([known[text][0] for text in texts]), np.stack([known[text][1] for text in texts]))
