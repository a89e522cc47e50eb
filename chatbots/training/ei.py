"""EI regularisation in training: encoders, weights and targets.

Targets are the emotion distribution and the sentence embedding of every utterance, computed once. Both are cached on
disk (`chatbots.encoders.cache`) under the encoder's identity and a digest of the texts. The shipped emotion head reads
MiniLM's vectors, so its emotions cost almost nothing once these exist. A PCA fitted on the training text reduces the
embedding and keeps a share of the variance (0.95 in the released code of Ghandeharioun et al. 2019).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.ei_encoders import (
    DEEPMOJI,
    INFERSENT,
    DeepMojiFiles,
    InferSentFiles,
    emotion_encoder_named,
    sentence_encoder_named,
)
from chatbots.encoders.emotion import EmotionEncoder, EmotionHead
from chatbots.encoders.sentence import MINILM, PCA, SentenceEncoder
from chatbots.identity import Identity
from chatbots.validation import InputModel, Mistake, Number, Size, ValuesError

if TYPE_CHECKING:
    from chatbots.encoders.emotion import EmotionEncoder
    from chatbots.encoders.sentence import SentenceEncoder


@dataclass(frozen=True, eq=False)
class EITargets:
    """EI targets by text.

    Attributes:
        row: row number by text.
        emotion: (n, K) distributions.
        sentence: (n, D) reduced embeddings.
        pca: PCA of the embeddings.
        sentence_variance: mean variance of an element of the training text's reduced embeddings.
        encoders: identities of the two encoders, for the manifest.
    """

    row: dict[str, int]
    emotion: np.ndarray
    sentence: np.ndarray
    pca: PCA
    sentence_variance: float
    encoders: dict[str, str]


def targets_make(
    training: Sequence[str],
    held_out: Sequence[str],
    *,
    emotion: EmotionEncoder,
    sentence: SentenceEncoder,
    variance: float = 0.95,
) -> EITargets:
    """Compute the targets of all texts, with a PCA fitted on `training`.

    Args:
        training: texts of the training split.
        held_out: texts of the other splits.
        variance: share of the variance that the PCA keeps.

    Raises:
        EncoderError: an encoder cannot be used here.
    """
    texts = tuple(dict.fromkeys([*training, *held_out]))
    row = {text: i for i, text in enumerate(texts)}
    embeddings = embeddings_cached(texts, sentence)  # (n, D₀)
    of_training = sorted({row[text] for text in training})
    pca = PCA.fit(embeddings[of_training], variance)
    reduced = pca(embeddings)  # (n, D)
    if isinstance(emotion, EmotionHead):
        same = emotion.sentence.identity == sentence.identity
        read = embeddings if same else embeddings_cached(texts, emotion.sentence)
        emotions = emotion.from_embeddings(read)
    else:
        emotions = _cached("ei_emotions", emotion, texts)
    return EITargets(
        row=row,
        emotion=emotions,
        sentence=reduced,
        pca=pca,
        sentence_variance=float(reduced[of_training].var(axis=0, dtype=np.float64).mean()),
        encoders={"emotion": emotion.identity.key, "sentence": sentence.identity.key},
    )


def embeddings_cached(texts: Sequence[str], encoder: SentenceEncoder) -> np.ndarray:
    """Return the cached (n, D₀) float32 embeddings of distinct texts."""
    return _cached("ei_embeddings", encoder, texts)


def _cached(name: str, encoder: SentenceEncoder | EmotionEncoder, texts: Sequence[str]) -> np.ndarray:
    """Return an encoder's embeddings of the texts, cached under `name`."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    identity = Identity(name, "1", {"encoder": encoder.identity.as_dict(), "texts": digest})
    return arrays_cached(identity, lambda: {"embeddings": encoder.encode(texts)})["embeddings"]


log = logging.getLogger(__name__)

PAPER_WEIGHTS = (25_000.0, 100_000.0)
"""Smallest and largest w_inf in the paper's Table 9."""
MINILM_VARIANCE = 0.0037
"""Variance of an element of MiniLM's reduced vectors over the everyday corpus (1,610 texts, 224 components)."""
TOLERANCE = 3.0
"""Factor by which a weight may differ from the paper's range on MiniLM without a warning."""


