"""Many metrics over many conversations: every text encoded once, batches of any size alike."""

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.registry import UnknownName
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.run import MetricUnavailable, compute_all, compute_batches
from evaluation.metrics.semantic import SemanticSimilarity
from evaluation.metrics.text_cache import TextCache


def conversations(n=7):
    rng = np.random.default_rng(1)
    words = ["cat", "dog", "love", "hate", "what", "haha", "music", "rain", "good", "bad"]
    return [
        Conversation.from_texts([" ".join(rng.choice(words, size=rng.integers(1, 6))) for _ in range(6)], id=f"c{i}")
        for i in range(n)
    ]


def test_no_text_is_encoded_twice_in_a_run(encoded_texts):
    class Again(SemanticSimilarity):
        """The same metric under another name: it needs the same vectors."""

        name = "again"

    shared = TextCache()
    found = conversations()
    list(compute_batches(found, [SemanticSimilarity(), Again()], batch=2, shared=shared))
    assert sorted(encoded_texts) == sorted({text for c in found for text in c.texts})


def test_unknown_and_unavailable_metrics_are_refused_before_anything_runs():
    with pytest.raises(UnknownName, match="words"):
        compute_all(conversations(1), ["wordz"])

    class Absent(MetricDefaults):
        name = "absent"

        def unavailable_reason(self):
            return "its weights are not here"

    with pytest.raises(MetricUnavailable, match="absent cannot be computed: its weights"):
        compute_all(conversations(1), [Absent()])


def test_infinite_values_become_undefined_with_a_reason():
    from evaluation.tables import per_turn

    class Broken(MetricDefaults):
        name = "broken"
        columns = per_turn("broken_bot", "Broken", unit="1", range=(None, None), direction="neither", description="x")

        def measure(self, layout, shared):
            return Measured({"broken_bot": layout.spread(layout.bot, [np.inf, 2.0])})

    table = Broken().compute([Conversation.from_texts(["a", "b", "c", "d"], id="c")])
    assert np.isnan(table.turns.loc[("c", 1), "broken_bot"])
    assert table.conversations.loc["c", "broken_bot"] == 2.0
    assert "finite" in table.reasons["broken_bot"]
