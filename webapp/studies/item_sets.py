"""Sets of a study's items by their source, with the removal of items that no participant has been given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, StrIndex, Substr

from webapp.studies.models import Item, Participant, Slot, Study
from webapp.studies.privacy import participants_erase

SAMPLE_SOURCE = "sample"
FILE_SOURCE = "file"
_SAMPLE_KEYS = "example-"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ItemSet:
    """One set.

    Attributes:
        name: `sample`, `file:NAME` for items of a file by the data set that they name, else by the file's name (`file`
            where neither is known), `study:KEY` or `run:ID`.
        n: number of its items or conversations.
        n_given: number of those given to participants or needed by other rows; these stay.
        first: the first few of them.
    """

    name: str
    n: int
    n_given: int
    first: Sequence[Any]

    @property
    def kind(self) -> str:
        """Source of the set: `sample`, `file`, `study` or `run`."""
        return self.name.partition(":")[0]

    @property
    def of(self) -> str:
        """The data set, file, study or run; empty without one."""
        return self.name.partition(":")[2]

    @property
    def n_free(self) -> int:
        """Number of items that can be removed: not given to anybody, and nothing else depends on them."""
        return self.n - self.n_given


def item_sets(study: Study) -> list[ItemSet]:
    """Return the sets of a study's items, in the order of their names."""
    rows = (
        _in_sets(study)
        .annotate(is_given=_is_given())
        .order_by()
        .values_list("set_name")
        .annotate(n=Count("pk"), n_given=Count("pk", filter=Q(is_given=True)))
    )
    return [
        ItemSet(name, n, given, _in_sets(study).filter(set_name=name).order_by("pk")[:_SHOWN])
        for name, n, given in sorted(rows)
    ]


def item_set_remove(*, study: Study, name: str) -> tuple[int, int]:
    """Remove a set, except for items given to participants; rehearsals that judged the others are deleted, too.

    Returns:
        The number of removed items, and of those that stay.

    Raises:
        ValidationError: if the study is open, so that its items are given now, or has no such set.
    """
    with transaction.atomic():
        # Items are given with this row locked, so no participant gets one that is being removed.
        locked = Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        if locked.state == Study.State.COLLECTING:
            raise ValidationError("People are given its items now. Pause the study first.")
        found = _in_sets(study).filter(set_name=name).annotate(is_given=_is_given())
        all_of_it = dict(found.values_list("pk", "is_given"))
        if not all_of_it:
            raise ValidationError("The study has no such items; they may be gone already.")
        free = [pk for pk, is_given in all_of_it.items() if not is_given]
        judged = Q(tasks__slots__item__in=free) | Q(tasks__slots__item__original__in=free)
        rehearsed = Participant.objects.filter(judged, study=study, is_synthetic=True)
        participants_erase(participants=rehearsed.distinct())
        Item.objects.filter(pk__in=free).delete()
    return len(free), len(all_of_it) - len(free)


def _in_sets(study: Study) -> Any:
    """Return the study's items with the name of their set; those that stand for others are left out."""
    kinds = (Item.Purpose.JUDGED, Item.Purpose.GOLD)
    found = Item.objects.filter(study=study, purpose__in=kinds)
    return found.annotate(
        of_study=KT("origin__of_study"),
        of_run=KT("origin__run"),
        of_file=KT("origin__file"),
        slash=StrIndex("key", Value("/")),
    ).annotate(
        set_name=Case(
            When(of_study__isnull=False, then=_joined("study:", "of_study")),
            When(of_run__isnull=False, then=_joined("run:", "of_run")),
            When(key__startswith=_SAMPLE_KEYS, then=Value(SAMPLE_SOURCE)),
            When(slash__gt=1, then=_joined("file:", Substr("key", 1, F("slash") - 1))),
            When(of_file__isnull=False, then=_joined("file:", "of_file")),
            default=Value(FILE_SOURCE),
            output_field=CharField(),
        )
    )


def _joined(kind: str, of: Any) -> Concat:
    return Concat(Value(kind), of, output_field=CharField())


def _is_given() -> Exists:
    """Tell of an item whether it, or one like it, was given to anybody but a rehearsal."""
    slots = Slot.objects.filter(task__participant__is_synthetic=False)
    return Exists(slots.filter(Q(item=OuterRef("pk")) | Q(item__original=OuterRef("pk"))))
