"""Sentiment, emotion and people's reactions; and entailment by checkpoints with random weights."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from chatbots import Conversation, Identity
from chatbots.encoders.emotion import emotion_encoder, vader_scores
from chatbots.encoders.sentence import sentence_encoder
from chatbots.validation import ValuesError
from evaluation.data.items import JudgedItem, ReplyInContext
from evaluation.metrics.emotion import (
    FLOOR,
    EncoderEmotionSource,
    Sentiment,
    SentimentFamily,
    VaderSentiment,
    sentiment_columns,
    slope_min_max,
    variance,
)
from evaluation.metrics.entailment import TOO_SHORT, Entailment
from evaluation.metrics.reactions import last_score, mean_similarity, sentiment_slope, taken_up
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from evaluation.training.inference_pairs import LABELS
from tests.evaluation.training.checkpoints import entailment_checkpoint
from tests.tiny_models import save_classifier
from tests.validation.entailment_classes import HumanClasses, class_of, class_report, human_classes

TEXTS = ["Hello", "I love talking to you", "You are awful", "Why?", "This is great!", "ok", "bad"]


class MadeUp:
    """Three emotions of weights 1, -1 and 0 that depend on a text's length; an encoder by its protocol."""

    identity = Identity("made_up", "1")
    labels = ("good", "bad", "none")
    weights = np.array([1.0, -1.0, 0.0], dtype=np.float32)

    def __init__(self):
        self.asked = []

    def unavailable_reason(self):
        return None

    def encode(self, texts):
        self.asked.extend(texts)
        return np.array([made_up(text) for text in texts], dtype=np.float32).reshape(-1, 3)

    def sentiment(self, p):
        return p @ self.weights


def made_up(text):
    good, bad = 1.0 + len(text) % 4, 1.0 + len(text) % 3
    return [good / (good + bad + 1), bad / (good + bad + 1), 1 / (good + bad + 1)]


class MadeUpSentiment(SentimentFamily):
    name = prefix = "made_up"
    columns = sentiment_columns("made_up", "Made up", "", "made up")

    def __init__(self, encoder):
        self.feelings = EncoderEmotionSource(lambda: encoder)


@pytest.mark.parametrize(
    ("scores", "slope"),
    [
        ([0.0, 1.0], 1.0),  # lowest first: positive
        ([1.0, 0.0], -1.0),
        ([0.5, -0.5, 0.2, 1.0], 0.75),  # (-.5 - 1) / (1 - 3)
        ([0.0, 0.0, 0.0], 0.0),
        ([0.0, 1.0, 1.0], 0.5),  # of equal highest the last: (0 - 1) / (0 - 2)
        ([0.0, 0.0, 1.0], 0.5),  # of equal lowest the first
        ([0.0, np.nan, 1.0], 0.5),  # an undefined score keeps its place
        ([0.3], np.nan),
        ([np.nan, 0.3], np.nan),
        ([], np.nan),
    ],
)
def test_slope_min_max(scores, slope):
    np.testing.assert_allclose(slope_min_max(np.array(scores)), slope)


def test_variance_is_of_the_population():
    assert variance(np.array([1.0, np.nan, 0.0, 0.5])) == pytest.approx(1 / 6)
    assert math.isnan(variance(np.array([1.0])))


@pytest.mark.parametrize("self_play", [False, True])
def test_columns_of_any_encoder_against_plain_python(self_play):
    result = MadeUpSentiment(MadeUp()).compute([Conversation.from_texts(TEXTS, id="c")], self_play=self_play)
    p = [made_up(text) for text in TEXTS]
    s = [good - bad for good, bad, _ in p]

    def cos(a, b):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))

    user = [1, 2, 3, 4, 5, 6] if self_play else [2, 4, 6]
    pairs = [(i, i + 1) for i in range(6)] if self_play else [(0, 1), (2, 3), (4, 5)]
    steps = pairs if self_play else [(0, 2), (2, 4), (4, 6)]
    turns = result.turns.loc["c"]
    expected = {
        "made_up_user": {i: s[i] for i in user},
        "made_up_bot": {i: s[i] for i in (user if self_play else [1, 3, 5])},
        "made_up_transition": {b: s[b] - s[a] for a, b in steps},
        "made_up_coherence_user_bot": {b: cos(p[a], p[b]) for a, b in pairs},
    }
    for column, values in expected.items():
        np.testing.assert_allclose(turns[column], [values.get(i, np.nan) for i in range(7)], atol=1e-6)
        whole = result.conversations.loc["c", column]
        assert whole == pytest.approx(sum(values.values()) / len(values), abs=1e-6)
    answers = [s[i] for i in user]
    mean = sum(answers) / len(answers)
    whole = result.conversations.loc["c"]
    assert whole["made_up_variance_user"] == pytest.approx(
        sum((x - mean) ** 2 for x in answers) / len(answers), abs=1e-6
    )
    assert whole["made_up_auc_user"] == pytest.approx(sum(s[b] - s[a] for a, b in steps), abs=1e-6)
    low = min(range(len(user)), key=lambda i: (answers[i], i))
    high = max(range(len(user)), key=lambda i: (answers[i], i))
    assert whole["made_up_minmax"] == pytest.approx((answers[low] - answers[high]) / (low - high), abs=1e-6)


