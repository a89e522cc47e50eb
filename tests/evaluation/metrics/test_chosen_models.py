"""Metrics by a model that a researcher chooses: perplexity, toxicity, contradiction, coherence, and their file."""

import math

import numpy as np
import pytest

from chatbots import Conversation, Identity
from chatbots.conversation import Turn
from chatbots.yaml_registry import EntriesError
from evaluation.metrics.classifiers import Coherence, Contradiction, Toxicity
from evaluation.metrics.likelihood import Perplexity
from evaluation.metrics.local_models import LocalClassifier, LocalLanguageModel
from evaluation.metrics.registry import configured_metrics, metric_get, metrics
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import save_classifier, save_model

TEXTS = ["hello how are you", "i am fine", "and what do you like to eat", "cats", "", "books and music"]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("gpt2"), "gpt2", width=16, n_layers=1, n_positions=48)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("bert"))


def alone_nll(folder, context, reply):
    """Sum over the reply's tokens of −log p, one row, no padding; and how many there are."""
    import torch
    import transformers as tf

    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForCausalLM.from_pretrained(folder).eval()
    told = [1, *tokenizer(context, add_special_tokens=False)["input_ids"]]
    input_ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([told + input_ids])).logits[0].double()
    total = 0.0
    for k, token in enumerate(input_ids):
        row = logits[len(told) + k - 1]
        total += float(torch.log(torch.exp(row).sum()) - row[token])
    return total, len(input_ids)


@pytest.mark.slow
def test_perplexity_against_rows_computed_alone(gpt2):
    metric = Perplexity(model=str(gpt2), window=2)
    assert metric.unavailable_reason() is None
    result = metric.compute([Conversation.from_texts(TEXTS, id="c")])
    first = alone_nll(gpt2, "hello how are you\n", "i am fine")
    second = alone_nll(gpt2, "i am fine\nand what do you like to eat\n", "cats")
    third = alone_nll(gpt2, "cats\n\n", "books and music")
    column = result.turns.loc["c", "perplexity_nll_bot"]
    for turn, (total, count) in ((1, first), (3, second), (5, third)):
        assert column[turn] == pytest.approx(total / count, abs=1e-4)
    nats, tokens = (sum(found[k] for found in (first, second, third)) for k in (0, 1))
    pooled = result.conversations.loc["c", "perplexity_bot"]
    assert pooled == pytest.approx(math.exp(nats / tokens), rel=1e-3)


def test_perplexity_sees_all_turns_where_there_are_fewer_than_its_window(gpt2):
    result = Perplexity(model=str(gpt2), window=5).compute([Conversation.from_texts(TEXTS, id="c")])
    total, count = alone_nll(gpt2, "".join(f"{text}\n" for text in TEXTS[:3]), TEXTS[3])
    assert result.turns.loc[("c", 3), "perplexity_nll_bot"] == pytest.approx(total / count, abs=1e-4)


def test_perplexity_asks_about_a_reply_and_its_context_once(gpt2):
    asked = []

    class Counting(LocalLanguageModel):
        def surprise(self, replies):
            asked.extend(replies)
            return super().surprise(replies)

    talk = Conversation.from_texts(TEXTS, id="c")
    twin = Conversation.from_texts(TEXTS, id="d")
    other = Conversation.from_texts([*TEXTS[:3], "dogs"], id="e")
    metric, shared = Perplexity(replies=Counting(str(gpt2))), TextCache()
    first = metric.compute([talk, twin, other], shared=shared)
    assert len(asked) == 4  # the twin adds nothing, the other its last reply
    again = metric.compute([twin], shared=shared)
    assert len(asked) == 4
    turns = first.turns.loc["d"].to_numpy()
    np.testing.assert_array_equal(again.turns.loc["d"].to_numpy(), turns)
    np.testing.assert_array_equal(first.turns.loc["c"].to_numpy(), turns)


