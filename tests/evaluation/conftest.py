"""What tests of metrics watch."""

from collections.abc import Sequence

import numpy as np
import pytest

from chatbots.encoders.sentence import LocalSentenceEncoder


@pytest.fixture
def encoded_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that sentence encoders are given during the test, in order."""
    results: list[str] = []
    real = LocalSentenceEncoder.encode

    def encode(self: LocalSentenceEncoder, texts: Sequence[str]) -> np.ndarray:
        results.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(LocalSentenceEncoder, "encode", encode)
    return results
