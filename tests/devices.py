"""Devices that are not there: who computes, and where it was told to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from chatbots import devices
from chatbots.encoders import emotion, sentence, word_vectors


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
    """Record the devices that sentence encoders are loaded to during the test, in order."""
    results: list[str] = []
    library = type("Library", (RecordingLibrary,), {"devices": results})
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", library)
    monkeypatch.setattr(sentence, "_shared", {})
    monkeypatch.setattr(devices, "_memory_bytes", lambda device: None if device == "cpu" else 1 << 30)
    emotion.emotion_encoder.cache_clear()  # its heads hold the encoders of other tests
    yield results
    emotion.emotion_encoder.cache_clear()


ELSEWHERE = "cuda:1"


@dataclass
class FakeDevice:
    """What computed during a test, by the classes of the models.

    Attributes:
        used: those that were sent to the device before.
        forgotten: those that were not.
    """

    used: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    """Let `cuda:1` pass for a device during the test: models sent there are marked, and compute where they are.

    Every model of torch that reads something is looked at, whoever made it.
    """
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    word_vectors.word_vectors().load()  # made once a machine, on its processor
    result = FakeDevice()
    marked: set[int] = set()  # addresses of weights
    move = torch.Tensor.to

    def named(args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        return ELSEWHERE in {str(one) for one in (*args[:1], given.get("device"))}

    def module_to(self: torch.nn.Module, *args: Any, **given: Any) -> torch.nn.Module:
        if named(args, given):
            marked.update(parameter.data_ptr() for parameter in self.parameters())
        return self

    def tensor_to(self: torch.Tensor, *args: Any, **given: Any) -> torch.Tensor:
        if not named(args, given):
            return move(self, *args, **given)
        given.pop("device", None)
        args = tuple(arg for arg in args if str(arg) != ELSEWHERE)
        if not given.get("copy"):
            return move(self, *args, **given) if args else self
        weights = move(self, *args, **given)
        marked.add(weights.data_ptr())
        return weights

    def look(module: torch.nn.Module, _: Any) -> None:
        parameters = list(module.parameters(recurse=False))
        if parameters:
            is_there = all(parameter.data_ptr() in marked for parameter in parameters)
            (result.used if is_there else result.forgotten).add(type(module).__name__)

    monkeypatch.setattr(torch.nn.Module, "to", module_to)
    monkeypatch.setattr(torch.Tensor, "to", tensor_to)
    monkeypatch.setattr(devices, "_memory_bytes", lambda device: None if device == "cpu" else 1 << 30)
    monkeypatch.setattr(sentence, "_shared", {})
    emotion.emotion_encoder.cache_clear()  # its heads hold the encoders of other tests
    hook = register_module_forward_pre_hook(look)
    yield result
    hook.remove()
    emotion.emotion_encoder.cache_clear()
