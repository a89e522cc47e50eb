"""Metrics and the hybrid's embeddings compute on the device they are given."""

from __future__ import annotations

import pytest

from chatbots.conversation import Conversation
from evaluation.hybrid.features import pooled_embeddings
from evaluation.metrics.registry import metrics
from evaluation.metrics.run import compute_all
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import TrainedMetric

ELSEWHERE = "cuda:1"
TALK = [Conversation.from_texts(["Hello.", "Hi, how are you?", "I am sad.", "Why is that?"], id="1")]
OWN_MODEL = {"reply_pmi", "bert_score"}
"""Metrics that read no shared vectors, as trained ones do not; `tests/contracts/test_devices.py` looks at where they
compute.
"""


def test_every_metric_and_the_embeddings_share_one_encoder_there(encoder_devices: list[str]) -> None:
    shared = TextCache(ELSEWHERE)
    here = [
        metric
        for metric in metrics
        if not isinstance(metric, TrainedMetric)
        and metric.name not in OWN_MODEL
        and metric.unavailable_reason() is None
    ]
    compute_all(TALK, here, shared=shared)
    pooled_embeddings(TALK, shared=shared)
    assert encoder_devices == [ELSEWHERE]


@pytest.mark.gpu
def test_metrics_on_a_gpu_are_those_of_the_cpu() -> None:
    here = ["sentiment", "semantic_similarity", "self_similarity"]
    there = compute_all(TALK, here, shared=TextCache("cuda"))
    for name, table in compute_all(TALK, here).items():
        assert table.conversations.to_numpy() == pytest.approx(
            there[name].conversations.to_numpy(), abs=1e-3, nan_ok=True
        )
