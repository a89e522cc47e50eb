"""Contract of a kind of flag, its input, and its registry.

A flag is a reason to check a task before it counts or is paid: a number, how many others have it, and an explanation.
It decides nothing. Other apps add kinds with `flag_kinds.look_into(…)`. A kind computes numbers, which are stored, and
formats them as text on each read.

The input (`StudyWork`) consists of a study's tasks that ended with data, and their messages. It is loaded as a whole,
in a constant number of queries, because nearly every flag compares one participant with the others.

Statistics registered by `register_statistic` are computed together with a study's flags and stored in
`FlagState.found` by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from chatbots.registry import C, Registry
from webapp.conversations.models import Turn, Typing
from webapp.studies.languages import LEVEL_TEXTS, values_in
from webapp.studies.models import Outcome, Study, StudyVersion, Task
from webapp.studies.models.participants import IMPORT_PLATFORM

LOOKED_AT = (Outcome.RATED, Outcome.BOT_FAILED, Outcome.FAILED_CHECK)
"""Outcomes of tasks with data, or with a decision about pay. Other tasks are not checked."""
_CHUNK = 2000


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task that ended with data.

    Attributes:
        seconds: duration of the task.
    """

    pk: int
    participant: UUID
    submission: str
    outcome: str
    seconds: float


