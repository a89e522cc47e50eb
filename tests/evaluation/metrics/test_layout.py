"""Which turns and pairs the suffixes mean, on conversations worked out by hand."""

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from evaluation.metrics.layout import Layout, run_ends


def speaking(pattern: str, id: str = "c") -> Conversation:
    """Make a conversation from a pattern such as "hbbh": who speaks, turn by turn."""
    names = {"h": "human", "b": "bot"}
    return Conversation(id, tuple(Turn(names[s], f"{s}{i}") for i, s in enumerate(pattern)))


@pytest.mark.parametrize(
    ("pattern", "bot", "user", "exchanges", "transitions"),
    [
        # q1 r1 q2 r2 q3: the first message answers nothing, the last has no reply
        ("hbhbh", [1, 3], [2, 4], [(0, 1), (2, 3)], [(0, 2), (2, 4)]),
        # the bot opens: every message answers it
        ("bhbh", [0, 2], [1, 3], [(1, 2)], [(1, 3)]),
        # runs: a pair takes the last turn of each
        ("hhbbhh", [2, 3], [4, 5], [(1, 3)], [(1, 5)]),
        ("bbhhb", [0, 1, 4], [2, 3], [(3, 4)], []),
        ("hhh", [], [], [], []),
        ("b", [0], [], [], []),
        ("", [], [], [], []),
    ],
)
def test_suffixes_of_human_bot_conversations(pattern, bot, user, exchanges, transitions):
    layout = Layout.of([speaking(pattern)])
    assert layout.bot.tolist() == bot
    assert layout.user.tolist() == user
    assert [tuple(pair) for pair in layout.exchanges.tolist()] == exchanges
    assert [tuple(pair) for pair in layout.transitions.tolist()] == transitions


@pytest.mark.parametrize(
    ("pattern", "answers"),
    [
        ("hbhbh", [(1, 2), (3, 4)]),
        ("bhbh", [(0, 1), (2, 3)]),
        ("hhbbhh", [(3, 5)]),  # of a run the last turn
        ("hb", []),
        ("", []),
    ],
)
def test_answers_pair_the_bots_turn_with_what_follows_it(pattern, answers):
    layout = Layout.of([speaking(pattern)])
    assert [tuple(pair) for pair in layout.answers.tolist()] == answers
    assert layout.said.tolist() == layout.bot.tolist()


def test_by_conversation_cuts_turns_at_the_borders():
    layout = Layout.of([speaking("hbhb", "a"), speaking("", "b"), speaking("hb", "c")])
    assert [own.tolist() for own in layout.by_conversation(layout.bot)] == [[1, 3], [], [5]]
    assert [own.tolist() for own in layout.by_conversation(layout.user)] == [[2], [], []]
    assert Layout.of([]).by_conversation(np.zeros(0, dtype=int)) == []


def test_self_play_takes_every_following_utterance():
    layout = Layout.of([speaking("hbhb"), speaking("h", "d")], self_play=True)
    assert layout.bot.tolist() == layout.user.tolist() == [1, 2, 3]
    steps = [[0, 1], [1, 2], [2, 3]]
    assert layout.exchanges.tolist() == layout.transitions.tolist() == steps
    assert layout.answers.tolist() == steps
    assert layout.said.tolist() == [0, 1, 2, 3, 4]


def test_indices_are_flat_over_the_batch():
    layout = Layout.of([speaking("hb", "a"), speaking("", "b"), speaking("hbh", "c")])
    assert layout.conversation_of.tolist() == [0, 0, 2, 2, 2]
    assert layout.turn_of.tolist() == [0, 1, 0, 1, 2]
    assert layout.user.tolist() == [4]
    assert layout.texts_at(layout.user) == ["h2"]


def test_mean_leaves_undefined_turns_out():
    layout = Layout.of([speaking("hbh", "a"), speaking("hb", "b"), speaking("", "c")])
    values = np.array([1.0, np.nan, 3.0, np.nan, np.nan])
    np.testing.assert_array_equal(layout.mean(values), [2.0, np.nan, np.nan])


def test_run_ends():
    assert run_ends(speaking("hhbhbb")) == [1, 2, 3, 5]


def test_two_conversations_of_one_id_are_refused():
    with pytest.raises(ValueError, match="'c'"):
        Layout.of([speaking("hb"), speaking("bh")])
