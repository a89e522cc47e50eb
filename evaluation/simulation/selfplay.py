"""Self-play: conversations of a bot with itself or a partner, in batches.

Ghandeharioun et al. (2019), fact sheet section 2: 100 conversations of 10 utterances, each fed back as the next input,
with the history truncated to the last five. Three recommendations of that section are followed: all conversations
advance together, all draws come from each conversation's own seed, and stored texts are the bot's, without an added
full stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chatbots import Conversation
from chatbots.bots.base import Bot
from chatbots.conversation import Speaker, Turn
from chatbots.endpoints.metering import PaidBot, ReplyCost
from chatbots.identity import derive_seed

if TYPE_CHECKING:
    from evaluation.data.study import Study

WINDOW = 5

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SelfPlayCondition:
    """Condition of a study for a self-play conversation.

    Attributes:
        levels: level of each factor.
        bot_prompt: prompt given to both sides.
        opening: the first message; empty for the behaviour without a condition.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    bot_prompt: str = ""
    opening: str = ""


@dataclass(frozen=True, slots=True)
class SelfPlayed:
    """One conversation of a bot with itself or with a partner.

    Attributes:
        conversation: all turns; turn 0 is called "human", then the sides alternate.
        error: reason for an early end, or None.
        costs: cost by turn number, for bots that cost money.
    """

    conversation: Conversation
    error: str | None = None
    costs: Mapping[int, ReplyCost] = field(default_factory=dict)


class RunningChats:
    """Conversations that advance together, with turn costs and errors."""

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self.conversations = list(conversations)
        self.costs: list[dict[int, ReplyCost]] = [{} for _ in conversations]
        self.errors: list[str | None] = [None] * len(conversations)

    @property
    def unbroken(self) -> list[int]:
        """Numbers of the conversations without an error."""
        return [i for i, error in enumerate(self.errors) if error is None]

    def add_replies(
        self,
        bot: Bot,
        numbers: Sequence[int],
        contexts: Sequence[Conversation],
        speaker: Speaker,
        timeout_s: float | None,
    ) -> int:
        """Append a bot's replies to the numbered conversations.

        A failure ends only its own conversation.

        Args:
            contexts: turns of each conversation that the bot sees.

        Returns:
            Number of replies.
        """
        from chatbots.serving import reply

        n_made = 0
        for i, context, answer in zip(numbers, contexts, reply(bot, contexts, timeout_s=timeout_s), strict=True):
            conversation = self.conversations[i]
            if isinstance(bot, PaidBot) and (cost := bot.cost_take(context)) is not None:
                self.costs[i][len(conversation.turns)] = cost
            if answer.text is None:
                self.errors[i] = answer.error or "the bot gave neither a reply nor an error"
                continue
            self.conversations[i] = conversation.with_turn(speaker, answer.text, trace=answer.trace)
            n_made += 1
        return n_made


def play(
    bot: Bot,
    *,
    partner: Bot | None = None,
    seeds: Sequence[int],
    n_turns: int,
    openers: Sequence[str] = (),
    conditions: Sequence[SelfPlayCondition] = (),
    window: int | None = WINDOW,
    timeout_s: float | None = None,
    progress: Progress | None = None,
) -> list[SelfPlayed]:
    """Let a bot converse with itself or a partner, conversations in parallel.

    Conversation i depends only on `seeds[i]` (for bots that declare to be deterministic), not on the rest of the batch,
    so a run can be split into any batches and resumed anywhere.

    Args:
        bot: loaded bot. With a partner it takes the bot's side: turns 1, 3, 5 and so on.
        partner: loaded bot that takes the side called "human" and speaks turn 0. None: the bot takes both sides.
        seeds: one distinct seed per conversation.
        n_turns: turns of a finished conversation, including an opener.
        openers: first utterances. Without any, the bot speaks first, to an empty context, and produces all `n_turns`
            utterances (as in the released code). Otherwise turn 0 is one of them, chosen by the seed, and the bot
            produces the other `n_turns` − 1.
        conditions: one per seed, or none. An opening line replaces an opener.
        window: number of last turns that the bot sees; None for all.
        timeout_s: maximum wait for a reply, as counted by `chatbots.serving.reply`; None for no limit.
        progress: called with (turns made, turns planned) after every step; an exception it raises stops the run.

    Returns:
        One per seed, in order. A failed reply ends only its own conversation, with its error.

    Raises:
        ValueError: for a number of turns or a window below 1, or a duplicate seed.
    """
    if n_turns < 1:
        raise ValueError(f"n_turns is {n_turns}; it must be at least 1")
    validate_run(seeds, window)
    title = bot.name if partner is None else f"{partner.name}>{bot.name}"
    under = conditions or [SelfPlayCondition()] * len(seeds)
    chats = RunningChats(
        [_opened(title, seed, openers, condition) for seed, condition in zip(seeds, under, strict=True)]
    )
    n_planned = n_turns * len(seeds)
    n_made = sum(len(conversation.turns) for conversation in chats.conversations)
    for turn in range(n_turns):
        unbroken = chats.unbroken
        if not unbroken:
            break
        going = [i for i in unbroken if len(chats.conversations[i].turns) == turn]
        if not going:  # all conversations have their opener
            continue
        speaks = partner if partner is not None and turn % 2 == 0 else bot
        contexts = [as_heard(chats.conversations[i]).last(window) for i in going]
        n_made += chats.add_replies(speaks, going, contexts, "human" if turn % 2 == 0 else "bot", timeout_s)
        if progress is not None:
            progress(n_made, n_planned)
    return [SelfPlayed(*chat) for chat in zip(chats.conversations, chats.errors, chats.costs, strict=True)]


