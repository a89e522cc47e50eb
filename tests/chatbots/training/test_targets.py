"""EI targets: of all texts, the PCA fitted on the training text alone; cached."""

from __future__ import annotations

import numpy as np

from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.sentence import PCA, sentence_encoder
from chatbots.training import ei as subject
from chatbots.training.ei import targets_make
from tests.chatbots.training.builders import fake_embeddings


def test_targets_of_all_texts_with_a_pca_of_the_training_text(monkeypatch):
    monkeypatch.setattr(subject, "embeddings_cached", fake_embeddings)
    training = [f"text {i}" for i in range(40)]
    encoders = {"emotion": emotion_encoder(), "sentence": sentence_encoder()}
    found = targets_make(training, ["other", "text 3"], variance=0.5, **encoders)
    assert list(found.row) == [*training, "other"]
    np.testing.assert_allclose(found.emotion.sum(1), 1, rtol=1e-5)
    assert found.emotion.shape == (41, 28)
    assert found.sentence.shape == (41, len(found.pca.components))
    alone = PCA.fit(fake_embeddings(training), 0.5)
    np.testing.assert_allclose(found.pca.components, alone.components, atol=1e-5)
    expected = alone(fake_embeddings(["other"]))[0]
    np.testing.assert_allclose(found.sentence[found.row["other"]], expected, atol=1e-5)


def test_embeddings_are_computed_once(tmp_path):
    class Counting:
        identity = sentence_encoder().identity
        n_calls = 0

        def encode(self, texts):
            self.n_calls += 1
            return fake_embeddings(texts)

    encoder = Counting()
    cache_folder_set(tmp_path)  # the next test sets its own again
    first = subject.embeddings_cached(("a", "b"), encoder)
    np.testing.assert_array_equal(subject.embeddings_cached(("a", "b"), encoder), first)
    assert encoder.n_calls == 1
    subject.embeddings_cached(("a", "c"), encoder)
    assert encoder.n_calls == 2
