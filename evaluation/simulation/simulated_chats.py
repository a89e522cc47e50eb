"""Chats of simulated participants with bots, and within stored human chats.

`simulate_chats` lets a participant and a bot chat. `simulate_within` is for bots that are no longer available: each
human message in a stored chat is replaced by what the participant would write there.

Chats advance together, each depends only on its own seed, and a failure ends only its own chat. A run can therefore be
split into any batches and resumed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.conversation import Turn
from chatbots.identity import derive_seed
from chatbots.participants.base import Move, ParticipantProfile, ParticipantTurn, SimulatedParticipant, participant_load
from chatbots.participants.human_chats import HumanChat, HumanChats
from evaluation.simulation.selfplay import (
    Progress,
    RunningChats,
    SelfPlayCondition,
    SelfPlayed,
    study_of_runs,
    validate_run,
)

if TYPE_CHECKING:
    from evaluation.data.study import Study

SOURCE = "simulated"
DEFAULT_EXCHANGES = 10
"""Default number of exchanges without human chats to draw it from."""
MOST_EXCHANGES = 50
"""Maximum number of exchanges if the participant decides when to leave."""


@dataclass(frozen=True, slots=True)
class SimulatedChat(SelfPlayed):
    """One chat of a simulated participant with a bot.

    Attributes:
        left_after: number of exchanges after which the participant left on its own; None if the chat ended as planned,
            or failed.
        sources: by turn number, the id of the stored chat that its text is taken from.
    """

    left_after: int | None = None
    sources: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Course:
    """State of one chat.

    It has the first turn, the planned exchanges, and the values for `SimulatedChat`.
    """

    first: ParticipantTurn
    n_most: int
    left_after: int | None = None
    sources: dict[int, str] = field(default_factory=dict)


def simulate_chats(
    bot: Bot,
    participant: SimulatedParticipant,
    *,
    seeds: Sequence[int],
    n_exchanges: int | None = None,
    people: HumanChats | None = None,
    may_leave: bool = False,
    profiles: Sequence[ParticipantProfile] = (),
    conditions: Sequence[SelfPlayCondition] = (),
    window: int | None = None,
    timeout_s: float | None = None,
    progress: Progress | None = None,
) -> list[SimulatedChat]:
    """Let a simulated participant chat with a bot, all chats together.

    Args:
        bot: loaded bot.
        participant: loaded participant.
        seeds: one distinct seed per chat.
        n_exchanges: exchanges of each chat; None for the number of messages in the human chat sampled for it.
        people: human chats with other bots that provide openings and lengths.
        may_leave: True if the participant decides when to leave, at the latest after `n_exchanges` or 50.
        profiles: characters to draw from by each chat's seed.
        conditions: one per seed, or none. An opening line is the bot's first message, as in live chats.
        window: number of last turns that the bot sees, or None for all, as in live chats.
        timeout_s: maximum wait for a reply.
        progress: called with (exchanges made, exchanges planned) after every step; an exception it raises stops the
            chats.

    Returns:
        One per seed, in order.

    Raises:
        ValueError: for a number of exchanges or a window below 1, or a duplicate seed.
    """
    if n_exchanges is not None and n_exchanges < 1:
        raise ValueError(f"n_exchanges is {n_exchanges}; it must be at least 1")
    validate_run(seeds, window)
    chat_conditions = conditions or [SelfPlayCondition()] * len(seeds)
    title = f"{participant.name}>{bot.name}"
    chats = RunningChats(
        [_opened(title, seed, condition) for seed, condition in zip(seeds, chat_conditions, strict=True)]
    )
    courses = []
    for chat in chats.conversations:
        sampled_chat = people.draw(chat.seed, bot.name, least=n_exchanges or 1) if people else None
        n_drawn = MOST_EXCHANGES if may_leave else len(sampled_chat.messages) if sampled_chat else DEFAULT_EXCHANGES
        n_most, profile = n_exchanges or n_drawn, _drawn_profile(chat.seed, profiles)
        first = ParticipantTurn(chat, bot.name, profile, None if may_leave else n_most, sampled_chat)
        courses.append(_Course(first, n_most))
    n_planned, n_made = sum(course.n_most for course in courses), 0
    going = list(range(len(seeds)))
    while going:
        turns = [replace(courses[i].first, conversation=chats.conversations[i]) for i in going]
        for i, move in zip(going, _moves(participant, turns), strict=True):
            _apply(chats, i, courses[i], move)
        going = [i for i in going if chats.errors[i] is None and _awaits_reply(chats.conversations[i])]
        n_made += chats.add_replies(bot, going, [chats.conversations[i].last(window) for i in going], "bot", timeout_s)
        # A participant that votes acts once more at the end, on the last reply.
        acts = [participant.votes or chats.conversations[i].n_exchanges < courses[i].n_most for i in going]
        going = [i for i, again in zip(going, acts, strict=True) if again and chats.errors[i] is None]
        if progress is not None:
            progress(n_made, n_planned)
    ends = zip(chats.conversations, chats.errors, chats.costs, courses, strict=True)
    return [
        SimulatedChat(chat, error, costs, None if error else course.left_after, course.sources)
        for chat, error, costs, course in ends
    ]


def simulate_within(
    chats: HumanChats | Sequence[HumanChat],
    participant: SimulatedParticipant,
    *,
    people: HumanChats | None = None,
    seed: int = 0,
    may_leave: bool = False,
    profiles: Sequence[ParticipantProfile] = (),
) -> list[SimulatedChat]:
    """Replace each human message in stored chats by the participant's.

    The participant sees the stored turns before it.

    Args:
        chats: stored chats; consecutive turns of one speaker count as one.
        people: human chats that provide openings and lengths; None for `chats`.
        may_leave: True to end a chat when the participant leaves; otherwise it writes as many messages as the person
            did.

    Returns:
        One per chat, in order: the bot's stored turns and the participant's messages. A failure ends only its own chat.
    """
    stored = list(chats)
    source = people or HumanChats(tuple(stored))
    turns: list[ParticipantTurn] = []
    for chat in stored:
        own_seed = derive_seed(seed, "within", participant.name, chat.bot, chat.conversation.id)
        sampled_chat = source.draw(own_seed, chat.bot, chat.person, least=len(chat.messages), unlike=chat)
        n_planned = None if may_leave else len(chat.messages)
        first = replace(chat.conversation, seed=own_seed)
        turns.append(
            ParticipantTurn(first, chat.bot, _drawn_profile(own_seed, profiles), n_planned, sampled_chat, chat.person)
        )
    moves: list[dict[int, Move]] = [{} for _ in stored]
    going = set(range(len(stored)))
    for place in range(max((len(chat.turns) for chat in stored), default=0)):
        going = {
            n for n in going if place < len(stored[n].turns) and all(m.text is not None for m in moves[n].values())
        }
        here = [n for n in sorted(going) if stored[n].turns[place].speaker == "human"]
        pending_turns = []
        for n in here:
            before = replace(turns[n].conversation, turns=stored[n].turns[:place])
            written = tuple(move.text for move in moves[n].values() if move.text)
            pending_turns.append(replace(turns[n], conversation=before, written=written))
        for n, move in zip(here, _moves(participant, pending_turns), strict=True):
            moves[n][place] = move
    return [_within(*chat) for chat in zip(stored, moves, strict=True)]


def seed_of_simulation(seed: int, participant: str, bot: str, ordinal: int) -> int:
    """Derive the seed of one chat of a run.

    Chats of the same participant and bot are numbered from 0.
    """
    return derive_seed(seed, "simulation", participant, bot, ordinal)


def human_chats(study: Study) -> HumanChats:
    """Collect a study's human chats; a chat's person is its only rater."""
    chats = []
    for dialogue in () if study.is_selfplay else study.dialogues:
        if dialogue.source not in ("selfplay", SOURCE):
            chats.append(HumanChat(dialogue.bot, dialogue.conversation, dialogue.get_person()))
    return HumanChats(tuple(chats))


def simulate(
    bots: str | Sequence[str],
    participant: str = "retrieval",
    *,
    conversations: int = 100,
    people: Study | HumanChats | None = None,
    exchanges: int | None = None,
    may_leave: bool = False,
    profiles: Sequence[ParticipantProfile] = (),
    seed: int = 0,
    device: str = "cpu",
) -> Study:
    """Let simulated participants chat with bots.

    Equal seeds give the same chats as `confab simulate`.

    Args:
        bots: names of bots.
        participant: name of the participant, such as `retrieval` or `prompted:smollm2`.
        conversations: number of chats per bot.
        people: study whose chats the participants learn from.
        exchanges, may_leave, profiles: as in `simulate_chats`.

    Raises:
        UnknownName: for an unknown bot or participant; the message suggests the nearest names.
        BotError: if one cannot be loaded here.
    """
    from evaluation.data.study import text_store

    names = (bots,) if isinstance(bots, str) else tuple(bots)
    chats = people if people is None or isinstance(people, HumanChats) else human_chats(people)
    acting = participant_load(participant, device, chats, text_store())

    def play_one(bot: Bot) -> list[SimulatedChat]:
        seeds = [seed_of_simulation(seed, participant, bot.name, number) for number in range(conversations)]
        return simulate_chats(
            bot, acting, seeds=seeds, n_exchanges=exchanges, people=chats, may_leave=may_leave, profiles=profiles
        )

    try:
        return study_of_runs(f"{participant} with {', '.join(names)}", names, SOURCE, device, play_one)
    finally:
        acting.unload()


def _drawn_profile(seed: int, profiles: Sequence[ParticipantProfile]) -> ParticipantProfile:
    return profiles[derive_seed(seed, "profile") % len(profiles)] if profiles else ParticipantProfile()


def _opened(title: str, seed: int, condition: SelfPlayCondition) -> Conversation:
    conversation = Conversation(id=f"{title}:{seed}", seed=seed, bot_prompt=condition.bot_prompt)
    if not condition.opening:
        return conversation
    return replace(conversation.with_turn("bot", condition.opening), is_opened=True)


def _moves(participant: SimulatedParticipant, turns: Sequence[ParticipantTurn]) -> Iterable[Move]:
    for start in range(0, len(turns), participant.capacity):
        yield from participant.moves(turns[start : start + participant.capacity])


def _awaits_reply(conversation: Conversation) -> bool:
    return bool(conversation.turns) and conversation.turns[-1].speaker == "human"


def _apply(chats: RunningChats, number: int, course: _Course, move: Move) -> None:
    """Add a participant's move to its chat: vote and message."""
    conversation = chats.conversations[number]
    n_exchanges = conversation.n_exchanges
    if move.cost is not None:
        chats.costs[number][len(conversation.turns)] = move.cost
    if move.error is not None:
        chats.errors[number] = f"participant: {move.error}"
        return
    turns = _voted(conversation.turns, move)
    if n_exchanges < course.n_most and move.text is None:
        course.left_after = n_exchanges
    elif n_exchanges < course.n_most and move.text is not None:
        if move.source:
            course.sources[len(turns)] = move.source
        if move.is_last:
            course.n_most = course.left_after = n_exchanges + 1
        turns = (*turns, Turn("human", move.text))
    chats.conversations[number] = replace(conversation, turns=turns)


def _voted(turns: tuple[Turn, ...], move: Move) -> tuple[Turn, ...]:
    """Return the turns with the move's vote on a last bot turn."""
    if not move.vote or not turns or turns[-1].speaker != "bot":
        return turns
    return (*turns[:-1], replace(turns[-1], vote=move.vote))


def _within(chat: HumanChat, moves: Mapping[int, Move]) -> SimulatedChat:
    """Return a stored chat with human messages replaced by moves.

    Moves are keyed by turn number.
    """
    turns: tuple[Turn, ...] = ()
    costs = {place: move.cost for place, move in moves.items() if move.cost is not None}
    sources: dict[int, str] = {}
    error, left_after = None, None
    for place, stored in enumerate(chat.turns):
        if stored.speaker == "bot":
            turns = (*turns, replace(stored, vote=0))
            continue
        move = moves[place]
        turns = _voted(turns, move)
        if move.text is None:
            error = f"participant: {move.error}" if move.error is not None else None
            left_after = None if error else sum(turn.speaker == "human" for turn in turns)
            break
        if move.source:
            sources[place] = move.source
        turns = (*turns, Turn("human", move.text))
    return SimulatedChat(replace(chat.conversation, turns=turns), error, costs, left_after, sources)
