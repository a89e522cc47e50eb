"""Comparison of fits, of what self-play predicts run by run, and of the same bots in several studies."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.dashboard.narrative.hybrid_fits import (
    ComparedStudy,
    fits_table,
    runs_table,
    studies_table,
)
from webapp.dashboard.navigation import staff_only
from webapp.dashboard.selectors import studies_to_compare
from webapp.dashboard.views.studies import (
    stored_result,
    study_of,
    study_page,
)
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import fits_beside
from webapp.ratings.selectors import study_bots
from webapp.studies.models import Study

MOST_FITS = 40
"""So many fits stand beside one another, the newest."""
MOST_BESIDE = 4
"""So many other studies stand beside one: a table of more cannot be read."""


@require_safe
@staff_only
def fits(request: HttpRequest, key: str) -> HttpResponse:
    """Show fits beside one another, what self-play predicts run by run, and the same bots in several studies."""
    study = study_of(key)
    choosable = studies_to_compare(study)
    asked = list(dict.fromkeys(filter(None, request.GET.getlist("with"))))
    others = [one for one in choosable if one.key in asked][:MOST_BESIDE]
    wrong = _not_beside(asked, choosable)
    studies = [study, *others]
    found = fits_beside(studies, MOST_FITS)
    runs = runs_table(found, study_bots(study), lambda run: reverse("dashboard:run", args=[run.pk]))
    beside, waiting = [], []
    for one in studies if others else []:
        result = stored_result(request, one, "comparisons")
        if result.frame is not None:
            beside.append(ComparedStudy(result.frame, result.result))
        elif result.waiting is None:
            wrong.append(f"“{one.key}” has no ratings yet.")
        if result.waiting is not None:
            waiting.append(one)
    return study_page(
        request,
        "fits.html",
        study,
        "fits",
        leaves_out=True,
        wrong=wrong,
        table=fits_table(found, _fit_address, several=bool(others)) if found else None,
        runs=runs,
        studies=studies_table(beside),
        still=waiting,
        choosable=[(one, one in others) for one in choosable],
        kept=[(name, v) for name in ("synthetic", "without") if (v := request.GET.get(name))],
        n_synthetic=synthetic_count(study),
    )


def _fit_address(fit: HybridFit) -> str:
    query = {"fit": str(fit.pk)}
    if fit.request.get("without"):
        query["without"] = ",".join(fit.request["without"])
    return f"{reverse('dashboard:study_hybrid', args=[fit.study.key])}?{urlencode(query, safe=',')}"


def _not_beside(asked: Sequence[str], choosable: Sequence[Study]) -> list[str]:
    """Compose messages on requested studies that cannot be shown for comparison."""
    known = [one.key for one in choosable]
    wrong = [
        "There is no other study “{key}” in use; there are {known}.".format(key=key, known=", ".join(known) or "none")
        for key in asked
        if key not in known
    ]
    if len([key for key in asked if key in known]) > MOST_BESIDE:
        wrong.append(
            f"{len(asked)} studies are chosen, and {MOST_BESIDE} can stand beside this one: the newest are shown."
        )
    return wrong
