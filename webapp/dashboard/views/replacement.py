"""Page *Can it replace people?*: one verdict on metrics, simulations and judges."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from webapp.conversations.selectors import synthetic_count
from webapp.dashboard.navigation import read_view
from webapp.dashboard.views.studies import analysis_key, shown_result, study_page
from webapp.insights.narrative.replacement import candidate_cards, replacement_section
from webapp.jobs.services.jobs import jobs_settle
from webapp.results.replacement import rates_replies
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol


@read_view()
def replacement(request: HttpRequest, study: Study) -> HttpResponse:
    """Show whether anything can replace the study's participants, with the reasons folded."""
    jobs_settle()
    shown = shown_result(request, analysis_key(request, study, "replacement"))
    frame, result = shown.frame, shown.result
    return study_page(
        request,
        "replacement.html",
        study,
        "replacement",
        leaves_out=True,
        n_synthetic=synthetic_count(study),
        waiting=shown.waiting,
        result=result,
        verdict=None if frame is None else replacement_section(frame, result),
        candidates=[] if frame is None else candidate_cards(frame, result),
        is_rated_whole=get_protocol(study).rates_conversations,
        rates_replies=rates_replies(study),
        n_simulated=study.simulations.count(),
    )
