"""Analyses as chains of jobs: self-play, its metrics, those of the study, the hybrid fit.

Each job requests the next.

What is left to do stands in the row of the job at work (`then`), so a chain that was stopped or failed goes on where it
stands once its job does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from webapp.runs.models import JobBase, MetricRun, SelfPlayRun
from webapp.runs.services.fits import fit_create
from webapp.runs.services.metrics import metric_run_create
from webapp.runs.services.selfplay import run_create
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PRESET = "strong"


def analysis_start(
    *,
    study: Study,
    bots: Sequence[str] = (),
    n_conversations: int = 0,
    fits: bool = True,
    created_by: User | None = None,
) -> JobBase:
    """Ask for a study's metrics and its hybrid fit, before them for self-play where bots are named. Returns the first
    job.

    Args:
        bots: to play, `n_conversations` each, which the fit then predicts.
        fits: False: metrics alone.

    Raises:
        Refused, UnknownName: as what makes the first job.
    """
    after = ["fit"] if fits else []
    then = {"study": study.key, "steps": after}
    if not bots:
        return metric_run_create(study=study, then=then, created_by=created_by)
    return run_create(
        bots=bots,
        n_conversations=n_conversations,
        study=study,
        then={**then, "steps": ["run_metrics", "study_metrics", *after]},
        created_by=created_by,
    )


def chain_follow(job: SelfPlayRun | MetricRun) -> None:
    """Ask for what comes after a job of a chain; nothing where it is the last, or its study is gone."""
    steps = job.then.get("steps") or []
    study = Study.objects.filter(key=job.then.get("study", "")).first()
    if not steps or study is None:
        return
    played = job if isinstance(job, SelfPlayRun) else None
    run = played or SelfPlayRun.objects.filter(pk=job.then.get("run")).first()
    then: dict[str, Any] = {"study": study.key, "steps": steps[1:]}
    if run is not None:
        then["run"] = run.pk
    if steps[0] == "run_metrics":
        metric_run_create(run=run, then=then, created_by=job.created_by)
    elif steps[0] == "study_metrics":
        metric_run_create(study=study, then=then, created_by=job.created_by)
    else:
        fit_create(study=study, preset=PRESET, run=run, created_by=job.created_by)
