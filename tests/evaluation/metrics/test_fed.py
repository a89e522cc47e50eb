"""FED by tiny random models, against one row without padding or cache, and against its released code's formula."""

import math

import numpy as np
import pytest
import torch
import transformers as tf

from chatbots import Conversation
from evaluation.data.items import ReplyInContext
from evaluation.metrics.fed import (
    DIALOGUE_QUALITIES,
    NO_BOT_TURN,
    REPLY_QUALITIES,
    FedLite,
    FedQualities,
    follow_ups_of,
    quality_scores,
)
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import CHATML, save_model

REPLIES = [
    ReplyInContext(("hello how are you", "i am fine"), "and what do you like"),
    ReplyInContext(("tell me more about your day",), "cats"),
    ReplyInContext((), "we went to the sea"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("gpt2"), "gpt2", width=16, n_layers=2)


def released(folder, utterances, follow_up, *, whole=True):
    """Return the mean log-likelihood as the released code does: utterances and follow-up, ended by the token."""
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForCausalLM.from_pretrained(folder).eval()
    end = tokenizer.eos_token_id
    ids = [end]
    for text in utterances:
        ids += [*tokenizer(text, add_special_tokens=False)["input_ids"], end]
    follow_up_ids = tokenizer(follow_up, add_special_tokens=False)["input_ids"]
    ids += follow_up_ids
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    each = torch.log_softmax(logits[:-1], dim=-1)[range(len(ids) - 1), ids[1:]]
    return float(each.mean() if whole else each[-len(follow_up_ids) :].mean())


@pytest.mark.parametrize("likelihood", ["whole", "follow_up"])
def test_scores_are_those_of_one_row_at_a_time(folder, likelihood):
    metric = FedQualities(model=str(folder), likelihood=likelihood)
    result = metric.scored([*REPLIES, REPLIES[0]], TextCache())
    for k, reply in enumerate(REPLIES):
        utterances = [*reply.context, reply.response]
        qualities = []
        for quality, (good, bad) in REPLY_QUALITIES.items():
            sides = [
                np.mean([released(folder, utterances, text, whole=likelihood == "whole") for text in side] or [0.0])
                for side in (good, bad)
            ]
            qualities.append(sides[0] - sides[1])
            assert result[f"fed_{quality}_bot"][k] == pytest.approx(qualities[-1], abs=1e-4)
        assert result["fed_bot"][k] == pytest.approx(np.mean(qualities), abs=1e-4)
    assert result["fed_bot"][3] == result["fed_bot"][0]


def test_there_are_the_papers_eighteen_qualities():
    assert len(REPLY_QUALITIES) + len(DIALOGUE_QUALITIES) == 18
    columns = {column.name for column in metric_get("fed").columns}
    assert {"fed_bot", "fed_dialogue", "fed_engaging_bot", "fed_dialogue_error_recovery"} <= columns


def test_a_quality_is_likely_good_follow_ups_minus_likely_bad_ones():
    """By hand: a side without follow-ups counts 0, and sides are means."""
    qualities = {"one": (("a", "b"), ("c",)), "two": ((), ("c", "d"))}
    assert follow_ups_of(qualities) == ["a", "b", "c", "d"]
    likelihoods = np.array([[-1.0, -3.0, -5.0, -6.0]])
    assert quality_scores(likelihoods, qualities).tolist() == [[-2 - -5, 5.5]]


def test_a_dialogue_is_scored_as_a_whole_if_the_bot_said_something(folder):
    metric = FedQualities(model=str(folder))
    texts = ["hello how are you", "i am fine", "", "cats"]
    talk = Conversation.from_texts(texts, id="talk")
    silent = Conversation.from_texts(["hello", " "], id="silent")
    table = metric.compute([talk, silent])
    qualities = []
    for quality, (good, bad) in DIALOGUE_QUALITIES.items():
        sides = [
            np.mean([released(folder, [texts[0], texts[1], texts[3]], text) for text in side] or [0.0])
            for side in (good, bad)
        ]
        qualities.append(sides[0] - sides[1])
        assert table.conversations[f"fed_dialogue_{quality}"]["talk"] == pytest.approx(qualities[-1], abs=1e-4)
    assert table.conversations["fed_dialogue"]["talk"] == pytest.approx(np.mean(qualities), abs=1e-4)
    assert math.isnan(table.conversations["fed_dialogue"]["silent"])
    assert NO_BOT_TURN in table.reasons["fed_dialogue"]
    of_turns = table.turns["fed_bot"]["talk"]
    assert table.conversations["fed_bot"]["talk"] == pytest.approx(of_turns.mean())


def test_a_dialogue_is_read_once_for_all_its_follow_ups(folder):
    """The tokens that the model reads: the dialogue twice, for its own likelihood and its keys, not 29 times."""
    metric = FedQualities(model=str(folder))
    read = []
    loaded = metric._model.load("AutoModelForCausalLM")
    loaded.model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    reply = ReplyInContext(("tell me more about your day " * 8,), "and what do you like to eat " * 4)
    metric.score([reply], TextCache())
    one_by_one = len(follow_ups_of(REPLY_QUALITIES)) * max(width for _, width in read)
    assert sum(rows * width for rows, width in read) < one_by_one / 2


def test_a_chat_model_reads_a_chat(tmp_path):
    metric = FedQualities(model=str(save_model(tmp_path, "llama", width=16, n_layers=1, chat_template=CHATML)))
    [one, other] = metric.scored(REPLIES[:2], TextCache())["fed_bot"]
    assert math.isfinite(one)
    assert one != other


def test_what_is_not_here_is_named_and_the_identity_tells_models_apart(folder):
    published = FedQualities()
    assert "hf download microsoft/DialoGPT-large" in (published.unavailable_reason() or "")
    assert "no folder" in (FedQualities(model="/nowhere/at/all").unavailable_reason() or "")
    keys = {
        published.identity.key,
        FedQualities(model=str(folder)).identity.key,
        FedQualities(model=str(folder), likelihood="follow_up").identity.key,
        FedLite().identity.key,
    }
    assert len(keys) == 4
    assert FedLite().columns[0].name == "fed_lite_bot"
