"""Storage of items to rate, and their sets by source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, StrIndex, Substr

from chatbots.text import sanitise
from webapp.core.audit_trail import GOLD_STORE, ITEMS_ADD, ITEMS_REMOVE, record
from webapp.studies.attention_checks import AttentionCheck
from webapp.studies.models import Item, Participant, Slot, Study
from webapp.studies.models.participants import MORE_CHATS
from webapp.studies.privacy import participants_erase

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
    criteria: Sequence[Mapping[str, Any]] = (),
) -> Item:
    """Store an item for participants to rate.

    Args:
        key: its name in the study.
        context: utterances, oldest first.
        responses: the replies to rate, each with its `text` and the `model` it is from.
        reference: a reply written by a person; None if there is none.
        reference_score: earlier rating of the reference.
        task: kind of conversation that it is from.
        panel: context shown next to it: `persona` (lines), `emotion`, `topic`.
        criteria: statements to tick, each with its `text` and `points`.

    Raises:
        ValidationError: if the study has an item of this name, or a response has no text.
    """
    if not responses or not all(response.get("text") for response in responses):
        raise ValidationError(f"Item {key} needs responses, each with a text.", code="responses")
    item = Item(
        study=study,
        key=key,
        context=list(context),
        responses=[dict(response) for response in responses],
        reference=reference,
        reference_score=reference_score,
        task=task,
        panel=dict(panel or {}),
        criteria=[dict(criterion) for criterion in criteria],
    )
    item.full_clean(exclude=["context", "responses"])
    item.save()
    return item


@dataclass(frozen=True, slots=True)
class SampledItem:
    """Item drawn from a conversation.

    Attributes:
        key: contains its position and bots, so that drawing it again gives the same item.
        responses: bot and text of each reply.
        origin: how it was drawn.
        more_chats: the conversations after the first, if each response is a whole conversation.
    """

    key: str
    context: tuple[str, ...]
    responses: tuple[tuple[str, str], ...]
    conversation: UUID
    origin: Mapping[str, Any]
    more_chats: tuple[UUID, ...] = ()

    @property
    def name(self) -> str:
        """Return the key, shortened for long bot names."""
        return self.key if len(self.key) <= 200 else f"{self.key[:167]}#{self.digest_of(self.key)}"

    @property
    def digest(self) -> str:
        """Return a digest that does not depend on the order of texts."""
        texts = [*self.context, "\0", *sorted(text for _bot, text in self.responses)]
        return self.digest_of("\0".join(texts))

    @staticmethod
    def digest_of(text: str) -> str:
        """Return a digest of a text."""
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def items_store(*, study: Study, sampled: Sequence[SampledItem]) -> dict[str, int]:
    """Store drawn items; idempotent.

    Items with the same texts as another one, and pairs of identical replies, are skipped.

    Returns:
        Number of items that are new (`items`), already present (`unchanged`), equal to another one (`alike`), or
            contain the same reply twice (`same_replies`).
    """
    counts = dict.fromkeys(("items", "unchanged", "alike", "same_replies"), 0)
    with transaction.atomic():
        names = set(study.items.filter(key__in=[item.name for item in sampled]).values_list("key", flat=True))
        texts = set(study.items.filter(digest__in=[item.digest for item in sampled]).values_list("digest", flat=True))
        new = []
        for item in sampled:
            replies = [text for _bot, text in item.responses]
            if item.name in names:
                counts["unchanged"] += 1
            elif len(set(replies)) < len(replies):
                counts["same_replies"] += 1
            elif item.digest in texts:
                counts["alike"] += 1
            else:
                names.add(item.name)
                texts.add(item.digest)
                new.append(_item_made(study, item))
        Item.objects.bulk_create(new, ignore_conflicts=True)
        if new:
            record(ITEMS_ADD, study, items=len(new))
    counts["items"] = len(new)
    return counts


def _item_made(study: Study, sampled: SampledItem) -> Item:
    return Item(
        study=study,
        key=sampled.name,
        context=list(sampled.context),
        responses=[{"model": bot_id, "text": text} for bot_id, text in sampled.responses],
        conversation_id=sampled.conversation,
        origin=dict(sampled.origin),
        digest=sampled.digest,
        **{f"{field}_id": chat for field, chat in zip(MORE_CHATS, sampled.more_chats, strict=False)},
    )


def items_copy(*, items: QuerySet[Item], study: Study) -> int:
    """Copy these items into a study; return their number."""
    n, batch = 0, []
    for item in items.order_by("pk").iterator(chunk_size=_BATCH):
        item.pk, item.study = None, study
        item._state.adding = True
        batch.append(item)
        if len(batch) == _BATCH:
            n += len(Item.objects.bulk_create(batch))
            batch = []
    return n + len(Item.objects.bulk_create(batch))


def origin_of_file(study: Study, name: str, path: Path) -> dict[str, str]:
    """Return the origin that a file's items store.

    It consists of the file's name and the digest of its content.

    A different file with an existing name becomes a separate set: `items.jsonl (2)`.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    name = sanitise(name, 190)
    rows = study.items.filter(origin__file__startswith=name).order_by()
    digest_by_name = dict(rows.values_list("origin__file", "origin__file_digest").distinct())
    names = chain([name], (f"{name} ({number})" for number in count(2)))
    return {
        "file": next(candidate for candidate in names if digest_by_name.get(candidate, digest) == digest),
        "file_digest": digest,
    }


