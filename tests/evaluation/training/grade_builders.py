"""A tiny GRADE: a random encoder of 16 numbers, a graph of a dozen triples, vectors of 8 numbers from a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.training.config import MetricTrainingConfig, config_check
from evaluation.training.loop import train
from tests.chatbots.training.builders import corpus_write
from tests.tiny_models import save_classifier

TRIPLES = [
    ("dog", "animal"), ("cat", "animal"), ("animal", "live thing"), ("live thing", "water"), ("coffee", "drink"),
    ("drink", "water"), ("book", "read"), ("read", "story"), ("work", "money"), ("money", "buy"), ("buy", "food"),
    ("food", "eat"), ("eat", "dinner"), ("weather", "rain"), ("rain", "water"), ("movie", "story"),
]  # fmt: skip


def files_write(folder: Path, n: int = 12) -> Path:
    """Write corpus, graph, vectors and encoder."""
    corpus_write(folder, n)
    triples = ({"head": a, "relation": "RelatedTo", "tail": b} for a, b in TRIPLES)
    (folder / "graph.jsonl").write_text("\n".join(map(json.dumps, triples)))
    draw = np.random.default_rng(0)
    words = sorted({word for pair in TRIPLES for word in pair if " " not in word})
    lines = [f"{word} " + " ".join(f"{x:.4f}" for x in draw.normal(size=8)) for word in words]
    (folder / "vectors.txt").write_text("\n".join([f"{len(words)} 8", *lines]) + "\n")
    save_classifier(folder / "bert")
    return folder


def config(folder: Path, **options: Any) -> MetricTrainingConfig:
    """Make a config of few batches; `options` go over GRADE's own."""
    own = {
        "graph": "graph.jsonl",
        "vectors": "vectors.txt",
        "analyser": "textblob",
        "negatives": "lexical",
        "neighbours": [2, 2],
        "hidden": 16,
        "heads": 2,
    }
    values = {
        "name": "tiny-grade",
        "metric": "grade",
        "data": {"corpora": [{"path": "small.jsonl"}]},
        "backbone": {"model": str(folder / "bert"), "learns": "all", "max_tokens": 24},
        "options": {**own, **options},
        "optimiser": {"batch_size": 16, "lr": 0.02, "epochs": 6, "precision": "float32"},
        "keeping": {"log_every": 1},
    }
    return config_check(values, folder)


def checkpoint_made(folder: Path) -> Path:
    """Train a tiny GRADE for two batches; return its checkpoint."""
    expected = config(files_write(folder))
    short = expected.model_copy(update={"optimiser": expected.optimiser.model_copy(update={"max_batches": 2})})
    return train(short.in_folder(folder), folder / "run").checkpoint
