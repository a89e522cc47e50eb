"""Routes that start jobs other than self-play, metrics and fits: analyses, rehearsals, and items to rate."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from ninja import Router, Status

from evaluation.hybrid.baselines import MIN_BOTS
from webapp.api.auth import Token
from webapp.api.errors import BODY_FAILURES
from webapp.api.routes.jobs import job_out
from webapp.api.schemas import AskAnalysis, AskItems, AskRehearsal, JobOut
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.pipeline import SELFPLAY_EACH
from webapp.dashboard.pipeline_found import selfplay_bots
from webapp.dashboard.selectors import bot_progress
from webapp.runs.services.chain import analysis_start
from webapp.runs.services.jobs import job_create
from webapp.studies.selectors import judges_items, study_by_key

router = Router(tags=["jobs"], auth=Token(Right.RUN))


@router.post(
    "/studies/{key}/analysis",
    response={202: JobOut, **BODY_FAILURES},
    operation_id="analysis_start",
)
def analysis(request: HttpRequest, key: str, asked: AskAnalysis) -> Any:
    """Compute a study's metrics and fit the hybrid metric, after self-play of its bots on request.

    Answers the first job; the others follow by themselves, and `GET /jobs` lists them.
    """
    study = study_by_key(key)
    bots = selfplay_bots(study) if asked.selfplay else []
    if asked.selfplay and not bots:
        raise Refused("no_bots", f"no bot of {key} can converse here; leave out selfplay")
    n_rated = sum(1 for bot in bot_progress(study) if bot.n_completed)
    job = analysis_start(
        study=study,
        bots=bots,
        n_conversations=SELFPLAY_EACH,
        fits=n_rated >= MIN_BOTS,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job_out(job))


@router.post(
    "/studies/{key}/rehearsals",
    response={202: JobOut, **BODY_FAILURES},
    operation_id="rehearsal_start",
)
def rehearsal(request: HttpRequest, key: str, asked: AskRehearsal) -> Any:
    """Send scripted participants through a study's pages; they are marked synthetic and count nowhere."""
    study = study_by_key(key)
    if study.is_imported:
        raise Http404(f"{key} is imported, so nobody can take part in it")
    url = request.build_absolute_uri("/").rstrip("/") + settings.CONFAB_PATH_PREFIX
    job = job_create(
        kind="rehearsal",
        payload={"people": asked.people, "url": url, "seed": asked.seed},
        study=study,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job_out(job))


@router.post(
    "/studies/{key}/items",
    auth=Token(Right.ADMINISTER, Right.RUN),
    response={202: JobOut, **BODY_FAILURES},
    operation_id="items_draw",
)
def items_draw(request: HttpRequest, key: str, asked: AskItems) -> Any:
    """Draw items for a study from stored conversations or self-play; the bots that are named reply to them."""
    study = study_by_key(key)
    if not judges_items(study):
        raise Refused("no_items", f"nobody judges items in {key}")
    job = job_create(
        kind="items",
        payload={"study": key, **asked.model_dump(), "bots": list(asked.bots)},
        study=study,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job_out(job))
