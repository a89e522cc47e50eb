"""What every registered metric promises, whoever wrote it."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from chatbots.identity import canonical_json
from evaluation.data.items import ReplyInContext
from evaluation.metrics.base import MetricDefaults
from evaluation.metrics.explanations import Explanation
from evaluation.metrics.fed import FedQualities
from evaluation.metrics.likelihood import ReplyPmi
from evaluation.metrics.registry import metric_list
from evaluation.metrics.text_cache import TextCache
from evaluation.number_format import result_dump, result_load
from tests.tiny_models import save_classifier, save_masked, save_model, save_ranker

METRICS = {metric.name: metric for metric in metric_list()}

ODD = [
    Conversation("none"),
    Conversation.from_texts([""], id="blank"),
    Conversation.from_texts(["only me"], id="one human turn"),
    Conversation.from_texts(["hello"], id="one bot turn", first="bot"),
    Conversation.from_texts(["😀", "🎉🎉", "👍🏽", "❤️"], id="emoji"),
    Conversation.from_texts(["", "   ", "\n", "\u200b"], id="blanks"),
    Conversation.from_texts(["ok", "the cat sat on a good mat " * 1500, "fine"], id="long"),
    Conversation.from_texts(["\x00", "cut emoji \ud83d", "a" * 5000, "٣ ½ 漢字"], id="characters"),
    Conversation(
        "runs",
        tuple(
            Turn(speaker, text)
            for speaker, text in [
                ("bot", "Hi!"),
                ("bot", "Are you there?"),
                ("human", "yes"),
                ("human", "haha, what is it?"),
                ("bot", "Nothing."),
                ("human", "I hate that"),
            ]
        ),
    ),
]

pytestmark = pytest.mark.parametrize("name", sorted(METRICS))


@pytest.fixture(scope="module")
def shared():
    """Encode the texts here once for all metrics, as in a run."""
    return TextCache()


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("gpt2"), "gpt2", width=16, n_layers=1)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return options of metrics whose published weights are not here: tiny ones of the same architectures."""
    folder = tmp_path_factory.mktemp("published")
    ranker = str(save_ranker(folder / "ranker"))
    names = ("updown", "depth", "width", "human_vs_rand", "human_vs_machine")
    return {
        "dialog_rpt": dict.fromkeys(names, ranker),
        "usr": {
            "mlm": str(save_masked(folder / "masked")),
            "dr": str(save_classifier(folder / "classifier", ("LABEL_0", "LABEL_1"))),
        },
    }


@pytest.fixture
def metric(name, tiny_model, published):
    # A language model of 135 million weights would read the same odd texts for minutes.
    result = METRICS[name]
    if isinstance(result, ReplyPmi | FedQualities):
        result = type(result)(model=str(tiny_model))
    elif name in published:
        result = type(result)(**published[name])
    reason = result.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    return result


def check_table(metric, table, conversations):
    turn_columns = [c.name for c in metric.columns if c.level == "turn"]
    whole_columns = [c.name for c in metric.columns if c.level == "conversation"]
    assert list(table.turns.columns) == turn_columns
    assert list(table.conversations.columns) == whole_columns
    assert table.conversations.index.tolist() == [c.id for c in conversations]
    assert table.turns.index.tolist() == [(c.id, i) for c in conversations for i in range(len(c.turns))]
    for level, frame in (("turn", table.turns), ("conversation", table.conversations)):
        values = frame.to_numpy(dtype=float)
        assert not np.isinf(values).any()
        for column in (c for c in metric.columns if c.level == level):
            result = frame[column.name].dropna()
            low, high = column.range
            assert low is None or (result >= low - 1e-9).all(), column.name
            assert high is None or (result <= high + 1e-9).all(), column.name
            if frame[column.name].isna().any():
                assert table.reasons[column.name].strip(), column.name


def test_says_who_it_is_and_what_it_measures(name):
    metric = METRICS[name]
    assert metric.title
    assert metric.identity.name == name
    assert re.fullmatch(r"[0-9a-f]{16}", metric.identity.key)
    json.loads(canonical_json(metric.identity.as_dict()))
    assert metric.columns
    for column in metric.columns:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.title
        assert column.unit
        assert column.description.endswith(".")


def test_columns_are_unique_among_all_metrics(name):
    mine = [(c.level, c.name) for c in METRICS[name].columns]
    others = [(c.level, c.name) for m in METRICS.values() if m.name != name for c in m.columns]
    assert len(set(mine)) == len(mine)
    assert not set(mine) & set(others)


@pytest.mark.parametrize("self_play", [False, True])
def test_odd_texts_give_tables(metric, self_play, shared):
    table = metric.compute(ODD, self_play=self_play, shared=shared)
    check_table(metric, table, ODD)


def test_no_conversation_gives_an_empty_table(metric):
    check_table(metric, metric.compute([]), [])


@pytest.mark.parametrize("self_play", [False, True])
def test_a_batch_equals_its_conversations_one_by_one(metric, self_play, shared):
    some = [c for c in ODD if c.id != "long"]
    whole = metric.compute(some, self_play=self_play, shared=shared)
    for conversation in some:
        alone = metric.compute([conversation], self_play=self_play, shared=shared)
        pd.testing.assert_frame_equal(alone.conversations, whole.conversations.loc[[conversation.id]], atol=1e-5)
        mine = whole.turns.index.get_level_values(0) == conversation.id
        np.testing.assert_allclose(alone.turns.to_numpy(), whole.turns[mine].to_numpy(), atol=1e-5)


def test_self_play_never_describes_the_first_utterance(metric, shared):
    talk = Conversation.from_texts(["Hello!", "How are you?", "Fine.", "Good."], id="c")
    turns = metric.compute([talk], self_play=True, shared=shared).turns
    assert turns.loc[("c", 0)].isna().all()


def test_computing_twice_gives_the_same(metric, shared):
    one, two = (metric.compute(ODD[:6], shared=shared) for _ in range(2))
    pd.testing.assert_frame_equal(one.turns, two.turns)


def test_one_that_is_unavailable_says_what_would_help(name):
    reason = METRICS[name].unavailable_reason()
    assert reason is None or len(reason.split()) > 3
    assert reason is None or METRICS[name].needs, "lists say what it lacks"
    assert METRICS[name].licence or not METRICS[name].has_network, "of the weights it reads"


def test_explains_itself_in_tables_that_can_be_stored(metric, shared):
    explain = getattr(metric, "explain", None)
    if explain is None or getattr(type(metric), "explain", None) is MetricDefaults.explain:
        return
    others = [ReplyInContext(("hello",), text) for text in ("I like cats.", " ", "So do I!", "I like cats.")]
    replies = [
        ReplyInContext(("I like dogs and cats.", "Which do you like?"), "Cats, and dogs too.", "I like cats."),
        ReplyInContext((), "It opens the conversation."),
        ReplyInContext(("\x00", "a" * 5000), "٣ ½ 漢字 😀"),
    ]
    for reply, compared in [*((reply, others) for reply in replies), (replies[0], [])]:
        explanation = explain(reply, compared, shared)
        if explanation is None:
            continue
        stored = json.loads(json.dumps(result_dump(explanation, Explanation), allow_nan=False))
        assert str(result_load(stored, Explanation)) == str(explanation)
        assert len({table.id for table in explanation.tables}) == len(explanation.tables)
        assert str(explain(reply, compared, shared)) == str(explanation), "the same again"
