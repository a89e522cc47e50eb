"""Encoders of EI models by name, and the inputs computed with them.

    emotion_encoder_named("deepmoji", DeepMojiFiles(weights="…/pytorch_model.bin", vocabulary="…/vocabulary.json"))
    sentence_encoder_named("infersent", InferSentFiles(weights="…/infersent1.pkl", vectors="…/glove.840B.300d.txt"))

Encoders come with the project, or are those of the 2019 paper where their files are named. Training makes its EI
targets with them.

An input-only EI model (Ghandeharioun et al. 2019, the ablation "input only") reads each utterance's emotions and
reduced sentence embedding: when it generates, too, both encoders run on every utterance, generated ones included. An
empty utterance has uniform emotions, as in the released code.
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
        compat_padding: as the 2019 code: the padding of a batch takes part in version 1's maximum.
    """

    weights: str
    vectors: str
    version: Literal[1, 2] = 1
    compat_padding: bool = False

    @model_validator(mode="after")
    def _has_fault(self) -> InferSentFiles:
        if self.compat_padding and self.version == 2:
            raise ValueError("compat_padding belongs to version 1; version 2 has no such fault")
        return self

    def below(self, folder: Path) -> InferSentFiles:
        """Return a copy whose relative paths begin in `folder`."""
        paths = {"weights": str(folder / self.weights), "vectors": str(folder / self.vectors)}
        return self.model_copy(update=paths)


class EncoderFiles(InputModel):
    """The files of encoders that do not come with the project, where a researcher has them."""

    deepmoji: DeepMojiFiles | None = None
    infersent: InferSentFiles | None = None


def emotion_encoder_named(name: str, files: DeepMojiFiles | None = None, device: str = "cpu") -> EmotionEncoder:
    """Return the emotion encoder called `name`, not loaded.

    Args:
        name: "goemotions", the head that is shipped, or "deepmoji".
        files: DeepMoji's files.

    Raises:
        ValueError: the name is another one, or DeepMoji's files are not named.
    """
    if name == GOEMOTIONS:
        return emotion_encoder(device)
    if name != DEEPMOJI:
        raise ValueError(f"the emotion encoder is {quote(name)}; it must be {GOEMOTIONS} or {DEEPMOJI}")
    if files is None:
        raise ValueError(f"{DEEPMOJI} needs its files named: weights and vocabulary")
    return _deepmoji(files, device)


def sentence_encoder_named(name: str, files: InferSentFiles | None = None, device: str = "cpu") -> SentenceEncoder:
    """Return the sentence encoder called `name`, not loaded.

    Args:
        name: "infersent", whose vectors keep their own lengths as in the paper, or a name that `encoder_get`
            takes.
        files: InferSent's files.

    Raises:
        ValueError: InferSent's files are not named.
    """
    if name != INFERSENT:
        return encoder_get(name, device)
    if files is None:
        raise ValueError(f"{INFERSENT} needs its files named: weights and vectors")
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


def _encoders(manifest: Manifest, files: EncoderFiles, device: str = "cpu") -> tuple[EmotionEncoder, SentenceEncoder]:
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

    def __init__(self, folder: Path, manifest: Manifest, files: EncoderFiles, device: str = "cpu") -> None:
        try:
            self._pca = PCA.read(folder)
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        n, ei = len(self._pca.components), manifest.config["ei"]
        if ei["sentence"] and n != ei["D"]:
            raise CheckpointError(f"{folder}: its PCA keeps {n} dimensions, the model reads {ei['D']}")
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
