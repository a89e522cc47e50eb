"""The retrieval participant: the nearest situation, nothing of the same bot or person, leaving, votes, vectors."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from chatbots.encoders import sentence
from chatbots.encoders.cache import TextStore
from chatbots.encoders.sentence import sentence_encoder
from chatbots.participants import retrieval
from chatbots.participants.base import ParticipantTurn, participant_load
from chatbots.participants.human_chats import HumanChat, HumanChats
from evaluation.simulation.simulated_chats import simulate_within

TOPICS = {
    "cooking": (
        "Do you like to cook?",
        "Yes, mostly soup with many onions",
        "Soup is good for you.",
        "My mother made it",
    ),
    "music": (
        "Which music do you hear?",
        "Old jazz records on Sunday mornings",
        "Jazz is nice.",
        "I play the trumpet too",
    ),
    "travel": (
        "Where did you travel last?",
        "To Norway, we saw the fjords",
        "How was the weather?",
        "It rained all week long",
    ),
    "pets": (
        "Do you have a cat or a dog?",
        "A very lazy cat called Tom",
        "Cats sleep a lot.",
        "Mine sleeps on my keyboard",
    ),
}


def chat(bot: str, topic: str, person: str = "", *, ends: bool = False, vote: int = 0) -> HumanChat:
    asks, answers, says, adds = TOPICS[topic]
    turns = [
        Turn("human", f"hello from {topic}"),
        Turn("bot", asks, vote=vote),
        Turn("human", answers),
        Turn("bot", says),
        Turn("human", adds),
    ]
    if ends:
        turns = turns[:4]
    return HumanChat(bot, Conversation(f"{bot}/{topic}/{person}", tuple(turns)), person)


PEOPLE = HumanChats(tuple(chat("other", topic, topic, vote=-1 if topic == "pets" else 0) for topic in TOPICS))


@pytest.fixture(params=["sentence_encoder", "tfidf"])
def ranking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "tfidf":
        monkeypatch.setattr(sentence, "MINILM_PACKAGE", "no_such_package_at_all")
    elif sentence_encoder().unavailable_reason():
        pytest.skip("there is no sentence encoder")
    return request.param


def turn(*texts: str, bot: str = "new", seed: int = 0, n_planned: int | None = 9, person: str = "") -> ParticipantTurn:
    chat = Conversation.from_texts(texts, id="c", seed=seed)
    return ParticipantTurn(chat, bot, n_planned=n_planned, person=person, sampled_chat=PEOPLE.draw(seed, bot, person))


@pytest.mark.parametrize("topic", TOPICS)
def test_it_writes_what_was_written_in_the_same_situation(topic: str, ranking: str) -> None:
    participant = participant_load("retrieval", people=PEOPLE)
    asks, answers, says, adds = TOPICS[topic]
    first, second = participant.moves([turn("hi", asks), turn("hi", asks, answers, says)])
    assert (first.text, first.source) == (answers, f"other/{topic}/{topic}")
    assert second.text == adds
    assert first.vote == (-1 if topic == "pets" else None)


def test_a_chat_is_opened_as_the_drawn_person_did(ranking: str) -> None:
    participant = participant_load("retrieval", people=PEOPLE)
    moves = participant.moves([turn(seed=seed) for seed in range(30)])
    assert {move.text for move in moves} == {f"hello from {topic}" for topic in TOPICS}


def test_nothing_is_said_twice(ranking: str) -> None:
    participant = participant_load("retrieval", people=PEOPLE)
    asks, answers, _says, _adds = TOPICS["pets"]
    (move,) = participant.moves([turn("hi", asks, answers.upper(), asks)])
    assert move.text != answers


def test_nothing_is_written_twice_within_a_stored_chat() -> None:
    asks = TOPICS["pets"][0]
    turns = (Turn("human", "hi"), Turn("bot", asks), Turn("human", "no"), Turn("bot", asks), Turn("human", "no!"))
    people = HumanChats((*PEOPLE, HumanChat("new", Conversation("n", turns))))
    (one,) = simulate_within(people.chats[-1:], participant_load("retrieval", people=people), people=people)
    assert one.conversation.texts[2] == TOPICS["pets"][1]
    assert one.conversation.texts[4] not in (TOPICS["pets"][1], "no!")


def test_each_simulated_person_draws_from_chats_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all would write the same best message; one person keeps to the same chats throughout."""
    monkeypatch.setattr(retrieval, "LEAST_KNOWN", 12)
    asks, answers, _says, _adds = TOPICS["pets"]
    people = HumanChats(
        tuple(HumanChat("other", Conversation.from_texts(["hi", asks, f"{answers} {n}"], id=str(n))) for n in range(60))
    )
    participant = participant_load("retrieval", people=people)
    sources = [
        [participant.moves([turn(*["hi", asks] * n, seed=seed)])[0].source for n in (1, 2, 3, 4, 5)]
        for seed in range(12)
    ]
    assert len({one for known in sources for one in known}) > 15
    assert all(len(set(known)) <= 3 for known in sources)


