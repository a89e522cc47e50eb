"""The hybrid metric of a study: the newest fit, its figures, the form for another."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from chatbots.registry import UnknownName
from evaluation.hybrid.presets import PRESETS
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.forms import FitForm, study_targets
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.selectors import metrics_progress
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import (
    conversations_link,
    kept_in_address,
    study_of,
    study_page,
    synthetic_asked,
)
from webapp.dashboard.wording.hybrid import hybrid_view
from webapp.quality.flags.base import flag_kinds
from webapp.ratings.bots import study_bots
from webapp.ratings.selectors import conversations_counted, study_whole
from webapp.reading.totals import totals
from webapp.runs.models import HybridFit
from webapp.runs.selectors.fits import fit_is_behind, fit_leading, fit_rule_has_changed, fits_of
from webapp.runs.services.fits import fit_create
from webapp.runs.services.jobs import jobs_settle

_LISTED = 20


@require_http_methods(["GET", "HEAD", "POST"])
@needs(to_post=[Right.RUN])
def hybrid(request: HttpRequest, key: str) -> HttpResponse:
    """Show the newest fit (or `?fit=`), and the form for another; both leave out whom the address leaves out."""
    study = study_of(key)
    without = without_now(request, study)
    bots = study_bots(study)
    form = FitForm(
        request.POST or None,
        targets=study_targets(study),
        presets=[(preset.name, f"{preset.name}: {preset.short}") for preset in PRESETS.values()],
        whole=study_whole(study),
    )
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            fit_create(
                study=study,
                targets=data["targets"],
                preset=data["preset"],
                intercept=data["intercept"],
                run=data["run"],
                exclude_bots=[bot.bot_id for bot in bots.values() if bot.is_control]
                if data["without_controls"]
                else (),
                include_synthetic=data["include_synthetic"],
                without=without,
                created_by=request.user,  # type: ignore[arg-type]
            )
        except (Refused, UnknownName) as error:
            form.add_error(None, str(error))
        else:
            here = reverse("dashboard:study_hybrid", args=[study.key])
            return redirect(f"{here}{kept_in_address(request)}")
    jobs_settle()
    fits = fits_of(study, _LISTED)
    asked = request.GET.get("fit", "")
    newest = fits[0] if fits else None
    done = next((fit for fit in fits if fit.result and str(fit.pk) == asked), None)
    if not asked:
        done = fit_leading(study, without)
    synthetic = synthetic_asked(request)
    view = None
    if done is not None and done.result:
        view = hybrid_view(
            done.result,
            bots,
            lambda bot_id: conversations_link(
                study, bot=bot_id, synthetic=synthetic, without=without
            ),
            dict(study_targets(study)),
        )
    progress = metrics_progress(study)
    n_rated = totals(study, conversations_counted(study), "ratings").n_rated
    return study_page(
        request,
        "hybrid.html",
        study,
        "hybrid",
        leaves_out=True,
        fits=fits,
        without_whom=_titles(done.request.get("without", ())) if done is not None else "",
        fit=done,
        view=view,
        behind=done is not None and fit_is_behind(done),
        rule_has_changed=done is not None and fit_rule_has_changed(done),
        form=form,
        form_open=bool(form.errors) or request.GET.get("new") == "1" or done is None,
        running=job_context(newest, "hybrid") if newest and not newest.is_over else None,
        broken_off=newest if newest and newest.can_go_on and not asked else None,
        metrics_complete=all(
            m.n_done == m.n_total for m in progress if not (m.reason or m.on_request)
        ),
        n_rated=n_rated,
        status=400 if form.errors else 200,
    )


def _titles(names: Sequence[str]) -> str:
    return ", ".join(str(flag_kinds.get(name).title) for name in names if name in flag_kinds)


@require_safe
@staff_only
def fit_download(request: HttpRequest, key: str, fit_id: int) -> HttpResponse:
    """Send the fit alone, as `fit_hybrid --output` writes it; `fit_hybrid --fit` applies it."""
    fit = get_object_or_404(HybridFit, pk=fit_id, study__key=key)
    if not fit.kept:
        raise Http404
    response = JsonResponse(fit.kept)
    response["Content-Disposition"] = f'attachment; filename="{key}-fit-{fit.pk}.json"'
    return response
