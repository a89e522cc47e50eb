"""Queries for flags: state, explanations, and excluded participants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q
from django.utils.functional import lazy
from django.utils.translation import gettext as _

from chatbots.identity import canonical_json
from chatbots.installation import release
from webapp.ratings.flag_store.models import FlagState, OriginMark, TaskFlag
from webapp.ratings.flags.base import LOOKED_AT, flag_kinds, percent, statistic_names
from webapp.studies.models import Participant, Study, Task


@dataclass(frozen=True, slots=True)
class Flag:
    """Flag as shown on pages: kind, short title and explanation."""

    name: str
    title: Any
    words: Any


lazy_words = lazy(lambda make, *arguments: make(*arguments), str)
"""Words that are formatted when shown: a page explains only a few of thousands of flags."""


def flags_data(study: Study) -> str:
    """Return a digest of all data that a study's flags depend on."""
    # Tasks that ended without data, for example at the quiz, still have checks.
    ended = Q(outcome__in=LOOKED_AT) | Q(ended_at__isnull=False)
    is_real = Q(participant__is_synthetic=False)
    tasks = Task.objects.filter(ended, participant__study=study).aggregate(
        n=Count("pk", filter=is_real),
        newest=Max("updated_at", filter=is_real),
        rated=Max("ratings__updated_at", filter=is_real),
        rehearsed=Max("updated_at", filter=~is_real),
        decided=Max("participant__origin_mark__made_at"),
        n_decided=Count("participant__origin_mark", distinct=True),
    )
    made_of = {name: str(figure) for name, figure in tasks.items()}
    parts = [release(), flag_kinds.names(), statistic_names(), made_of]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def get_origin_mark(participant: UUID) -> OriginMark | None:
    """Return the decision whether a participant is a person; None if there is none."""
    return OriginMark.objects.filter(participant=participant).first()


def tasks_to_look_at(study: Study) -> int:
    """Return the number of tasks that are checked for flags."""
    return Task.objects.filter(participant__study=study, participant__is_synthetic=False, outcome__in=LOOKED_AT).count()


def flags_state(study: Study) -> FlagState | None:
    """Return the state of a study's flags; None before the first computation."""
    return FlagState.objects.filter(study=study).first()


def flags_of_visits(study: Study, state: FlagState | None) -> dict[tuple[UUID, str], list[Flag]]:
    """Return explained flags by participant and platform visit, in one query."""
    flags_by_visit: dict[tuple[UUID, str], list[Flag]] = {}
    if state is None:
        return flags_by_visit
    rows = TaskFlag.objects.filter(participant__study=study).order_by("task_id", "name")
    renderer = _FlagRenderer(state)
    for person, visit, name, figures in rows.values_list("participant", "task__submission", "name", "figures"):
        flag = renderer.flag(name, figures)
        if flag is not None:
            flags_by_visit.setdefault((person, visit), []).append(flag)
    return flags_by_visit


class _FlagRenderer:
    """Renderer of a study's flags, which looks up each kind once."""

    def __init__(self, state: FlagState) -> None:
        self._state = state
        self._kinds: dict[str, tuple[Any, Callable[..., str]] | None] = {}

    def flag(self, name: str, figures: Mapping[str, Any]) -> Flag | None:
        """Return one flag; None if its plug-in is not installed here."""
        if name not in self._kinds:
            self._kinds[name] = self._kind(name)
        kind = self._kinds[name]
        return Flag(name, kind[0], lazy_words(kind[1], figures)) if kind is not None else None

    def _kind(self, name: str) -> tuple[Any, Callable[..., str]] | None:
        if name not in flag_kinds:
            return None
        kind, results = flag_kinds.get(name), self._state.get_kind_results(name)
        return kind.title, partial(_render_words, kind=kind, results=results)


def _render_words(figures: Mapping[str, Any], *, kind: Any, results: Mapping[str, Any]) -> str:
    words = str(kind.explain(figures, results.get("about", {})))
    if results.get("of"):
        share = _("{share} of tasks have this flag.").format(share=percent(results["n"], results["of"]))
        words = f"{words} {share}"
    return words


def without_read(text: str) -> tuple[str, ...]:
    """Return the flag names of a list, sorted and without duplicates.

    The list is such as "fast,pasted".

    Raises:
        UnknownName: for an unknown flag, with similar names.
    """
    names = {name.strip() for name in text.split(",")} - {""}
    return tuple(sorted(flag_kinds.get(name).name for name in names))


def left_out(study: Study | None, excluded_flags: Sequence[str], *, way: str = "participant") -> Q:
    """Return the condition that excludes participants with one of these flags.

    Args:
        study: study of the participants; None: any, for rows of one study.
        way: lookup path from the queried model to the participant.
    """
    if not excluded_flags:
        return Q()
    flagged = TaskFlag.objects.filter(name__in=excluded_flags)
    if study is not None:
        flagged = flagged.filter(participant__study=study)
    return ~Q(**{f"{way}__in": flagged.values("participant")})


def without_state(study: Study, excluded_flags: Sequence[str]) -> list[str]:
    """Return strings that change with the excluded participants; empty if none are."""
    if not excluded_flags:
        return []
    state = flags_state(study)
    return [f"{name}:{state.get_kind_results(name).get('digest', '')}" if state else name for name in excluded_flags]


@dataclass(frozen=True, slots=True)
class FlagExclusions:
    """Numbers of excluded participants.

    Attributes:
        n_people: participants of the study who completed a task.
        n_left_out: participants among them with one of the flags.
        by_flag: title and number of participants for each of the flags; one with several counts under each.
    """

    n_people: int
    n_left_out: int
    by_flag: tuple[tuple[Any, int], ...]


def left_out_counts(study: Study, excluded_flags: Sequence[str]) -> FlagExclusions:
    """Count the participants excluded by these flags, in three queries."""
    n_people = (
        Participant.objects.filter(study=study, is_synthetic=False, tasks__outcome__in=LOOKED_AT).distinct().count()
    )
    rows = TaskFlag.objects.filter(participant__study=study, name__in=excluded_flags)
    counts: Mapping[str, int] = dict(
        rows.order_by().values_list("name").annotate(n=Count("participant", distinct=True))
    )
    n_left_out = rows.order_by().values("participant").distinct().count()
    titles = tuple((flag_kinds.get(name).title, counts.get(name, 0)) for name in excluded_flags)
    return FlagExclusions(n_people, n_left_out, titles)


def flag_counts(study: Study) -> dict[str, int]:
    """Return the number of participants with each flag."""
    rows = TaskFlag.objects.filter(participant__study=study).order_by()
    return dict(rows.values_list("name").annotate(n=Count("participant", distinct=True)))
