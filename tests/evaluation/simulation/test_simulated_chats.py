"""Simulated chats: sides, seeds, lengths, leaving, votes, failures; and stored chats with other messages."""

from collections.abc import Sequence

import pytest

import confab
from chatbots import Conversation
from chatbots.conversation import Turn
from chatbots.endpoints.metering import ReplyCost
from chatbots.participants.base import Move, ParticipantProfile, ParticipantTurn, SimulatedParticipant, participant_load
from chatbots.participants.human_chats import HumanChat, HumanChats
from chatbots.registry import bot_load
from evaluation.data.study import Study, StudyDialogue
from evaluation.simulation.selfplay import SelfPlayCondition
from evaluation.simulation.simulated_chats import human_chats, seed_of_simulation, simulate_chats, simulate_within
from tests.fakes import FakeWholeBot


class Counting(SimulatedParticipant):
    """Writes the number of its message; leaves, fails or votes where it is told to."""

    name = "counting"
    votes = True
    capacity = 3

    def __init__(self, leaves_at: int = 99, fails_at: int = 99, is_last_at: int = 99, vote: int | None = None) -> None:
        super().__init__()
        self.at = (leaves_at, fails_at, is_last_at)
        self.vote = vote
        self.seen: list[ParticipantTurn] = []
        self.batches: list[int] = []

    def moves(self, turns: Sequence[ParticipantTurn]) -> list[Move]:
        self.seen.extend(turns)
        self.batches.append(len(turns))
        return [self._move(turn) for turn in turns]

    def _move(self, turn: ParticipantTurn) -> Move:
        leaves_at, fails_at, is_last_at = self.at
        if turn.number == fails_at:
            return Move(error="lost for words")
        if turn.number == leaves_at:
            return Move(vote=self.vote)
        return Move(
            f"message {turn.number}", vote=self.vote, is_last=turn.number == is_last_at, source="s", cost=ReplyCost(3)
        )


def chat(bot: str, person: str, *said: str, id: str = "", votes: Sequence[int] = ()) -> HumanChat:
    turns = []
    for number, text in enumerate(said):
        vote = votes[number] if number < len(votes) else 0
        turns += [Turn("human", text), Turn("bot", f"reply of {bot} {number}", vote=vote)]
    return HumanChat(bot, Conversation(id or f"{bot}-{person}", tuple(turns)), person)


def test_participant_and_bot_take_turns_and_both_see_all():
    bot, participant = FakeWholeBot(), Counting()
    (one,) = simulate_chats(bot, participant, seeds=[7], n_exchanges=3)
    assert [turn.speaker for turn in one.conversation.turns] == ["human", "bot"] * 3
    assert one.conversation.texts[::2] == ("message 0", "message 1", "message 2")
    assert one.conversation.seed == 7
    assert (one.error, one.left_after) == (None, None)
    assert one.sources == {0: "s", 2: "s", 4: "s"}
    assert one.costs == {place: ReplyCost(3) for place in (0, 2, 4, 6)}
    assert [len(turn.conversation.turns) for turn in participant.seen] == [0, 2, 4, 6]  # the last one is for a vote
    assert {turn.n_planned for turn in participant.seen} == {3}


def test_chats_advance_together_in_batches_of_the_capacity():
    participant = Counting()
    simulate_chats(FakeWholeBot(), participant, seeds=range(5), n_exchanges=1)
    assert participant.batches == [3, 2, 3, 2]


def test_a_participant_who_leaves_ends_its_chat():
    (one,) = simulate_chats(FakeWholeBot(), Counting(leaves_at=2), seeds=[1], n_exchanges=5)
    assert (len(one.conversation.turns), one.left_after, one.error) == (4, 2, None)
    (one,) = simulate_chats(FakeWholeBot(), Counting(leaves_at=0), seeds=[1], n_exchanges=5)
    assert (one.conversation.turns, one.left_after) == ((), 0)


