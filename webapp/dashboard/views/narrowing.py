"""Parts of the workbench's page that change while somebody chooses: how a number spreads."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.dashboard.access import staff_only
from webapp.dashboard.read_source import Gathered, gathered
from webapp.dashboard.views.study import study_of
from webapp.dashboard.workbench import Range, range_asked
from webapp.reading.asking import asked_of
from webapp.reading.listing import people_kept
from webapp.reading.spread import spread_of
from webapp.runs.models import SelfPlayRun


@require_safe
@staff_only
def study_spread(request: HttpRequest, key: str) -> HttpResponse:
    """Draw how a number spreads over a study's conversations, as a part of the page."""
    return _spread(request, gathered(study_of(key)))


@require_safe
@staff_only
def run_spread(request: HttpRequest, run_id: int) -> HttpResponse:
    """Draw how a number spreads over a run's conversations, as a part of the page."""
    return _spread(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _spread(request: HttpRequest, found: Gathered) -> HttpResponse:
    """Draw the spread of the number that `of` names, over what the line asks for without its range of this number."""
    number = found.numbers.get(request.GET.get("of", ""))
    if number is None or number.is_time:
        raise Http404(f"no number {request.GET.get('of', '')}")
    bench, rows, asked = found.bench(request.GET), found.rows, Range("", "", "")
    if bench.wrong is None:
        asked = range_asked(bench.line, number, found.numbers)
        others = asked_of(asked.rest, found.numbers, study=found.study)
        rows = others.matching(rows)
    rows = people_kept(rows, synthetic=bench.synthetic, without=bench.without)
    context = {"number": number, "spread": spread_of(rows, number, found.study), "asked": asked}
    return render(request, "dashboard/_spread.html", context)
