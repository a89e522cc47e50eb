"""Everything that uses an encoder computes on the device it is given."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from chatbots import devices
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.sentence import encoder_get, sentence_encoder
from chatbots.registry import bot_list

ELSEWHERE = "cuda:1"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> None:
    """Use an empty cache.

    Vectors of an earlier run would be read without any encoder, and made-up ones by a later run.
    """
    cache_folder_set(tmp_path)


def test_the_rows_of_a_batch_fit_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"cpu": None, "cuda": 8 << 30}
    monkeypatch.setattr(devices, "_memory_bytes", memory.get)
    assert devices.rows_that_fit("cpu", 10**9) == devices.rows_that_fit("cpu", 1) == 16
    assert devices.rows_that_fit("cuda", 1 << 20) == devices.MOST_ROWS
    assert devices.rows_that_fit("cuda", 1 << 20, limit=64) == 64
    assert devices.rows_that_fit("cuda", 100 << 20) == 8  # ten would fit
    assert devices.rows_that_fit("cuda", 100 << 30) == 1
    gpt2 = SimpleNamespace(hidden_size=768, num_attention_heads=12, vocab_size=50257)
    read = devices.transformer_row_bytes(gpt2, 1024)
    told = devices.transformer_row_bytes(gpt2, 1024, has_logits=True)
    assert told - read > 1024 * 50257 * 4
    assert devices.transformer_row_bytes(gpt2, 512) < read


def test_a_device_that_is_not_here_is_named() -> None:
    from chatbots.encoders.sentence import EncoderError

    with pytest.raises(EncoderError, match="onto nonsense"):
        encoder_get(device="nonsense").load()


@pytest.mark.gpu
def test_on_a_gpu_everything_gives_the_cpus_numbers(tmp_path: Path) -> None:
    texts = ["I have a new dog.", "It rained all day, and I was sad.", "ok"]
    for make in (sentence_encoder, emotion_encoder):
        np.testing.assert_allclose(make("cuda").encode(texts), make().encode(texts), atol=1e-3)
    model = sentence_encoder("cuda")._model
    assert next(model.parameters()).device.type == "cuda"
    for bot in bot_list():
        if bot.unavailable_reason() is None:
            bot.load("cuda")
            bot.unload()