def test_the_default_is_the_shipped_head_on_the_sentence_vectors_of_the_run(encoded_texts):
    shared = TextCache()
    result = Sentiment().compute([Conversation.from_texts(TEXTS, id="c")], shared=shared)
    shared.encode(TEXTS)
    assert sorted(encoded_texts) == sorted(TEXTS)
    head = emotion_encoder()
    p = head.encode(TEXTS)
    s = np.asarray(p, dtype=float) @ np.asarray(head.weights, dtype=float)
    np.testing.assert_allclose(result.turns.loc["c", "sentiment_bot"].dropna(), s[[1, 3, 5]], atol=1e-4)
    assert s[1] > 0.3 > -0.3 > s[2]


def test_columns_against_vader():
    result = VaderSentiment().compute([Conversation.from_texts(TEXTS, id="c")])
    vader = SentimentIntensityAnalyzer()
    s = [vader.polarity_scores(text)["compound"] for text in TEXTS]
    nan = np.nan
    turns = result.turns.loc["c"]
    np.testing.assert_allclose(turns["vader_user"], [nan, nan, s[2], nan, s[4], nan, s[6]])
    np.testing.assert_allclose(turns["vader_bot"], [nan, s[1], nan, s[3], nan, s[5], nan])
    shares = [np.array([vader.polarity_scores(t)[k] for k in ("neg", "neu", "pos")]) for t in TEXTS[:2]]
    a, b = shares
    expected = a @ b / np.sqrt((a @ a) * (b @ b))
    assert turns.loc[1, "vader_coherence_user_bot"] == pytest.approx(expected)


def test_vader_of_a_long_text_is_vaders_own():
    words = "never so this good bad without doubt kind of sort great! hate least at very but isn't"
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words.split(), size=n)) for n in (3, 10, 40, 200)]
    analyzer = SentimentIntensityAnalyzer()
    expected = [analyzer.polarity_scores(text)["compound"] for text in texts]
    np.testing.assert_array_equal(vader_scores(texts), expected)


def test_a_blank_message_has_no_sentiment_and_says_why():
    result = VaderSentiment().compute([Conversation.from_texts(["hi", "hello", "  "], id="c")])
    assert np.isnan(result.turns.loc[("c", 2), "vader_user"])
    assert "blank" in result.reasons["vader_user"]


TALK = Conversation.from_texts(
    [
        *("Hello", "Do you like dogs?", "Dogs are great, and dogs don't bite!", "I am a doctor.", ""),
        *("I am a doctor.", "What do you mean?", "Cats.", "Thanks."),
    ],
    id="talk",
)


def test_slope_and_last_pass_over_what_is_undefined() -> None:
    scores = np.array([0.1, np.nan, -0.4, 0.3])
    assert sentiment_slope(scores) == pytest.approx(np.polyfit([0, 2, 3], [0.1, -0.4, 0.3], 1)[0])
    assert last_score(np.array([0.2, np.nan])) == 0.2
    assert np.isnan(sentiment_slope(scores[:2]))
    assert np.isnan(last_score(scores[1:2]))


def test_similarity_is_the_mean_over_pairs() -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 7))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [vectors[i] @ vectors[j] for i, j in combinations(range(5), 2)]
    assert mean_similarity(vectors) == pytest.approx(np.mean(pairs))
    assert np.isnan(mean_similarity(vectors[:1]))