def gold_fields(gold: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the fields of a gold item with these right answers.

    Empty without answers.
    """
    if not gold:
        return {}
    return {"purpose": Item.Purpose.GOLD, "expected": {key: list(passing) for key, passing in gold.items()}}


def study_item_sets(study: Study) -> dict[str, str]:
    """Return the set of each item that has one, by item name.

    Items of a file belong to the data set that they name, otherwise to the file; drawn items to their study or run.
    """
    set_by_item = {}
    rows = study.items.filter(purpose=Item.Purpose.JUDGED).values_list("key", "origin")
    for key, origin in rows.iterator(chunk_size=_BATCH):
        if origin.get("of_study"):
            set_by_item[key] = str(origin["of_study"])
        elif origin.get("run") is not None:
            set_by_item[key] = f"run {origin['run']}"
        elif "/" in key:
            set_by_item[key] = key.partition("/")[0]
        elif origin.get("file"):
            set_by_item[key] = str(origin["file"])
    return set_by_item


def checks_ensure(*, study: Study, checks: Sequence[AttentionCheck]) -> list[Item]:
    """Return the items that represent the checks, in order.

    Missing ones are stored.
    """
    keys = [check.key for check in checks]
    of_study = Item.objects.filter(study=study, purpose=Item.Purpose.CHECK, key__in=keys)
    stored = {item.key: item for item in of_study}
    missing = [_of_check(study, check) for check in checks if check.key not in stored]
    if missing:
        Item.objects.bulk_create(missing, ignore_conflicts=True)
        stored = {item.key: item for item in of_study.all()}
    return [stored[key] for key in keys]


def _of_check(study: Study, check: AttentionCheck) -> Item:
    return Item(
        study=study,
        key=check.key,
        purpose=Item.Purpose.CHECK,
        context=list(check.context),
        responses=[{"text": text} for text in (check.response, check.second_response) if text],
        reference=check.reference or None,
        reference_score=check.reference_score,
        expected={key: list(passing) for key, passing in check.expected.items()},
    )


def repeats_ensure(*, study: Study, items: Sequence[Item]) -> dict[int, Item]:
    """Return the item that repeats each item, by the latter's id.

    Missing ones are stored.
    """
    of_study = Item.objects.filter(study=study, original__in=items)
    repeats = {repeat.original_id: repeat for repeat in of_study}
    missing = [_again(item) for item in items if item.pk not in repeats]
    if missing:
        Item.objects.bulk_create(missing, ignore_conflicts=True)
        repeats = {repeat.original_id: repeat for repeat in of_study.all()}
    return {item.pk: repeats[item.pk] for item in items}


def _again(item: Item) -> Item:
    return Item(
        study_id=item.study_id,
        key=f"repeat/{item.pk}",
        purpose=Item.Purpose.REPEAT,
        original=item,
        context=item.context,
        responses=item.responses,
        reference=item.reference,
        reference_score=item.reference_score,
        task=item.task,
        panel=item.panel,
        criteria=item.criteria,
    )


def gold_store(*, item: Item, expected: Mapping[str, Sequence[float]]) -> Item:
    """Store the right answers to an item, which makes it gold.

    Without answers it becomes a normal item.

    Raises:
        ValidationError: if the item was shown to participants: their ratings are already counted or excluded.
    """
    is_gold = item.purpose == Item.Purpose.GOLD
    if is_gold != bool(expected) and item.slots.filter(task__participant__is_synthetic=False).exists():
        raise ValidationError(f"Participants have already rated “{item.key}”, so it cannot be changed.")
    item.purpose = Item.Purpose.GOLD if expected else Item.Purpose.JUDGED
    item.expected = {key: list(passing) for key, passing in expected.items()}
    with transaction.atomic():
        item.save(update_fields=["purpose", "expected", "updated_at"])
        record(GOLD_STORE, item.study, item=item.pk, is_gold=bool(expected))
    return item


def question_item_ensure(*, study: Study) -> None:
    """Store the single item of a study without items to rate.

    It represents the question itself.
    """
    everybody = {"model": "everybody", "text": ""}
    Item.objects.get_or_create(
        study=study, key="question", defaults={"purpose": Item.Purpose.QUESTION, "responses": [everybody]}
    )


SAMPLE_SOURCE = "sample"
FILE_SOURCE = "file"
SAMPLE_KEYS = "example-"
SAMPLES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ItemSet:
    """Set of items with a common source.

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
    def source(self) -> str:
        """The data set, file, study or run; empty without one."""
        return self.name.partition(":")[2]

    @property
    def n_free(self) -> int:
        """Number of items that can be removed.

        They were never assigned, and nothing depends on them.
        """
        return self.n - self.n_given


def item_sets(study: Study) -> list[ItemSet]:
    """Return the sets of a study's items, ordered by name."""
    rows = (
        _in_sets(study)
        .annotate(is_given=_is_given())
        .order_by()
        .values_list("set_name")
        .annotate(n=Count("pk"), n_given=Count("pk", filter=Q(is_given=True)))
    )
    return [
        ItemSet(name, n, n_given, _in_sets(study).filter(set_name=name).order_by("pk")[:SAMPLES_SHOWN])
        for name, n, n_given in sorted(rows)
    ]


def item_set_remove(*, study: Study, name: str) -> tuple[int, int]:
    """Remove a set except for items that participants have seen.

    Rehearsals that rated the removed items are deleted.

    Returns:
        The numbers of removed and of remaining items.

    Raises:
        ValidationError: if the study is open, which means that its items are being assigned, or has no such set.
    """
    with transaction.atomic():
        # Assigning items locks this row too, so no participant gets an item that is being removed.
        locked = Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        if locked.state == Study.State.COLLECTING:
            raise ValidationError("The study is collecting ratings of these items. Pause the study first.")
        rows = _in_sets(study).filter(set_name=name).annotate(is_given=_is_given())
        all_of_it = dict(rows.values_list("pk", "is_given"))
        if not all_of_it:
            raise ValidationError("The study does not have these items; they may have been removed already.")
        free = [pk for pk, is_given in all_of_it.items() if not is_given]
        judged = Q(tasks__slots__item__in=free) | Q(tasks__slots__item__original__in=free)
        rehearsed = Participant.objects.filter(judged, study=study, is_synthetic=True)
        participants_erase(participants=rehearsed.distinct())
        Item.objects.filter(pk__in=free).delete()
        record(ITEMS_REMOVE, study, items=len(free))
    return len(free), len(all_of_it) - len(free)


def _in_sets(study: Study) -> Any:
    """Return the study's items annotated with their set, without checks and repeats."""
    kinds = (Item.Purpose.JUDGED, Item.Purpose.GOLD)
    items = Item.objects.filter(study=study, purpose__in=kinds)
    return items.annotate(
        of_study=KT("origin__of_study"),
        of_run=KT("origin__run"),
        of_file=KT("origin__file"),
        slash=StrIndex("key", Value("/")),
    ).annotate(
        set_name=Case(
            When(of_study__isnull=False, then=_joined("study:", "of_study")),
            When(of_run__isnull=False, then=_joined("run:", "of_run")),
            When(key__startswith=SAMPLE_KEYS, then=Value(SAMPLE_SOURCE)),
            When(slash__gt=1, then=_joined("file:", Substr("key", 1, F("slash") - 1))),
            When(of_file__isnull=False, then=_joined("file:", "of_file")),
            default=Value(FILE_SOURCE),
            output_field=CharField(),
        )
    )


def _joined(kind: str, suffix: Any) -> Concat:
    return Concat(Value(kind), suffix, output_field=CharField())


def _is_given() -> Exists:
    """Return the condition that participants have been assigned an item.

    Equal items count, rehearsals do not.
    """
    slots = Slot.objects.filter(task__participant__is_synthetic=False)
    return Exists(slots.filter(Q(item=OuterRef("pk")) | Q(item__original=OuterRef("pk"))))
