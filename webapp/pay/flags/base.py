"""The contract of a flag, and its registry.

A flag says why somebody should look at a visit before it is paid: a number, how many others have it too, and
what it means, in words. It decides nothing. A later app adds kinds by `flag_kinds.look_into(…)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from chatbots.registry import C, Registry
from webapp.pay.visits import VisitKey, Visits


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of one visit: the name of its kind, a word or two for lists, and the explanation."""

    name: str
    title: Any
    words: str


class FlagKind(Protocol):
    """One kind of flag.

    Attributes:
        title: a word or two, for lists and filters.
    """

    name: str
    title: Any

    def find(self, visits: Visits) -> dict[VisitKey, str]:
        """Return the explanation for every visit that has this flag, in a constant number of queries."""
        ...


flag_kinds: Registry[FlagKind] = Registry("flag", "webapp.pay.flags")


def register_flag(cls: C) -> C:
    """Decorate a class: make one kind of flag of it and list it."""
    flag_kinds.register(cls)
    return cls


def flags_of(visits: Visits) -> dict[VisitKey, list[Flag]]:
    """Return the flags of every visit that has any."""
    found: dict[VisitKey, list[Flag]] = {}
    for kind in flag_kinds:
        for key, words in kind.find(visits).items():
            found.setdefault(key, []).append(Flag(kind.name, kind.title, words))
    return found


def percent(n: int, total: int) -> str:
    """Write a share of people: no decimals, and never 0 or 100 where it is not exactly that."""
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
