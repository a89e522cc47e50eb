"""The table of 2019: its columns, names and normalisation."""

import math
import string

import numpy as np
import pytest
from nltk.tokenize import NLTKWordTokenizer

from chatbots import Conversation
from chatbots.conversation import Turn
from chatbots.encoders.sentence import sentence_encoder
from evaluation.metrics.compat_2019 import Compat2019
from evaluation.metrics.cues import PHRASES
from evaluation.metrics.table_2019 import length_reward, min_max, table_2019, zscore
from evaluation.metrics.text_cache import TextCache, content_words

QUESTIONS = ("who", "what", "why", "where", "how", "when")
HUMAN = [
    ["Hi  there", "😀 Hello, how are you?", "haha that is what I have", "You are great! <unk>", "bye"],
    ["so", "why not", "well", ""],
    ["I am depressed", "Don't worry. Who knows", "w " * 40, "w w dog dog"],
    ["only a message"],
]
SELF_PLAY = [["what is it?", "a dog", "a dog is a dog", "haha"], ["x"], []]


def emotions(text):
    """Make up three emotions, of weights 1, -0.5 and 0."""
    a, b = 1 + len(text) % 5, 1 + text.count("a")
    return [a / (a + b + 2), b / (a + b + 2), 2 / (a + b + 2)]


def score(text):
    p = emotions(text or "_")
    return p[0] - 0.5 * p[1]


class Feelings:
    def read(self, texts, shared):
        p = np.array([emotions(text) for text in texts]).reshape(-1, 3)
        return p @ np.array([1, -0.5, 0]), p


class Vectors:
    """Words of fewer than five letters have vectors of three numbers."""

    def one(self, token):
        if not token.isalpha() or len(token) > 4:
            return None
        return [1.0 + token.count("a"), len(token) - 2.5, float(ord(token[0]) % 7) - 3]

    def vectors(self, tokens):
        return [None if self.one(t) is None else np.array(self.one(t)) for t in tokens]


def cos(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b)))


def coherences(one, other):
    x = [v for t in one if (v := Vectors().one(t))]
    y = [v for t in other if (v := Vectors().one(t))]
    if not x or not y:
        return 0.0, 0.0, 0.0

    def extreme(rows):
        columns = list(zip(*rows, strict=True))
        return [max(c) if abs(min(c)) <= max(c) else min(c) for c in columns]

    def mean(rows):
        return [sum(c) / len(c) for c in zip(*rows, strict=True)]

    greedy = sum(max(cos(a, b) for b in y) for a in x) / len(x)
    return cos(mean(x), mean(y)), cos(extreme(x), extreme(y)), greedy


def plain_rows(texts, self_play):
    """Return [(message, response, next message)], as the released code writes them."""
    if self_play:
        pairs = [(texts[t], texts[t + 1] if t + 1 < len(texts) else "") for t in range(len(texts))]
    else:
        pairs = [(texts[t], texts[t + 1]) for t in range(0, len(texts) - 1, 2)]
    pairs = [(q, r.replace("😀", "").lstrip()) for q, r in pairs]
    return [(q, r, pairs[t + 1][0] if t + 1 < len(pairs) else "") for t, (q, r) in enumerate(pairs)]


def plain_values(rows):
    """Compute every quantity of one conversation's rows by the sheet's formulas."""
    n = len(rows)
    tokenise = NLTKWordTokenizer().tokenize
    results = {name: [] for name in ()}
    used = set()
    for t, (q, r, u) in enumerate(rows):
        last = t == n - 1
        average, extrema, greedy = coherences(tokenise(q), tokenise(r))
        rl_average, rl_extrema, rl_greedy = coherences(r.split(), u.split())
        lower = [token.lower() for token in tokenise(r)]
        coherence = cos(emotions(q or "_"), emotions(r or "_"))
        content = set(content_words(r))
        left_out = {*QUESTIONS, "<unk>", "<unknown>"}
        row = {
            "sentiment_user": 0.0 if last else score(u),
            "sentiment_bot": score(r),
            "sentiment_unk_bot": -0.5 if "<unk>" in r else score(r),
            "sentiment_coherence_user_bot": coherence,
            "sentiment_coherence_centred_user_bot": coherence - 0.5,
            "sentiment_transition": score(u) - score(q),
            "laughter_user": min(u.count("ha"), 4),
            "word_coherence_average_user_bot": average,
            "word_coherence_extrema_user_bot": extrema,
            "word_coherence_greedy_user_bot": greedy,
            "word_coherence_average_bot_next": rl_average,
            "word_coherence_extrema_bot_next": rl_extrema,
            "word_coherence_greedy_bot_next": rl_greedy,
            "question_bot": 0.5 * ("?" in r) + 0.5 * any(w in lower for w in QUESTIONS),
            "question_substring_bot": float("?" in r and any(w in r.lower() for w in QUESTIONS)),
            "words_user": 0 if last else len(u.split(" ")),
            "words_clipped_user": 0 if last else min(len(u.split(" ")), 30),
            "words_bot": len(r.split(" ")) if r else 0,
            "characters_user": len(u),
            "length_reward": 0.0 if last else n * 0.95 ** (n - 2 - t),
            "debugging_bot": float("you" in r),
            "conversation_repetition_bot": -len(content & used),
            "utterance_repetition_bot": -(len(r.split()) - len(set(r.split()))),
            "response_length_bot": len("".join(c for c in r if c not in string.punctuation).split()),
            "word_similarity_bot_user": len((content & set(content_words(u))) - left_out) / max(1, len(r.split())),
            **{
                f"{kind}_bot": float(any(phrase in r.lower() for phrase in phrases))
                for kind, phrases in PHRASES.items()
            },
        }
        used |= content
        for name, value in row.items():
            results.setdefault(name, []).append(value)
    return results