def validate_run(seeds: Sequence[int], window: int | None) -> None:
    """Raise ValueError for a window below 1 or a duplicate seed."""
    if window is not None and window < 1:
        raise ValueError(f"window is {window}; it must be at least 1, or None for all turns")
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise ValueError(f"seed {twice} is given twice, so two conversations would be equal")


def seed_of_conversation(seed: int, names: Sequence[str], ordinal: int) -> int:
    """Return the seed of one conversation of a run.

    The web and notebooks use the same seeds.

    Args:
        seed: seed of the run.
        names: the bot's name, preceded by the partner's if there is one.
        ordinal: position of the conversation among those of the same bots, from 0.
    """
    return derive_seed(seed, "selfplay", *names, ordinal)


def _opened(title: str, seed: int, openers: Sequence[str], condition: SelfPlayCondition) -> Conversation:
    conversation = Conversation(id=f"{title}:{seed}", seed=seed, bot_prompt=condition.bot_prompt)
    if condition.opening:
        return conversation.with_turn("human", condition.opening)
    if not openers:
        return conversation
    return conversation.with_turn("human", openers[derive_seed(seed, "opener") % len(openers)])


def as_heard(conversation: Conversation) -> Conversation:
    """Return the conversation as seen by the next speaker.

    The last turn is then the human's.
    """
    if not conversation.turns or conversation.turns[-1].speaker == "human":
        return conversation
    flipped = tuple(Turn("bot" if turn.speaker == "human" else "human", turn.text) for turn in conversation.turns)
    return replace(conversation, turns=flipped)


def selfplay(
    bots: str | Sequence[str],
    *,
    conversations: int = 100,
    turns: int = 10,
    seed: int = 0,
    openers: Sequence[str] = (),
    device: str = "cpu",
) -> Study:
    """Let bots converse with themselves.

    Equal seeds give the same conversations as `confab selfplay`.

    Args:
        bots: names of bots (`chatbots.registry.bot_list`).
        conversations: number of conversations per bot.
        turns: number of turns per conversation.
        openers: first utterances to choose from; without any, the bot speaks first.

    Raises:
        UnknownName: for an unknown bot; the message suggests the nearest names.
        BotError: if a bot cannot be loaded here.
    """
    names = (bots,) if isinstance(bots, str) else tuple(bots)

    def play_one(bot: Bot) -> list[SelfPlayed]:
        seeds = [seed_of_conversation(seed, (bot.name,), number) for number in range(conversations)]
        return play(bot, seeds=seeds, n_turns=turns, openers=openers)

    study = study_of_runs(f"self-play of {', '.join(names)}", names, "selfplay", device, play_one)
    return replace(study, is_selfplay=True)


def study_of_runs(
    title: str, names: Sequence[str], source: str, device: str, play_one: Callable[[Bot], Sequence[SelfPlayed]]
) -> Study:
    """Return a study of each loaded bot's conversations.

    Failed ones are its skipped records.
    """
    from chatbots.registry import bot_load
    from evaluation.data.formats.base import Skipped
    from evaluation.data.study import Study, StudyDialogue

    dialogues: list[StudyDialogue] = []
    failed: list[Skipped] = []
    for name in names:
        bot = bot_load(name, device)
        try:
            played = play_one(bot)
        finally:
            bot.unload()
        for number, played_chat in enumerate(played):
            if played_chat.error is None:
                dialogues.append(StudyDialogue(played_chat.conversation, name, source))
            else:
                failed.append(Skipped(number, f"{name}: {played_chat.error}"))
    return Study(title, tuple(dialogues), tuple(failed), device=device)
