"""The page of pairs: which reply people preferred, and one-turn beside interactive evaluation of the same bots."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.dashboard.access import staff_only
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.parts import protocols_part
from webapp.dashboard.views.study import study_of, study_page, synthetic_asked
from webapp.dashboard.wording.pairs import pairs_section
from webapp.ratings.bots import study_bots
from webapp.ratings.pairs import compares_pairs
from webapp.results.pairs import study_pairs


@require_safe
@staff_only
def pairs(request: HttpRequest, key: str) -> HttpResponse:
    """Show what judgements of pairs say."""
    study = study_of(key)
    compares = compares_pairs(study)
    found = study_pairs(
        study,
        beside=request.GET.get("with", ""),
        include_synthetic=synthetic_asked(request),
        without=without_now(request, study),
    )
    sections = []
    if compares and found.results is not None:
        sections.append(pairs_section(found.results, found.titles, study_bots(study)))
    told = protocols_part(study, found)
    if told is not None:
        sections.append(told)
    return study_page(
        request,
        "pairs.html",
        study,
        "pairs",
        leaves_out=True,
        sections=sections,
        n_synthetic=synthetic_count(study),
        beside=found.beside,
        other=found.other,
        compares=compares,
    )
