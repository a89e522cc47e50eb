"""Likelihood, BARTScore and BLEURT by tiny random models; and replies against references by vectors."""

import math

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.validation import ValuesError
from evaluation.agreement.metric_agreement import judge, judgements_of
from evaluation.data.items import JudgedItem, ReplyInContext
from evaluation.metrics.likelihood import Continuations, ReplyPmi, ReplyPmiDialogue
from evaluation.metrics.reference_models import BartScore, Bleurt
from evaluation.metrics.reference_vectors import NO_WORD, BertScore, EmbeddingMatch, bert_score
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import CHATML, save_classifier, save_model

REPLIES = [
    ReplyInContext(("hello how are you", "i am fine"), "cats", "books and music and the sea"),
    ReplyInContext((), "and what do you like to eat", None),
]


def test_bart_score_is_the_mean_log_likelihood_per_token(tmp_path):
    import torch
    import transformers as tf

    folder = save_model(tmp_path, "bart", width=16, n_layers=1)
    result = BartScore(model=str(folder)).scored(REPLIES, TextCache())
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
        assert result[f"bart_score_{kind}"][0] == pytest.approx(alone(*pair), abs=1e-4)
        assert math.isnan(result[f"bart_score_{kind}"][1])


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
    bleurt = Bleurt(model=str(tmp_path / "one")).scored(REPLIES, TextCache())["bleurt"]
    with torch.no_grad():
        given = tokenizer(REPLIES[0].reference, REPLIES[0].response, return_tensors="pt")
        expected = float(model(**given).logits[0, 0])
    assert bleurt[0] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(bleurt[1])


E1, E2, HALF = [1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5), math.sqrt(0.5)]


def test_marks_at_the_ends_are_matched_but_not_averaged_over():
    reply = np.array([HALF, E1, E2]), np.array([False, True, True])
    reference = np.array([HALF, E1]), np.array([False, True])
    precision, recall, f = bert_score(reply, reference)
    assert precision == pytest.approx((1 + math.sqrt(0.5)) / 2)  # the second is nearest to a mark
    assert recall == pytest.approx(1)
    assert f == pytest.approx(2 * precision / (1 + precision))
    assert all(map(math.isnan, bert_score((reply[0], np.zeros(3, bool)), reference)))


@pytest.mark.parametrize("name", ["bert_score", "embedding_match"])
def test_equal_texts_match_wholly_and_others_less(name):
    metric = metric_get(name)
    if reason := metric.unavailable_reason():
        pytest.skip(reason)
    replies = [
        ReplyInContext((), "I like cats", "I like cats"),
        ReplyInContext((), "I like cats", "She adores dogs"),
        ReplyInContext((), "I like cats", "The bank raised interest rates"),
        ReplyInContext((), "I like cats", None),
    ]
    for values in metric.scored(replies, TextCache()).values():
        assert values[0] == pytest.approx(1, abs=1e-5)
        assert 1 > values[1] > values[2]
        assert math.isnan(values[3])


def test_embedding_match_is_0_by_definition_where_a_side_has_no_known_word_and_counts_it():
    metric = metric_get("embedding_match")
    if reason := metric.unavailable_reason():
        pytest.skip(reason)
    texts = ["I like cats", "😀", "She adores dogs", "zxqv"]
    items = [
        JudgedItem(id=str(k), response=text, reference="I like cats", ratings=[{"good": k}], scale=[0, 3])
        for k, text in enumerate(texts)
    ]
    document = judge(judgements_of(items), [metric])["embedding_match"].to_json()
    assert document["n"] == 4
    assert document["remarks"] == {NO_WORD: 2}


def test_embedding_match_by_a_file_of_vectors_is_the_formula(tmp_path):
    """Three-dimensional GloVe of 300: words by hand, the rest zeros."""
    words = {"good": [3, 0, 1], "bad": [-4, 1, 0], "day": [0, 2, 0]}
    rows = [f"{w} {' '.join(map(str, [*v, *[0] * 297]))}\n" for w, v in words.items()]
    (tmp_path / "glove.txt").write_text("".join(rows))
    metric = EmbeddingMatch(name="glove", title="GloVe", path=str(tmp_path / "glove.txt"))
    assert metric.unavailable_reason() is None
    result = metric.scored([ReplyInContext((), "good bad unheard", "day")], TextCache())
    x, y = np.array([words["good"], words["bad"]]), np.array(words["day"])

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert result["glove_average"][0] == pytest.approx(cosine(x.mean(axis=0), y))
    assert result["glove_extrema"][0] == pytest.approx(cosine(np.array([-4, 1, 1]), y))
    each = [cosine(row, y) for row in x]
    assert result["glove_greedy"][0] == pytest.approx((np.mean(each) + max(each)) / 2)
    assert "no file" in EmbeddingMatch(path=str(tmp_path / "none.txt")).unavailable_reason()


