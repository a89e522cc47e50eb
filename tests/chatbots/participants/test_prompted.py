"""Participants whose messages a bot writes: roles, prompt, stop sign, cleaning, costs; and checkpoints' names."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from chatbots import Conversation
from chatbots.bots.base import BotDefaults, BotError
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.conversation import Turn
from chatbots.endpoints.metering import ReplyCost
from chatbots.generation.prompts import chat_messages, conditioned_prompt, turns_joined
from chatbots.participants.base import ParticipantProfile, ParticipantTurn, participant_load
from chatbots.participants.human_chats import HumanChat
from chatbots.participants.prompted import LEAVING, TASK, PromptedParticipant, clean_message
from chatbots.participants.scripted import everyday_messages
from chatbots.registry import bots
from evaluation.simulation.simulated_chats import simulate_chats
from tests.fakes import FakeWholeBot
from tests.tiny_models import CHATML, save_model


class ChatModel(BotDefaults):
    """Replies from a list, and remembers what it was shown."""

    name = "chat-model"
    kind = "transformers"
    options = SimpleNamespace(system_prompt="You are a helpful assistant.")
    max_cost = None
    least_bound = ReplyCost()

    def __init__(self) -> None:
        self.seen: list[Conversation] = []
        self.says = "fine, and you?"
        self.is_loaded = False

    def load(self, device: str) -> None:
        self.is_loaded = True

    def unload(self) -> None:
        self.is_loaded = False

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        assert self.is_loaded
        self.seen.extend(contexts)
        return [self.says for _ in contexts]

    def cost_take(self, context: Conversation) -> ReplyCost:
        return ReplyCost(5, 2, 0.25)


@pytest.fixture
def model() -> Iterator[ChatModel]:
    result = ChatModel()
    bots.add(result)
    yield result
    bots.discard(result.name)


def messages(context: Conversation) -> list[dict[str, str]]:
    """Return what a chat template gets, as every kind of language model makes it."""
    return chat_messages(
        turns_joined(context, window=0),
        system_prompt=conditioned_prompt("You are a helpful assistant.", context),
        is_opened=context.is_opened,
    )


def test_the_bot_is_the_user_and_the_participant_the_assistant(model: ChatModel) -> None:
    participant = participant_load("prompted:chat-model")
    chat = Conversation.from_texts(["hi", "Hello, I am Bob.", "how are you", "Fine."], id="7", seed=3)
    profile = ParticipantProfile("A nurse of 40.", "Learn about trains.", "tired")
    (move,) = participant.moves([ParticipantTurn(chat, "eliza", profile, n_planned=5)])
    assert move.text == "fine, and you?"
    assert move.cost == ReplyCost(5, 2, 0.25)
    system, *rest = messages(model.seen[0])
    assert system["role"] == "system"
    assert system["content"].startswith(TASK)
    for part in ("A nurse of 40.", "Learn about trains.", "tired"):
        assert part in system["content"]
    assert "helpful assistant" not in system["content"]
    assert LEAVING not in system["content"]
    assert rest == [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "Hello, I am Bob."},
        {"role": "assistant", "content": "how are you"},
        {"role": "user", "content": "Fine."},
    ]


def test_each_prompt_begins_with_the_one_before(model: ChatModel) -> None:
    """Only so a prefix cache reads the new messages alone; and the bot's rows are not overwritten."""
    bot = FakeWholeBot(name="whole")
    (one,) = simulate_chats(bot, participant_load("prompted:chat-model"), seeds=[4], n_exchanges=4)
    prompts = [messages(context) for context in model.seen]
    assert len(prompts) == 4
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
    assert {context.id for context in model.seen} == {f"{one.conversation.id}:participant"}
    assert len({context.reply_seed for context in model.seen}) == 4


def test_the_stop_sign_ends_the_chat(model: ChatModel) -> None:
    participant = participant_load("prompted:chat-model")
    model.says = "[Leaves]"
    (one,) = simulate_chats(FakeWholeBot(), participant, seeds=[1], may_leave=True)
    assert (one.conversation.turns, one.left_after) == ((), 0)
    assert LEAVING in messages(model.seen[0])[0]["content"]
    model.says = "bye then\n[leaves]"
    (one,) = simulate_chats(FakeWholeBot(), participant, seeds=[1], may_leave=True)
    assert (one.conversation.texts[0], len(one.conversation.turns), one.left_after) == ("bye then", 2, 1)
    assert one.costs == {0: ReplyCost(5, 2, 0.25)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hi there", "hi there"),
        ('"hi there"', "hi there"),
        ("“hi there”", "hi there"),
        ("User: hi there", "hi there"),
        ("**Me:** hi there", "hi there"),
        ("hi\nthere", "hi there"),
        ("hi there\nChatbot: Hello!\nMe: ok", "hi there"),
        ('He said "no" and "yes"', 'He said "no" and "yes"'),
        ("I told you: no", "I told you: no"),
        ('"', '"'),
    ],
)
def test_labels_and_quotation_marks_are_taken_off(text: str, message: str) -> None:
    assert clean_message(text) == (message, False)


def test_a_blank_message_is_a_failure(model: ChatModel) -> None:
    model.says = 'Me: ""'
    (move,) = participant_load("prompted:chat-model").moves([ParticipantTurn(Conversation("1"), "eliza")])
    assert (move.text, move.error) == (None, "wrote nothing")


def test_a_person_opens_where_one_was_drawn(model: ChatModel) -> None:
    chat = HumanChat("other", Conversation("d", (Turn("human", "good morning"),)))
    (move,) = participant_load("prompted:chat-model").moves(
        [ParticipantTurn(Conversation("1"), "eliza", sampled_chat=chat)]
    )
    assert (move.text, move.source) == ("good morning", "d")
    assert model.seen == []


