"""Principal components: a linear map of sentence embeddings to fewer dimensions, and its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

PCA_FILE = "ei_pca.safetensors"
ROWS = 32_768
"""Embeddings at a time: a second copy of all of InferSent's for a large corpus would fill the memory."""


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
        """Find the fewest components of x, (n, D₀), that keep at least the share `variance` of its variance.

        Raises:
            ValueError: there are fewer than two different rows.
        """
        mean = x.mean(axis=0, dtype=np.float64)
        scatter = np.zeros((x.shape[1], x.shape[1]))
        for start in range(0, len(x), ROWS):
            centred = x[start : start + ROWS] - mean
            scatter += centred.T @ centred
        values, vectors = np.linalg.eigh(scatter / len(x))  # smallest first
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
        """Project (n, D₀) rows on the components: (n, D)."""
        reduced = np.empty((len(x), len(self.components)), dtype=np.float32)
        for start in range(0, len(x), ROWS):
            part = slice(start, start + ROWS)
            reduced[part] = (x[part] - self.mean) @ self.components.T
        return reduced

    def write(self, folder: Path) -> None:
        """Write it next to the checkpoint: the input-only variant needs it to generate."""
        from safetensors.numpy import save_file

        arrays = {"mean": self.mean, "components": np.ascontiguousarray(self.components)}
        save_file(arrays, folder / PCA_FILE, metadata={"variance": repr(self.variance)})

    @classmethod
    def read(cls, folder: Path) -> PCA:
        """Read what `write` stored.

        Raises:
            ValueError: the file is damaged or holds something else.
        """
        from safetensors import SafetensorError, safe_open

        path = folder / PCA_FILE
        try:
            with safe_open(path, framework="np") as file:
                mean, components = file.get_tensor("mean"), file.get_tensor("components")
                variance = float((file.metadata() or {})["variance"])
        except (OSError, SafetensorError, KeyError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        if components.shape[1:] != mean.shape:
            raise ValueError(f"{path}: components of {components.shape}, mean of {mean.shape}")
        return cls(mean, components, variance)
