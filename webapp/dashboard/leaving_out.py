"""Leaving people out by their flags: what an address says of it, and what pages say and offer.

One value, `without=fast,pasted`, holds on all results of a study, and goes from page to page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest

from chatbots.registry import UnknownName
from webapp.core.speaking import plural
from webapp.quality.flags.base import flag_kinds
from webapp.quality.selectors import (
    LeftOut,
    flag_counts,
    flags_state,
    left_out_counts,
    without_read,
)
from webapp.results.flags import flags_now
from webapp.studies.models import Study

_NOT_KEPT = ("without", "after", "page")
"""Parts of an address that another choice of people makes meaningless."""


def without_asked(request: HttpRequest) -> tuple[str, ...]:
    """Return the flags whose people an address leaves out; forms name each by itself.

    Raises:
        Http404: for a flag that there is not: leaving nobody out unnoticed would be another result.
    """
    try:
        return without_read(",".join(request.GET.getlist("without")))
    except UnknownName as error:
        raise Http404(str(error)) from None


def without_now(request: HttpRequest, study: Study) -> tuple[str, ...]:
    """Return the same once the study's flags were looked for: before anything is counted."""
    without = without_asked(request)
    if without:
        flags_now(study)
    return without


@dataclass(frozen=True, slots=True)
class Choice:
    """A flag whose people can be left out."""

    name: str
    title: Any
    n: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class People:
    """Excluded participants, as a page shows them.

    Attributes:
        words: number of excluded participants and the reasons; empty without any.
        all_in: address of the same page with all participants.
        choices: flags that at least one participant has, and those chosen.
        kept: parts of the address that stay when other flags are chosen.
        is_current: whether flags were computed from the current data.
    """

    words: str
    all_in: str
    choices: list[Choice]
    kept: list[tuple[str, str]]
    is_current: bool


def people_of(request: HttpRequest, study: Study) -> People | None:
    """Return the excluded participants for a page; None without flags, had or chosen."""
    without = without_asked(request)
    is_current = flags_now(study).is_current if without else True
    if not without and flags_state(study) is None:
        return None
    counts = flag_counts(study)
    choices = [
        Choice(kind.name, kind.title, counts.get(kind.name, 0), kind.name in without)
        for kind in flag_kinds
        if counts.get(kind.name) or kind.name in without
    ]
    if not choices:
        return None
    kept = [
        (name, value)
        for name, values in request.GET.lists()
        if name not in _NOT_KEPT
        for value in values
    ]
    return People(
        words=left_out_words(left_out_counts(study, without)) if without else "",
        all_in=f"?{urlencode(kept)}",
        choices=choices,
        kept=kept,
        is_current=is_current,
    )


def left_out_words(found: LeftOut) -> str:
    """Compose a sentence on the number of excluded participants, by flag."""
    flags = ", ".join(f"{title} ({n})" for title, n in found.by_flag)
    return plural(
        found.n_people,
        "{left} of {n} person is left out: {flags}.",
        "{left} of {n} people are left out: {flags}.",
    ).format(left=found.n_left_out, n=found.n_people, flags=flags)


def left_out_sentence(study: Study, without: Sequence[str]) -> str:
    """Say in a report who is left out; empty where nobody is."""
    if not without:
        return ""
    words = left_out_words(left_out_counts(study, without))
    return f"{words} A person with several of these flags stands under each."
