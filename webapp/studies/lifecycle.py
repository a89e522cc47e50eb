"""Lifecycle of a study: demo, datasheet, archiving, and deletion.

Archived studies are hidden in lists; deletion includes the participants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from webapp.bots.selectors import bot_available_ids
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import erasure_counts, erasure_kinds, participants_erase, studies_gone
from webapp.studies.services import study_create

_DEMO_BOTS = ["eliza", "retrieval", "parrot", "generic"]
_DEMO_TALKER = "smollm2"


def demo_study_ensure() -> Study:
    """Make the study `demo` of the bots that every installation has, and of the pretrained talker if it is here.

    A study that is there already stays as it is, whatever has been installed since.
    """
    study = Study.objects.filter(key="demo").first()
    return study or study_create(
        key="demo",
        name="Demo: bots to compare",
        title="Chat with a chatbot",
        bots=_DEMO_BOTS + bot_available_ids([_DEMO_TALKER]),
        state=Study.State.COLLECTING,
        min_exchanges=3,
        max_exchanges=15,
        organisation="the administrator of this server",
    )


DEMO_PAPER_KEY = "demo-paper"
_PAPER_BOTS = [f"{model}{ei}-demo" for model in ("hred", "vhred", "vhcr") for ei in ("", "-ei")]


def demo_paper_study_ensure() -> Study:
    """Make the study `demo-paper`: three architectures, each plain and with EI, as in the main paper.

    It is a draft while none of its bots is installed, and begins to collect with the first. If a researcher has
    changed its state since, that state stays.
    """
    study = Study.objects.filter(key=DEMO_PAPER_KEY).first() or study_create(
        key=DEMO_PAPER_KEY,
        name="Demo: the paper's models, plain and with EI",
        title="Chat with a chatbot",
        bots=_PAPER_BOTS,
        min_exchanges=3,
        max_exchanges=15,
        organisation="the administrator of this server",
    )
    if study.state == Study.State.DRAFT and bot_available_ids(study.bots):
        # With those that are here: an edit would be refused for the others.
        study.state = Study.State.COLLECTING
        study.save(update_fields=["state", "updated_at"])
    return study


@dataclass(frozen=True, slots=True)
class DeletedData:
    """One kind of data that is deleted with a study, and its amount."""

    title: str
    n: int


def study_archive(*, study: Study, is_archived: bool) -> Study:
    """Leave a study out of lists, or bring it back; it stays as it is.

    Raises:
        ValidationError: it collects.
    """
    if is_archived and study.state == Study.State.COLLECTING:
        raise ValidationError("People can take part in it now. Pause or close it first.")
    study.archived_at = timezone.now() if is_archived else None
    study.save(update_fields=["archived_at", "updated_at"])
    return study


def study_participants(study: Study) -> Any:
    """Return those of its participants who are no scripted ones."""
    return study.participants.filter(is_synthetic=False)


def study_loss(study: Study) -> list[DeletedData]:
    """Return the rows that would be deleted with the study, counted by kind; kinds without rows are left out."""
    kinds = erasure_kinds()
    counts = erasure_counts(Participant.objects.filter(study=study))
    found = [DeletedData(str(kinds[table].title), n) for table, n in counts.items()]
    found += [DeletedData("versions", study.versions.count()), DeletedData("items", study.items.count())]
    return [one for one in found if one.n]


def study_delete(*, study: Study, typed_key: str = "") -> list[DeletedData]:
    """Delete a study with all its data. Returns the kinds and amounts that were deleted.

    Args:
        typed_key: the study's key, which the user must type to delete participants' data.

    Raises:
        ValidationError: if it collects, or holds participants' data and the key is not the study's.
    """
    if study.state == Study.State.COLLECTING:
        raise ValidationError("People can take part in it now. Pause or close it first.")
    if typed_key != study.key and (study.is_imported or study_participants(study).exists()):
        raise ValidationError(
            f"It holds people’s data. Write its key, {study.key}, to delete it; “{typed_key}” is not it."
        )
    lost = study_loss(study)
    participants_erase(participants=Participant.objects.filter(study=study))
    studies_gone([study.pk])
    study.delete()
    return lost


MOST_DATASHEET_CHARS = 5000


def datasheet_store(*, study: Study, answers: Mapping[str, str]) -> Study:
    """Store answers by question; an empty one deletes the former answer. Others stay unchanged."""
    with transaction.atomic():
        current = Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        kept = {**current.datasheet, **{key: text.strip()[:MOST_DATASHEET_CHARS] for key, text in answers.items()}}
        kept = {key: kept[key] for key in sorted(kept) if kept[key]}
        # Not by save(): the data are unchanged, so no result is computed again.
        Study.objects.filter(pk=study.pk).update(datasheet=kept)
    study.datasheet = kept
    return study
