"""Likelihood of replies by a language model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.items import ReplyInContext
from evaluation.metrics.likelihood import Continuations, ReplyPmi
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import CHATML, save_model

REPLIES = [
    ReplyInContext(("hello how are you", "i am fine"), "and what do you like"),
    ReplyInContext(("hello how are you", "i am fine"), "cats"),
    ReplyInContext(("tell me more about your day",), "and what do you like"),
    ReplyInContext(("cold",), "yes no maybe yes no maybe books and music and cats"),
]


@pytest.fixture(scope="module", params=["gpt2", "llama", "chat"])
def folder(request, tmp_path_factory):
    template = CHATML if request.param == "chat" else None
    architecture = "llama" if template else request.param
    return save_model(
        tmp_path_factory.mktemp(request.param), architecture, width=16, n_layers=2, chat_template=template
    )


def alone(folder, context, reply):
    """Return log P(reply | context), one row without padding or cache, and how many tokens it has."""
    import torch
    import transformers as tf

    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForCausalLM.from_pretrained(folder).eval()
    if tokenizer.chat_template:
        text = "<|im_start|>system\n<|im_end|>\n"
        for k, line in enumerate(context):
            role = "user" if (len(context) - k) % 2 else "assistant"
            text += f"<|im_start|>{role}\n{line}<|im_end|>\n"
        told = tokenizer(f"{text}<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    else:
        lines = "".join(f"{line}\n" for line in context)
        told = [1, *tokenizer(lines, add_special_tokens=False)["input_ids"]]
    said = tokenizer(reply, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([told + said])).logits[0].double()
    chosen = torch.log_softmax(logits, dim=-1)[range(len(told) - 1, len(told) + len(said) - 1), said]
    return float(chosen.sum()), len(said)


def test_shared_contexts_and_padding_change_nothing(folder):
    metric = ReplyPmi(model=str(folder))
    found = metric.scored([*REPLIES, REPLIES[0], REPLIES[0]._replace(context=())], TextCache())
    for k, reply in enumerate(REPLIES):
        given, n = alone(folder, reply.context, reply.response)
        unconditional, _ = alone(folder, (), reply.response)
        assert found["reply_pmi_bot"][k] == pytest.approx((given - unconditional) / n, abs=1e-4)
        assert found["reply_pmi_given_bot"][k] == pytest.approx(given / n, abs=1e-4)
    assert found["reply_pmi_bot"][4] == found["reply_pmi_bot"][0]
    assert math.isnan(found["reply_pmi_bot"][5])  # nothing was said before


def test_a_long_context_loses_its_beginning_and_a_long_reply_its_end(folder):
    model = Continuations(str(folder), "cpu")
    long = " ".join(["tell me more about your day"] * 60)
    total, n = model.log_probabilities([((long, "cats"), "books"), ((), long), ((long,), "")])
    assert np.isfinite(total[:2]).all()
    assert n[1] == 80  # half of what the model reads
    assert n[2] == 0
    assert math.isnan(total[2])


def test_it_measures_the_turns_of_the_bot_that_answer_something(folder):
    talk = Conversation.from_texts(["hello", "i am fine", "cats", "yes"], id="c", first="bot")
    table = ReplyPmi(model=str(folder)).compute([talk])
    assert table.turns["reply_pmi_bot"].notna().tolist() == [False, False, True, False]
    assert "nothing was said before" in table.reasons["reply_pmi_bot"]