class MessageTyping(NamedTuple):
    """Typing counts of a message, as `conversations.models.Typing` has them."""

    keystrokes: int
    pastes: int
    deletions: int
    ms: int
    focus_losses: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a participant to a bot.

    Attributes:
        answered: the bot's last reply before it; empty before its first reply.
        beside: the other bot's last reply, if the message went to two bots.
        typed: typing counts; None if they were not recorded.
    """

    text: str
    answered: str = ""
    beside: str = ""
    typed: MessageTyping | None = None


@dataclass(frozen=True)
class StudyWork:
    """Work of a study's participants, or of the scripted ones of its rehearsals.

    Participants from data packages are left out, because their start times and typing are unknown.
    """

    study: Study
    is_rehearsal: bool = False

    @cached_property
    def done(self) -> list[EndedTask]:
        """Return the tasks that ended with data, oldest first."""
        rows = (
            Task.objects.filter(
                participant__study=self.study,
                participant__is_synthetic=self.is_rehearsal,
                outcome__in=LOOKED_AT,
                ended_at__isnull=False,
            )
            .exclude(participant__platform=IMPORT_PLATFORM)
            .order_by("pk")
            .values_list("pk", "participant_id", "submission", "outcome", "created_at", "ended_at")
        )
        return [
            EndedTask(pk, participant, submission, outcome, (ended - began).total_seconds())
            for pk, participant, submission, outcome, began, ended in rows.iterator(chunk_size=_CHUNK)
            if ended is not None
        ]

    @cached_property
    def messages(self) -> dict[int, list[Message]]:
        """Return the messages of each task, in order.

        A message to two bots, as in the arena, counts once.
        """
        messages: dict[int, list[Message]] = {task.pk: [] for task in self.done}
        turns = (
            Turn.objects.filter(
                conversation__study=self.study,
                conversation__slot__task__outcome__in=LOOKED_AT,
                conversation__slot__task__participant__is_synthetic=self.is_rehearsal,
                is_refused=False,
            )
            .order_by("conversation__slot__task", "conversation__slot__order", "index")
            .values_list(
                *("pk", "conversation__slot__task", "conversation__slot__order"),
                *("conversation__slot__side", "index", "speaker", "text"),
            )
        )
        last_reply = ""
        places: dict[int, int] = {}  # messages of a chat among those of its task, by their index
        pair: tuple[int, int] | None = None  # task and position of the chat
        for pk, task, order, side, index, speaker, text in turns.iterator(chunk_size=_CHUNK):
            is_bot = speaker == Turn.Speaker.BOT
            if task not in messages:
                continue
            if side == "B":  # side B follows side A, where messages to both are counted
                if is_bot and pair == (task, order - 1) and index + 1 in places:
                    position = places[index + 1]
                    messages[task][position] = replace(messages[task][position], beside=text)
                continue
            if pair != (task, order):
                pair, places, last_reply = (task, order), {}, ""
            if is_bot:
                last_reply = text
            else:
                places[index] = len(messages[task])
                messages[task].append(Message(text, last_reply, typed=self._typed.get(pk)))
        return messages

    @cached_property
    def prescribed_texts(self) -> list[str]:
        """Return the texts of the study that participants read before and during a chat, in all of its versions."""
        texts: set[str] = set()
        for version in StudyVersion.objects.filter(study=self.study):
            languages = (version.values.texts.language, *version.values.texts.languages)
            for values in (values_in(version.values, language) for language in dict.fromkeys(languages)):
                texts.add(values.texts.instructions_text)
                for level in (level for factor in values.conditions.factors for level in factor.levels):
                    texts.update(getattr(level, name) for name in LEVEL_TEXTS)
        return sorted(texts)

    @cached_property
    def counting_tasks(self) -> set[int]:
        """Return the tasks whose version of the study counts typing, with consent."""
        versions = [v.pk for v in StudyVersion.objects.filter(study=self.study) if v.values.typing.is_agreed_to]
        return set(
            Task.objects.filter(participant__study=self.study, version__in=versions).values_list("pk", flat=True)
        )

    @property
    def counts_typing(self) -> bool:
        """True if typing was counted for any message."""
        return bool(self._typed)

    @cached_property
    def _typed(self) -> dict[int, MessageTyping]:
        rows = Typing.objects.filter(turn__conversation__study=self.study)
        columns = rows.values_list("turn", *MessageTyping._fields)
        return {turn: MessageTyping(*counts) for turn, *counts in columns.iterator(chunk_size=_CHUNK)}


Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FlagFindings:
    """Result of a kind of flag in a study.

    Attributes:
        tasks: numbers of each flagged task by its id, as JSON values.
        of: number of tasks that could have had it.
        why_none: reason why no task could have it: a key of the kind's `reasons`; empty if it was computed.
        about: numbers of the study quoted in explanations, as JSON values.
    """

    tasks: Mapping[int, Figures] = field(default_factory=dict)
    of: int = 0
    why_none: str = ""
    about: Figures = field(default_factory=dict)


class FlagKind(Protocol):
    """Kind of flag, registered under a name that must never change.

    Rows store the name.

    Attributes:
        title: short title for lists and filters.
        rule: sentence that defines the flag, with thresholds and their source.
        reasons: explanations why it could not be computed, by the keys in `why_none`.
    """

    name: str
    title: Any
    rule: Any
    reasons: Mapping[str, Any]

    def find(self, work: StudyWork) -> FlagFindings:
        """Return the numbers of all flagged tasks.

        The number of queries is constant.
        """
        ...

    def explain(self, figures: Figures, about: Figures) -> str:
        """Return a sentence about one task.

        The caller adds how many others have the flag.
        """
        ...


flag_kinds: Registry[FlagKind] = Registry("flag", "webapp.ratings.flags")


def register_flag(cls: C) -> C:
    """Instantiate and register the decorated class as a kind of flag."""
    flag_kinds.register(cls)
    return cls


def percent(n: int, total: int) -> str:
    """Format a share without decimals; 0 and 100 only if exact."""
    value = round(100 * n / total)
    if value == 0 and n:
        return "<1 %"
    if value == 100 and n < total:
        return ">99 %"
    return f"{value} %"


def clock(seconds: float) -> str:
    """Format seconds as `7:40`."""
    rounded = round(seconds)
    return f"{rounded // 60}:{rounded % 60:02d}"


Statistic = Callable[[Study], Any]
"""Function from a study to JSON values, in a constant number of queries."""
_finders: dict[str, Statistic] = {}


def register_statistic(name: str, find: Statistic) -> None:
    """Register a statistic to compute with the flags.

    Rename it if its value changes, to invalidate stored values.
    """
    _finders[name] = find


def statistic_names() -> list[str]:
    """Return the names of all statistics."""
    return sorted(_finders)


def compute_statistics(study: Study) -> dict[str, Any]:
    """Compute all statistics."""
    return {name: _finders[name](study) for name in statistic_names()}
