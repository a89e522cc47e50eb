"""USR's parts by tiny random weights, each token masked by hand; its combination from the released figures."""

import math

import numpy as np
import pytest
import torch
import transformers as tf

from evaluation.data.items import ReplyInContext
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.usr import UsrLevels, UsrScores, UsrWeights, combined
from tests.tiny_models import save_classifier, save_masked, save_model

REPLIES = [
    ReplyInContext(("hello how are you", "I am fine"), "And what do you like"),
    ReplyInContext(("tell me more about your day",), "cats"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("usr")
    return {"mlm": str(save_masked(place / "mlm")), "dr": str(save_classifier(place / "dr", ("LABEL_0", "LABEL_1")))}


def masked(folder, before, reply, after):
    """Return the log-likelihood of each token of the reply, masked alone."""
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForMaskedLM.from_pretrained(folder).eval()

    def ids_of(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    begin = [tokenizer.cls_token_id, *ids_of(before)]
    words = ids_of(f" {reply}")
    each = []
    for k, word in enumerate(words):
        ids = [*begin, *words, *(ids_of(after) if after else []), tokenizer.sep_token_id]
        ids[len(begin) + k] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, len(begin) + k].double()
        each.append(float(torch.log_softmax(logits, dim=-1)[word]))
    return each


@pytest.mark.parametrize("has_markers", [True, False])
def test_the_parts_are_those_of_single_rows(models, has_markers):
    metric = UsrScores(**models, has_markers=has_markers)
    assert metric.unavailable_reason() is None
    result = metric.scored(REPLIES, TextCache())
    tokenizer = tf.AutoTokenizer.from_pretrained(models["dr"])
    ranker = tf.AutoModelForSequenceClassification.from_pretrained(models["dr"]).eval()
    for k, reply in enumerate(REPLIES):
        context, said, go, end = " ".join(reply.context), reply.response, "", ""
        if has_markers:
            context, said = " _eos ".join([*reply.context, ""]).lower().strip(), said.lower()
            go, end = "_go", " _eos"
        each = masked(models["mlm"], f"{context} {go}".strip(), said, end)
        assert result["usr_mlm_sum_bot"][k] == pytest.approx(sum(each), abs=1e-4)
        assert result["usr_mlm_bot"][k] == pytest.approx(np.mean(each), abs=1e-4)
        with torch.no_grad():
            logits = ranker(**tokenizer(context, f"{go} {said}{end}".strip(), return_tensors="pt")).logits[0]
        assert result["usr_dr_bot"][k] == pytest.approx(float(torch.softmax(logits, -1)[1]), abs=1e-5)
        z = (np.mean(each) + 1.012293440649907) / 0.39053753419230813
        of_dr = (result["usr_dr_bot"][k] - 0.8604811806918587) / 0.30259338627812254
        assert result["usr_bot"][k] == pytest.approx((z + of_dr) / 2, abs=1e-3)


def test_the_regression_weighs_the_qualities_by_their_parts():
    """By hand: 2 (understandable, natural) on MLM one deviation up, 3 (context, interesting) on DR two down."""
    levels = UsrLevels(mlm_mean=-1, mlm_spread=0.5, dr_mean=0.5, dr_spread=0.1)
    weights = UsrWeights(understandable=0.5, natural=1.5, maintains_context=1, interesting=2)
    value = combined(np.array([-0.5]), np.array([0.3]), levels, weights)
    assert value[0] == pytest.approx(2 * 1 + 3 * -2)


def test_a_reply_without_a_message_has_none_and_a_long_context_is_cut(models):
    metric = UsrScores(**models)
    long = ReplyInContext(("tell me more about your day " * 200,), "cats " * 200)
    result = metric.scored([ReplyInContext((), "cats"), long], TextCache())
    assert math.isnan(result["usr_bot"][0])
    assert math.isfinite(result["usr_bot"][1])


def test_models_of_another_kind_are_refused(models, tmp_path):
    plain = save_model(tmp_path, "gpt2", width=16, n_layers=1)
    assert "a masked language model (RoBERTa) is required" in (
        UsrScores(**{**models, "mlm": str(plain)}).unavailable_reason() or ""
    )
    assert "has no label 'true'; its labels are LABEL_0, LABEL_1" in (
        UsrScores(**models, label="true").unavailable_reason() or ""
    )
    missing = UsrScores().unavailable_reason() or ""
    assert "adamlin/usr-topicalchat-roberta_ft" in missing
    assert "adamlin/usr-topicalchat-ctx" in missing
