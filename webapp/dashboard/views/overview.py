"""A study's overview: the line of its stages, what its results say so far, bot by bot, and its settings in words."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from chatbots.registry import UnknownName, title_of
from evaluation.hybrid.baselines import MIN_BOTS
from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.dashboard import selectors
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.build.fields import title_of_value
from webapp.dashboard.known import known_so_far
from webapp.dashboard.pipeline import SELFPLAY_EACH, pipeline_of
from webapp.dashboard.pipeline_found import selfplay_bots
from webapp.dashboard.recruiting import participant_link, recruiting_links
from webapp.dashboard.spending import study_spent
from webapp.dashboard.study_needs import study_needs
from webapp.dashboard.views.answers import shown
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import study_of, study_page, synthetic_asked
from webapp.ratings.pairs import rates_conversations
from webapp.runs.services.chain import analysis_start
from webapp.studies.models import Study
from webapp.studies.money import pay_said
from webapp.studies.protocols.base import protocols
from webapp.studies.retention import clock_of
from webapp.studies.rules.base import rules
from webapp.studies.selectors import judges_items, talks_to_bots

_AMOUNTS = {
    "judging": "n_items",
    "choosing": "n_choose",
    "marking": "n_conversations",
    "dialogues": "n_dialogues",
    "arena": "n_comparisons",
}
"""Of the sections that say how much each person does, the value that says it."""


def amounts_of(study: Study) -> list[tuple[str, str]]:
    """Return the amount of work per participant in the study: titles with values."""
    used = protocols.get(study.protocol).settings if study.protocol in protocols else ("chat",)
    found = []
    if "chat" in used:
        chat = study.values.chat
        words = {"low": chat.min_exchanges, "high": chat.max_exchanges}
        found.append(("Exchanges", "{low} to {high}".format(**words)))
    for section in used:
        if name := _AMOUNTS.get(section):
            found.append((title_of_value(name), str(getattr(getattr(study.values, section), name))))
    return found


@require_safe
@staff_only
def overview(request: HttpRequest, key: str) -> HttpResponse:
    """Show how far the study is, bot by bot, and its settings in words."""
    study = study_of(key)
    synthetic = synthetic_asked(request)
    progress = selectors.bot_progress(study, include_synthetic=synthetic)
    judges = judges_items(study)
    serves = study.state == Study.State.COLLECTING and talks_to_bots(study)
    mine = [bot for bot in progress if bot.bot_id in study.bots] if serves else []
    cards = selectors.study_cards(study, include_synthetic=synthetic)
    is_rated_whole = rates_conversations(study)
    pipeline = pipeline_of(study, cards, progress) if is_rated_whole else None
    running = pipeline.next.job if pipeline else None
    n_synthetic = synthetic_count(study)
    known, known_waits = None, False
    if is_rated_whole and sum(1 for bot in progress if bot.n_completed) > 1:
        found = shown(request, study, "comparisons")
        known_waits = found.waiting is not None
        if found.frame is not None:
            known = known_so_far(found.frame, found.result)
    things = study_needs(study, cards, progress, may_pay=may(request.user, Right.PAY))
    return study_page(
        request,
        "overview.html",
        study,
        "overview",
        touring="tour" in request.GET and not study.is_imported,
        cards=cards,
        pipeline=pipeline,
        known=known,
        known_waits=known_waits,
        running=job_context(running, running.kind) if running is not None else None,
        progress=progress,
        judges_items=judges,
        models=selectors.models_progress(study, include_synthetic=synthetic) if judges else [],
        nobody_served=serves and not any(bot.is_offered for bot in mine),
        spent=study_spent(study),
        clock=clock_of(study),
        most=max((bot.n_completed for bot in progress), default=0),
        protocol=title_of(protocols, study.protocol),
        amounts=amounts_of(study),
        pay_said=pay_said(study.values),
        rule=title_of(rules, study.rule),
        n_synthetic=n_synthetic,
        needs=things if things or not study.is_imported else None,
        may_rehearse=not (study.is_imported or n_synthetic) and may(request.user, Right.RUN),
        dimensions=list(study.rubric.dimensions.all()),
        links=recruiting_links(study, participant_link(request, study)),
    )


@require_POST
@needs(to_post=[Right.RUN])
def analyse(request: HttpRequest, key: str) -> HttpResponse:
    """Start what the overview's line says is next: metrics and fit, after self-play where that is asked for."""
    study = study_of(key)
    bots = selfplay_bots(study) if request.POST.get("with") == "selfplay" else []
    n_rated = sum(1 for bot in selectors.bot_progress(study) if bot.n_completed)
    try:
        analysis_start(
            study=study,
            bots=bots,
            n_conversations=SELFPLAY_EACH,
            fits=n_rated >= MIN_BOTS,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except (Refused, UnknownName) as error:
        messages.error(request, str(error))
    return redirect("dashboard:study", study.key)