@pytest.mark.parametrize("votes", [True, False])
def test_a_last_message_still_gets_its_reply(votes):
    participant = Counting(is_last_at=1)
    participant.votes = votes
    (one,) = simulate_chats(FakeWholeBot(), participant, seeds=[1], n_exchanges=5)
    assert ([turn.speaker for turn in one.conversation.turns], one.left_after) == (["human", "bot"] * 2, 2)


def test_votes_stand_on_the_replies_before_the_move():
    (one,) = simulate_chats(FakeWholeBot(), Counting(vote=-1), seeds=[1], n_exchanges=2)
    assert [turn.vote for turn in one.conversation.turns] == [0, -1, 0, -1]


def test_a_participants_failure_ends_its_chat_with_the_reason():
    (one,) = simulate_chats(FakeWholeBot(), Counting(fails_at=1), seeds=[1], n_exchanges=3)
    assert one.error == "participant: lost for words"
    assert len(one.conversation.turns) == 2


def test_a_bots_failure_ends_its_chat_alone():
    bot = FakeWholeBot()
    reply = bot.answer

    def answer(contexts: Sequence[Conversation]) -> list[str]:
        if any(context.seed == 2 and len(context.turns) == 3 for context in contexts):
            raise RuntimeError("out of order")
        return reply(contexts)

    bot.answer = answer
    first, second, third = simulate_chats(bot, Counting(), seeds=[1, 2, 3], n_exchanges=3)
    assert (first.error, third.error) == (None, None)
    assert "out of order" in second.error
    assert second.conversation.texts[0::2] == ("message 0", "message 1")


def test_an_opening_of_the_condition_is_the_bots():
    condition = SelfPlayCondition({"tone": "warm"}, "Be warm.", "Welcome!")
    (one,) = simulate_chats(FakeWholeBot(), Counting(), seeds=[1], n_exchanges=1, conditions=[condition])
    assert (one.conversation.turns[0], one.conversation.is_opened) == (Turn("bot", "Welcome!"), True)
    assert one.conversation.bot_prompt == "Be warm."
    assert len(one.conversation.turns) == 3


def test_length_and_opening_come_from_a_person_with_another_bot():
    people = HumanChats(
        (chat("a", "p1", "one", "two"), chat("b", "p2", *"wxyz"), chat("whole", "p3", "never to be repeated here"))
    )
    participant = Counting()
    bot = FakeWholeBot(name="whole")
    seeds = list(range(40))
    simulated = simulate_chats(bot, participant, seeds=seeds, people=people)
    assert {one.conversation.n_exchanges for one in simulated} == {2, 4}
    assert {turn.sampled_chat.bot for turn in participant.seen} == {"a", "b"}


def test_leaving_at_will_has_a_limit():
    participant = Counting()
    (one,) = simulate_chats(FakeWholeBot(), participant, seeds=[1], may_leave=True)
    assert (one.conversation.n_exchanges, one.left_after) == (50, None)
    assert participant.seen[0].n_planned is None


def test_each_chat_draws_its_profile_by_its_seed():
    profiles = [ParticipantProfile(mood=mood) for mood in ("glad", "sad")]
    participant = Counting()
    simulate_chats(FakeWholeBot(), participant, seeds=range(20), n_exchanges=1, profiles=profiles)
    by_seed = {turn.conversation.seed: turn.profile for turn in participant.seen}
    assert set(by_seed.values()) == set(profiles)
    simulate_chats(FakeWholeBot(), participant, seeds=[5], n_exchanges=1, profiles=profiles)
    assert participant.seen[-1].profile == by_seed[5]


@pytest.mark.parametrize("bad", [{"n_exchanges": 0}, {"window": 0}, {"seeds": [1, 1]}])
def test_a_wrong_run_is_refused(bad):
    with pytest.raises(ValueError, match=r"0|twice"):
        simulate_chats(FakeWholeBot(), Counting(), **{"seeds": [1, 2], **bad})


