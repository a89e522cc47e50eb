"""Flags about pay itself: their contract, their registry, and all flags of a visit.

Flags of work are in `webapp.ratings.flags`; the flags here only matter before work is paid. A flag gives a reason to
check a submission: a number, how many others have it too, and what it means, in words. It decides nothing. A later app
adds kinds by `flag_kinds.look_into(…)`.
"""

from __future__ import annotations

from typing import Any, Protocol

from chatbots.registry import C, Registry
from webapp.pay.submissions import SubmissionKey, Submissions
from webapp.ratings.flag_selectors import Flag, flags_of_visits
from webapp.ratings.flag_store.models import FlagState
from webapp.results.refresh import refresh_flags


class PayFlagKind(Protocol):
    """One kind of flag.

    Attributes:
        title: a word or two, for lists and filters.
    """

    name: str
    title: Any

    def find(self, visits: Submissions) -> dict[SubmissionKey, Any]:
        """Return the explanation for every visit that has this flag, in a constant number of queries.

        Lists of thousands show a few of them: `lazy_words` puts off making the others.
        """
        ...


flag_kinds: Registry[PayFlagKind] = Registry("flag", "webapp.pay.flags")


def register_flag(cls: C) -> C:
    """Decorate a class: make one kind of flag of it and list it."""
    flag_kinds.register(cls)
    return cls


def flags_of(visits: Submissions, *, exact: bool = False) -> dict[SubmissionKey, list[Flag]]:
    """Return the flags of every visit that has any: those of its tasks first.

    Args:
        exact: look at all work now, however much there is, for somebody decides by it.
    """
    return flags_by_state(visits, refresh_flags(visits.study, exact=exact).state)


def flags_by_state(
    visits: Submissions, state: FlagState | None, *, of_pay: bool = True
) -> dict[SubmissionKey, list[Flag]]:
    """Return the flags of every visit that has any, as last computed.

    Args:
        of_pay: whether to include the flags about pay itself, whose words may quote codes.
    """
    found: dict[SubmissionKey, list[Flag]] = {}
    for visit, flags in flags_of_visits(visits.study, state).items():
        found[SubmissionKey(*visit)] = flags
    for kind in flag_kinds if of_pay else ():
        for key, words in kind.find(visits).items():
            found.setdefault(key, []).append(Flag(kind.name, kind.title, words))
    return found
