"""The scripted participant: a script's messages in order, and votes of the rehearsals' character."""

from chatbots import Conversation
from chatbots.corpora.dialogues import corpus_read
from chatbots.participants.base import ParticipantTurn, participant_load
from chatbots.participants.scripted import ScriptedCharacter, everyday_messages
from chatbots.registry import bot_load
from evaluation.simulation.simulated_chats import simulate_chats


def test_it_writes_one_speakers_messages_in_their_order():
    dialogues = {dialogue.turns[::2] for dialogue in corpus_read().dialogues}
    chats = simulate_chats(bot_load("eliza"), participant_load("scripted"), seeds=range(20), n_exchanges=2)
    starts = {dialogue[:2] for dialogue in dialogues}
    assert all(chat.conversation.texts[::2] in starts for chat in chats)
    assert len({chat.conversation.texts[0] for chat in chats}) > 10


def test_a_new_conversation_follows_the_last_message():
    character = ScriptedCharacter([["a", "b"], ["c", "d"]], seed=1)
    said = [character.message() for _ in range(6)]
    assert {tuple(said[n : n + 2]) for n in (0, 2, 4)} <= {("a", "b"), ("c", "d")}
    again = ScriptedCharacter([["a", "b"], ["c", "d"]], seed=1)
    assert [again.message() for _ in range(6)] == said


def test_it_votes_on_about_every_second_reply_and_worse_on_a_parrot():
    def votes(bot: str) -> list[int]:
        chats = simulate_chats(bot_load(bot), participant_load("scripted"), seeds=range(60), n_exchanges=5)
        return [turn.vote for chat in chats for turn in chat.conversation.turns if turn.speaker == "bot"]

    eliza, parrot = votes("eliza"), votes("parrot")
    assert 0.4 < sum(map(abs, eliza)) / len(eliza) < 0.6
    assert sum(eliza) > sum(parrot)


def test_a_move_depends_on_its_turn_alone():
    participant = participant_load("scripted")
    turns = [ParticipantTurn(Conversation.from_texts(["hi", "yes"] * 2, id="1", seed=n), "eliza") for n in range(9)]
    assert participant.moves(turns) == [participant.moves([turn])[0] for turn in turns]
    assert participant.moves(turns)[0].text in {text for message in everyday_messages() for text in message}