def test_a_bot_on_both_sides_is_loaded_again(model: ChatModel) -> None:
    participant = participant_load("prompted:chat-model")
    model.unload()
    assert participant.moves([ParticipantTurn(Conversation("1"), "chat-model")])[0].error is None


def test_a_bot_without_a_prompt_is_refused() -> None:
    with pytest.raises(BotError, match="eliza does not use prompts"):
        participant_load("prompted:eliza")
    with pytest.raises(BotError, match="eliza is not a checkpoint"):
        participant_load("trained:eliza")


def test_a_checkpoint_answers_and_opens_with_the_everyday_corpus() -> None:
    participant = participant_load("trained:hred-demo")
    first, second = participant.moves(
        [
            ParticipantTurn(Conversation("1", seed=5), "eliza"),
            ParticipantTurn(Conversation.from_texts(["hi", "Do you like films?"], seed=5), "eliza"),
        ]
    )
    assert first.text in {message[0] for message in everyday_messages()}
    assert second.text
    assert second.error is None
    seen = participant.reversed(ParticipantTurn(Conversation.from_texts(["hi", "Do you?"]), "eliza"))
    assert [turn.speaker for turn in seen.turns] == ["bot", "human"]


def test_the_identity_is_that_of_bot_and_prompt(model: ChatModel) -> None:
    identity = PromptedParticipant("chat-model").identity
    assert identity.params["bot"] == model.identity.as_dict()
    assert PromptedParticipant().identity.key != identity.key


def test_a_transformers_model_writes_both_sides(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "llama", chat_template=CHATML)
    bot = TransformersBot(name="tiny", model=str(folder), max_new_tokens=8, window=0)
    bots.add(bot)
    try:
        bot.load("cpu")
        participant = participant_load("prompted:tiny")
        (whole,) = simulate_chats(bot, participant, seeds=[1], n_exchanges=2)
        ids = bot._loaded.prompts.encode(participant.reversed(ParticipantTurn(whole.conversation, "tiny", n_planned=2)))
    finally:
        bot.unload()
        bots.discard("tiny")
    assert whole.error is None, whole.error
    assert [turn.speaker for turn in whole.conversation.turns] == ["human", "bot"] * 2
    assert len(ids) > 4


LEAVING_MESSAGES = [
    "Thanks! *leaves*",
    "Bye! [leaves]",
    "[leave]",
    "(leaves)",
    "*leaves the chat*",
    "**leaves**",
    "_leaves_",
    "<leaves>",
    "{leaves}",
    "Ok bye *leaves chat*",
    "*logs off*",
    "*logs out*",
    "*walks away*",
    "*exits*",
    "[exit]",
    "[END]",
    "[end of conversation]",
    "*ends the chat*",
    "*ends chat*",
    "[Ends the conversation]",
    "*has left the chat*",
    "[User has left the chat]",
    "[The chat ended]",
    "*disconnects*",
    "*hangs up*",
    "*signs off*",
    "Bye.\n/quit",
    "/leave",
    "Bye\nleaves",
    "*quietly leaves*",
    "*I leave*",
    "*closes the window*",
    "*goes offline*",
    "[conversation ended]",
    "*leaves.*",
    "* leaves *",
    "[Leaving]",
    "*leaving now*",
    "(exits chat)",
    "Leaves the chat.",
    "*waves and leaves*",
    "*waves goodbye and logs off*",
    "*closes laptop*",
    "[chat ended]",
    "[LEAVES CHAT]",
    "*Leaves the conversation.*",
    "***leaves***",
    "*smiles and leaves the chat*",
    "*left*",
    "*quits*",
    "[I leave the chat]",
    "—leaves—",
    "~leaves~",
    "<leave>",
    "<end>",
    "[END CHAT]",
    "[disconnect]",
    "*closes chat*",
    "*gets up and leaves*",
    "*leaves the room*",
]
STAYING_MESSAGES = [
    "*leaves a comment*",
    "I love autumn leaves",
    "The *leaves* are red? no",
    "*turns left*",
    "*ends up laughing*",
    "She left the chat on read yesterday.",
    "*left hand*",
    "I'll leave it there.",
    "*stops to think*",
    "*laughs*",
    "(left to right)",
    "*goes quiet*",
    "I want to quit smoking",
    "(end of story)",
    "*closes eyes*",
    "[left blank]",
    "*stops laughing*",
    "leave me alone",
    "I should exit the highway",
    "(quit my job)",
]


@pytest.mark.parametrize("text", LEAVING_MESSAGES)
def test_a_person_leaves_in_its_own_words(text: str) -> None:
    message, leaves = clean_message(text)
    assert leaves
    assert "leav" not in message.lower()


@pytest.mark.parametrize("text", STAYING_MESSAGES)
def test_words_of_leaving_within_a_message_do_not_end_the_chat(text: str) -> None:
    assert not clean_message(text)[1]


def test_the_field_case_of_leaving_ends_after_two_messages(model: ChatModel, monkeypatch: pytest.MonkeyPatch) -> None:
    case = json.loads((Path(__file__).parents[2] / "cases/simulate_star_leaves.json").read_text())
    says = iter(case["messages"])
    monkeypatch.setattr(type(model), "says", property(lambda _self: next(says)), raising=False)
    (chat,) = simulate_chats(FakeWholeBot(), participant_load("prompted:chat-model"), seeds=[1], may_leave=True)
    texts = [turn.text for turn in chat.conversation.turns if turn.speaker == "human"]
    assert texts == ["Hello, a question.", "Thanks!"]
    assert chat.left_after == 2
