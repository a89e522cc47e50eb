"""Archiving and deletion of studies: archived ones are hidden in lists, deletion includes the participants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.studies.erasure import erasure_counts, erasure_kinds, participants_erase, studies_gone
from webapp.studies.models import Participant, Study


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of data that is deleted with a study, and its amount."""

    title: str
    n: int


def study_archive(*, study: Study, is_archived: bool) -> Study:
    """Leave a study out of lists, or bring it back; it stays as it is.

    Raises:
        ValidationError: it collects.
    """
    if is_archived and study.state == Study.State.COLLECTING:
        raise ValidationError(_("People can take part in it now. Pause or close it first."))
    study.archived_at = timezone.now() if is_archived else None
    study.save(update_fields=["archived_at", "updated_at"])
    return study


def people_of(study: Study) -> Any:
    """Return those of its participants who are no scripted ones."""
    return study.participants.filter(is_synthetic=False)


def study_loss(study: Study) -> list[Loss]:
    """Return the rows that would be deleted with the study, counted by kind; kinds without rows are left out."""
    kinds = erasure_kinds()
    counts = erasure_counts(Participant.objects.filter(study=study))
    found = [Loss(str(kinds[table].title), n) for table, n in counts.items()]
    found += [
        Loss(_("versions"), study.versions.count()),
        Loss(_("items"), study.items.count()),
    ]
    return [one for one in found if one.n]


def study_delete(*, study: Study, typed_key: str = "") -> list[Loss]:
    """Delete a study with all its data. Returns the kinds and amounts that were deleted.

    Args:
        typed_key: the study's key, which the user must type to delete participants' data.

    Raises:
        ValidationError: if it collects, or holds participants' data and the key is not the study's.
    """
    if study.state == Study.State.COLLECTING:
        raise ValidationError(_("People can take part in it now. Pause or close it first."))
    if typed_key != study.key and (study.is_imported or people_of(study).exists()):
        raise ValidationError(
            _(
                "It holds people’s data. Write its key, %(key)s, to delete it; “%(typed)s” is not it."
            )
            % {"key": study.key, "typed": typed_key}
        )
    lost = study_loss(study)
    participants_erase(participants=Participant.objects.filter(study=study))
    studies_gone([study.pk])
    study.delete()
    return lost
