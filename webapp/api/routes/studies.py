"""Routes of studies: read, created from a file, and their conversations imported."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router
from ninja.pagination import paginate

from webapp.api.auth import Token, rights_of
from webapp.api.errors import BODY_FAILURES, FAILURES
from webapp.api.paging import Pages
from webapp.api.schemas import StudyDetail, StudyMade, StudyOut
from webapp.core.rights import Right
from webapp.results.state import analysed_counts
from webapp.studies.importing import study_import
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import StudyFile, study_file_of, without_codes

router = Router(tags=["studies"], auth=Token())


@router.get("/studies", response={200: list[StudyOut], **FAILURES}, operation_id="studies")
@paginate(Pages)
def studies(request: HttpRequest) -> Any:
    """List studies, the newest first, archived ones too."""
    return Study.objects.order_by("-created_at", "-pk")


@router.get("/studies/{key}", response={200: StudyDetail, **FAILURES}, operation_id="study")
def study(request: HttpRequest, key: str) -> Any:
    """Return a study and how much there is to analyse."""
    found = study_by_key(key)
    counts = analysed_counts(found)
    for name in ("n_ratings", "n_measured", "n_fits"):
        setattr(found, name, getattr(counts, name))
    return found


@router.get(
    "/studies/{key}/file", response={200: dict[str, Any], **FAILURES}, operation_id="study_file"
)
def study_file(request: HttpRequest, key: str) -> Any:
    """Return a study as its file has it: what `import_study` and a POST of studies read.

    Its completion codes are in it for a token with the right to pay or to administer.
    """
    file = study_file_of(study_by_key(key))
    sees_codes = {Right.PAY, Right.ADMINISTER} & set(rights_of(request))
    return (file if sees_codes else without_codes(file)).to_plain()


@router.post(
    "/studies",
    auth=Token(Right.ADMINISTER),
    response={200: StudyMade, **BODY_FAILURES},
    operation_id="study_make",
)
def study_make(request: HttpRequest, file: StudyFile, opens: bool = False) -> Any:
    """Make a study of a study's file, or a new version of the one with its key; `opens` lets it collect.

    All mistakes come at once, each with its path.
    """
    made = study_import(file=file, opens=opens, author=request.user.get_username())
    return StudyMade(
        key=made.study.key, is_new=made.is_new, n_changes=len(made.changes), n_items=made.n_items
    )
