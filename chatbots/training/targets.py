"""EI targets: the emotion distribution and the sentence embedding of every utterance, computed once.

The embeddings are kept on disk (`chatbots.encoders.cache`) under the encoder's identity and a digest of the
texts; the emotion head reads the same vectors, so emotions cost next to nothing. The embedding is reduced by a
PCA that keeps a share of the variance (0.95 in the released code of Ghandeharioun et al. 2019), fitted on the
training text alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.pca import PCA
from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.identity import Identity


@dataclass(frozen=True, eq=False)
class EITargets:
    """Targets by text: row i of both arrays is that of `texts[i]`.

    Attributes:
        row: the row of each text.
        emotion: (n, K) distributions.
        sentence: (n, D) reduced embeddings.
        pca: what reduced them.
        encoders: identities of the two encoders, for the manifest.
    """

    row: dict[str, int]
    emotion: np.ndarray
    sentence: np.ndarray
    pca: PCA
    encoders: dict[str, str]


def targets_make(
    training: Sequence[str],
    others: Sequence[str],
    variance: float = 0.95,
    encoder: str = MINILM,
) -> EITargets:
    """Targets of all texts, the PCA fitted on `training` alone.

    Args:
        training: texts of the training split.
        others: of the rest.
        encoder: the sentence encoder, as `encoder_get` takes it.

    Raises:
        EncoderError: if an encoder cannot be used here.
    """
    texts = tuple(dict.fromkeys([*training, *others]))
    row = {text: i for i, text in enumerate(texts)}
    embeddings = embeddings_cached(texts, encoder)  # (n, D₀)
    of_training = sorted({row[text] for text in training})
    pca = PCA.fit(embeddings[of_training], variance)
    emotions = emotion_encoder()
    read_by_head = embeddings if encoder == MINILM else embeddings_cached(texts, MINILM)
    return EITargets(
        row=row,
        emotion=emotions.from_embeddings(read_by_head),
        sentence=pca(embeddings),
        pca=pca,
        encoders={
            "emotion": emotions.identity.key,
            "sentence": encoder_get(encoder).identity.key,
        },
    )


def embeddings_cached(texts: Sequence[str], encoder: str = MINILM) -> np.ndarray:
    """(n, D₀) float32 embeddings of different texts, computed where no earlier training has."""
    found = encoder_get(encoder)
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    identity = Identity(
        "ei_embeddings", "1", {"encoder": found.identity.as_dict(), "texts": digest}
    )
    return arrays_cached(identity, lambda: {"embeddings": found.encode(texts)})["embeddings"]