class EITraining(InputModel):
    """Config of EI regularisation (paper, section 3.2).

    Attributes:
        heads: "both" (EI), "emotion" (EI_emo) or "sentence" (EI_inf).
        input_only: the ablation that reads both as input instead.
        e, s: hidden units of the emotion and the sentence head.
        w_emo, w_inf: weights of their losses, which are means, while the other losses are sums over the batch's tokens.
            Weights depend on the encoder: `check_ei_weights` checks w_inf for the scale of the chosen one.
        emotion_encoder: "goemotions", the shipped head, or "deepmoji", the paper's encoder.
        sentence_encoder: "infersent", the paper's encoder, or a name for `chatbots.encoders.sentence.encoder_get`.
        deepmoji, infersent: files of these encoders, relative to the data folder.
        variance: share of the sentence embeddings' variance that the PCA keeps.
        compat_relu_emotion, compat_input_only_attached: follow the released code (`chatbots.models.ei`).
    """

    heads: Literal["both", "emotion", "sentence"] = "both"
    input_only: bool = False
    e: Size = 128
    s: Size = 4000
    w_emo: Number = Field(25.0, ge=0)
    w_inf: Number = Field(25_000.0, ge=0)
    emotion_encoder: Literal["goemotions", "deepmoji"] = "goemotions"
    sentence_encoder: str = MINILM
    deepmoji: DeepMojiFiles | None = None
    infersent: InferSentFiles | None = None
    variance: Number = Field(0.95, gt=0, le=1)
    compat_relu_emotion: bool = False
    compat_input_only_attached: bool = False

    @model_validator(mode="after")
    def _encoders_have_their_files(self) -> EITraining:
        mistakes = []
        for key, name in (("emotion_encoder", DEEPMOJI), ("sentence_encoder", INFERSENT)):
            chosen, files = getattr(self, key) == name, getattr(self, name)
            if chosen and files is None:
                keys = "weights, vocabulary" if name == DEEPMOJI else "weights, vectors"
                advice = f"{key} is {name}; give the paths of its files: {name}: {{{keys}}}"
                mistakes.append(Mistake(key, advice))
            if files is not None and not chosen:
                advice = (
                    f"{name} has files, but {key} is {getattr(self, key)!r}, which does not use them; set {key} to "
                    f"{name}, or remove {name}"
                )
                mistakes.append(Mistake(name, advice))
        if mistakes:
            raise ValuesError(mistakes)
        return self

    def encoders(self, folder: Path, device: str = "cpu") -> tuple[EmotionEncoder, SentenceEncoder]:
        """Return the two encoders, not loaded.

        Args:
            folder: base of relative file paths.
            device: device of the encoders.
        """
        deepmoji, infersent = self.deepmoji, self.infersent
        return (
            emotion_encoder_named(self.emotion_encoder, deepmoji and deepmoji.below(folder), device),
            sentence_encoder_named(self.sentence_encoder, infersent and infersent.below(folder), device),
        )

    def model_values(self, n_emotions: int, n_dimensions: int) -> dict[str, Any]:
        """Return the heads' values for the model's config."""
        return {
            "emotion": self.heads in ("both", "emotion"),
            "sentence": self.heads in ("both", "sentence"),
            "K": n_emotions,
            "D": n_dimensions,
            "e": self.e,
            "s": self.s,
            "w_emo": self.w_emo,
            "w_inf": self.w_inf,
            "input_only": self.input_only,
            "compat_relu_emotion": self.compat_relu_emotion,
            "compat_input_only_attached": self.compat_input_only_attached,
        }


def check_ei_weights(ei: EITraining, variance: float, words_nats: float) -> float:
    """Check that the sentence loss suits the scale of the embeddings.

    The loss is a mean over the embedding's elements, so its initial value is about their variance, and the weighted
    loss is w_inf · variance nats per batch. The paper chose its weights for InferSent's vectors and did not publish
    their variance. For another encoder the reference is MiniLM, with which Confab's own models were trained at the
    paper's weights.

    Args:
        variance: mean variance of an element of the reduced embeddings.
        words_nats: initial loss of the words of a batch.

    Returns:
        The initial weighted sentence loss in nats per batch; 0 if no head is trained with it.

    Raises:
        ValuesError: it exceeds the loss of the words; the message gives weights comparable to the paper's.
    """
    if ei.heads == "emotion" or (ei.input_only and not ei.compat_input_only_attached):
        return 0.0
    nats = ei.w_inf * variance
    summary = (
        f"w_inf is {_rounded(ei.w_inf)} and the reduced embeddings of {ei.sentence_encoder} have a variance of "
        f"{_rounded(variance)} per element: at the start of training the sentence loss is {_rounded(nats)} nats per "
        f"batch, that of the words {_rounded(words_nats)}"
    )
    if ei.sentence_encoder == INFERSENT or not ei.w_inf:
        log.info("%s", summary)  # the paper's encoder, for which its weights were chosen
        return nats
    lowest, highest = (weight * MINILM_VARIANCE for weight in PAPER_WEIGHTS)
    advice = (
        f"The paper's weights, {_rounded(PAPER_WEIGHTS[0])} to {_rounded(PAPER_WEIGHTS[1])}, give {_rounded(lowest)} "
        f"to {_rounded(highest)} nats with {MINILM}; use w_inf from {_rounded(lowest / variance)} to "
        f"{_rounded(highest / variance)} here"
    )
    if nats > words_nats:
        raise ValuesError(f"ei.{summary}; the model would learn sentence embeddings instead of replies. {advice}")
    if not lowest / TOLERANCE <= nats <= highest * TOLERANCE:
        log.warning("ei.%s. %s", summary, advice)
    else:
        log.info("%s", summary)
    return nats


def _rounded(value: float) -> str:
    """Format with three significant digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.12g}"
