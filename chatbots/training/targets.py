"""EI targets: the emotion distribution and the sentence embedding of every utterance, computed once.

Both are kept on disk (`chatbots.encoders.cache`) under the encoder's identity and a digest of the texts. The shipped
emotion head reads MiniLM's vectors, so beside these its emotions cost next to nothing. The embedding is reduced by a
PCA that keeps a share of the variance (0.95 in the released code of Ghandeharioun et al. 2019), fitted on the
training text alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.emotion import EmotionEncoder, EmotionHead
from chatbots.encoders.pca import PCA
from chatbots.encoders.sentence import SentenceEncoder
from chatbots.identity import Identity


@dataclass(frozen=True, eq=False)
class EITargets:
    """Targets by text: row i of both arrays is that of `texts[i]`.

    Attributes:
        row: the row of each text.
        emotion: (n, K) distributions.
        sentence: (n, D) reduced embeddings.
        pca: what reduced them.
        sentence_variance: of an element of the reduced embeddings of the training text; mean over elements.
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
    others: Sequence[str],
    *,
    emotion: EmotionEncoder,
    sentence: SentenceEncoder,
    variance: float = 0.95,
) -> EITargets:
    """Make the targets of all texts, with the PCA fitted on `training` alone.

    Args:
        training: texts of the training split.
        others: of the rest.
        variance: share of the variance that the PCA keeps.

    Raises:
        EncoderError: if an encoder cannot be used here.
    """
    texts = tuple(dict.fromkeys([*training, *others]))
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
    """Return the (n, D₀) float32 embeddings of different texts, from the cache where an earlier training made them."""
    return _cached("ei_embeddings", encoder, texts)


def _cached(
    name: str, encoder: SentenceEncoder | EmotionEncoder, texts: Sequence[str]
) -> np.ndarray:
    """Return an encoder's embeddings of the texts, cached under `name`."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    identity = Identity(name, "1", {"encoder": encoder.identity.as_dict(), "texts": digest})
    return arrays_cached(identity, lambda: {"embeddings": encoder.encode(texts)})["embeddings"]
