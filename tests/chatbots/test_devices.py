"""Everything that uses an encoder computes on the device it is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chatbots.bots.retrieval import RetrievalBot
from chatbots.conversation import Conversation
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.emotion import emotion_encoder
from chatbots.encoders.sentence import encoder_get, sentence_encoder
from chatbots.registry import bot_list

ELSEWHERE = "cuda:1"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> None:
    """Vectors that an earlier run kept would be read without any encoder, made-up ones by a later run."""
    cache_folder_set(tmp_path)


def test_a_process_has_one_encoder_per_device() -> None:
    assert sentence_encoder(ELSEWHERE) is encoder_get(device=ELSEWHERE)
    assert sentence_encoder(ELSEWHERE) is not sentence_encoder()
    assert sentence_encoder(ELSEWHERE).identity == sentence_encoder().identity
    assert emotion_encoder(ELSEWHERE) is not emotion_encoder()


def test_emotions_come_from_an_encoder_on_the_device(encoder_devices: list[str]) -> None:
    emotion_encoder(ELSEWHERE).encode(["What a day!"])
    assert encoder_devices == [ELSEWHERE]


def test_retrieval_encodes_on_the_device_it_is_loaded_to(encoder_devices: list[str]) -> None:
    bot = RetrievalBot(name="retrieval-elsewhere")
    bot.load(ELSEWHERE)
    context = Conversation.from_texts(["I have a new dog."], id="1", seed=1)
    assert bot.answer([context])[0]
    bot.unload()  # the host makes room; an answer that comes later loads again
    assert bot.answer([context])[0]
    assert encoder_devices == [ELSEWHERE]


def test_a_device_that_is_not_here_is_named() -> None:
    from chatbots.encoders.sentence import EncoderError

    with pytest.raises(EncoderError, match="to the device nonsense"):
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
