"""Published encoder files: safe reading of weights, and word vectors.

Weight files are read without executing code in them. Word vectors are read from word2vec's binary format and from the
text formats of GloVe and fastText:

    vectors = FileVectors("GoogleNews-vectors-negative300.bin")
    table = vectors.table(words={"dog", "cat"})      # or: vectors.table(first=100_000)
    table.lookup("dog")                              # (300,)

A file has gigabytes and millions of words, of which a study needs a few thousand. One pass over the file stores the
requested rows in the cache folder (`cache.py`) as a memory-mapped file, so the next process starts at once and
processes share the memory. A table has the interface of the distilled vectors (`word_vectors.py`) and can replace
them in the word-coherence metrics; words keep their case, as in these files.

Word2vec: Mikolov et al. (2013), "Distributed Representations of Words and Phrases", NeurIPS. GloVe: Pennington
et al. (2014), EMNLP. fastText: Mikolov et al. (2018), "Advances in Pre-Training Distributed Word
Representations", LREC. Nothing is downloaded here; `VECTOR_PROVENANCE` gives the download addresses.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import pickle
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np

from chatbots.encoders.cache import build_lock, cache_folder
from chatbots.encoders.sentence import EncoderError, Provenance
from chatbots.identity import Identity, canonical_json
from chatbots.text import quote

if TYPE_CHECKING:
    from torch import Tensor


def weights_read(path: Path) -> dict[str, Tensor]:
    """Read tensors by name from a `.safetensors` or tensor-only PyTorch file.

    PyTorch's files are pickles; torch's restricted unpickler rejects everything except tensors, so no code in the
    file can run.

    Raises:
        EncoderError: the file is damaged or contains anything else.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged archives raise errors of any type
        kind = "contains other objects than tensors" if isinstance(error, pickle.UnpicklingError) else "is damaged"
        raise EncoderError(f"{path} {kind}: {str(error).splitlines()[0]}") from error
    if not isinstance(tensors, dict) or not all(hasattr(tensor, "shape") for tensor in tensors.values()):
        raise EncoderError(f"{path} contains no mapping of tensors but {type(tensors).__name__}")
    return dict(tensors)


def file_sha256(path: Path) -> str | None:
    """Return the digest of a file, cached until it changes.

    None without a file.
    """
    try:
        stamp = path.stat()
    except FileNotFoundError:
        return None
    return _sha256(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=64)
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


VectorFormat = Literal["word2vec", "glove", "fasttext"]

VECTOR_PROVENANCE: dict[VectorFormat, Provenance] = {
    "word2vec": Provenance(
        "Apache-2.0 (code); Google published the vectors without stating terms",
        "Google News vectors, https://code.google.com/archive/p/word2vec/",
        "download GoogleNews-vectors-negative300.bin.gz from that page and unpack it",
    ),
    "glove": Provenance(
        "PDDL-1.0",
        "GloVe 840B, https://nlp.stanford.edu/projects/glove/",
        "download glove.840B.300d.zip from that page and unpack it",
    ),
    "fasttext": Provenance(
        "CC-BY-SA-3.0",
        "fastText crawl-300d-2M, https://fasttext.cc/docs/en/english-vectors.html",
        "download crawl-300d-2M.vec.zip from that page and unpack it",
    ),
}

log = logging.getLogger(__name__)

_VECTORS, _WORDS = "vectors.f32", "words.json"
_READ = 1 << 20
_MAX_WORD = 10_000  # bytes; a longer "word" indicates another kind of file


class VectorFileError(EncoderError, ValueError):
    """Error in a file of word vectors.

    The message gives location and reason.
    """


