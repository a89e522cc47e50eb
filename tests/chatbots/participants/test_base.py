"""Simulated participants by name, and the stored chats that they learn from."""

import pytest

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.conversation import Turn
from chatbots.participants.base import ParticipantTurn, participant_get, participant_load, participants
from chatbots.participants.human_chats import HumanChat, HumanChats
from chatbots.registry import UnknownName


def test_a_participant_goes_by_its_kind():
    assert participant_get("replayed").kind == "replayed"
    assert participant_get("replayed") is not participants.get("replayed")
    with pytest.raises(UnknownName, match="did you mean replayed"):
        participant_get("replayd")
    with pytest.raises(BotError, match="use replayed without a bot"):
        participant_get("replayed:eliza")
    with pytest.raises(BotError, match="use prompted:BOT"):
        participant_get("prompted")
    one = participant_get("prompted:smollm2")
    assert (one.kind, one.bot, one.title) == ("prompted", "smollm2", "Prompted: smollm2")
    with pytest.raises(UnknownName, match="smollm2"):
        participant_load("prompted:smolm2")


def test_a_participant_who_learns_needs_people():
    with pytest.raises(BotError, match="there are none"):
        participant_load("replayed")


def test_the_seed_of_a_move_is_that_of_chat_and_turn():
    turn = ParticipantTurn(Conversation.from_texts(["a", "b"], seed=4), "eliza")
    later = ParticipantTurn(Conversation.from_texts(["a", "b", "c", "d"], seed=4), "eliza")
    other = ParticipantTurn(Conversation.from_texts(["a", "b"], seed=5), "eliza")
    assert len({turn.seed, later.seed, other.seed}) == 3
    assert turn.chat_seed == later.chat_seed != other.chat_seed
    assert (turn.number, later.number) == (1, 2)


def test_neighbouring_turns_are_joined_and_votes_stand_before_messages():
    turns = (
        Turn("bot", "Welcome.", vote=1),
        Turn("human", "hi"),
        Turn("human", " "),
        Turn("human", "there"),
        Turn("bot", "one", vote=-1),
        Turn("bot", "two"),
        Turn("human", "bye"),
        Turn("bot", "bye", vote=1),
    )
    chat = HumanChat("a", Conversation("1", turns))
    assert [turn.text for turn in chat.turns] == ["Welcome.", "hi there", "one two", "bye", "bye"]
    assert chat.messages == ("hi there", "bye")
    assert [chat.vote_before(number) for number in range(3)] == [1, -1, 1]
    assert chat.is_opened_by_bot


def test_chats_without_a_message_are_left_out():
    empty = HumanChat("a", Conversation("1", (Turn("bot", "Hello?"),)))
    assert len(HumanChats((empty,))) == 0


def test_drawing_leaves_out_the_bot_and_the_person():
    chats = HumanChats(
        tuple(
            HumanChat(bot, Conversation.from_texts(["hi", "yes"], id=f"{bot}{person}"), person)
            for bot in ("a", "b")
            for person in ("p", "q", "")
        )
    )
    drawn = {chats.draw(seed, "a", "p").conversation.id for seed in range(50)}
    assert drawn == {"bq", "b"}
    assert HumanChats(chats.chats[:3]).draw(1, "a") is None


def test_drawing_prefers_openings_that_nobody_wrote_to_the_bot():
    own = "I once saw a bear in the woods"
    chats = HumanChats(
        (
            *(HumanChat(bot, Conversation.from_texts([own, "yes"], id=bot)) for bot in "abc"),
            HumanChat("b", Conversation.from_texts(["hi", "hi"], id="b2")),
            HumanChat("b", Conversation.from_texts(["hi", "I am a bot", "ok"], id="b3", first="bot")),
        )
    )
    assert {chats.draw(seed, "a").conversation.id for seed in range(20)} == {"b2"}
    assert chats.draw(1, "a", unlike=chats.chats[3]) is not None


def test_drawing_seeks_a_chat_that_is_long_enough():
    chats = HumanChats(tuple(HumanChat("b", Conversation.from_texts(["x", "y"] * n, id=str(n))) for n in (1, 2, 5)))
    assert {chats.draw(seed, "a", least=2).conversation.id for seed in range(20)} == {"2", "5"}
    assert {chats.draw(seed, "a", least=9).conversation.id for seed in range(20)} == {"1", "2", "5"}
