"""Duplicating, archiving, deleting and rehearsing a study."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.core.speaking import plural
from webapp.dashboard.access import needs
from webapp.dashboard.context import page
from webapp.dashboard.views.study import study_of
from webapp.runs.services.jobs import job_create
from webapp.studies.keeping import people_of, study_archive, study_delete, study_loss
from webapp.studies.services import study_copy


@require_POST
@needs(to_post=[Right.ADMINISTER])
def duplicate(request: HttpRequest, key: str) -> HttpResponse:
    """Make a draft like the study and lead to it."""
    study = study_of(key)
    try:
        made = study_copy(study=study, author=request.user.get_username())
    except ValidationError as error:
        said = "No copy was made: {why}".format(why=" ".join(error.messages))
        messages.error(request, said)
        return redirect("dashboard:study", key)
    said = "This is a draft like %(name)s. Codes and ways back were not copied: they belong to one study."
    messages.success(request, said % {"name": study.name})
    return redirect("dashboard:study_build_step", made.key, "bots")


@require_POST
@needs(to_post=[Right.ADMINISTER])
def archive(request: HttpRequest, key: str) -> HttpResponse:
    """Put a study away, or bring it back."""
    study = study_of(key)
    is_archived = request.POST.get("archived") == "1"
    try:
        study_archive(study=study, is_archived=is_archived)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
        return redirect("dashboard:study", key)
    said = "%(name)s is archived." if is_archived else "%(name)s is back in the list."
    messages.success(request, said % {"name": study.name})
    return redirect("dashboard:studies")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def delete(request: HttpRequest, key: str) -> HttpResponse:
    """Show the data that would be lost, and delete the study after confirmation."""
    study = study_of(key)
    error = ""
    if request.method == "POST":
        try:
            study_delete(study=study, typed_key=request.POST.get("typed", "").strip())
        except ValidationError as refused:
            error = " ".join(refused.messages)
        else:
            messages.success(request, f"{study.name} is deleted.")
            return redirect("dashboard:studies")
    return page(
        request,
        "build/delete.html",
        "studies",
        study=study,
        loss=study_loss(study),
        needs_key=study.is_imported or people_of(study).exists(),
        error=error,
    )


@require_POST
@needs(to_post=[Right.RUN])
def rehearse(request: HttpRequest, key: str) -> HttpResponse:
    """Send scripted participants through the study, by a worker."""
    study = study_of(key)
    if study.is_imported:
        raise Http404(f"{key} is imported")
    url = request.build_absolute_uri("/").rstrip("/") + settings.CONFAB_PATH_PREFIX
    people = request.POST.get("people", "")
    try:
        n = int(people)
    except ValueError:
        messages.error(request, f"“{people}” is no number of people.")
        return redirect("dashboard:study_build_step", key, "check")
    try:
        job = job_create(
            kind="rehearsal",
            payload={"people": n, "url": url},
            study=study,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except Refused as refused:
        messages.error(request, str(refused))
        return redirect("dashboard:study_build_step", key, "check")
    said = plural(
        n,
        "%(n)d scripted participant is on the way. It counts nowhere.",
        "%(n)d scripted participants are on the way. They count nowhere.",
    )
    messages.success(request, said % {"n": n})
    return redirect("dashboard:job", job.kind, job.pk)
