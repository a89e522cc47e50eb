"""Writes of hybrid fits, and chains of jobs that end in one.

A chain is self-play, its metrics, those of the study, and the hybrid fit; each job requests the next. The remaining
steps are stored in the row of the job at work (`then`), so a stopped or failed chain resumes with its job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from webapp.jobs import queue
from webapp.jobs.models import HybridFit, JobBase, MetricRun, SelfPlayRun
from webapp.jobs.selectors.fits import fit_arguments_check
from webapp.jobs.services.metrics import metric_run_create
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.selectors import study_whole
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from evaluation.hybrid.results import HybridResult


def fit_create(
    *,
    study: Study,
    targets: Sequence[str] | None = None,
    preset: str = "paper",
    intercept: str = PREFERRED_INTERCEPT,
    run: SelfPlayRun | None = None,
    train_study: Study | None = None,
    features: Sequence[str] | None = None,
    exclude_bots: Sequence[str] = (),
    include_synthetic: bool = False,
    without: Sequence[str] = (),
    seed: int = 0,
    kept: Mapping[str, Any] | None = None,
    created_by: User | None = None,
    enqueue: bool = True,
) -> HybridFit:
    """Ask for a leave-bot-out fit.

    Args:
        targets: rating dimensions; several are averaged. None: those of the kept fit, or the question about
            the whole.
        run: self-play conversations to predict too.
        train_study: fit on that study and apply to `study`.
        features: metric columns; None: the preset's.
        exclude_bots: bots to leave out, deliberately degraded controls say.
        without: names of flags; what people with one of them did is left out, of both studies.
        kept: a fit kept before, to apply instead of fitting (`KeptFit.to_json`).
        enqueue: False for a caller that does the work itself.

    Raises:
        Refused: `unknown_name` for a name that is none, with the nearest right ones.
    """
    if kept is None:
        fit_arguments_check(
            study=train_study or study,
            preset=preset,
            targets=targets or (),
            features=features or (),
            exclude_bots=exclude_bots,
        )
    whole = (kept or {}).get("targets") or study_whole(train_study or study) or ["quality"]
    with transaction.atomic():
        fit = HybridFit.objects.create(
            study=study,
            train_study=train_study,
            run=run,
            request={
                "targets": list(targets or whole),
                "targets_given": targets is not None,
                "preset": preset,
                "intercept": intercept,
                "features": None if features is None else list(features),
                "exclude_bots": list(exclude_bots),
                "include_synthetic": include_synthetic,
                "seed": seed,
                "applies_kept_fit": kept is not None,
                **({"without": sorted(without)} if without else {}),
            },
            kept=None if kept is None else dict(kept),
            n_total=1,
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(fit)
    return fit


def fit_store(*, fit: HybridFit, result: HybridResult, identities: Mapping[str, Any]) -> None:
    """Keep the whole result with every identity used."""
    predictions = {name: [_plain(value) for value in values] for name, values in result.predictions.items()}
    HybridFit.objects.filter(pk=fit.pk).update(
        result=result.to_json(),
        kept=result.fit.to_json(),
        predictions=predictions,
        identities={**identities, "hybrid": result.fit.identity.as_dict()},
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


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
