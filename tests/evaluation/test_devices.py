"""Metrics and the hybrid's embeddings compute on the device they are given."""

import pytest

from chatbots.conversation import Conversation
from evaluation.metrics.registry import compute_all
from evaluation.metrics.text_cache import TextCache

TALK = [Conversation.from_texts(["Hello.", "Hi, how are you?", "I am sad.", "Why is that?"], id="1")]


@pytest.mark.gpu
def test_metrics_on_a_gpu_are_those_of_the_cpu() -> None:
    here = ["sentiment", "semantic_similarity", "self_similarity"]
    result = compute_all(TALK, here, shared=TextCache("cuda"))
    for name, table in compute_all(TALK, here).items():
        assert table.conversations.to_numpy() == pytest.approx(
            result[name].conversations.to_numpy(), abs=1e-3, nan_ok=True
        )
