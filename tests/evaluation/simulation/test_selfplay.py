"""Self-play: whose turn it is, seeds, openers, windows and failures; and languages, which are told and not guessed."""

from itertools import pairwise

import pytest

from chatbots.bots.base import BotDefaults
from chatbots.corpora.dialogues import EVERYDAY, corpus_read
from chatbots.identity import derive_seed
from chatbots.registry import bot_load
from evaluation.data.languages import language_of
from evaluation.metrics.registry import metric_kinds, metric_list
from evaluation.simulation.selfplay import play
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
    result = play(Witness(), seeds=list(range(30)), n_turns=3, openers=openers)
    assert {len(p.conversation.turns) for p in result} == {3}
    assert {p.conversation.texts[0] for p in result} == set(openers)
    alone = play(Witness(), seeds=[11], n_turns=1, openers=openers)[0]
    assert alone.conversation.texts == result[11].conversation.texts[:1]


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
    result = play(bot, seeds=range(12), n_turns=5, openers=openers, window=None)
    failed = [p for p in result if p.conversation.texts[0] == "boom"]
    well = [p for p in result if p.conversation.texts[0] == "fine"]
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
    conversation = played.conversation
    assert [t.speaker for t in conversation.turns] == ["human", "bot", "human", "bot", "human"]
    assert [c.texts for c in partner.seen] == [conversation.texts[:n] for n in (0, 2, 4)]
    assert [c.texts for c in bot.seen] == [conversation.texts[:n] for n in (1, 3)]
    for heard in [*bot.seen, *partner.seen[1:]]:
        assert heard.turns[-1].speaker == "human"
    alone = play(Witness(), seeds=[7], n_turns=5, window=None)[0]
    assert alone.conversation.texts == conversation.texts  # a reply's seed knows the turn, not the bot


def test_with_openers_the_bot_answers_the_opener():
    bot, partner = Witness(), Witness()
    (played,) = play(bot, partner=partner, seeds=[3], n_turns=4, openers=["Hello."])
    assert played.conversation.texts[0] == "Hello."
    assert [len(c.turns) for c in bot.seen] == [1, 3]
    assert [len(c.turns) for c in partner.seen] == [2]


GERMAN = [
    "Hallo, wie war dein Tag heute?",
    "Ganz gut, danke. Ich war mit dem Hund im Park, aber dann hat es geregnet.",
    "Oh nein, seid ihr nass geworden?",
]
SPANISH = ["¡Hola! ¿Qué tal el fin de semana?", "Muy bien, fui con mi hermana a la playa y comimos."]


@pytest.mark.parametrize(("texts", "code"), [(GERMAN, "de"), (SPANISH, "es")])
def test_a_conversation_tells_its_language(texts: list[str], code: str) -> None:
    assert language_of(texts) == code


def test_english_talk_reads_as_english() -> None:
    dialogues = corpus_read(EVERYDAY).dialogues
    told = [language_of(dialogue.turns) for dialogue in dialogues]
    assert {code for code in told if code is not None} == {"en"}
    assert sum(code == "en" for code in told) > 0.95 * len(told)


@pytest.mark.parametrize("texts", [[], ["", " "], ["ok", "lol nice"], ["👍" * 200], ["1234 " * 50]])
def test_where_little_is_said_nothing_is_told(texts: list[str]) -> None:
    assert language_of(texts) is None


def test_every_metric_of_the_project_says_for_which_languages_it_holds() -> None:
    """But for those whose model or file somebody chooses."""
    chosen = {"perplexity", "toxicity", "contradiction", "coherence", "word2vec"}
    chosen |= {"bart_score", "bleurt", "judge"}
    unsaid = {metric.name for metric in metric_list() if metric.languages is None}  # type: ignore[attr-defined]
    assert chosen <= set(metric_kinds.names())
    assert unsaid == chosen
