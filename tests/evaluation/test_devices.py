"""Metrics and the hybrid's embeddings compute on the device they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatbots.conversation import Conversation
from evaluation.hybrid.embeddings import pooled_embeddings
from evaluation.metrics.configured import configured_metrics
from evaluation.metrics.registry import metrics
from evaluation.metrics.run import compute_all
from evaluation.metrics.shared import Shared

ELSEWHERE = "cuda:1"
TALK = [
    Conversation.from_texts(["Hello.", "Hi, how are you?", "I am sad.", "Why is that?"], id="1")
]


def test_every_metric_and_the_embeddings_share_one_encoder_there(
    encoder_devices: list[str],
) -> None:
    shared = Shared(ELSEWHERE)
    here = [metric for metric in metrics if metric.unavailable_reason() is None]
    compute_all(TALK, here, shared=shared)
    pooled_embeddings(TALK, shared=shared)
    assert encoder_devices == [ELSEWHERE]


FILE = """
- {kind: perplexity, params: {model: a}}
- {kind: toxicity, params: {model: a}}
- {kind: contradiction, params: {model: a}}
- {kind: coherence, params: {model: a}}
- {kind: deepmoji, params: {weights: a, vocabulary: b}}
- {kind: infersent, params: {weights: a, vectors: b}}
- {kind: word2vec, params: {path: a.bin}}
"""


def devices_of(path: Path, device: str) -> dict[str, str]:
    """By metric the device of the model it would load."""
    found = {}
    for metric in configured_metrics.load(path, usual={"device": device}):
        models = [part for part in vars(metric).values() if hasattr(part, "device")]
        if hasattr(metric, "feelings"):
            models.append(metric.feelings._encoder())
        for model in models:
            found[metric.name] = model.device
    return found


def test_metrics_of_a_file_compute_there_unless_their_entry_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "metrics.yaml"
    path.write_text(FILE)
    with_models = (
        "perplexity",
        "toxicity",
        "contradiction",
        "coherence",
        "deepmoji",
        "infersent",
    )
    assert devices_of(path, ELSEWHERE) == dict.fromkeys(with_models, ELSEWHERE)
    path.write_text("- {kind: perplexity, params: {model: a, device: cpu}}")
    assert devices_of(path, ELSEWHERE) == {"perplexity": "cpu"}


@pytest.mark.gpu
def test_metrics_on_a_gpu_are_those_of_the_cpu() -> None:
    here = ["sentiment", "semantic_similarity", "self_similarity"]
    there = compute_all(TALK, here, shared=Shared("cuda"))
    for name, table in compute_all(TALK, here).items():
        assert table.conversations.to_numpy() == pytest.approx(
            there[name].conversations.to_numpy(), abs=1e-3, nan_ok=True
        )