class VectorTable:
    """Vectors of selected words, usable from any thread.

    Args:
        identity, provenance: those of the file and its format.
        words: V words.
        vectors: (V, D) float32.
        asked: all requested words, including missing ones; None if the first rows of the file were read.
    """

    def __init__(
        self,
        identity: Identity,
        provenance: Provenance,
        words: Sequence[str],
        vectors: np.ndarray,
        requested: Collection[str] | None = None,
    ) -> None:
        self.identity = identity
        self.provenance = provenance
        self._vectors = vectors
        self._rows = {word: i for i, word in enumerate(words)}
        self._asked = None if requested is None else frozenset(requested)

    @property
    def dimension(self) -> int:
        return int(self._vectors.shape[1])

    def lookup(self, token: str) -> np.ndarray | None:
        """Return a word's vector, (D,) float32 and read-only, or None.

        Raises:
            KeyError: the word was not requested when the table was made.
        """
        row = self._rows.get(token)
        if row is not None:
            return np.asarray(self._vectors[row])
        if self._asked is not None and token not in self._asked:
            raise KeyError(f"this table was created without {quote(token)}; request it in `table(words=…)`")
        return None

    def vectors(self, tokens: Sequence[str]) -> list[np.ndarray | None]:
        """Return `lookup` of each token."""
        return [self.lookup(token) for token in tokens]

    def matrix(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the vectors of the known tokens, in order: (n_known, D) float32."""
        known = [vector for vector in self.vectors(tokens) if vector is not None]
        return np.stack(known) if known else np.zeros((0, self.dimension), dtype=np.float32)

    def unavailable_reason(self) -> str | None:
        """Return None: a table exists only if its file did."""
        return None

    def load(self) -> None:
        """Do nothing; part of the interface shared with distilled word vectors."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, token: str) -> bool:
        return self.lookup(token) is not None


class FileVectors:
    """A file of word vectors.

    Args:
        path: the file, unpacked.
        format: file format; by default from its name (`.bin`: word2vec, `.vec`: fastText, `.txt`: GloVe).
        dimension: numbers per word; required for GloVe, where some words contain spaces.
    """

    def __init__(self, path: Path | str, format: VectorFormat | None = None, dimension: int = 300) -> None:
        self.path = Path(path)
        self.format: VectorFormat = format or _format_of(self.path)
        self.dimension = dimension

    @property
    def identity(self) -> Identity:
        """Identity from the file's size, beginning and end.

        Hashing gigabytes would take minutes.
        """
        return Identity("word_vector_file", "1", {"format": self.format, "file": _fingerprint(self.path)})

    @property
    def provenance(self) -> Provenance:
        return VECTOR_PROVENANCE[self.format]

    def unavailable_reason(self) -> str | None:
        if self.path.is_file():
            return None
        return f"there is no file {self.path}; to get it: {self.provenance.fetch}"

    def table(self, words: Collection[str] | None = None, first: int | None = None) -> VectorTable:
        """Create a table of the given words and the file's first rows.

        Args:
            words: words as spelled in the file; the table reports missing ones as words without a vector.
            first: number of rows from the top of the file, its most frequent words.

        Returns:
            The table, memory-mapped if the cache folder is writable.

        Raises:
            VectorFileError: the file is missing, truncated or of another format.
            ValueError: neither argument is given.
        """
        if words is None and first is None:
            raise ValueError("pass `words`, or `first` for the number of rows")
        reason = self.unavailable_reason()
        if reason is not None:
            raise VectorFileError(reason)
        source = self.identity
        requested = sorted(set(words or ()))
        listed = hashlib.sha256(json.dumps(requested).encode()).hexdigest()
        key = canonical_json({"source": source.as_dict(), "words": listed, "first": first})
        folder = cache_folder() / "word_tables" / hashlib.sha256(key.encode()).hexdigest()[:24]
        stored = _stored(folder)
        if stored is None:
            with build_lock(folder):
                stored = _stored(folder) or self._make(folder, _Choice(requested, first or 0))
        if first is None:
            return VectorTable(source, self.provenance, *stored, requested=requested)
        vocabulary = {"first": first, "words": listed} if requested else {"first": first}
        source = replace(source, params={**source.params, **vocabulary})
        return VectorTable(source, self.provenance, *stored)

    def _make(self, folder: Path, choice: _Choice) -> tuple[list[str], np.ndarray]:
        """Read the file once, into the cache folder or, failing that, memory."""
        width = self._width()
        words: list[str] = []
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.part-"))
        except OSError as error:
            log.warning("cannot cache word vectors in %s (%s)", folder, error)
            rows = []
            for word, vector in self._rows(choice):
                words.append(word)
                rows.append(vector)
            return words, np.array(rows, dtype=np.float32).reshape(len(rows), width)
        try:
            with (part / _VECTORS).open("wb") as file:
                for word, vector in self._rows(choice):
                    words.append(word)
                    file.write(vector.tobytes())
            (part / _WORDS).write_text(json.dumps([width, words]), encoding="utf-8")
            os.rename(part, folder)  # atomic
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        stored = _stored(folder)
        if stored is None:
            raise VectorFileError(f"{folder} vanished while it was being created")
        return stored

    def _width(self) -> int:
        if self.format == "glove":
            return self.dimension
        with self.path.open("rb") as file:
            return _header(file, self.path)[1]

    def _rows(self, choice: _Choice) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the selected words with their vectors in file order, without duplicates."""
        seen: set[bytes] = set()
        rows = (
            _binary_rows(self.path, choice)
            if self.format == "word2vec"
            else _text_rows(self.path, choice, self.format, self.dimension)
        )
        for word, vector in rows:
            if word not in seen:
                seen.add(word)
                choice.missing.discard(word)
                yield word.decode("utf-8", errors="replace"), vector


class _Choice:
    """Selection of the rows of a file to keep."""

    def __init__(self, words: Collection[str], first: int) -> None:
        self.first = first
        self.words = frozenset(word.encode() for word in words)
        self.heads = frozenset(word.partition(b" ")[0] for word in self.words)
        """First characters of the requested words; rows with other first characters need no parsing."""
        self.missing = set(self.words)

    def done(self, row: int) -> bool:
        """Return True if no row from here on can be selected."""
        return row >= self.first and not self.missing


def _binary_rows(path: Path, choice: _Choice) -> Iterator[tuple[bytes, np.ndarray]]:
    """Read word2vec's binary format.

    A line "count dimension", then for each word its bytes, a space and float32 numbers.
    """
    with path.open("rb") as file:
        n, width = _header(file, path)
        position = file.tell()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for row in range(n):
                if choice.done(row):
                    return
                blank = data.find(b" ", position, position + _MAX_WORD)
                numbers, end = blank + 1, blank + 1 + 4 * width
                if blank < 0 or end > len(data):
                    raise VectorFileError(f"{path} is truncated or not a word2vec file, at word {row + 1} of {n}")
                # Some writers put a line break after each word's numbers.
                word, position = data[position:blank].lstrip(b"\n"), end
                if row < choice.first or word in choice.words:
                    yield (word, _finite(np.frombuffer(data[numbers:end], dtype="<f4"), f"{path}, word {row + 1}"))


def _text_rows(path: Path, choice: _Choice, format: VectorFormat, dimension: int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Read a text file with one line per word: the word and its numbers.

    In fastText's files a line "count dimension" comes first.
    """
    with path.open("rb") as file:
        n, width = _header(file, path) if format == "fasttext" else (None, dimension)
        row = -1
        for row, line in enumerate(file):
            if choice.done(row):
                return
            if not line.endswith(b"\n"):
                raise VectorFileError(f"{path} is truncated in its last line, at word {row + 1}")
            if row >= choice.first and line.partition(b" ")[0] not in choice.heads:
                continue
            word, *numbers = line.rstrip().rsplit(b" ", width)  # GloVe's words may contain spaces
            if row < choice.first or word in choice.words:
                yield word, _parsed(numbers, width, f"{path}, word {row + 1} ({quote(word)})")
        if n is not None and row + 1 < n:
            raise VectorFileError(f"{path} is truncated: {row + 1} of {n} words")


def _parsed(numbers: list[bytes], width: int, location: str) -> np.ndarray:
    try:
        vector = np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError as error:
        raise VectorFileError(f"{location}: {error}") from error
    if len(vector) != width:
        raise VectorFileError(f"{location}: {len(vector)} numbers; there must be {width}")
    return _finite(vector, location)


def _header(file: BinaryIO, path: Path) -> tuple[int, int]:
    line = file.readline(100)
    try:
        n, width = map(int, line.split())
    except ValueError:
        raise VectorFileError(
            f"{path} begins with {quote(line)}; it must begin with a line that gives the numbers of words and "
            "dimensions"
        ) from None
    return n, width


def _finite(vector: np.ndarray, location: str) -> np.ndarray:
    if not np.isfinite(vector).all():
        raise VectorFileError(f"{location}: a number is not finite")
    return vector


def _stored(folder: Path) -> tuple[list[str], np.ndarray] | None:
    """Return the words and vectors in the cache folder.

    None if missing or damaged.
    """
    try:
        width, words = json.loads((folder / _WORDS).read_text(encoding="utf-8"))
        if not words:
            return [], np.zeros((0, width), dtype=np.float32)
        shape = (len(words), width)
        return words, np.memmap(folder / _VECTORS, dtype=np.float32, mode="r", shape=shape)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        log.warning("the cached word vectors %s are unreadable and are rebuilt: %s", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _format_of(path: Path) -> VectorFormat:
    formats: dict[str, VectorFormat] = {".bin": "word2vec", ".vec": "fasttext", ".txt": "glove"}
    if path.suffix not in formats:
        raise VectorFileError(
            f"{path}: the format is unclear from its name; give one of {', '.join(VECTOR_PROVENANCE)} (unpack "
            "archives first)"
        )
    return formats[path.suffix]


def _fingerprint(path: Path) -> str | None:
    """Return a digest of a file's size, beginning and end.

    None without a file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_READ)
            file.seek(max(0, size - _READ))
            end = file.read(_READ)
    except FileNotFoundError:
        return None
    return hashlib.sha256(b"%d:" % size + start + end).hexdigest()
