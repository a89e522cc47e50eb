"""A sentence encoder's library that computes nothing and remembers the devices it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from chatbots import devices
from chatbots.encoders import emotion, sentence


class RecordingLibrary:
    """Stands in for `sentence_transformers.SentenceTransformer`; vectors are MiniLM's width."""

    devices: list[str]
    prompts: ClassVar[dict[str, str]] = {}
    default_prompt_name = None
    max_seq_length = 256
    config = SimpleNamespace(hidden_size=384, num_attention_heads=12)

    def __init__(self, folder: str, *, device: str, local_files_only: bool) -> None:
        self.devices.append(device)

    def eval(self) -> RecordingLibrary:
        return self

    def __getitem__(self, _: int) -> RecordingLibrary:
        return self

    def tokenizer(self, texts: list[str], **_: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[0] * len(text.split()) for text in texts]}

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        rows = [np.random.default_rng(len(text)).normal(size=384) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


@pytest.fixture
def encoder_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The devices that sentence encoders are loaded to during the test, in order."""
    found: list[str] = []
    library = type("Library", (RecordingLibrary,), {"devices": found})
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", library)
    monkeypatch.setattr(sentence, "_shared", {})
    monkeypatch.setattr(
        devices, "_memory_bytes", lambda device: None if device == "cpu" else 1 << 30
    )
    emotion.emotion_encoder.cache_clear()  # its heads hold the encoders of other tests
    yield found
    emotion.emotion_encoder.cache_clear()
