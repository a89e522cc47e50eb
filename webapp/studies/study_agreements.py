"""Agreements of two projects about a study, so that one can name the other's study in its settings.

A project asks for a study by its key, and the study's project accepts or declines. With an accepted agreement, studies
of the asking project can name that study under *Only participants of these studies* and *No participants of these
studies*. Studies of the asking project and that study form one group if they have the same group name.

The asking project cannot tell an unknown key from a study whose project has not accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db import transaction
from django.db.models import Q, QuerySet

from chatbots.text import quote
from webapp.core.audit_trail import AGREEMENT_ANSWER, AGREEMENT_ASK, AGREEMENT_DROP, record
from webapp.core.errors import Refused
from webapp.core.project_scope import project_of_new_rows
from webapp.studies.models import Study, StudyAgreement

MOST_AGREEMENTS = 200
State = StudyAgreement.State


def agreements_requested() -> QuerySet[StudyAgreement]:
    """Return the requests of the active project."""
    return StudyAgreement.everywhere.filter(project=project_of_new_rows())


def agreements_about() -> list[tuple[StudyAgreement, Study]]:
    """Return the requests of other projects about studies of the active one that wait or are accepted."""
    project = project_of_new_rows()
    studies = {study.key: study for study in Study.everywhere.filter(project=project)}
    rows = StudyAgreement.everywhere.filter(study_key__in=studies).exclude(project=project)
    return [(row, studies[row.study_key]) for row in rows.exclude(state=State.DECLINED)]


def agreement_ask(*, study_key: str) -> None:
    """Ask for an agreement about a study of another project.

    Raises:
        Refused: `bad_key`: it is no key of a study. `too_many`.
    """
    if not re.fullmatch(r"[-a-zA-Z0-9_]{1,60}", study_key):
        raise Refused("bad_key", f"{quote(study_key)} is no key of a study. Keys have letters, digits, hyphens and _.")
    if agreements_requested().count() >= MOST_AGREEMENTS:
        raise Refused("too_many", f"A project can have {MOST_AGREEMENTS} requests. Remove some first.")
    with transaction.atomic():
        agreement, is_new = StudyAgreement.everywhere.get_or_create(
            project_id=project_of_new_rows(), study_key=study_key
        )
        if is_new:
            record(AGREEMENT_ASK, agreement)


def agreement_drop(*, number: str) -> None:
    """Remove a request of the active project, and with it an agreement."""
    with transaction.atomic():
        n, _rows = agreements_requested().filter(pk=number if number.isdigit() else 0).delete()
        if n:
            record(AGREEMENT_DROP, agreements=n)


def agreement_answer(*, number: str, is_accepted: bool) -> None:
    """Accept a request about a study of the active project, or decline it; declining also ends an agreement.

    Raises:
        Refused: `no_agreement`.
    """
    agreement = next((row for row, _study in agreements_about() if str(row.pk) == number), None)
    if agreement is None:
        raise Refused("no_agreement", "This request no longer exists.")
    agreement.state = State.ACCEPTED if is_accepted else State.DECLINED
    with transaction.atomic():
        agreement.save(update_fields=["state", "updated_at"])
        # In the log of the project that answers; the other one must not learn of a refusal.
        record(AGREEMENT_ANSWER, agreement, project=project_of_new_rows(), is_accepted=is_accepted)


def studies_named_by(project: str | None) -> Q:
    """Return the condition of studies that settings of the project's studies can name."""
    agreed = StudyAgreement.everywhere.filter(project=project, state=State.ACCEPTED)
    return Q(project=project) | Q(key__in=agreed.values("study_key"))


def studies_grouped_with(study: Study) -> Q:
    """Return the condition of studies that can be in a group with this one."""
    agreed = StudyAgreement.everywhere.filter(study_key=study.key, state=State.ACCEPTED)
    return studies_named_by(study.project_id) | Q(project__in=agreed.values("project"))


def agreements_keep(*, study: Study, before: str | None, after: str | None) -> None:
    """Add the agreements with which a study keeps its relations after a move, which both projects have agreed to."""
    values = study.values
    named = {*values.recruitment.only_after_studies.split(), *values.recruitment.never_after_studies.split()}
    referring = False
    for other in Study.everywhere.filter(project=before).exclude(pk=study.pk):
        recruitment = other.values.recruitment
        names_it = study.key in {*recruitment.only_after_studies.split(), *recruitment.never_after_studies.split()}
        group = values.assignment.study_group
        referring = referring or names_it or bool(group and other.values.assignment.study_group == group)
    own = set(Study.everywhere.filter(project=before, key__in=named).values_list("key", flat=True))
    _accept(before, [study.key] if referring else [])
    _accept(after, own)


def _accept(project: str | None, keys: Iterable[str]) -> None:
    for key in keys:
        StudyAgreement.everywhere.update_or_create(
            project_id=project, study_key=key, defaults={"state": State.ACCEPTED}
        )
