"""Sets of imported conversations that a study rates, and their removal."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Case, CharField, Count, Exists, OuterRef, Q, Value, When
from django.utils.translation import gettext as _

from webapp.conversations.models import Conversation
from webapp.core.audit_trail import ITEMS_REMOVE, record
from webapp.studies.items import FILE_SOURCE, SAMPLE_KEYS, SAMPLE_SOURCE, SAMPLES_SHOWN, ItemSet
from webapp.studies.models import Item, Participant, Slot, Study
from webapp.studies.privacy import participants_erase


def imported_sets(study: Study) -> list[ItemSet]:
    """Return the sets of imported conversations: the sample, and those of files."""
    rows = (
        _in_sets(study)
        .order_by()
        .values_list("set_name")
        .annotate(n=Count("pk"), n_given=Count("pk", filter=Q(is_given=True)))
    )
    return [ItemSet(name, n, n_given, _first(study, name)) for name, n, n_given in sorted(rows)]


def imported_set_remove(*, study: Study, name: str) -> tuple[int, int]:
    """Remove a set, except conversations that are in use.

    Conversations with tasks, ratings or items stay.

    Rehearsals that rated the removed conversations are deleted too.

    Returns:
        The numbers of removed and of remaining conversations.

    Raises:
        ValidationError: the study is open, so participants may get them, or it has no such set.
    """
    with transaction.atomic():
        # Assignment locks this row too, so no participant gets a conversation that is being removed.
        locked = Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        if locked.state == Study.State.COLLECTING:
            raise ValidationError(_("Participants are being assigned its conversations. Pause the study first."))
        all_of_it = dict(_in_sets(study).filter(set_name=name).values_list("pk", "is_given"))
        if not all_of_it:
            raise ValidationError(_("The study does not have these conversations; they may have been removed already."))
        free = [pk for pk, is_given in all_of_it.items() if not is_given]
        rehearsed = Participant.objects.filter(tasks__slots__conversation__in=free, is_synthetic=True)
        participants_erase(participants=rehearsed.distinct())
        Conversation.objects.filter(pk__in=free).delete()
        record(ITEMS_REMOVE, study, conversations=len(free))
    return len(free), len(all_of_it) - len(free)


def _in_sets(study: Study) -> Any:
    """Annotate imported conversations with the name of their set and with `is_given`.

    `is_given` is true where ratings, tasks or items depend on them.
    """
    imported = study.conversations.filter(source=Conversation.Source.IMPORT)
    people = Slot.objects.filter(task__participant__is_synthetic=False)
    rated = Conversation.objects.filter(pk=OuterRef("pk"), ratings__isnull=False).exclude(
        ratings__participant__is_synthetic=True
    )
    return imported.annotate(
        is_given=Exists(people.filter(conversation=OuterRef("pk")))
        | Exists(rated)
        | Exists(Item.objects.filter(Item.holding(pk=OuterRef("pk")))),
        set_name=Case(
            When(external_id__startswith=SAMPLE_KEYS, then=Value(SAMPLE_SOURCE)),
            default=Value(FILE_SOURCE),
            output_field=CharField(),
        ),
    )


def _first(study: Study, name: str) -> list[Conversation]:
    conversations = _in_sets(study).filter(set_name=name).select_related("bot").order_by("external_id")
    return list(conversations[:SAMPLES_SHOWN])
