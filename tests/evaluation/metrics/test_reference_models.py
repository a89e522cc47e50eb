"""BARTScore and BLEURT by tiny random models, against rows computed alone."""

import math

import numpy as np
import pytest

from evaluation.items import ReplyInContext
from evaluation.metrics.reference_models import BartScore, Bleurt
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import save_classifier, save_model

REPLIES = [
    ReplyInContext(("hello how are you", "i am fine"), "cats", "books and music and the sea"),
    ReplyInContext((), "and what do you like to eat", None),
]


def test_bart_score_is_the_mean_log_likelihood_per_token(tmp_path):
    import torch
    import transformers as tf

    folder = save_model(tmp_path, "bart", width=16, n_layers=1)
    found = BartScore(model=str(folder)).scored(REPLIES, TextCache())
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def alone(given, wanted):
        ids, labels = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (given, wanted))
        with torch.no_grad():
            return -float(model(input_ids=ids, labels=labels).loss)

    context, response, reference = REPLIES[0]
    for kind, pair in {
        "context": ("\n".join(context), response),
        "precision": (reference, response),
        "recall": (response, reference),
    }.items():
        assert found[f"bart_score_{kind}"][0] == pytest.approx(alone(*pair), abs=1e-4)
        assert math.isnan(found[f"bart_score_{kind}"][1])


def test_bart_score_reads_the_newest_of_a_context_that_is_too_long(tmp_path):
    metric = BartScore(model=str(save_model(tmp_path, "bart", width=16, n_layers=1, n_positions=24)))
    replies = [
        ReplyInContext((*["and what do you like to eat"] * 12, last), "cats")
        for last in ("i am fine", "books and music")
    ]
    one, other = metric.scored(replies, TextCache())["bart_score_context"]
    assert abs(one - other) > 1e-4


def test_bleurt_is_the_checkpoints_single_output(tmp_path):
    import torch
    import transformers as tf

    three = save_classifier(tmp_path / "three")
    assert "has 3 outputs" in Bleurt(model=str(three)).unavailable_reason()
    config = tf.AutoConfig.from_pretrained(three, num_labels=1)
    torch.manual_seed(1)
    model = tf.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path / "one")
    tokenizer = tf.AutoTokenizer.from_pretrained(three)
    tokenizer.save_pretrained(tmp_path / "one")
    found = Bleurt(model=str(tmp_path / "one")).scored(REPLIES, TextCache())["bleurt"]
    with torch.no_grad():
        given = tokenizer(REPLIES[0].reference, REPLIES[0].response, return_tensors="pt")
        wanted = float(model(**given).logits[0, 0])
    assert found[0] == pytest.approx(wanted, abs=1e-5)
    assert np.isnan(found[1])
