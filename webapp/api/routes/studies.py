"""Studies: read, made of a file, and their conversations brought in."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import File, Form, Router, Schema, Status
from ninja.files import UploadedFile
from ninja.pagination import LimitOffsetPagination, paginate
from pydantic import Field

from chatbots.outside import ValuesError
from webapp.api.auth import Token
from webapp.api.errors import BODY_FAILURES, FAILURES
from webapp.api.routes.jobs import job_out
from webapp.api.schemas import AskImport, JobOut, StudyDetail, StudyMade, StudyOut
from webapp.core.rights import Right
from webapp.results.state import analysed_counts
from webapp.studies.importing import study_import
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import StudyFile, study_file_of
from webapp.transfer.uploads import upload_import

router = Router(tags=["studies"], auth=Token())


class Pages(LimitOffsetPagination):
    """Pages of a list by `limit` and `offset`; both stay within what a database counts."""

    class Input(Schema):
        limit: int = Field(100, ge=1, le=1000)
        offset: int = Field(0, ge=0, le=2**31)


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
    """Return a study as its file has it: what `import_study` and a POST of studies read."""
    return study_file_of(study_by_key(key)).to_plain()


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


@router.post(
    "/studies/{key}/conversations",
    auth=Token(Right.RUN),
    response={202: JobOut, **BODY_FAILURES},
    operation_id="conversations_bring",
)
def conversations_bring(
    request: HttpRequest,
    key: str,
    file: File[UploadedFile],
    asked: Form[AskImport],
) -> Any:
    """Import a file of conversations and ratings into a study, which is made if there is none.

    The job's result says what was stored and which lines were left out; sent twice, nothing doubles.
    """
    low, high = asked.low, asked.high
    if (low is None) != (high is None):
        raise ValuesError("low and high belong together: give both ends of the scale, or none")
    job = upload_import(
        upload=file,
        study=key,
        scale=None if low is None or high is None else (low, high),
        language=asked.language,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job_out(job))