def test_perplexity_of_odd_texts(gpt2):
    long = Conversation.from_texts(["cats " * 300, "dogs " * 10_000, "", ""], id="long")
    blank = Conversation.from_texts(["hi", ""], id="blank")
    result = Perplexity(model=str(gpt2)).compute([long, blank, Conversation("none")])
    assert np.isfinite(result.turns.loc[("long", 1), "perplexity_nll_bot"])
    assert np.isnan(result.turns.loc[("blank", 1), "perplexity_nll_bot"])
    assert result.conversations["perplexity_bot"].isna().tolist() == [False, True, True]
    assert "token" in result.reasons["perplexity_bot"]


def test_a_classifiers_batch_is_its_texts_alone(bert):
    import torch
    import transformers as tf

    tokenizer = tf.AutoTokenizer.from_pretrained(bert)
    model = tf.AutoModelForSequenceClassification.from_pretrained(bert).eval()
    pairs = [("cats", "dogs"), ("i am fine thank you", "yes"), ("cats", "dogs")]
    expected = []
    for pair in pairs:
        with torch.no_grad():
            logits = model(**tokenizer(*pair, return_tensors="pt")).logits[0].double()
        expected.append(float(torch.exp(logits[2]) / torch.exp(logits).sum()))
    result = LocalClassifier(str(bert), "contradiction").probabilities(pairs)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert expected[0] != pytest.approx(expected[1], abs=1e-3)


class Letters:
    """The share of letters that are an a, of a pair in both together."""

    identity = Identity("letters", "1")

    def unavailable_reason(self):
        return None

    def probabilities(self, texts):
        joined = ["".join(text) for text in texts]
        return np.array([text.count("a") / len(text) for text in joined])


def test_toxicity_and_the_2019_codes_way():
    talk = Conversation.from_texts(["x", "aa", "x", "I am depressed", "x", " "], id="c")
    result = Toxicity(classifier=Letters()).compute([talk]).turns.loc["c"]
    nan = np.nan
    np.testing.assert_allclose(result["toxicity_bot"], [nan, 1, nan, 1 / 14, nan, nan])
    np.testing.assert_allclose(result["compat_toxicity_bot"], [nan, -1, nan, -0.2, nan, nan])


def test_contradiction_is_the_worst_pair_with_an_earlier_turn_of_the_bot():
    said = [("bot", "aab"), ("human", "aaaa"), ("bot", "b"), ("bot", "ac"), ("bot", "")]
    talk = Conversation("c", tuple(Turn(*turn) for turn in said))
    result = Contradiction(classifier=Letters()).compute([talk])
    # turn 2 with turn 0: aabb, 2/4; turn 3 with turn 0: aabac, 3/5, with turn 2: bac, 1/3
    np.testing.assert_allclose(result.turns.loc["c", "contradiction_bot"], [np.nan, np.nan, 2 / 4, 3 / 5, np.nan])
    assert "no earlier turn" in result.reasons["contradiction_bot"]


def test_coherence_is_of_message_and_reply():
    talk = Conversation.from_texts(["ab", "cd", "", "a"], id="c")
    result = Coherence(classifier=Letters()).compute([talk])
    np.testing.assert_allclose(result.turns.loc["c", "coherence_user_bot"], [np.nan, 1 / 4, np.nan, np.nan])


def test_coherence_names_blank_texts_only_where_there_are_some():
    blank = Conversation.from_texts(["ab", "cd", "", "a"], id="c")
    whole = Conversation.from_texts(["ab", "cd", "b", "a"], id="d")
    assert "blank" in Coherence(classifier=Letters()).compute([blank]).reasons["coherence_user_bot"]
    assert "blank" not in Coherence(classifier=Letters()).compute([whole]).reasons["coherence_user_bot"]


