"""A tiny GGUF model with random weights, written without any library: a llama of two layers that says letters."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_WIDTH, _HEADS, _KV_HEADS, _LAYERS, _INNER = 64, 4, 2, 2, 96
_HEAD = _WIDTH // _HEADS
_ALIGNMENT = 32
CACHE_BYTES = _LAYERS * 2 * _KV_HEADS * _HEAD * 2
"""Keys and values of one token, in float16."""


def save_gguf(path: Path, *, seed: int = 0, chat_template: str = CHATML, n_context: int = 512) -> Path:
    """Write the model; returns the path."""
    # Byte-level: a blank is Ġ and a line break Ċ. Letters outside ASCII are unknown, and dropped.
    characters = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
    tokens = [*MARKS, *characters, "he"]
    values = {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "general.license": "cc0-1.0",
        "llama.block_count": _LAYERS,
        "llama.context_length": n_context,
        "llama.embedding_length": _WIDTH,
        "llama.feed_forward_length": _INNER,
        "llama.attention.head_count": _HEADS,
        "llama.attention.head_count_kv": _KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _HEAD,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(MARKS) + [1] * (len(tokens) - len(MARKS)),
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    if chat_template:
        values["tokenizer.chat_template"] = chat_template
    path.write_bytes(_file(values, _tensors(len(tokens), np.random.default_rng(seed))))
    return path


def _tensors(n_tokens: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    kv = _KV_HEADS * _HEAD
    shapes = {"token_embd": (n_tokens, _WIDTH), "output": (n_tokens, _WIDTH)}
    for i in range(_LAYERS):
        shapes |= {
            f"blk.{i}.attn_q": (_WIDTH, _WIDTH),
            f"blk.{i}.attn_k": (kv, _WIDTH),
            f"blk.{i}.attn_v": (kv, _WIDTH),
            f"blk.{i}.attn_output": (_WIDTH, _WIDTH),
            f"blk.{i}.ffn_gate": (_INNER, _WIDTH),
            f"blk.{i}.ffn_up": (_INNER, _WIDTH),
            f"blk.{i}.ffn_down": (_WIDTH, _INNER),
        }
    tensors = {f"{name}.weight": rng.normal(0, shape[1] ** -0.5, shape) for name, shape in shapes.items()}
    norms = ["output_norm", *(f"blk.{i}.{n}_norm" for i in range(_LAYERS) for n in ("attn", "ffn"))]
    tensors |= {f"{name}.weight": np.ones(_WIDTH) for name in norms}
    return {name: tensor.astype("<f4") for name, tensor in tensors.items()}


def _file(values: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for name, value in values.items():
        head += _text(name) + _value(value)
    data = b""
    for name, tensor in tensors.items():
        # GGUF names the fastest dimension first.
        sizes = struct.pack(f"<{tensor.ndim}Q", *tensor.shape[::-1])
        head += _text(name) + struct.pack("<I", tensor.ndim) + sizes
        head += struct.pack("<IQ", 0, len(data))  # 0: float32
        data += _padded(tensor.tobytes())
    return _padded(head) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
