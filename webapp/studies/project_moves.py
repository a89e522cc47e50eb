"""Moves of studies between projects: one side offers, the other accepts."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import Signal

from chatbots.text import quote
from webapp.bots.selectors import bots_unknown
from webapp.core.audit_trail import STUDY_DECLINE, STUDY_MOVE, STUDY_OFFER, record
from webapp.core.errors import Refused
from webapp.core.project_scope import in_project
from webapp.core.projects import project_by_key
from webapp.studies.models import Study
from webapp.studies.study_agreements import agreements_keep

study_moved = Signal()
"""Signal with `study`, sent in the transaction that moves it: higher apps move their rows."""


def studies_by_name(*, is_offered: bool | None = None) -> QuerySet[Study]:
    """Return the active project's studies by name, without archived ones.

    `is_offered` selects the studies that are offered, or not offered.
    """
    studies = Study.objects.filter(archived_at=None).order_by("name")
    return studies if is_offered is None else studies.filter(offered_to__isnull=not is_offered)


def offers_to(key: str) -> QuerySet[Study]:
    """Return the studies that other projects offer to this one."""
    return Study.everywhere.filter(offered_to=key).exclude(project=key).order_by("name")


def study_offer(*, study: Study, key: str) -> None:
    """Offer a study to another project; nothing moves before that project accepts.

    Raises:
        Refused: `no_project`: there is no other project with this key.
    """
    project = project_by_key(key)
    if project is None or project.key == study.project_id:
        raise Refused("no_project", f"The project {quote(key)} is not available. Enter the key of another project.")
    with transaction.atomic():
        Study.objects.filter(pk=study.pk).update(offered_to=project)
        record(STUDY_OFFER, study, to=project.key)


def study_decline(*, study: Study) -> None:
    """Decline or withdraw the offer of a study."""
    with transaction.atomic():
        Study.everywhere.filter(pk=study.pk).update(offered_to=None)
        for side in filter(None, (study.project_id, study.offered_to_id)):
            record(STUDY_DECLINE, study, project=str(side))


def study_accept(*, study: Study) -> None:
    """Move an offered study to its new project.

    Its jobs, fits and simulated runs move too.

    Raises:
        Refused: `no_offer`: the offer was withdrawn. `bots`: the study uses bots that the new project cannot use;
            an imported one does not run its bots.
    """
    with transaction.atomic():
        locked = Study.everywhere.select_for_update(of=("self",)).get(pk=study.pk)
        if locked.offered_to_id is None:
            raise Refused("no_offer", "This study is no longer offered.")
        with in_project(locked.offered_to_id):
            if not locked.is_imported and bots_unknown(locked.bots):
                raise Refused(
                    "bots",
                    "The study uses bots that this project does not have. Ask the other project to share them, or an "
                    "administrator of the server.",
                )
        agreements_keep(study=locked, before=locked.project_id, after=locked.offered_to_id)
        for side in (locked.project_id, locked.offered_to_id):
            record(STUDY_MOVE, locked, project=str(side), source=locked.project_id, to=locked.offered_to_id)
        locked.project_id, locked.offered_to_id = locked.offered_to_id, None
        locked.save(update_fields=["project", "offered_to", "updated_at"])
        study_moved.send(sender=Study, study=locked)