def test_reactions_of_a_talk_counted_by_hand() -> None:
    shared = TextCache()
    result = metric_get("reactions").compute([TALK], shared=shared).conversations.loc["talk"]
    # Four answers: seven words, none, four, one.
    expected = {
        "log_words": np.log([8, 1, 5, 2]).mean(),
        "question_mark": 1 / 4,
        "short": 2 / 4,
        "exclamation": 1 / 4,
        "appreciation": 2 / 4,
        "negation": 1 / 4,
        "confusion": 1 / 4,
        # dogs of {dogs, great, bite}; the blank answer has no word; none of {mean}; none of {thanks}
        "overlap": (taken_up("Dogs are great, and dogs don't bite!", "Do you like dogs?") + 0 + 0) / 3,
    }
    for name, value in expected.items():
        assert result[f"reaction_{name}_user"] == pytest.approx(value), name
    assert taken_up("dogs bite", "Do you like dogs?") == pytest.approx(1 / 2)
    sentiment = metric_get("sentiment").compute([TALK], shared=shared).conversations.loc["talk"]
    assert result["reaction_sentiment_user"] == pytest.approx(sentiment["sentiment_user"])


def test_emotions_are_logarithms_of_mean_shares() -> None:
    result = metric_get("emotions").compute([TALK]).conversations.loc["talk"]
    assert len(result) == 28
    assert (np.exp(result) - FLOOR).sum() == pytest.approx(1, abs=1e-5)
    assert result["emotion_gratitude_user"] > result["emotion_grief_user"]


