"""Writes of items: what a study gives people to judge, one by one or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from evaluation.formats.base import Skipped
from evaluation.items import ItemLine
from webapp.studies.attention import AttentionCheck
from webapp.studies.models import Item, Study

_BATCH = 500


def item_add(
    *,
    study: Study,
    key: str,
    context: Sequence[str],
    responses: Sequence[Mapping[str, str]],
    reference: str | None = None,
    reference_score: float | None = None,
    task: str = "",
    panel: Mapping[str, Any] | None = None,
) -> Item:
    """Store an item for people to judge.

    Args:
        key: its name in the study.
        context: utterances, oldest first.
        responses: the replies to judge, each with its `text` and the `model` it is from.
        reference: a reply written by a person; None if there is none.
        reference_score: how that one was rated before.
        task: what kind of talk it is from.
        panel: what is shown beside it: `persona` (lines), `emotion`, `topic`.

    Raises:
        ValidationError: for a name used twice in the study, or a response without text.
    """
    if not responses or not all(response.get("text") for response in responses):
        raise ValidationError(
            _("Item %(key)s needs responses, each with a text.") % {"key": key}, code="responses"
        )
    item = Item(
        study=study,
        key=key,
        context=list(context),
        responses=[dict(response) for response in responses],
        reference=reference,
        reference_score=reference_score,
        task=task,
        panel=dict(panel or {}),
    )
    item.full_clean(exclude=["context", "responses"])
    item.save()
    return item


@dataclass
class ItemsReport:
    """What became of a file of items.

    Attributes:
        items: new ones that were stored.
        unchanged: lines whose item was there already, the same.
        skipped: lines that were left out, each with its reason.
    """

    items: int = 0
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        skipped = [{"line": one.line, "reason": one.reason} for one in self.skipped]
        return {"items": self.items, "unchanged": self.unchanged, "skipped": skipped}


def items_import(*, study: Study, lines: Iterable[ItemLine | Skipped]) -> ItemsReport:
    """Store the items of a file that the study does not have yet; done twice it changes nothing.

    What is stored stays: an item of the same name with other texts is left out and told, since people may
    have judged it.
    """
    report = ItemsReport()
    for batch in _batches(iter(lines)):
        report.skipped += [one for one in batch if isinstance(one, Skipped)]
        wanted: dict[str, Item] = {}
        first_line: dict[str, int] = {}
        with transaction.atomic():
            found = [one for one in batch if isinstance(one, ItemLine)]
            keys = [one.item.key for one in found]
            stored = {item.key: item for item in study.items.filter(key__in=keys)}
            for one in found:
                item, key = _item(study, one), one.item.key
                known = stored.get(key) or wanted.get(key)
                if known is None:
                    wanted[key], first_line[key] = item, one.line
                elif _content(known) == _content(item):
                    report.unchanged += 1
                else:
                    where = f"line {first_line[key]}" if key in first_line else "the study"
                    report.skipped.append(
                        Skipped(one.line, f"id {key!r} stands in {where} with other texts already")
                    )
            Item.objects.bulk_create(wanted.values(), ignore_conflicts=True)
        report.items += len(wanted)
    return report


def _batches(lines: Iterator[ItemLine | Skipped]) -> Iterator[list[ItemLine | Skipped]]:
    while batch := list(islice(lines, _BATCH)):
        yield batch


def _item(study: Study, line: ItemLine) -> Item:
    read = line.item
    return Item(
        study=study,
        key=read.key,
        context=list(read.context),
        responses=[{"model": read.model, "text": read.response}],
        reference=read.reference,
        reference_score=read.reference_score,
        task=read.task,
        panel=read.panel,
    )


def _content(item: Item) -> tuple[Any, ...]:
    beside = (item.reference_score, item.task, item.panel)
    return item.context, item.responses, item.reference, *beside


def checks_ensure(*, study: Study, checks: Sequence[AttentionCheck]) -> list[Item]:
    """Return the items that stand for the checks, in their order; those that are missing are stored."""
    keys = [check.key for check in checks]
    of_study = Item.objects.filter(study=study, purpose=Item.Purpose.CHECK, key__in=keys)
    there = {item.key: item for item in of_study}
    missing = [_of_check(study, check) for check in checks if check.key not in there]
    if missing:
        Item.objects.bulk_create(missing, ignore_conflicts=True)
        there = {item.key: item for item in of_study.all()}
    return [there[key] for key in keys]


def _of_check(study: Study, check: AttentionCheck) -> Item:
    return Item(
        study=study,
        key=check.key,
        purpose=Item.Purpose.CHECK,
        context=list(check.context),
        responses=[{"text": check.response}],
        expected={key: list(passing) for key, passing in check.expected.items()},
    )