def plain_whole(values):
    s = values["sentiment_user"]
    order = sorted(range(len(s)), key=lambda i: s[i])  # stable: first of equal lowest, last of highest
    low, high = order[0], order[-1]
    mean = sum(s) / len(s)
    return {
        "sentiment_minmax": 0.0 if low == high else (s[low] - s[high]) / (low - high),
        "sentiment_variance_user": sum((x - mean) ** 2 for x in s) / len(s),
        "sentiment_auc_user": sum(values["sentiment_transition"]),
        "n_rows": len(s),
    }


def talks(texts):
    return [Conversation.from_texts(text, id=f"c{i}") for i, text in enumerate(texts)]


@pytest.mark.parametrize(("texts", "self_play"), [(HUMAN, False), (SELF_PLAY, True)])
def test_the_table_against_plain_python(texts, self_play):
    table = table_2019(talks(texts), self_play=self_play, feelings=Feelings(), vectors=Vectors())
    expected = [plain_rows(text, self_play) for text in texts]
    assert table["chat_id"].tolist() == [f"c{i}" for i, rows in enumerate(expected) for _ in rows]
    assert list(zip(table["message"], table["response"], strict=True)) == [
        (q, r) for rows in expected for q, r, _ in rows
    ]
    n_compared = 0
    for i, rows in enumerate(expected):
        if not rows:
            continue
        mine = table[table["chat_id"] == f"c{i}"]
        values = plain_values(rows)
        for name, column in values.items():
            np.testing.assert_allclose(mine[name], column, atol=1e-9, err_msg=name)
            n_compared += 1
        for name, value in plain_whole(values).items():
            np.testing.assert_allclose(mine[name], value, atol=1e-9, err_msg=name)
    assert n_compared >= 2 * 29
    said = [(q or "_", r or "_") for rows in expected for q, r, _ in rows]
    vectors = [(sentence_encoder().encode([q])[0], sentence_encoder().encode([r])[0]) for q, r in said]
    np.testing.assert_allclose(table["semantic_similarity_user_bot"], [a @ b for a, b in vectors], atol=1e-5)


def test_normalised_copies_are_over_the_whole_table():
    table = table_2019(talks(HUMAN), feelings=Feelings(), vectors=Vectors())
    for name in ("sentiment_user", "laughter_user", "words_clipped_user", "length_reward"):
        column = table[name].tolist()
        mean = sum(column) / len(column)
        spread = math.sqrt(sum((x - mean) ** 2 for x in column) / len(column))
        np.testing.assert_allclose(table[f"{name}_z"], [(x - mean) / spread for x in column])
    words = table["words_clipped_user"].tolist()
    np.testing.assert_allclose(
        table["words_user_minmax"], [(x - min(words)) / (max(words) - min(words)) for x in words]
    )
    assert table["vote_bot_z"].isna().all()  # a constant has no z


def test_votes_and_runs_of_turns():
    turns = [("human", "a"), ("human", "b"), ("bot", "c", 1), ("bot", "d", -1), ("human", "e")]
    talk = Conversation("c", tuple(Turn(*turn) for turn in turns))
    table = table_2019([talk], feelings=Feelings(), vectors=Vectors())
    # Of a run the last counts; a message without a reply has no row of its own.
    assert table[["message", "response", "vote_bot"]].to_numpy().tolist() == [["b", "d", -1]]


@pytest.mark.parametrize("self_play", [False, True])
def test_the_metric_is_the_mean_over_the_rows(self_play):
    conversations = talks(SELF_PLAY if self_play else HUMAN)
    shared = TextCache()
    result = Compat2019().compute(conversations, self_play=self_play, shared=shared).conversations
    table = table_2019(conversations, self_play=self_play, shared=shared)
    means = table.groupby("chat_id").mean(numeric_only=True)
    assert len(result.columns) > 30
    for column in result.columns:
        mine = result.loc[means.index, column]
        np.testing.assert_allclose(mine, means[column.removeprefix("compat_")], atol=1e-9)
    rest = result.drop(index=means.index)
    assert len(rest) == 1
    assert rest.drop(columns="compat_n_rows").isna().all().all()


def test_last_rows_are_forced_and_not_forced_as_in_2019():
    shared = TextCache()
    table = table_2019(talks([["I love it", "ok", "I hate it", "ok"]]), shared=shared)
    assert table["sentiment_user"].tolist()[1] == 0.0
    blank = table_2019(talks([["_", "ok", "I hate it", "ok"]]), shared=shared)
    # The artefact: score("_") minus the score of the last message.
    artefact = table["sentiment_transition"].tolist()[1]
    assert artefact == pytest.approx(-blank["sentiment_transition"].tolist()[0], abs=1e-6)
    assert abs(artefact) > 0.1


def test_zscore_and_min_max_leave_undefined_values_out():
    values = np.array([1.0, 3.0, np.nan, 5.0])
    spread = math.sqrt(8 / 3)
    np.testing.assert_allclose(zscore(values), [-2 / spread, 0, np.nan, 2 / spread])
    np.testing.assert_allclose(min_max(values), [0, 0.5, np.nan, 1])


@pytest.mark.parametrize("values", [[2.0, 2.0], [np.nan], []])
def test_a_constant_column_has_neither(values):
    assert np.isnan(zscore(np.array(values))).all()
    assert np.isnan(min_max(np.array(values))).all()


def test_length_reward():
    np.testing.assert_allclose(length_reward(4), [4 * 0.95**2, 4 * 0.95, 4, 0])
    assert length_reward(1).tolist() == [0]