def test_bert_score_gives_roberta_its_first_word_as_any_other(tmp_path):
    """As the authors' code does: RoBERTa's vocabulary holds words with the blank before them."""
    import transformers as tf

    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "Ġa", "Ġb"]
    tokenizer = tf.RobertaTokenizer(
        vocab={token: k for k, token in enumerate(vocabulary)}, merges=[("Ġ", "a"), ("Ġ", "b")]
    )
    config = tf.RobertaConfig(
        vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    tokenizer.save_pretrained(tmp_path)
    tf.RobertaModel(config).eval().save_pretrained(tmp_path)
    asked = []

    def recorded(module, args, kwargs):
        asked.append(kwargs["input_ids"].tolist())

    metric = BertScore(model=str(tmp_path))
    metric._vectors.load("AutoModel").model.register_forward_pre_hook(recorded, with_kwargs=True)
    result = metric.scored([ReplyInContext((), "a b", "a b")], TextCache())
    assert asked == [[[0, 8, 9, 2]]]
    assert result["bert_score_f"][0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_embedding_match_by_an_encoder_is_the_formula_over_its_tokens(tmp_path, layer):
    """Token vectors by transformers, at their own length; average, extrema and greedy by NumPy."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = save_classifier(tmp_path / "bert")
    texts = ["hello how are you", "tell me more about your day"]
    metric = EmbeddingMatch("own", encoder=str(folder), layer=layer)
    assert metric.unavailable_reason() is None
    result = metric.scored([ReplyInContext((), *texts)], TextCache())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        x, y = (
            model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
            .hidden_states[layer or -1][0]
            .numpy()
            for text in texts
        )

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    def extreme(rows):
        return np.array([max(column, key=abs) for column in rows.T])

    cosines = np.array([[cosine(a, b) for b in y] for a in x])
    greedy = (cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2
    expected = [cosine(x.mean(axis=0), y.mean(axis=0)), cosine(extreme(x), extreme(y)), greedy]
    names = ["own_average", "own_extrema", "own_greedy"]
    assert [result[name][0] for name in names] == pytest.approx(expected, abs=1e-5)


def test_embedding_match_names_vectors_or_an_encoder_and_its_identity_holds_which(tmp_path):
    folder = str(save_classifier(tmp_path / "bert"))
    first, last = (EmbeddingMatch("own", encoder=folder, layer=layer) for layer in (1, 0))
    assert len({first.identity.key, last.identity.key, EmbeddingMatch("own").identity.key}) == 3
    with pytest.raises(ValuesError, match="either path or encoder must be set, but not both"):
        EmbeddingMatch("own", encoder=folder, path="vectors.txt")
    with pytest.raises(ValuesError, match="either path or encoder must be set, but not both"):
        EmbeddingMatch("own", rows=10)


CONTINUED = [
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
    input_ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([told + input_ids])).logits[0].double()
    chosen = torch.log_softmax(logits, dim=-1)[range(len(told) - 1, len(told) + len(input_ids) - 1), input_ids]
    return float(chosen.sum()), len(input_ids)


def test_shared_contexts_and_padding_change_nothing(folder):
    metric = ReplyPmi(model=str(folder))
    result = metric.scored([*CONTINUED, CONTINUED[0], CONTINUED[0]._replace(context=())], TextCache())
    for k, reply in enumerate(CONTINUED):
        given, n = alone(folder, reply.context, reply.response)
        unconditional, _ = alone(folder, (), reply.response)
        assert result["reply_pmi_bot"][k] == pytest.approx((given - unconditional) / n, abs=1e-4)
        assert result["reply_pmi_given_bot"][k] == pytest.approx(given / n, abs=1e-4)
    assert result["reply_pmi_bot"][4] == result["reply_pmi_bot"][0]
    assert math.isnan(result["reply_pmi_bot"][5])  # nothing was said before


def test_speakers_a_and_b_are_read_as_one_text(folder):
    import torch
    import transformers as tf

    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    model = tf.AutoModelForCausalLM.from_pretrained(folder).eval()
    result = ReplyPmiDialogue(model=str(folder)).scored(
        [reply._replace(context=(*reply.context[:-1], "so\n " + reply.context[-1])) for reply in CONTINUED], TextCache()
    )

    def log_p(before, reply):
        input_ids, said = tokenizer(before)["input_ids"], tokenizer(f" {reply}", add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([input_ids + said])).logits[0].double()
        chosen = torch.log_softmax(logits, dim=-1)[range(len(input_ids) - 1, len(input_ids) + len(said) - 1), said]
        return float(chosen.sum()) / len(said)

    for k, reply in enumerate(CONTINUED):
        lines = [*reply.context[:-1], f"so {reply.context[-1]}"]
        speakers = ["B", "A"] * len(lines)
        before = "".join(
            f"{who}: {line}\n" for who, line in reversed(list(zip(speakers, reversed(lines), strict=False)))
        )
        assert result["reply_pmi_dialogue_given_bot"][k] == pytest.approx(
            log_p(f"{before}A:", reply.response), abs=1e-4
        )
        assert result["reply_pmi_dialogue_bot"][k] == pytest.approx(
            log_p(f"{before}A:", reply.response) - log_p("A:", reply.response), abs=1e-4
        )


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
    assert "the reply opens the conversation" in table.reasons["reply_pmi_bot"]
