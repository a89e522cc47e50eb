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
from pathlib import Path

import numpy as np

from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.identity import Identity

PCA_FILE = "ei_pca.safetensors"


@dataclass(frozen=True, eq=False)
class PCA:
    """A linear map to fewer dimensions.

    Attributes:
        mean: (D₀,)
        components: (D, D₀), orthonormal rows, the largest variance first.
        variance: share of the variance they keep.
    """

    mean: np.ndarray
    components: np.ndarray
    variance: float

    @classmethod
    def fit(cls, x: np.ndarray, variance: float) -> PCA:
        """The fewest components that keep at least `variance` of that of x, (n, D₀).

        Raises:
            ValueError: if there are fewer than two different rows.
        """
        mean = x.mean(axis=0, dtype=np.float64)
        centred = x - mean
        values, vectors = np.linalg.eigh(centred.T @ centred / len(x))  # smallest first
        values, vectors = values[::-1].clip(0), vectors[:, ::-1]
        if values.sum() <= 0:
            raise ValueError(
                "all sentence embeddings of the training text are equal; there is nothing to tell apart"
            )
        shares = np.cumsum(values) / values.sum()
        n = min(int(np.searchsorted(shares, variance - 1e-12)) + 1, len(values))
        largest = np.abs(vectors[:, :n]).argmax(axis=0)
        signs = np.sign(vectors[largest, np.arange(n)])  # eigenvectors come with either sign
        components = (vectors[:, :n] * signs).T
        return cls(mean.astype(np.float32), components.astype(np.float32), float(shares[n - 1]))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(n, D₀) → (n, D)"""
        return np.asarray((x - self.mean) @ self.components.T, dtype=np.float32)

    def write(self, folder: Path) -> None:
        """Keep it beside the checkpoint: the input-only variant needs it to generate."""
        from safetensors.numpy import save_file

        arrays = {"mean": self.mean, "components": np.ascontiguousarray(self.components)}
        save_file(arrays, folder / PCA_FILE, metadata={"variance": repr(self.variance)})


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