def stored_people() -> HumanChats:
    return HumanChats(
        tuple(
            chat(bot, person, *(f"{person} tells {bot} story {n}" for n in range(3)), votes=(1, 0, -1))
            for bot in ("eliza", "parrot", "generic")
            for person in ("ann", "ben")
        )
    )


def test_any_batch_gives_the_same_chats():
    people = stored_people()
    participant, bot = participant_load("replayed", people=people), bot_load("eliza")
    seeds = [seed_of_simulation(1, "replayed", "eliza", n) for n in range(9)]
    whole = simulate_chats(bot, participant, seeds=seeds, people=people)
    assert len({one.conversation.texts for one in whole}) > 1
    assert whole == [one for s in seeds for one in simulate_chats(bot, participant, seeds=[s], people=people)]


def test_a_replayed_person_is_another_ones_with_another_bot():
    people = stored_people()
    participant = participant_load("replayed", people=people)
    for one in simulate_chats(bot_load("eliza"), participant, seeds=range(12), people=people):
        turns = [turn for turn in one.conversation.turns if turn.speaker == "human"]
        assert [turn.text[-1] for turn in turns] == ["0", "1", "2"]
        assert not any("eliza" in turn.text for turn in turns)
        assert [turn.vote for turn in one.conversation.turns] == [0, 1, 0, 0, 0, -1]
    for stored, one in zip(people, simulate_within(people, participant), strict=True):
        assert one.conversation.texts[1::2] == stored.conversation.texts[1::2]
        assert not any(stored.bot in text or stored.person in text for text in one.conversation.texts[::2])
        assert one.left_after is None


def test_replaying_never_repeats_the_chat_itself():
    same = ["I have a story about my cat", "ok"]
    people = HumanChats(
        (chat("a", "", *same), chat("b", "", *same), chat("c", "", "ok", "something else entirely, you"))
    )
    participant = participant_load("replayed", people=people)
    first, second, _third = simulate_within(people, participant)
    assert first.conversation.texts[::2] == second.conversation.texts[::2] == ("ok", "something else entirely, you")


def test_within_a_chat_the_stored_turns_come_before_each_move():
    stored = chat("a", "p", "first", "second", "third")
    participant = Counting()
    (one,) = simulate_within([stored], participant)
    assert [turn.conversation.texts for turn in participant.seen] == [
        stored.conversation.texts[:place] for place in (0, 2, 4)
    ]
    assert {(turn.bot, turn.person, turn.n_planned) for turn in participant.seen} == {("a", "p", 3)}
    assert one.conversation.texts[::2] == ("message 0", "message 1", "message 2")
    assert one.conversation.id == stored.conversation.id
    assert [turn.written for turn in participant.seen] == [(), ("message 0",), ("message 0", "message 1")]
    leaving = Counting(leaves_at=1)
    (left,) = simulate_within([stored], leaving, may_leave=True)
    assert (len(left.conversation.turns), left.left_after, len(leaving.seen)) == (2, 1, 2)
    (failed,) = simulate_within([stored], Counting(fails_at=1))
    assert failed.error == "participant: lost for words"


def test_a_notebook_simulates_with_the_people_of_a_study():
    people = stored_people()
    study = Study("s", tuple(StudyDialogue(person.conversation, person.bot) for person in people))
    assert len(human_chats(study)) == 6
    simulated = confab.simulate(["eliza", "parrot"], "replayed", people=study, conversations=2, seed=3)
    assert simulated.bots == ("eliza", "parrot")
    assert set(simulated.conversations["source"]) == {"simulated"}
    assert set(simulated.conversations["n_exchanges"]) == {3}
    assert not simulated.is_selfplay
    assert len(human_chats(simulated)) == 0
    again = confab.simulate("parrot", "replayed", people=study, conversations=2, seed=3)
    assert again.dialogues == simulated.where(bots=["parrot"]).dialogues