ASKED = ReplyInContext(("Old news.", "Do you like tea?"), "Yes, with milk.")
ALONE = ReplyInContext(("Do you like tea?",), "Yes, with milk.")
OPENS = ReplyInContext((), "Hello.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(entailment_checkpoint(tmp_path_factory.mktemp("entailment") / "lite"))


def by_hand(metric, premise, reply):
    u, v = sentence_encoder().encode([premise, reply])
    network = metric.restored("cpu")
    features = np.concatenate([u, v, abs(u - v), u * v]).astype(np.float32)
    with torch.no_grad():
        return dict(zip(LABELS, network.out(torch.from_numpy(features)).softmax(0).tolist(), strict=True))


def test_probabilities_their_class_and_one_number(checkpoint):
    metric = Entailment("mine", checkpoint=checkpoint)
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: MIT"
    result = metric.scored([ASKED, OPENS], TextCache())
    expected = by_hand(metric, "Old news. Do you like tea?", ASKED.response)
    for name in LABELS:
        assert result[f"mine_{name}_bot"][0] == pytest.approx(expected[name], abs=1e-5)
    assert result["mine_bot"][0] == result["mine_entailment_bot"][0]
    order = ["contradiction", "neutral", "entailment"]
    assert order[int(result["mine_class_bot"][0])] == max(expected, key=expected.get)
    assert all(np.isnan(values[1]) for values in result.values())
    difference = Entailment("mine", checkpoint=checkpoint, value="difference")
    assert difference.scored([ASKED], TextCache())["mine_bot"][0] == pytest.approx(
        expected["entailment"] - expected["contradiction"], abs=1e-5
    )
    assert difference.identity.key != metric.identity.key


def test_the_premise_may_be_a_single_utterance_which_must_be_there(checkpoint):
    last, second = (Entailment(checkpoint=checkpoint, utterance=k) for k in (-1, -2))
    entailment_bot = last.scored([ASKED, ALONE], TextCache())["entailment_bot"]
    assert (
        entailment_bot[0]
        == entailment_bot[1]
        == pytest.approx(by_hand(last, "Do you like tea?", ASKED.response)["entailment"], abs=1e-5)
    )
    entailment_bot = second.scored([ASKED, ALONE], TextCache())["entailment_bot"]
    assert entailment_bot[0] == pytest.approx(by_hand(second, "Old news.", ASKED.response)["entailment"], abs=1e-5)
    assert np.isnan(entailment_bot[1])
    assert second.lacking(ALONE) == TOO_SHORT
    table = second.compute([Conversation.from_texts(["Hi.", "Hello."], id="1")])
    assert TOO_SHORT in table.reasons["entailment_bot"]
    newest = Entailment(checkpoint=checkpoint, window=1)
    np.testing.assert_array_equal(
        newest.scored([ASKED], TextCache())["entailment_bot"], last.scored([ASKED], TextCache())["entailment_bot"]
    )
    with pytest.raises(ValuesError, match="utterance"):
        Entailment(checkpoint=checkpoint, utterance=1)


@pytest.mark.parametrize("network", ["bert", "esim"])
def test_networks_that_read_texts_give_each_reply_its_own(network, tmp_path):
    model = str(save_classifier(tmp_path / "model"))
    options = {"network": network, "hidden": 4}
    metric = Entailment(checkpoint=str(entailment_checkpoint(tmp_path / network, model=model, **options)))
    replies = [ReplyInContext(("hello how are you",), f"i am fine {'yes ' * k}") for k in range(1, 5)]
    result = metric.scored(replies[::-1], TextCache())["entailment_bot"][::-1]
    alone = [metric.scored([reply], TextCache())["entailment_bot"][0] for reply in replies]
    np.testing.assert_allclose(result, alone, atol=1e-4)
    assert len(set(result.tolist())) == 4


def test_a_baseline_of_the_reply_alone_does_not_see_the_premise(tmp_path):
    place = str(entailment_checkpoint(tmp_path / "lite", hypothesis_only=True))
    entailment_bot = Entailment(checkpoint=place).scored(
        [ALONE, ReplyInContext(("What?",), ALONE.response)], TextCache()
    )["entailment_bot"]
    assert entailment_bot[0] == entailment_bot[1]


def item(*grades, scale=(0, 3)):
    return JudgedItem(id=str(grades), response="x", ratings=[{"overall": grade} for grade in grades], scale=scale)


def test_ratings_make_classes_by_their_mean_or_by_most_votes():
    items = [item(2, 2), item(1, 3, 1), item(0, 1), item(0, 0, 3, 3), item(3, 2, 1, 0), item()]
    result = human_classes(items, "overall")
    np.testing.assert_array_equal(result.classes, [2, 1, 0, 1, 1, np.nan])
    assert result.n_ties == 0
    result = human_classes(items, "overall", "majority")
    # Of 0 and 1, of 0 and 3, and of all four, each given as often, the lower one counts.
    np.testing.assert_array_equal(result.classes, [2, 1, 0, 0, 0, np.nan])
    assert result.n_ties == 3
    assert [class_of(value, 1, 5) for value in (1, 2.3, 2.4, 3.6, 3.7, 5)] == [0, 0, 1, 1, 2, 2]
    assert [class_of(value, 0, 3) for value in (0.99, 1, 1.99, 2)] == [0, 1, 1, 2]
    assert np.isnan(human_classes([item(1, scale=None)], "overall").classes).all()


def test_predicted_classes_beside_peoples():
    predicted = np.array([2, 2, 2, 1, 1, 0, np.nan])
    means = np.array([3.0, 2.5, 1.0, 1.5, 0.5, 0.0, 3.0])
    people = HumanClasses(np.array([2.0, 2, 1, 1, 0, 0, 2]), means)
    result = class_report(predicted, people)
    assert result.accuracy == pytest.approx(4 / 6)
    assert result.majority == pytest.approx(2 / 6)
    assert result.by_class == {"contradiction": 0.5, "neutral": 0.5, "entailment": 1.0}
    assert result.n == {"contradiction": 1, "neutral": 2, "entailment": 3}
    assert result.means["entailment"] == pytest.approx(6.5 / 3)
    test = stats.ttest_ind([3.0, 2.5, 1.0], [1.5, 0.5], equal_var=False)
    told = result.tests["entailment", "neutral"]
    assert told.p == pytest.approx(test.pvalue)
    assert result.tests["neutral", "contradiction"] is None
    assert result.to_json()["tests"]["entailment - contradiction"] is None
    nothing = class_report(np.full(2, np.nan), HumanClasses(np.zeros(2), np.zeros(2)))
    assert nothing.to_json()["accuracy"] is None


def test_what_comes_with_confab_is_small_and_of_permissive_text():
    metric = metric_get("entailment_lite")
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: CDLA-Sharing-1.0"
    manifest = metric.checkpoint.manifest
    assert manifest.weights_bytes < 20_000
    assert manifest.metrics["test_accuracy"] > manifest.metrics["test_majority"] + 0.1
    context = ("What do you do at weekends?", "I love to watch football.")
    replies = ["Football is fun! Which team do you like?", "I have no idea.", "which team soup the needs at"]
    result = metric.scored([ReplyInContext(context, reply) for reply in replies], TextCache())
    assert result["entailment_lite_class_bot"][1:].tolist() == [1, 0]
    assert result["entailment_lite_bot"].argmax() == 0
