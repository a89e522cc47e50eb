"""Small DeepMoji and InferSent files in their published layouts."""

import json
from pathlib import Path

import numpy as np
import torch

from chatbots.encoders.deepmoji import EMOJI
from chatbots.models.published_encoders import DeepMoji, InferSent

WORDS = ["<s>", "</s>", "i", "I", "you", "the", "a", "is", "it", "to", "do", "dog", "?", ".", ","]


def drawn(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Give the model weights from a seed and return it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return model


def deepmoji_write(folder: Path) -> dict[str, str]:
    """Write `weights` and `vocabulary` of a tiny DeepMoji; return their names in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    special = ["CUSTOM_MASK", "CUSTOM_UNKNOWN", "CUSTOM_AT", "CUSTOM_URL", "CUSTOM_NUMBER"]
    special += ["CUSTOM_BREAK", *(f"CUSTOM_BLANK_{i}" for i in range(6, 10))]
    words = [*special, *WORDS[2:]]
    vocabulary = {word: number for number, word in enumerate(words)}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary))
    model = drawn(DeepMoji(len(words), E=4, H=3, K=len(EMOJI)), 3)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return {"weights": "pytorch_model.bin", "vocabulary": "vocabulary.json"}


def infersent_write(folder: Path, scale: float = 1.0) -> dict[str, str]:
    """Write `weights` and `vectors` of a tiny InferSent on GloVe's 300 dimensions; return their names in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(drawn(InferSent(300, 6), 5).state_dict(), folder / "infersent1.pkl")
    rows = scale * np.random.default_rng(2).normal(size=(len(WORDS), 300)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)]
    (folder / "glove.txt").write_text("".join(lines))
    return {"weights": "infersent1.pkl", "vectors": "glove.txt"}
