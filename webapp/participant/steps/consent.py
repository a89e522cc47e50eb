"""The study's first page: what it is about, consent, and how it works."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp.core.errors import Refused
from webapp.participant.access import Visit, study_page
from webapp.participant.arrivals import Arrival
from webapp.participant.presentation import consent_texts, study_texts, way_at
from webapp.participant.recruitment import recruitment_read, recruitment_sign
from webapp.participant.steps.base import Standing, next_step, register_step, standing_open
from webapp.participant.work import work_of
from webapp.studies.choices import choices_of, lets_choose
from webapp.studies.models import Outcome, Study


@register_step
class Consent:
    """Agree to take part, once for all tasks of the study; or do not, which is the end of the visit."""

    name = "consent"

    def is_applicable(self, standing: Standing) -> bool:
        return standing.task is None or standing.task.outcome != Outcome.NO_CONSENT

    def is_completed(self, standing: Standing) -> bool:
        return standing.participant is not None and standing.participant.consented_at is not None

    def address(self, standing: Standing, visit: Visit) -> str:
        return visit.link("entry", standing.study.key)


@require_safe
@study_page
def entry(request: HttpRequest, study: Study, visit: Visit) -> HttpResponse:
    """Show consent and instructions. Creates nothing: link previews must not use up places."""
    arrival = Arrival(request, study, visit, recruitment_read(study, request.GET))
    refusal = None
    if problem := arrival.recruitment.problem_for(arrival.participant):
        refusal = Refused(problem, _("Nobody can begin by this link."))
    elif (moved := arrival.moved_page()) is not None:
        return moved
    else:
        # "Read the consent again", of those who did not agree.
        ended = arrival.ended_page(may_agree="again" in request.GET)
        if ended is not None:
            return ended
        refusal = arrival.refusal()
    page = arrival.refused_page(refusal) if refusal else entry_page(arrival)
    arrival.opened(refusal)
    return page


def entry_page(arrival: Arrival, **errors: Any) -> HttpResponse:
    """Return the page.

    Args:
        errors: `page_error` above all of it, `consent_error` or `notice_error` beside that box.
    """
    visit, recruitment = arrival.visit, arrival.recruitment
    if lets_choose(arrival.study) and not recruitment.nonce:
        # The number of a choice is valid only with the same form.
        recruitment = replace(recruitment, nonce=secrets.token_urlsafe(16))
    # A platform id in a link does not open a chat: only the session or the token does.
    mine = arrival.participant if arrival.is_theirs and not errors else None
    going_on = standing_open(mine) if mine else None
    if going_on and going_on.task and recruitment.submission:
        # Another visit of the same person is paid separately, and begins again.
        going_on = going_on if going_on.task.submission == recruitment.submission else None
    step = next_step(going_on) if going_on else None
    context = {
        **study_texts(arrival.study, arrival.study.version),
        **consent_texts(arrival.study.version),
        "work": work_of(arrival.study, arrival.study.version),
        "visit": visit,
        "recruitment": recruitment,
        "entry_field": recruitment_sign(arrival.study, arrival.study.version, recruitment),
        "is_preview": recruitment.is_preview,
        "choices": choices_of(arrival.study, arrival.participant, recruitment.nonce),
        "continue_url": step.address(going_on, visit) if step and going_on else "",
        "way": way_at(arrival.study, "consent"),
        **errors,
    }
    return render(arrival.request, "participant/entry.html", context)
