"""Which turns and pairs the suffixes mean, on conversations worked out by hand."""

import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from evaluation.metrics.layout import Layout


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


def test_self_play_takes_every_following_utterance():
    layout = Layout.of([speaking("hbhb"), speaking("h", "d")], self_play=True)
    assert layout.bot.tolist() == layout.user.tolist() == [1, 2, 3]
    steps = [[0, 1], [1, 2], [2, 3]]
    assert layout.exchanges.tolist() == layout.transitions.tolist() == steps
    assert layout.answers.tolist() == steps
    assert layout.said.tolist() == [0, 1, 2, 3, 4]


def test_two_conversations_of_one_id_are_refused():
    with pytest.raises(ValueError, match="'c'"):
        Layout.of([speaking("hb"), speaking("bh")])
