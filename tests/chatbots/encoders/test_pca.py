"""Principal components against NumPy's SVD, and their file."""

from __future__ import annotations

import numpy as np
import pytest

from chatbots.encoders import sentence
from chatbots.encoders.sentence import PCA, PCA_FILE


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


def test_a_large_corpus_is_reduced_part_by_part(monkeypatch):
    x = np.random.default_rng(3).normal(size=(50, 5)).astype(np.float32)
    whole = PCA.fit(x, 0.9)
    monkeypatch.setattr(sentence, "PCA_CHUNK_ROWS", 7)
    parts = PCA.fit(x, 0.9)
    np.testing.assert_allclose(parts.components, whole.components, atol=1e-5)
    np.testing.assert_allclose(parts(x), whole(x), atol=1e-5)
    assert parts(x[:0]).shape == (0, len(whole.components))


def test_pca_can_keep_everything_and_refuses_nothing_to_tell_apart():
    x = np.random.default_rng(1).normal(size=(30, 4))
    assert PCA.fit(x, 1.0).components.shape == (4, 4)
    with pytest.raises(ValueError, match="nothing to distinguish"):
        PCA.fit(np.ones((3, 4)), 0.95)


def test_the_file_gives_the_same_map_and_a_damaged_one_is_refused(tmp_path):
    x = np.random.default_rng(2).normal(size=(30, 4)).astype(np.float32)
    fitted = PCA.fit(x, 0.7)
    fitted.write(tmp_path)
    found = PCA.read(tmp_path)
    np.testing.assert_array_equal(found(x), fitted(x))
    assert found.variance == fitted.variance
    path = tmp_path / PCA_FILE
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="cannot be read"):
        PCA.read(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        PCA.read(tmp_path)
