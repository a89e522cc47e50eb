"""Encoders by name: those that come with the project, and those of the 2019 paper where their files are named.

    emotion_encoder_named("deepmoji", DeepMojiFiles(weights="…/pytorch_model.bin", vocabulary="…/vocabulary.json"))
    sentence_encoder_named("infersent", InferSentFiles(weights="…/infersent1.pkl", vectors="…/glove.840B.300d.txt"))

Training makes its EI targets with them, and a model that reads such targets as input generates with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from chatbots.encoders.emotion import EmotionEncoder, emotion_encoder
from chatbots.encoders.sentence import SentenceEncoder, encoder_get
from chatbots.outside import Values
from chatbots.storable import quote

if TYPE_CHECKING:
    from chatbots.encoders.deepmoji import DeepMojiEncoder
    from chatbots.encoders.infersent import InferSentEncoder

GOEMOTIONS, DEEPMOJI, INFERSENT = "goemotions", "deepmoji", "infersent"


class DeepMojiFiles(Values):
    """Paths of DeepMoji's files.

    Attributes:
        weights: torchMoji's `pytorch_model.bin`, or the same tensors as `.safetensors`.
        vocabulary: torchMoji's `vocabulary.json`.
    """

    weights: str
    vocabulary: str

    def below(self, folder: Path) -> DeepMojiFiles:
        """Return a copy whose relative paths begin in `folder`."""
        return DeepMojiFiles(
            weights=str(folder / self.weights), vocabulary=str(folder / self.vocabulary)
        )


class InferSentFiles(Values):
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
        found = {"weights": str(folder / self.weights), "vectors": str(folder / self.vectors)}
        return self.model_copy(update=found)


class EncoderFiles(Values):
    """The files of encoders that do not come with the project, where a researcher has them."""

    deepmoji: DeepMojiFiles | None = None
    infersent: InferSentFiles | None = None


def emotion_encoder_named(
    name: str, files: DeepMojiFiles | None = None, device: str = "cpu"
) -> EmotionEncoder:
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
        raise ValueError(
            f"the emotion encoder is {quote(name)}; it must be {GOEMOTIONS} or {DEEPMOJI}"
        )
    if files is None:
        raise ValueError(f"{DEEPMOJI} needs its files named: weights and vocabulary")
    return _deepmoji(files, device)


def sentence_encoder_named(
    name: str, files: InferSentFiles | None = None, device: str = "cpu"
) -> SentenceEncoder:
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
        files.weights,
        files.vectors,
        files.version,
        normalise=False,
        compat=files.compat_padding,
        device=device,
    )