def test_models_that_do_not_fit_are_explained(gpt2, bert, tmp_path):
    assert "did you mean Contradiction" in LocalClassifier(str(bert), "contradicts").unavailable_reason()
    assert "no folder" in LocalLanguageModel(str(tmp_path / "none")).unavailable_reason()
    assert "hf download" in LocalLanguageModel("nobody/nothing").unavailable_reason()
    assert LocalLanguageModel(str(gpt2)).identity.key != LocalLanguageModel(str(gpt2), 3).identity.key
    with pytest.raises(ValueError, match="window is -1"):
        LocalLanguageModel(str(gpt2), -1)


@pytest.fixture
def registry(tmp_path):
    yield
    configured_metrics.register(tmp_path / "none.yaml")  # no file: what was configured is gone


def test_a_file_configures_metrics(registry, tmp_path, bert, gpt2):
    file = tmp_path / "metrics.yaml"
    file.write_text(
        f"- kind: perplexity\n  params: {{model: {gpt2}, window: 1}}\n"
        f"- id: nli_bert\n  kind: contradiction\n  name: By BERT\n"
        f"  params: {{model: {bert}, label: contradiction}}\n"
    )
    assert configured_metrics.register(file) == ["perplexity", "nli_bert"]
    assert metric_get("perplexity").unavailable_reason() is None
    made = metric_get("nli_bert")
    assert [c.name for c in made.columns] == ["nli_bert_bot"] * 2
    assert made.columns[0].title.startswith("By BERT")
    assert metric_get("contradiction").unavailable_reason() is not None
    result = made.compute([Conversation.from_texts(TEXTS[:4], id="c")])
    assert 0 < result.conversations.loc["c", "nli_bert_bot"] < 1
    assert configured_metrics.register(file) == ["perplexity", "nli_bert"]  # again: replaced, not doubled
    file.write_text("")
    assert configured_metrics.register(file) == []
    assert "nli_bert" not in metrics
    assert "metrics.yaml" in metric_get("perplexity").unavailable_reason()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- kind: perplexit\n  params: {model: x}", "did you mean perplexity"),
        ("- kind: perplexity", "params.model is missing"),
        ("- kind: deepmoji\n  params: {weights: x}", "params.vocabulary is missing"),
        ("- kind: toxicity\n  params: {model: x, labl: y}", "did you mean label"),
        ("- kind: toxicity\n  param: {}", "did you mean params"),
        ("- kind: perplexity\n  params: {model: x, window: -1}", "window is -1"),
        ("- kind: perplexity\n  params: {model: 3}", "model is 3"),
        ("- id: Bad Id\n  kind: toxicity\n  params: {model: x}", "id is 'Bad Id'"),
        ("- id: words\n  kind: toxicity\n  params: {model: x}", "built-in metric"),
        ("- {kind: toxicity, params: {model: x}}\n- {kind: toxicity, params: {model: y}}", "a second"),
        ("kind: toxicity", "list of metrics"),
        ("- [", "cannot be read"),
    ],
)
def test_mistakes_in_the_file_are_explained(registry, tmp_path, text, message):
    file = tmp_path / "metrics.yaml"
    file.write_text(text)
    if text.startswith("- ") and text != "- [":
        configured_metrics.register(file)
        (broken,) = configured_metrics.broken
        assert message in str(broken)
        assert str(broken).startswith(f"{file}, entry ")
    else:
        with pytest.raises(EntriesError, match=message):
            configured_metrics.register(file)


def test_all_mistakes_of_an_entry_are_told_at_once(registry, tmp_path):
    file = tmp_path / "metrics.yaml"
    file.write_text("- {id: Bad Id, kind: perplexity, params: {window: -1, modl: x}}")
    configured_metrics.register(file)
    assert configured_metrics.broken[0].reason == (
        "4 mistakes: (1) id is 'Bad Id'; it must be lower-case words joined by underscores; (2) params.model is "
        "missing; it must be a text that is not empty; (3) params.window is -1; it must be a whole number of at "
        "least 0; (4) params.modl is an unknown key; did you mean model? Allowed: model, window, device"
    )
