"""Self-play: whose turn it is, seeds, openers, windows and failures."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chatbots.bots.base import BotDefaults
from chatbots.identity import derive_seed
from chatbots.registry import bot_load
from evaluation.selfplay import play
from tests.fakes import FakeStepBot, FakeWholeBot, says


class Witness(BotDefaults):
    """Remembers what it was shown; each reply depends on the reply's seed only."""

    name = "witness"

    def __init__(self):
        self.seen = []

    def answer(self, contexts):
        self.seen.extend(contexts)
        return [f"word{context.reply_seed % 1000}" for context in contexts]


def texts(played):
    return [p.conversation.texts for p in played]


def test_without_opener_the_bot_says_everything_and_hears_a_human():
    bot = Witness()
    (played,) = play(bot, seeds=[7], n_turns=4, window=None)
    assert played.error is None
    assert [t.speaker for t in played.conversation.turns] == ["human", "bot", "human", "bot"]
    assert played.conversation.seed == 7
    assert bot.seen[0].turns == ()
    for heard in bot.seen[1:]:
        assert heard.turns[-1].speaker == "human"
        speakers = [t.speaker for t in heard.turns]
        assert all(a != b for a, b in pairwise(speakers))
    assert [c.texts for c in bot.seen] == [played.conversation.texts[:n] for n in range(4)]


def test_an_opener_is_turn_0_and_counts():
    openers = ["Hello.", "Nice day.", "So."]
    found = play(Witness(), seeds=list(range(30)), n_turns=3, openers=openers)
    assert {len(p.conversation.turns) for p in found} == {3}
    assert {p.conversation.texts[0] for p in found} == set(openers)
    alone = play(Witness(), seeds=[11], n_turns=1, openers=openers)[0]
    assert alone.conversation.texts == found[11].conversation.texts[:1]


def test_the_window_cuts_what_is_heard_but_not_the_seeds():
    bot, wide = Witness(), Witness()
    played = play(bot, seeds=[5], n_turns=9, window=5)
    assert [len(c.turns) for c in bot.seen] == [0, 1, 2, 3, 4, 5, 5, 5, 5]
    assert bot.seen[-1].texts == played[0].conversation.texts[3:8]
    assert texts(played) == texts(play(wide, seeds=[5], n_turns=9, window=None))
    seeds = [c.reply_seed for c in bot.seen]
    assert seeds == [derive_seed(5, "turn", n) for n in range(9)]


@pytest.mark.parametrize("name", ["eliza", "parrot", "generic"])
def test_any_batch_gives_the_same_conversations(name):
    bot = bot_load(name)
    seeds = [3, 1, 4, 15, 9]
    openers = ["I feel tired today.", "What do you like to cook?"]
    whole = play(bot, seeds=seeds, n_turns=6, openers=openers)
    parts = play(bot, seeds=seeds[:2], n_turns=6, openers=openers) + [
        p for s in seeds[2:] for p in play(bot, seeds=[s], n_turns=6, openers=openers)
    ]
    assert parts == whole


def test_all_conversations_of_the_batch_advance_together():
    bot = FakeStepBot(capacity=8)
    play(bot, seeds=range(8), n_turns=3, openers=["Hi."])
    assert bot.most_at_once == 8


def test_a_failed_reply_ends_its_conversation_alone():
    bot = FakeStepBot(fails=says("echo: echo: boom"))
    openers = ["boom", "fine"]
    found = play(bot, seeds=range(12), n_turns=5, openers=openers, window=None)
    failed = [p for p in found if p.conversation.texts[0] == "boom"]
    well = [p for p in found if p.conversation.texts[0] == "fine"]
    assert failed
    assert well
    for played in failed:
        assert "scripted failure" in played.error
        assert played.conversation.texts == ("boom", "echo: boom", "echo: echo: boom")
    for played in well:
        assert played.error is None
        assert len(played.conversation.turns) == 5


def test_progress_counts_turns_and_may_stop_the_run():
    seen = []
    play(FakeWholeBot(), seeds=[1, 2], n_turns=3, openers=["Hi."], progress=lambda *p: seen.append(p))
    assert seen == [(4, 6), (6, 6)]

    class Cancelled(Exception):
        pass

    def stop(done, planned):
        raise Cancelled

    with pytest.raises(Cancelled):
        play(FakeWholeBot(), seeds=[1], n_turns=3, progress=stop)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_turns": 0}, "n_turns is 0"), ({"window": 0}, "window is 0"), ({"seeds": [4, 4]}, "seed 4 is given twice")],
)
def test_wrong_arguments_are_explained(change, message):
    with pytest.raises(ValueError, match=message):
        play(FakeWholeBot(), **{"seeds": [1], "n_turns": 2, **change})


def test_a_partner_begins_and_each_hears_the_other_as_the_human():
    bot, partner = Witness(), Witness()
    partner.name = "partner"
    (played,) = play(bot, partner=partner, seeds=[7], n_turns=5, window=None)
    said = played.conversation
    assert [t.speaker for t in said.turns] == ["human", "bot", "human", "bot", "human"]
    assert [c.texts for c in partner.seen] == [said.texts[:n] for n in (0, 2, 4)]
    assert [c.texts for c in bot.seen] == [said.texts[:n] for n in (1, 3)]
    for heard in [*bot.seen, *partner.seen[1:]]:
        assert heard.turns[-1].speaker == "human"
    alone = play(Witness(), seeds=[7], n_turns=5, window=None)[0]
    assert alone.conversation.texts == said.texts  # a reply's seed knows the turn, not the bot


def test_with_openers_the_bot_answers_the_opener():
    bot, partner = Witness(), Witness()
    (played,) = play(bot, partner=partner, seeds=[3], n_turns=4, openers=["Hello."])
    assert played.conversation.texts[0] == "Hello."
    assert [len(c.turns) for c in bot.seen] == [1, 3]
    assert [len(c.turns) for c in partner.seen] == [2]
