"""DialogRPT's rankers by tiny random weights, one reply at a time by transformers' own class."""

import numpy as np
import pytest
import torch
import transformers as tf

from chatbots.validation import ValuesError
from evaluation.data.items import ReplyInContext
from evaluation.metrics.dialog_rpt import DialogRpt, combined
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import save_classifier, save_model, save_ranker

REPLIES = [
    ReplyInContext(("hello how are you", " i am fine "), "and what do you like to eat"),
    ReplyInContext(("tell me more about your day",), "cats"),
]
RANKERS = ("updown", "depth", "width", "human_vs_rand", "human_vs_machine")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("rankers")
    return {name: str(save_ranker(place / name, seed)) for seed, name in enumerate(RANKERS)}


def alone(folder, reply):
    """Return σ of the one output for ids made by hand: the model of transformers finds the last token itself."""
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = []
    for text in reply.context:
        ids += [*tokenizer(text.strip(), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    ids += tokenizer(reply.response, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        return float(torch.sigmoid(model(torch.tensor([ids])).logits[0, 0].double()))


def test_each_ranker_is_the_models_output_at_the_last_token(folders):
    result = DialogRpt(**folders).scored(REPLIES, TextCache())
    for k, reply in enumerate(REPLIES):
        scores = {name: alone(folders[name], reply) for name in RANKERS}
        for name in RANKERS:
            assert result[f"dialog_rpt_{name}_bot"][k] == pytest.approx(scores[name], abs=1e-5)
        human = (scores["human_vs_rand"] + scores["human_vs_machine"]) / 2
        feedback = (scores["updown"] + 0.48 * scores["depth"] - 0.5 * scores["width"]) / 0.98
        assert result["dialog_rpt_bot"][k] == pytest.approx(human * feedback, abs=1e-5)


def test_the_combination_averages_the_rankers_that_are_left():
    """By hand, from the weights of the released ensemble.yml."""
    both = {"updown": np.array([0.5]), "depth": np.array([0.25])}
    assert combined(both)[0] == pytest.approx((0.5 + 0.48 * 0.25) / 1.48)
    assert combined({"human_vs_rand": np.array([0.25])})[0] == 0.25


def test_rankers_can_be_left_out_but_not_all_nor_the_wrong_ones(folders):
    none = dict.fromkeys(RANKERS, "")
    metric = DialogRpt(**{**none, "updown": folders["updown"]})
    assert [column.name for column in metric.columns if column.level == "turn"] == [
        "dialog_rpt_bot",
        "dialog_rpt_updown_bot",
    ]
    result = metric.scored(REPLIES, TextCache())
    assert result["dialog_rpt_bot"].tolist() == result["dialog_rpt_updown_bot"].tolist()
    with pytest.raises(ValuesError, match="name at least one ranker"):
        DialogRpt(**none)
    with pytest.raises(ValuesError, match="width counts negatively and needs updown"):
        DialogRpt(**{**none, "width": folders["width"]})


def test_a_model_without_a_trained_output_is_refused(tmp_path, folders):
    plain = save_model(tmp_path / "gpt2", "gpt2", width=16, n_layers=1)
    three = save_classifier(tmp_path / "three")
    assert "a ranker is a classifier with one" in (
        DialogRpt(**{**folders, "depth": str(plain)}).unavailable_reason() or ""
    )
    assert "with 3 outputs; a ranker is" in (DialogRpt(**{**folders, "depth": str(three)}).unavailable_reason() or "")
    assert "updown: there is no folder 'microsoft/DialogRPT-updown'" in (DialogRpt().unavailable_reason() or "")


def test_a_context_that_is_too_long_loses_its_beginning(folders):
    metric = DialogRpt(**folders)
    long = ("tell me more about your day",) * 40
    replies = [
        ReplyInContext((*long, "cold"), "cats"),
        ReplyInContext(("books", *long, "cold"), "cats"),
        ReplyInContext((*long, "books"), "cats"),
    ]
    first, longer, other = metric.scored(replies, TextCache())["dialog_rpt_updown_bot"]
    assert first == longer
    assert first != other
