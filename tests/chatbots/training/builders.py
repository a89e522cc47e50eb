"""Tiny trainings: a few dialogues of the everyday corpus, tiny sizes, sentence vectors without an encoder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.training.config import TrainingConfig, config_check

SIZES: dict[str, dict[str, Any]] = {
    "hred": {"E": 8, "H_e": 8, "H_d": 12, "C": 12, "dropout": 0.1},
    "vhred": {"E": 8, "H_e": 8, "H_d": 12, "C": 12, "dropout": 0.1, "Z": 4, "bow": True},
    "vhcr": {"E": 8, "H_e": 8, "H_d": 12, "C": 12, "dropout": 0.1, "Z": 4},
    "seq2seq": {"E": 12, "H_e": 12, "H_d": 16, "dropout": 0.1},
    "transformer": {"d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 32, "dropout": 0.1},
}
DATA = {
    "corpora": [{"path": "small.jsonl"}],
    "max_words": 150,
    "min_count": 1,
    "n_utterances": 4,
    "windows": "slide",
    "max_tokens": 12,
    "whole_sentences": True,
}


def corpus_write(folder: Path, n: int = 20) -> Path:
    """Write some dialogues of the everyday corpus as a file of the user's."""
    dialogues = corpus_read(EVERYDAY).dialogues[:n]
    lines = (json.dumps({"turns": d.turns}) for d in dialogues)
    (folder / "small.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def config(folder: Path, model: str = "hred", **changes: Any) -> TrainingConfig:
    """Make a config of few batches; `changes` go over its keys."""
    values: dict[str, Any] = {
        "name": "tiny",
        "model": model,
        "sizes": SIZES[model],
        "data": DATA,
        "optimiser": {"batch_size": 8, "lr": 0.02, "epochs": 2, "precision": "float32"},
        "regularisation": {"kl_batches": 10},
        "held_out": {"samples": 3, "max_windows": 4, "max_replies": 2},
        "keeping": {"log_every": 3, "save_every": 2},
        "seed": 5,
    }
    for key, value in changes.items():
        merge = isinstance(value, dict) and isinstance(values.get(key), dict)
        values[key] = {**values[key], **value} if merge else value
    return config_check(values, folder)


def fake_embeddings(texts: Any, encoder: object = None) -> np.ndarray:
    """Return (n, 384) unit vectors that a text's digest decides, in the place of MiniLM's."""
    rows = []
    for text in texts:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        rows.append(np.random.default_rng(seed).normal(size=384))
    x = np.stack(rows)
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
