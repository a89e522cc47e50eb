"""The contract of a flag, and its registry.

A flag says why somebody should look at a task before it counts or is paid: a number, how many others have it too, and
what it means, in words. It decides nothing. A later app adds kinds by `flag_kinds.look_into(…)`.

A kind finds figures, which are stored, and puts them into words whenever somebody reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from chatbots.registry import C, Registry
from webapp.quality.work import Work

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a kind of flag in a study.

    Attributes:
        tasks: the figures of every task that has the flag, by its number; JSON values.
        of: number of tasks that could have had it.
        why_none: reason why no task could: a key of the kind's `reasons`; empty where it was looked for.
        about: figures of the study that explanations quote; JSON values.
    """

    tasks: Mapping[int, Figures] = field(default_factory=dict)
    of: int = 0
    why_none: str = ""
    about: Figures = field(default_factory=dict)


class FlagKind(Protocol):
    """One kind of flag. Registered by its name, which rows keep: never rename it.

    Attributes:
        title: a word or two, for lists and filters.
        rule: a sentence that says who has it, with its thresholds and their source.
        reasons: why it could not be looked for, in words, by the names that `Found.why_none` has.
    """

    name: str
    title: Any
    rule: Any
    reasons: Mapping[str, Any]

    def find(self, work: Work) -> Found:
        """Return the figures of every task that has this flag, in a constant number of queries."""
        ...

    def explain(self, figures: Figures, about: Figures) -> str:
        """Return a sentence about one task, with its figures. How many others have it is added to it."""
        ...


flag_kinds: Registry[FlagKind] = Registry("flag", "webapp.quality.flags")


def register_flag(cls: C) -> C:
    """Decorate a class: make one kind of flag of it and list it."""
    flag_kinds.register(cls)
    return cls


def percent(n: int, total: int) -> str:
    """Format a share of participants: no decimals, and never 0 or 100 where it is not exactly that."""
    value = round(100 * n / total)
    if value == 0 and n:
        return "<1 %"
    if value == 100 and n < total:
        return ">99 %"
    return f"{value} %"


def clock(seconds: float) -> str:
    """Write seconds as `7:40`."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
