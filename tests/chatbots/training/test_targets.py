"""EI targets: the PCA against NumPy's SVD, fitted on the training text alone; cached."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from chatbots.training import targets as subject
from chatbots.training.targets import PCA, targets_make
from tests.chatbots.training.builders import fake_embeddings


def test_pca_against_a_singular_value_decomposition():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)) @ np.diag([5, 3, 1, 0.5, 0.1, 0.01]) + 7
    found = PCA.fit(x, 0.95)
    _, s, vt = np.linalg.svd(x - x.mean(0), full_matrices=False)
    shares = np.cumsum(s**2) / (s**2).sum()
    n = int((shares < 0.95).sum()) + 1
    assert found.components.shape == (n, 6)
    assert found.variance == pytest.approx(shares[n - 1])
    assert shares[n - 2] < 0.95 <= found.variance
    np.testing.assert_allclose(np.abs(np.sum(found.components * vt[:n], axis=1)), 1, atol=1e-5)
    np.testing.assert_allclose(found(x).mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(found(x).var(0), s[:n] ** 2 / 200, rtol=1e-4)


def test_pca_can_keep_everything_and_refuses_nothing_to_tell_apart():
    x = np.random.default_rng(1).normal(size=(30, 4))
    assert PCA.fit(x, 1.0).components.shape == (4, 4)
    with pytest.raises(ValueError, match="nothing to tell apart"):
        PCA.fit(np.ones((3, 4)), 0.95)


def test_targets_of_all_texts_with_a_pca_of_the_training_text(monkeypatch, tmp_path):
    monkeypatch.setattr(subject, "embeddings_cached", fake_embeddings)
    training = [f"text {i}" for i in range(40)]
    found = targets_make(training, ["other", "text 3"], variance=0.5)
    assert list(found.row) == [*training, "other"]
    np.testing.assert_allclose(found.emotion.sum(1), 1, rtol=1e-5)
    assert found.emotion.shape == (41, 28)
    assert found.sentence.shape == (41, len(found.pca.components))
    alone = PCA.fit(fake_embeddings(training), 0.5)
    np.testing.assert_allclose(found.pca.components, alone.components, atol=1e-5)
    expected = alone(fake_embeddings(["other"]))[0]
    np.testing.assert_allclose(found.sentence[found.row["other"]], expected, atol=1e-5)
    found.pca.write(tmp_path)
    stored = load_file(tmp_path / subject.PCA_FILE)
    np.testing.assert_array_equal(stored["components"], found.pca.components)


def test_embeddings_are_computed_once(monkeypatch, tmp_path):
    from chatbots.encoders.cache import cache_folder_set
    from chatbots.encoders.sentence import sentence_encoder

    class Counting:
        identity = sentence_encoder().identity
        n_calls = 0

        def encode(self, texts):
            self.n_calls += 1
            return fake_embeddings(texts)

    encoder = Counting()
    cache_folder_set(tmp_path)  # the next test sets its own again
    monkeypatch.setattr(subject, "encoder_get", lambda source: encoder)
    first = subject.embeddings_cached(("a", "b"))
    np.testing.assert_array_equal(subject.embeddings_cached(("a", "b")), first)
    assert encoder.n_calls == 1
    subject.embeddings_cached(("a", "c"))
    assert encoder.n_calls == 2
