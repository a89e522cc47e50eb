"""Self-play runs beside one another."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.wording.run_means import means_table, run_title, settings_table
from webapp.reading.run_means import MOST_COLUMNS, MOST_RUNS, AskedRuns, runs_compared
from webapp.runs.services.jobs import jobs_settle


@require_safe
@staff_only
def runs_compare(request: HttpRequest) -> HttpResponse:
    """Show the means of chosen metrics bot by bot and run by run; without a choice of the newest runs."""
    jobs_settle()
    asked = AskedRuns(
        runs=list(filter(None, request.GET.getlist("run"))),
        bots=list(filter(None, request.GET.getlist("bot"))),
        columns=list(filter(None, request.GET.getlist("column"))),
    )
    found = runs_compared(asked)
    chosen = {one.name for one in found.measures}
    there = [*found.every_measure, *(m for m in found.measures if m not in found.every_measure)]
    measures = [(one, one.name in chosen) for one in there]
    return page(
        request,
        "runs_compared.html",
        "runs",
        found=found,
        table=means_table(found) if found.sides else None,
        settings_table=settings_table(found) if found.runs else None,
        chosen=[(run, run_title(run)) for run in found.runs],
        runs=[(run, run_title(run), run in found.runs) for run in found.every_run],
        bots=[(slot, bot, bot in asked.bots) for slot, bot in enumerate(found.every_bot, start=1)],
        measures=[one for one in measures if one[0].is_first or one[1]],
        more=[one for one in measures if not (one[0].is_first or one[1])],
        most_runs=MOST_RUNS,
        most_columns=MOST_COLUMNS,
    )