def test_nothing_of_the_same_bot_or_person_comes_back(ranking: str) -> None:
    """Leak check: not even where another person wrote the same to another bot."""
    people = HumanChats(
        tuple(chat(bot, topic, person) for bot in ("a", "b") for topic in TOPICS for person in ("ann", "ben"))
        + tuple(chat("c", topic, "cid") for topic in ("music", "travel"))
    )
    participant = participant_load("retrieval", people=people)
    of_a = {text for person in people if person.bot == "a" for text in person.messages if len(text.split()) > 3}
    for stored, one in zip(people, simulate_within(people, participant), strict=True):
        if stored.bot in ("a", "b"):  # all that anyone wrote to b was written to a, too, but for short messages
            assert not set(one.conversation.texts[::2]) & of_a
        for place, source in one.sources.items():
            bot, _topic, person = source.split("/")
            assert bot != stored.bot
            assert person != stored.person or (place == 0 and stored.person == "")


def test_only_the_leaks_are_left_out(ranking: str) -> None:
    asks, answers, _says, _adds = TOPICS["pets"]
    people = HumanChats((*PEOPLE, chat("new", "music", "zoe")))
    participant = participant_load("retrieval", people=people)
    assert participant.moves([turn("hi", asks)])[0].text == answers
    assert participant.moves([turn("hi", asks, person="pets")])[0].text != answers
    assert participant.moves([turn("hi", TOPICS["music"][0])])[0].text != TOPICS["music"][1]
    assert participant.moves([turn("hi", TOPICS["music"][0], bot="third")])[0].text == TOPICS["music"][1]


def test_without_others_it_says_why(ranking: str) -> None:
    participant = participant_load("retrieval", people=PEOPLE)
    asked = dataclasses.replace(turn("hi", "Do you cook?", bot="other"), sampled_chat=None)
    opened = dataclasses.replace(turn(bot="other"), sampled_chat=None)
    for move in participant.moves([asked, opened]):
        assert move.text is None
        assert "a bot other than other" in move.error


def test_it_leaves_where_the_person_left_if_no_length_is_planned(ranking: str) -> None:
    people = HumanChats((*PEOPLE.chats[1:], chat("other", "cooking", ends=True)))
    participant = participant_load("retrieval", people=people)
    asks, answers, says, _adds = TOPICS["cooking"]
    left, planned = participant.moves(
        [turn("hi", asks, answers, says, n_planned=None), turn("hi", asks, answers, says)]
    )
    assert (left.text, left.error) == (None, None)
    assert planned.text


def test_a_move_depends_on_its_turn_alone(ranking: str) -> None:
    participant = participant_load("retrieval", people=PEOPLE)
    turns = [turn("hi", asks, seed=seed) for seed in range(5) for asks, *_ in TOPICS.values()]
    assert participant.moves(turns) == [move for turn in turns for move in participant.moves([turn])]


def test_it_votes_only_where_people_did(ranking: str) -> None:
    assert participant_load("retrieval", people=PEOPLE).votes
    silent = HumanChats(tuple(chat("other", topic) for topic in TOPICS))
    assert not participant_load("retrieval", people=silent).votes


def test_vectors_are_kept_where_erasure_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = sentence_encoder()
    if encoder.unavailable_reason():
        pytest.skip("there is no sentence encoder")
    store = TextStore(tmp_path / "texts.sqlite3")
    asks, answers, _says, _adds = TOPICS["pets"]
    participant = participant_load("retrieval", people=PEOPLE, store=store)
    first = participant.moves([turn("hi", asks)])
    assert answers in store.known([answers])
    np.testing.assert_array_equal(store.get(encoder.identity.key, [asks])[asks], encoder.encode([asks])[0])
    monkeypatch.setattr(encoder, "encode", lambda texts: pytest.fail(f"encoded again: {texts}"))
    assert participant_load("retrieval", people=PEOPLE, store=store).moves([turn("hi", asks)]) == first
