"""Prediction page of a study: metrics, hybrid fits, and self-play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from chatbots.registry import UnknownName
from evaluation.hybrid.features import PRESETS
from evaluation.metrics.registry import configured_metrics
from webapp.conversations.selectors import synthetic_count
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.conversation_list import conversations_link
from webapp.dashboard.filters import apply_flag_filter
from webapp.dashboard.forms import FitForm, study_targets
from webapp.dashboard.navigation import form_view, read_view
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.studies import kept_in_address, studies_asked, study_page, synthetic_asked
from webapp.insights.narrative.hybrid import hybrid_view
from webapp.insights.narrative.hybrid_fits import fits_table, runs_table
from webapp.insights.overview import selfplay_bots
from webapp.insights.selectors import metrics_progress, study_runs
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import (
    fit_condition,
    fit_is_behind,
    fit_leading,
    fit_leading_id,
    fit_rule_has_changed,
    fits_beside,
    fits_newest,
    fits_of,
)
from webapp.jobs.selectors.metrics import (
    language_sentences,
    left_out_sentences,
    metric_runs_newest,
    metric_titles,
    metrics_all,
    metrics_left_out,
    results_counted,
    study_languages,
)
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.jobs.services.jobs import jobs_settle
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.selectors import BotInfo, conversations_counted, study_bots
from webapp.search.chat_selection import ChatSelection
from webapp.search.index_statistics import conversation_totals
from webapp.search.selectors import has_residuals
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

_LISTED = 20
MOST_FITS = 40
"""Number of the newest fits in the comparison."""


@form_view(to_post=[Right.RUN])
def prediction(request: HttpRequest, study: Study) -> HttpResponse:
    """Show how well metrics predict the ratings.

    POST computes metrics, or fits the hybrid metric.
    """
    excluded_flags = apply_flag_filter(request, study)
    bots = study_bots(study)
    if "compute" in request.POST:
        return _compute_metrics(request, study)
    form = FitForm(
        request.POST or None,
        study=study,
        presets=[(preset.name, f"{preset.name}: {preset.short}") for preset in PRESETS.values()],
    )
    started = _start_fit(request, study, form, bots, excluded_flags) if request.method == "POST" else None
    if started is not None:
        here = reverse("dashboard:study_prediction", args=[study.key])
        return redirect(_fit_address(started) if fit_condition(started) else f"{here}{kept_in_address(request)}")
    jobs_settle()
    context = _metrics_context(study)
    n_rated = 0
    if get_protocol(study).rates_conversations:
        context |= _fit_context(request, study, bots, excluded_flags) | _comparison_context(request, study, bots)
        n_rated = conversation_totals(study, conversations_counted(study), "ratings").n_rated
    runs, fit = study_runs(study), context.get("fit")
    is_due = bool(n_rated) and (fit is None or context["behind"] or context["rule_has_changed"])
    form_open = bool(form.errors) or request.GET.get("new") == "1"
    action = "again" if fit else ""
    if context["running"] or form_open:
        action = ""
    elif not context["is_measured"]:
        action = "metrics"
    elif is_due:
        action, form_open = ("again", False) if fit else ("", True)
    elif not runs and selfplay_bots(study):
        action = "selfplay"
    return study_page(
        request,
        "prediction.html",
        study,
        "replacement",
        page_title="Prediction",
        leaves_out=True,
        n_synthetic=synthetic_count(study),
        form=form,
        form_open=form_open,
        action=action,
        n_rated=n_rated,
        runs=runs,
        n_simulated=study.simulations.count(),
        is_rated_whole=get_protocol(study).rates_conversations,
        status=400 if form.errors else 200,
        **context,
    )


def _compute_metrics(request: HttpRequest, study: Study) -> HttpResponse:
    """Start the named metrics, or all missing ones."""
    try:
        metric_run_create(
            study=study,
            metrics=request.POST.getlist("metric"),
            created_by=request.user,  # type: ignore[arg-type]
        )
    except (Refused, UnknownName) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "A worker is computing the metrics.")
    return redirect("dashboard:study_prediction", study.key)


def _start_fit(
    request: HttpRequest, study: Study, form: FitForm, bots: Mapping[str, BotInfo], excluded_flags: Sequence[str]
) -> HybridFit | None:
    """Start a fit with the form's settings, or add errors and return None."""
    if not form.is_valid():
        return None
    data = form.cleaned_data
    controls = [bot.bot_id for bot in bots.values() if bot.is_control]
    try:
        return fit_create(
            study=study,
            condition=form.condition(),
            features=[*PRESETS[data["preset"]].features, *data["imported"]] if data["imported"] else None,
            **{name: data[name] for name in ("targets", "preset", "intercept", "run", "include_synthetic")},
            exclude_bots=controls if data["without_controls"] else (),
            excluded_flags=excluded_flags,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except (Refused, UnknownName) as error:
        form.add_error(None, str(error))
        return None


def _metrics_context(study: Study) -> dict[str, Any]:
    """Return the state of the study's metrics, by possible action."""
    jobs = metric_runs_newest(study, 10)
    result_counts = results_counted(study=study)
    progress = metrics_progress(study, result_counts)
    names = {metric.name for metric in progress if metric.n_done}
    usual = [metric for metric in progress if not (metric.reason or metric.on_request)]
    groups = {
        "Computed": [metric for metric in progress if metric.n_done],
        "Can be computed": [metric for metric in progress if not metric.n_done and not metric.reason],
        "Need a model or a package": [metric for metric in progress if not metric.n_done and metric.reason],
    }
    return {
        "groups": [(title, metrics) for title, metrics in groups.items() if metrics],
        "n_computed": len(names),
        "n_metrics": len(progress),
        "is_measured": all(metric.n_done == metric.n_total for metric in usual),
        "languages": language_sentences(study_languages(study), [m for m in metrics_all() if m.name in names]),
        "left_out": left_out_sentences(metrics_left_out(study=study, known_counts=result_counts)),
        "broken": configured_metrics.broken,
        "jobs": jobs,
        "running": job_context(jobs[0], "metrics") if jobs and not jobs[0].is_over else None,
    }


def _fit_context(
    request: HttpRequest, study: Study, bots: Mapping[str, BotInfo], excluded_flags: Sequence[str]
) -> dict[str, Any]:
    """Return the leading fit, or that of `?fit=`, and the newest job."""
    fits, fit_id = fits_of(study, _LISTED), request.GET.get("fit", "")
    if fit_id:
        fit = next((listed_fit for listed_fit in fits if listed_fit.result and str(listed_fit.pk) == fit_id), None)
    else:
        fit = fit_leading(study, excluded_flags) or next(iter(fits_newest(study, excluded_flags)), None)
    context: dict[str, Any] = {
        "fit": fit,
        "behind": fit is not None and fit_is_behind(fit),
        "rule_has_changed": fit is not None and fit_rule_has_changed(fit),
        "unfinished": [listed_fit for listed_fit in fits if not listed_fit.result],
        "broken_off": fits[0] if fits and fits[0].can_go_on and fit_id in ("", str(fits[0].pk)) else None,
    }
    if fit is not None and fit.result:
        link = partial(conversations_link, study, synthetic=synthetic_asked(request), excluded_flags=excluded_flags)
        # Errors of single conversations are known of the fit shown by default, unless it is from an earlier version.
        columns = metric_titles()
        has_errors = fit.pk == fit_leading_id(study) and has_residuals(fit.pk)
        context["view"] = hybrid_view(
            fit.result,
            bots,
            lambda bot: link(ChatSelection.of_errors(bot) if has_errors else ChatSelection.of(bot=bot, is_="rated")),
            dict(study_targets(study)),
            metric_link=lambda column: link(ChatSelection.of_metric(column)) if column in columns else "",
        )
        context["condition"] = fit_condition(fit)
        flags = fit.request.get("without", ())
        context["without_whom"] = ", ".join(str(flag_kinds.get(name).title) for name in flags if name in flag_kinds)
    if fits and not fits[0].is_over:
        context["running"] = job_context(fits[0], "hybrid")
    return context


def _comparison_context(request: HttpRequest, study: Study, bots: Mapping[str, BotInfo]) -> dict[str, Any]:
    """Return the fits of this and chosen studies, and self-play by run."""
    other_studies = studies_asked(study, request.GET.getlist("with"))
    fits = fits_beside([study, *other_studies.selected], MOST_FITS)
    return {
        "fits": fits_table(fits, _fit_address, several=bool(other_studies.selected)) if fits else None,
        "played": runs_table(fits, bots, lambda run: reverse("dashboard:run", args=[run.pk])),
        "beside": other_studies,
    }


def _fit_address(fit: HybridFit) -> str:
    query = {"fit": str(fit.pk)}
    if fit.request.get("without"):
        query["without"] = ",".join(fit.request["without"])
    return f"{reverse('dashboard:study_prediction', args=[fit.study.key])}?{urlencode(query, safe=',')}"


@read_view()
def fit_download(request: HttpRequest, key: str, fit_id: int) -> HttpResponse:
    """Send the fit alone.

    `fit_hybrid --output` writes it; `fit_hybrid --fit` applies it.
    """
    fit = get_object_or_404(HybridFit, pk=fit_id, study__key=key)
    if not fit.kept:
        raise Http404
    record(DOWNLOAD, fit, file="fit")
    response = JsonResponse(fit.kept)
    response["Content-Disposition"] = f'attachment; filename="{key}-fit-{fit.pk}.json"'
    return response
