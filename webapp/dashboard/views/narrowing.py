"""Parts of the conversation browser updated with the form: a number's distribution, and the number of results."""

from __future__ import annotations

from django.contrib.humanize.templatetags.humanize import intcomma
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.core.speaking import plural
from webapp.dashboard.access import staff_only
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.narrowing import address_asked, without_range
from webapp.dashboard.read_source import Gathered, gathered
from webapp.dashboard.views.study import study_of
from webapp.reading.asking import asked_of
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
    bench = found.bench(request.GET)
    rows = found.counted(bench)
    if bench.wrong is None:
        rest = without_range(bench.line, number, found.numbers)
        rows = asked_of(rest, found.numbers, study=found.study).matching(rows)
    context = {"number": number, "spread": spread_of(rows, number, found.study)}
    return render(request, "dashboard/_spread.html", context)


@require_safe
@staff_only
def study_total(request: HttpRequest, key: str) -> HttpResponse:
    """Return the number of a study's conversations that the form would find."""
    study = study_of(key)
    without_now(request, study)
    return _total(request, gathered(study))


@require_safe
@staff_only
def run_total(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the number of a run's conversations that the form would find."""
    return _total(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _total(request: HttpRequest, found: Gathered) -> HttpResponse:
    bench = found.bench(address_asked(request.GET, found.numbers))
    if bench.wrong is not None:
        words = bench.wrong.why
    else:
        n = bench.listing(found.rows).count()
        words = plural(n, "{n} conversation fits.", "{n} conversations fit.").format(n=intcomma(n))
    return HttpResponse(words, content_type="text/plain; charset=utf-8")
