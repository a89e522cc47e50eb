"""Machine score: signals that a program, and not a person, took part.

The score is the number of signals, out of those that could be measured. Nothing follows from it by itself: people with
dictation, password managers or prepared texts cause signals, too. Detection is how often scripted participants of
rehearsals cause each signal; they have no browser, so programs that control one are detected less often. They share a
script, so their identical messages are not counted. False alarms are how often participants do who a researcher decided
to be people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.ratings.flag_store.models import OriginMark
from webapp.ratings.flags.base import Figures, FlagFindings, Message, StudyWork, register_flag
from webapp.ratings.flags.copied_messages import (
    MACHINE_FEWEST_CHARS,
    Repetitions,
    count_repetitions,
    is_pasted,
    is_quick,
)

FEWEST = 2
"""Minimum number of messages with a signal, and of messages in which it could occur."""


@dataclass(frozen=True, slots=True)
class TaskSigns:
    """Input of the signals: a task's messages, their repetitions, and whether typing was to be counted."""

    messages: list[Message]
    repetitions: Repetitions
    is_counted: bool

    @property
    def typed(self) -> list[Message]:
        """Messages with typing counts."""
        return [message for message in self.messages if message.typed is not None]


@dataclass(frozen=True, slots=True)
class Signal:
    """Sign of a program.

    Attributes:
        rule: definition with the threshold.
        words: sentence about one task, with `{k}` of `{n}` messages.
        share: minimum share of the messages in which it could occur.
        count: counts messages with the sign, and messages in which it could occur.
    """

    name: str
    title: Any
    rule: Any
    words: Any
    share: float
    count: Callable[[TaskSigns], tuple[int, int]]


def _count_quick(task: TaskSigns) -> tuple[int, int]:
    long = [m for m in task.typed if len(m.text) >= MACHINE_FEWEST_CHARS and not is_pasted(m)]
    return sum(map(is_quick, long)), len(long)


def _count_left(task: TaskSigns) -> tuple[int, int]:
    losses = [m.typed.focus_losses for m in task.messages if m.typed and m.typed.focus_losses is not None]
    return sum(map(bool, losses)), len(losses)


SIGNALS = (
    Signal(
        "quick",
        gettext_lazy("Typing speed"),
        gettext_lazy("Half of the messages of 60 characters or more took less than 1/15 second per character."),
        gettext_lazy("{k} of {n} long messages were typed faster than 15 characters a second"),
        0.5,
        _count_quick,
    ),
    Signal(
        "pasted",
        gettext_lazy("Pastes"),
        gettext_lazy("Three of ten messages were pasted: fewer keys than half of their characters."),
        gettext_lazy("{k} of {n} messages were pasted"),
        0.3,
        lambda task: (sum(map(is_pasted, task.typed)), len(task.typed)),
    ),
    Signal(
        "left",
        gettext_lazy("Left the page"),
        gettext_lazy("The page was left before half of the messages."),
        gettext_lazy("the page was left before {k} of {n} messages"),
        0.5,
        _count_left,
    ),
    Signal(
        "identical",
        gettext_lazy("Identical messages"),
        gettext_lazy(
            "Three of ten messages of twenty letters or more equal one in another chat or an earlier one, except for "
            "case, spaces and punctuation. Messages that the study’s texts prescribe are ignored."
        ),
        gettext_lazy("{k} of {n} long messages repeat an earlier one or one by another participant"),
        0.3,
        lambda task: (task.repetitions.either, task.repetitions.long),
    ),
    Signal(
        "uncounted",
        gettext_lazy("No typing counts"),
        gettext_lazy("Half of the messages came without typing counts, although the page counts typing."),
        gettext_lazy("{k} of {n} messages came without the typing counts of the page"),
        0.5,
        lambda task: (len(task.messages) - len(task.typed), len(task.messages) if task.is_counted else 0),
    ),
)


@register_flag
class MachineScore:
    """Flag for at least one signal of a program, with the score."""

    name = "machine_score"
    title = gettext_lazy("Machine score")
    rule = gettext_lazy(
        "Number of signals that a program took part, out of those that could be measured; flagged from one. Each needs "
        "at least two messages. People cause them, too, for example by dictation."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No signal could be measured yet: it takes two messages.")}

    def find(self, work: StudyWork) -> FlagFindings:
        counts = measure_signals(work)
        humans = set(
            OriginMark.objects.filter(participant__study=work.study, is_human=True).values_list(
                "participant", flat=True
            )
        )
        rehearsal = StudyWork(work.study, is_rehearsal=True)
        people = _by_participant(work, counts)
        groups = {
            "all": people,
            "human": {participant: tasks for participant, tasks in people.items() if participant in humans},
            "rehearsal": _by_participant(rehearsal, measure_signals(rehearsal)),
        }
        about = {name: _count_signals(tasks.values()) for name, tasks in groups.items()}
        n_measured = sum(bool(measured) for measured in counts.values())
        flagged = {task: {"signals": measured} for task, measured in counts.items() if score_of(measured)}
        return FlagFindings(flagged, n_measured, "" if n_measured else "none", about=about)

    def explain(self, figures: Figures, about: Figures) -> str:
        signals = figures["signals"]
        parts = [
            str(signal.words).format(k=signals[signal.name][0], n=signals[signal.name][1])
            for signal in SIGNALS
            if signal.name in signals and has_signal(signal, signals[signal.name])
        ]
        return _("Score {score} of {n} measured signals: {parts}.").format(
            score=len(parts), n=len(signals), parts="; ".join(parts)
        )


Counts = Mapping[str, tuple[int, int]]
"""Messages with each signal that could be measured, and messages in which it could occur."""


def measure_signals(work: StudyWork) -> dict[int, Counts]:
    """Return the counts of every task."""
    repetitions = count_repetitions(work)
    counting = work.counting_tasks
    counts: dict[int, Counts] = {}
    for task, messages in work.messages.items():
        signs = TaskSigns(messages, repetitions[task], task in counting)
        measured = {signal.name: signal.count(signs) for signal in SIGNALS}
        counts[task] = {name: count for name, count in measured.items() if count[1] >= FEWEST}
    return counts


def has_signal(signal: Signal, count: tuple[int, int]) -> bool:
    """Return True if the counts reach the threshold."""
    return count[0] >= max(FEWEST, signal.share * count[1])


def score_of(counts: Counts) -> int:
    """Return the number of signals."""
    return sum(has_signal(signal, counts[signal.name]) for signal in SIGNALS if signal.name in counts)


def _by_participant(work: StudyWork, counts: Mapping[int, Counts]) -> dict[Any, list[Counts]]:
    people: dict[Any, list[Counts]] = {}
    for task in work.done:
        people.setdefault(task.participant, []).append(counts[task.pk])
    return people


def _count_signals(people: Collection[Sequence[Counts]]) -> dict[str, tuple[int, int]]:
    """Return the participants with each signal in any task, and those for whom it could be measured.

    The unit is the participant, because the tasks of one participant are alike.
    """
    numbers = {}
    for signal in SIGNALS:
        measured = [[counts[signal.name] for counts in tasks if signal.name in counts] for tasks in people]
        n_with = sum(any(has_signal(signal, count) for count in counts) for counts in measured)
        numbers[signal.name] = (n_with, sum(map(bool, measured)))
    return numbers
