"""Whatever loads a model computes on the device it is given: every bot, every metric, every encoder.

What is registered is found by itself. A metric that needs files has a line in `FILES`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from chatbots.bots.transformers_bot import TransformersBot
from chatbots.conversation import Conversation
from chatbots.encoders.ei_encoders import DeepMojiFiles, InferSentFiles, emotion_encoder_named, sentence_encoder_named
from chatbots.registry import bot_get, bots
from chatbots.serving import reply
from evaluation.data.items import ReplyInContext
from evaluation.metrics.registry import compute_all, configured_metrics, metric_list, metrics
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache
from tests.chatbots.published_encoders import deepmoji_write, infersent_write
from tests.devices import ELSEWHERE, FakeDevice
from tests.evaluation.training.checkpoints import (
    encoder_mlp_checkpoint,
    entailment_checkpoint,
    pone_checkpoint,
    rade_checkpoint,
)
from tests.evaluation.training.grade_builders import checkpoint_made as grade_made
from tests.tiny_models import save_classifier, save_masked, save_model, save_ranker

TALK = [Conversation.from_texts(["Hello.", "Hi, how are you?", "I am sad.", "Why is that?"], id="1")]
WITHOUT_TORCH = {"word2vec", "meteor"}
"""Metrics that need files and compute in NumPy, or in a program of their own."""
REPLY = ReplyInContext(("hello how are you",), "and what do you like", "tell me more")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Write tiny files for each metric that needs some, and return its parameters that name them."""
    folder = tmp_path_factory.mktemp("models")
    model = {"model": str(save_model(folder / "gpt2", "gpt2", width=16, n_layers=1))}
    classifier = {"model": str(save_classifier(folder / "bert")), "label": "entailment"}
    ranker = str(save_ranker(folder / "ranker"))
    deepmoji = deepmoji_write(folder / "deepmoji")
    infersent = infersent_write(folder / "infersent")
    (folder / "grade").mkdir()
    return {
        "perplexity": model,
        "pone": {"checkpoint": str(pone_checkpoint(folder / "pone"))},
        "pone_pmi": {"checkpoint": str(folder / "pone"), **model, "pmi_level": 0.0, "pmi_spread": 1.0},
        "bert_ruber": {"checkpoint": str(pone_checkpoint(folder / "bert_ruber", negatives="random"))},
        "ruber": {
            "checkpoint": str(
                pone_checkpoint(folder / "ruber", negatives="random", sentences="recurrent", sentence_width=4)
            )
        },
        "rade": {"checkpoint": str(rade_checkpoint(folder / "rade"))},
        "entailment": {"checkpoint": str(entailment_checkpoint(folder / "entailment"))},
        "reply_pmi": model,
        "reply_pmi_dialogue": model,
        "fed": model,
        "fed_lite": model,
        "dialog_rpt": dict.fromkeys(("updown", "depth", "width", "human_vs_rand", "human_vs_machine"), ranker),
        "usr": {
            "mlm": str(save_masked(folder / "masked")),
            "dr": str(save_classifier(folder / "two", ("LABEL_0", "LABEL_1"))),
        },
        "encoder_mlp": {"checkpoint": str(encoder_mlp_checkpoint(folder / "encoder_mlp"))},
        "judge": model,
        "bart_score": {"model": str(save_model(folder / "bart", "bart", width=16, n_layers=1))},
        "bleurt": {"model": str(save_classifier(folder / "score", ("score",)))},
        "grade": {"checkpoint": str(grade_made(folder / "grade"))},
        "grade_pmi": {"checkpoint": str(folder / "grade" / "run"), **model},
        "toxicity": classifier,
        "contradiction": classifier,
        "coherence": classifier,
        "deepmoji": {key: str(folder / "deepmoji" / name) for key, name in deepmoji.items()},
        "infersent": {key: str(folder / "infersent" / name) for key, name in infersent.items()},
    }


def check(result: FakeDevice) -> None:
    assert result.used
    assert not result.forgotten


@pytest.mark.parametrize("name", sorted(metrics.names()))
def test_a_metric_computes_there(name: str, elsewhere: FakeDevice, files: dict[str, Any], tmp_path: Path) -> None:
    metric = next(one for one in metric_list() if one.name == name)
    if name in files or (metric.unavailable_reason() is not None and name not in WITHOUT_TORCH):
        assert name in files, f"give {name} a tiny model here, or say that it computes without one"
        entry = [{"kind": name, "params": files[name]}]
        (tmp_path / "metrics.yaml").write_text(json.dumps(entry))
        (metric,) = configured_metrics.load(tmp_path / "metrics.yaml", usual={"device": ELSEWHERE})
        assert metric.unavailable_reason() is None
    if metric.unavailable_reason() is None:
        compute_all(TALK, [metric], shared=TextCache(ELSEWHERE))
        if isinstance(metric, ReplyMetric):  # conversations have no references
            metric.score([REPLY], TextCache(ELSEWHERE))
    assert not elsewhere.forgotten
    assert elsewhere.used or name not in files
    assert metric.has_network == bool(elsewhere.used), "lists say so"
    assert metric.device in (["", ELSEWHERE] if elsewhere.used else ["cpu"])


def test_a_metric_says_otherwise_for_itself(files: dict[str, Any], tmp_path: Path) -> None:
    entry = [{"kind": "perplexity", "params": {**files["perplexity"], "device": "cpu"}}]
    (tmp_path / "metrics.yaml").write_text(json.dumps(entry))
    (metric,) = configured_metrics.load(tmp_path / "metrics.yaml", usual={"device": ELSEWHERE})
    assert metric._replies.device == "cpu"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", bots.names())
def test_a_bot_computes_there(name: str, elsewhere: FakeDevice) -> None:
    bot = type(bot_get(name))()
    if bot.kind == "gguf":
        pytest.skip("llama.cpp computes it")
    if bot.unavailable_reason() is not None:
        pytest.skip(f"{name} is not here: {bot.unavailable_reason()}")
    bot.load(ELSEWHERE)
    assert reply(bot, TALK)[0].text
    assert not elsewhere.forgotten
    assert elsewhere.used or bot.kind not in {"checkpoint", "retrieval"}


def test_a_transformers_bot_computes_there(elsewhere: FakeDevice, files: dict[str, Any]) -> None:
    bot = TransformersBot(name="tiny", model=files["perplexity"]["model"], max_new_tokens=3)
    bot.load(ELSEWHERE)
    assert reply(bot, TALK)[0].text is not None
    check(elsewhere)


def test_encoders_by_name_compute_there(elsewhere: FakeDevice, files: dict[str, Any]) -> None:
    deepmoji, infersent = DeepMojiFiles(**files["deepmoji"]), InferSentFiles(**files["infersent"])
    for encoder in (
        emotion_encoder_named("goemotions", device=ELSEWHERE),
        emotion_encoder_named("deepmoji", deepmoji, device=ELSEWHERE),
        sentence_encoder_named("minilm", device=ELSEWHERE),
        sentence_encoder_named("infersent", infersent, device=ELSEWHERE),
    ):
        elsewhere.used.clear()
        encoder.encode(["What a day!"])
        check(elsewhere)
