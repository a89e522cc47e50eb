"""The address of a preview, for staff."""

from __future__ import annotations

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.core.failing import not_found
from webapp.core.rights import Right, may_see_codes
from webapp.core.staff import refusal
from webapp.participant.preview.page import BEFORE_TASKS, Look, made_preview, step_page
from webapp.participant.preview.stage import standing_staged
from webapp.participant.steps.base import Standing
from webapp.studies.languages import LANGUAGES, locale_of
from webapp.studies.models import Outcome, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import steps_asked, study_by_key


@require_safe
@never_cache
def preview(request: HttpRequest, study_key: str, step: str) -> HttpResponseBase:
    """Show staff a step of the study as participants get it now, whatever the study's state; store nothing.

    A step of the protocol for which the study has nothing leads to its first page.
    """
    refused = refusal(request, Right.READ)
    if refused is None and step == "done" and not may_see_codes(request.user):
        refused = refusal(request, Right.PAY)
    if refused is not None:
        return refused
    try:
        study = study_by_key(study_key)
        way = protocols.get(study.protocol).steps
        if step not in [one.name for one in way]:
            raise Http404
        look = _look(request)
        asked = steps_asked(study)
        if step not in asked:  # not in this study, or not yet
            return redirect(look.address(study.key, asked[0]))
        locale = locale_of(look.language or study.values.texts.language)
        with translation.override(locale):
            return _shown(request, study, step, look)
    except (Study.DoesNotExist, Http404):
        return not_found(request)


def _shown(request: HttpRequest, study: Study, step: str, look: Look) -> HttpResponse:
    if step in BEFORE_TASKS:
        standing = Standing(study)
        page = step_page(request, standing, step, look)
        return made_preview(request, page, standing, step, look)
    outcome = request.GET.get("outcome", "")
    ended = Outcome(outcome) if outcome in Outcome.values else Outcome.RATED
    with transaction.atomic():
        standing = standing_staged(study, step, ended, is_missed=request.GET.get("missed") == "1")
        page = step_page(request, standing, step, look)
        transaction.set_rollback(True)
    return made_preview(request, page, standing, step, look)


def _look(request: HttpRequest) -> Look:
    """Return the appearance requested in the address, without unknown values."""
    given = request.GET
    theme, language = given.get("theme", ""), given.get("lang", "")
    return Look(
        theme=theme if theme in ("light", "dark") else "",
        language=language if language in LANGUAGES else "",
        focus=given.get("focus", "")[:100],
        still=given.get("still") == "1",
    )
