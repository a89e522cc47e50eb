"""Chats of simulated participants with bots, and within stored chats of people.

`simulate_chats` lets a participant and a bot talk. `simulate_within` is for bots that cannot be talked to again: each
message of a person in a stored chat is replaced by what the participant would write there.

Chats advance together, each depends on its own seed alone, and a failure ends one chat alone. So a run can be cut into
any batches and resumed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.conversation import Turn
from chatbots.identity import derive_seed
from chatbots.participants.base import Move, ParticipantProfile, ParticipantTurn, SimulatedParticipant
from chatbots.participants.human_chats import HumanChat, HumanChats
from evaluation.running_chats import RunningChats, validate_run
from evaluation.selfplay import Progress, SelfPlayCondition, SelfPlayed

if TYPE_CHECKING:
    from evaluation.study import Study

SOURCE = "simulated"
DEFAULT_EXCHANGES = 10
"""Exchanges of a chat without a number and without people to draw it from."""
MOST_EXCHANGES = 50
"""Exchanges after which a chat ends whose participant leaves when it wants to."""


@dataclass(frozen=True, slots=True)
class SimulatedChat(SelfPlayed):
    """One chat of a simulated participant with a bot.

    Attributes:
        left_after: number of exchanges after which the participant left by itself; None: the chat was to end there,
            or failed.
        sources: by number of the turn, the id of the stored chat that its text is taken from.
    """

    left_after: int | None = None
    sources: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Plan:
    """Course of one chat.

    Attributes:
        n_most: exchanges after which it ends.
        is_leaving: the participant has said that its last message was the last.
    """

    profile: ParticipantProfile
    drawn: HumanChat | None
    n_most: int
    left_after: int | None = None
    is_leaving: bool = False
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
        bot: loaded.
        participant: loaded.
        seeds: one chat each; all different.
        n_exchanges: of each chat; None: as many as the person's chat that is drawn for it has messages.
        people: whose chats with other bots give openings and lengths.
        may_leave: the participant leaves when it wants to, after `n_exchanges` or 50 at the latest.
        profiles: characters, of which each chat's seed draws one.
        conditions: one for each seed, or none. An opening line is the bot's first message, as in live chats.
        window: the bot sees this many last turns, or all (None), as in live chats.
        timeout_s: the longest wait for a reply.
        progress: called with (exchanges made, exchanges planned) after every step; when it raises, the chats stop.

    Returns:
        One per seed, in order.

    Raises:
        ValueError: for a number of exchanges or a window below 1, or a seed given twice.
    """
    if n_exchanges is not None and n_exchanges < 1:
        raise ValueError(f"n_exchanges is {n_exchanges}; a chat has at least 1 exchange")
    validate_run(seeds, window)
    under = conditions or [SelfPlayCondition()] * len(seeds)
    title = f"{participant.name}>{bot.name}"
    chats = RunningChats([_opened(title, seed, one) for seed, one in zip(seeds, under, strict=True)])
    plans = [_plan(seed, bot.name, n_exchanges, people, may_leave, profiles) for seed in seeds]
    n_planned = sum(plan.n_most for plan in plans)
    n_made = 0
    going = list(range(len(seeds)))
    while going:
        turns = [
            ParticipantTurn(
                chats.conversations[i],
                bot.name,
                plans[i].profile,
                None if may_leave else plans[i].n_most,
                plans[i].drawn,
            )
            for i in going
        ]
        for i, move in zip(going, _moves(participant, turns), strict=True):
            _apply(chats, i, plans[i], move)
        going = [i for i in going if _awaits_reply(chats, i)]
        n_made += chats.add_replies(bot, going, [chats.conversations[i].last(window) for i in going], "bot", timeout_s)
        going = [
            i for i in going if chats.errors[i] is None and _goes_on(participant, chats.conversations[i], plans[i])
        ]
        if progress is not None:
            progress(n_made, n_planned)
    return [
        SimulatedChat(conversation, error, costs, plan.left_after, plan.sources)
        for conversation, error, costs, plan in zip(chats.conversations, chats.errors, chats.costs, plans, strict=True)
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
    """Replace each message of people in stored chats by the participant's, given the stored turns before it.

    Participants learn from other people's chats with other bots alone.

    Args:
        chats: stored; their neighbouring turns of one speaker count as one.
        participant: loaded.
        people: whose chats give openings and lengths; None: `chats`.
        seed: of the run.
        may_leave: end a chat where the participant leaves; else it writes as many messages as the person did.
        profiles: characters, of which each chat's seed draws one.

    Returns:
        One per chat, in order: the bot's stored turns and the participant's messages. A failure ends its chat alone.
    """
    stored = list(chats)
    source = people or HumanChats(tuple(stored))
    turns: list[ParticipantTurn] = []
    places: list[tuple[int, int]] = []
    for number, chat in enumerate(stored):
        own_seed = derive_seed(seed, "within", participant.name, chat.bot, chat.conversation.id)
        drawn = source.draw(own_seed, chat.bot, chat.person, least=len(chat.said), unlike=chat)
        for place, turn in enumerate(chat.turns):
            if turn.speaker == "human":
                before = replace(chat.conversation, turns=chat.turns[:place], seed=own_seed)
                n_planned = None if may_leave else len(chat.said)
                profile = _drawn_profile(own_seed, profiles)
                turns.append(ParticipantTurn(before, chat.bot, profile, n_planned, drawn, chat.person))
                places.append((number, place))
    moves = dict(zip(places, _moves(participant, turns), strict=True))
    return [
        _within(chat, {p: moves[n, p] for p in range(len(chat.turns)) if (n, p) in moves})
        for n, chat in enumerate(stored)
    ]


def seed_of_simulation(seed: int, participant: str, bot: str, ordinal: int) -> int:
    """Derive the seed of one chat of a run, for the web and notebooks alike.

    Args:
        seed: of the run.
        participant: name of the participant.
        bot: name of the bot.
        ordinal: number of the chat among those of the same participant and bot, from 0.
    """
    return derive_seed(seed, "simulation", participant, bot, ordinal)


def human_chats(study: Study) -> HumanChats:
    """Collect the chats of people of a study in a notebook. The person of a chat is its only rater."""
    chats = []
    for dialogue in study.dialogues:
        if study.is_selfplay or dialogue.source in ("selfplay", SOURCE):
            continue
        raters = {rating.rater for rating in dialogue.ratings if rating.rater}
        person = raters.pop() if len(raters) == 1 else ""
        chats.append(HumanChat(dialogue.bot, dialogue.conversation, person))
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
    """Let simulated participants chat with bots: the same seed gives the same chats as `confab simulate`.

    Args:
        bots: names of bots (`chatbots.registry.bot_list`).
        participant: name of a participant, such as `retrieval` or `prompted:smollm2`.
        conversations: with each bot.
        people: study whose chats participants learn from, with other bots than the one that they chat with.
        exchanges: of each chat; None: drawn from `people`, or 10 without them.
        may_leave: participants leave when they want to.
        profiles: characters to draw from (`profiles_read`).

    Returns:
        A study whose chats have the source "simulated".

    Raises:
        UnknownName: for an unknown bot or participant, with the nearest names.
        BotError: for one that cannot be loaded here.
    """
    from chatbots.participants.base import participant_load
    from chatbots.registry import bot_load
    from evaluation.formats.base import Skipped
    from evaluation.study import Study, StudyDialogue, text_store

    names = (bots,) if isinstance(bots, str) else tuple(bots)
    chats = people if people is None or isinstance(people, HumanChats) else human_chats(people)
    acting = participant_load(participant, device, chats, text_store())
    dialogues: list[StudyDialogue] = []
    failed: list[Skipped] = []
    try:
        for name in names:
            bot = bot_load(name, device)
            try:
                simulated = simulate_chats(
                    bot,
                    acting,
                    seeds=[seed_of_simulation(seed, participant, name, number) for number in range(conversations)],
                    n_exchanges=exchanges,
                    people=chats,
                    may_leave=may_leave,
                    profiles=profiles,
                )
            finally:
                bot.unload()
            for number, one in enumerate(simulated):
                if one.error is None:
                    dialogues.append(StudyDialogue(one.conversation, name, SOURCE))
                else:
                    failed.append(Skipped(number, f"{name}: {one.error}"))
    finally:
        acting.unload()
    return Study(f"{participant} with {', '.join(names)}", tuple(dialogues), tuple(failed), device=device)


def _plan(
    seed: int,
    bot: str,
    n_exchanges: int | None,
    people: HumanChats | None,
    may_leave: bool,
    profiles: Sequence[ParticipantProfile],
) -> _Plan:
    drawn = people.draw(seed, bot, least=n_exchanges or 1) if people else None
    n_most = n_exchanges
    if n_most is None and may_leave:
        n_most = MOST_EXCHANGES
    elif n_most is None:
        n_most = len(drawn.said) if drawn else DEFAULT_EXCHANGES
    return _Plan(_drawn_profile(seed, profiles), drawn, n_most)


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


def _apply(chats: RunningChats, number: int, plan: _Plan, move: Move) -> None:
    """Add a participant's move to its chat: the vote on the last reply, and the message."""
    conversation = chats.conversations[number]
    if move.cost is not None:
        chats.costs[number][len(conversation.turns)] = move.cost
    if move.error is not None:
        chats.errors[number] = f"participant: {move.error}"
        return
    if move.vote and conversation.turns and conversation.turns[-1].speaker == "bot":
        voted = replace(conversation.turns[-1], vote=move.vote)
        conversation = replace(conversation, turns=(*conversation.turns[:-1], voted))
    n_exchanges = conversation.n_exchanges
    if n_exchanges >= plan.n_most or plan.is_leaving:
        plan.left_after = n_exchanges if plan.is_leaving else None
    elif move.text is None:
        plan.left_after = n_exchanges
    else:
        if move.source:
            plan.sources[len(conversation.turns)] = move.source
        plan.is_leaving = move.is_last
        conversation = conversation.with_turn("human", move.text)
    chats.conversations[number] = conversation


def _awaits_reply(chats: RunningChats, number: int) -> bool:
    turns = chats.conversations[number].turns
    return chats.errors[number] is None and bool(turns) and turns[-1].speaker == "human"


def _goes_on(participant: SimulatedParticipant, conversation: Conversation, plan: _Plan) -> bool:
    """Return True if the participant acts again: writes, or only votes on the last reply."""
    if plan.is_leaving and not participant.votes:
        plan.left_after = conversation.n_exchanges
    return participant.votes or not (plan.is_leaving or conversation.n_exchanges >= plan.n_most)


def _within(chat: HumanChat, moves: dict[int, Move]) -> SimulatedChat:
    """Return a stored chat with the participant's moves in place of the person's, by number of the turn."""
    turns: list[Turn] = []
    costs = {place: move.cost for place, move in moves.items() if move.cost is not None}
    sources: dict[int, str] = {}
    error, left_after = None, None
    for place, stored in enumerate(chat.turns):
        if stored.speaker == "bot":
            turns.append(replace(stored, vote=0))
            continue
        move = moves[place]
        if move.vote and turns and turns[-1].speaker == "bot":
            turns[-1] = replace(turns[-1], vote=move.vote)
        if move.error is not None:
            error = f"participant: {move.error}"
            break
        if move.text is None:
            left_after = sum(turn.speaker == "human" for turn in turns)
            break
        if move.source:
            sources[place] = move.source
        turns.append(Turn("human", move.text))
    conversation = replace(chat.conversation, turns=tuple(turns))
    return SimulatedChat(conversation, error, costs, left_after, sources)
