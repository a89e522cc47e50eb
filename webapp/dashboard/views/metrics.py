"""Metrics of a study: data dictionary, computation, and the hybrid metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from chatbots.registry import UnknownName
from evaluation.hybrid.features import PRESETS
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import configured_metrics, metric_list
from evaluation.plots.text_layout import tick_label
from evaluation.tables import Column
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.filters import apply_flag_filter
from webapp.dashboard.forms import FitForm, study_targets
from webapp.dashboard.narrative.hybrid import hybrid_view
from webapp.dashboard.navigation import page, requires, staff_only
from webapp.dashboard.selectors import metrics_progress
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import (
    conversations_link,
    kept_in_address,
    study_of,
    study_page,
    synthetic_asked,
)
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import fit_is_behind, fit_leading, fit_rule_has_changed, fits_of
from webapp.jobs.selectors.metrics import (
    language_sentences,
    languages_of,
    left_out_sentences,
    metric_runs_newest,
    metrics_left_out,
    results_counted,
    study_languages,
)
from webapp.jobs.services.fits import fit_create
from webapp.jobs.services.jobs import jobs_settle
from webapp.jobs.services.metrics import metric_run_create
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.selectors import conversations_counted, study_bots, study_whole
from webapp.search.index_statistics import conversation_totals


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of the dictionary."""

    metric: Metric
    key: str
    params: dict[str, object]
    reason: str
    languages: str
    needs: str
    device: str
    licence: str
    columns: list[tuple[Column, str]]


def dictionary() -> list[MetricRow]:
    """Return every metric with its identity and columns."""
    return [
        MetricRow(
            metric=metric,
            key=metric.identity.key,
            params=dict(metric.identity.params),
            reason=metric.unavailable_reason() or "",
            languages=languages_of(metric),
            needs=", ".join(getattr(metric, "needs", ())),
            device=str(getattr(metric, "device", "cpu")),
            licence=str(getattr(metric, "licence", "")),
            columns=[(column, _range(column)) for column in metric.columns],
        )
        for metric in metric_list()
    ]


def _range(column: Column) -> str:
    low, high = column.range
    if low is None and high is None:
        return "any"
    if high is None:
        return f"from {tick_label(low or 0)}"
    if low is None:
        return f"up to {tick_label(high)}"
    return f"{tick_label(low)} … {tick_label(high)}"


@require_safe
@staff_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Show the data dictionary."""
    rows = dictionary()
    return page(
        request,
        "metrics.html",
        "metrics",
        metrics=rows,
        broken=configured_metrics.broken,
        n_columns=sum(len(row.columns) for row in rows),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@requires(to_post=[Right.RUN])
def study_metrics(request: HttpRequest, key: str) -> HttpResponse:
    """Show how much of a study is measured; POST computes what is missing."""
    study = study_of(key)
    if request.method == "POST":
        try:
            metric_run_create(
                study=study,
                metrics=request.POST.getlist("metric"),
                created_by=request.user,  # type: ignore[arg-type]
            )
        except (Refused, UnknownName) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, "Metrics are being computed by a worker.")
        return redirect("dashboard:study_metrics", study.key)
    jobs_settle()
    jobs = metric_runs_newest(study, 10)
    newest = jobs[0] if jobs else None
    counted = results_counted(study=study)
    measured = metrics_progress(study, counted)
    names = {one.name for one in measured if one.n_done}
    return study_page(
        request,
        "study_metrics.html",
        study,
        "metrics",
        progress=measured,
        languages=language_sentences(
            study_languages(study), [metric for metric in metric_list() if metric.name in names]
        ),
        left_out=left_out_sentences(metrics_left_out(study=study, counted=counted)),
        broken=configured_metrics.broken,
        jobs=jobs,
        running=job_context(newest, "metrics") if newest and not newest.is_over else None,
    )


_LISTED = 20


@require_http_methods(["GET", "HEAD", "POST"])
@requires(to_post=[Right.RUN])
def hybrid(request: HttpRequest, key: str) -> HttpResponse:
    """Show the newest fit (or `?fit=`), and the form for another; both leave out whom the address leaves out."""
    study = study_of(key)
    without = apply_flag_filter(request, study)
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
            lambda bot_id: conversations_link(study, bot=bot_id, synthetic=synthetic, without=without),
            dict(study_targets(study)),
        )
    progress = metrics_progress(study)
    n_rated = conversation_totals(study, conversations_counted(study), "ratings").n_rated
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
        metrics_complete=all(m.n_done == m.n_total for m in progress if not (m.reason or m.on_request)),
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
