"""Writes of metric results and hybrid fits, and chains that end in one.

A chain is self-play, its metrics, those of the study, and the hybrid fit; each job requests the next. The remaining
steps are stored in the row of the current job (`then`), so a stopped or failed chain resumes with its job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from evaluation.data.languages import other_language
from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs import queue
from webapp.jobs.models import HybridFit, JobBase, MetricResult, MetricRun, MetricVersion, SelfPlayRun
from webapp.jobs.selectors.fits import fit_arguments_check, instrument_check, levels_read, people_of
from webapp.jobs.selectors.metrics import conversations_lacking_count, metrics_find
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.selectors import study_whole
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from evaluation.hybrid.results import HybridResult
    from evaluation.metrics.base import Metric, MetricTable

UNDEFINED = "the metric is undefined here"


def metric_version_record(*, metric: Metric) -> MetricVersion:
    """Return the row of this metric's current version, created on first use."""
    identity = metric.identity
    version, _ = MetricVersion.objects.get_or_create(
        key=identity.key, defaults={"name": metric.name, "version": identity.version, "params": dict(identity.params)}
    )
    return version


def metric_run_create(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    metrics: Sequence[str] = (),
    then: Mapping[str, Any] | None = None,
    created_by: User | None = None,
    enqueue: bool = True,
) -> MetricRun:
    """Request metrics for all conversations without current results.

    They belong to a study or a run.

    Args:
        metrics: names of metrics; none: those computed by default.
        then: next steps of its chain (`jobs/services/fits.py`).
        enqueue: False for a caller that does the work itself.

    Raises:
        UnknownName: the message suggests similar names.
        Refused: `unavailable` a named metric cannot be computed here.
    """
    if (study is None) == (run is None):
        raise ValueError("give either study or run")
    chosen = metrics_find(metrics)
    if not chosen:
        raise Refused("unavailable", "no metric can be computed here")
    with transaction.atomic():
        versions = [metric_version_record(metric=metric) for metric in chosen]
        metric_run = MetricRun.objects.create(
            study=study,
            run=run,
            metrics=[metric.name for metric in chosen],
            then=dict(then or {}),
            n_total=conversations_lacking_count(study=study, run=run, versions=versions),
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(metric_run)
    return metric_run


def metric_results_store(*, version: MetricVersion, table: MetricTable, n_turns: Mapping[str, int]) -> int:
    """Store a metric's table, one row per conversation.

    Existing rows stay. Undefined and infinite values become null, with the reason.

    Args:
        n_turns: number of turns of every conversation of the table, by id.

    Returns:
        Number of new rows.
    """
    turn_values: dict[str, dict[str, list[float | None]]] = {
        conversation_id: {name: [None] * n for name in table.turns.columns} for conversation_id, n in n_turns.items()
    }
    for name in table.turns.columns:
        column = table.turns[name].to_numpy(dtype=float)
        for (conversation_id, turn), value in zip(table.turns.index, column, strict=True):
            turn_values[conversation_id][name][turn] = _finite(value)
    names = list(table.conversations.columns)
    matrix = table.conversations.to_numpy(dtype=float)
    rows: list[MetricResult] = []
    for conversation_id, row_values in zip(table.conversations.index, matrix, strict=True):
        values = {name: _finite(value) for name, value in zip(names, row_values, strict=True)}
        rows.append(
            MetricResult(
                conversation_id=conversation_id,
                metric=version,
                values=values,
                turns=turn_values.get(conversation_id, {}),
                reasons=_reasons(values, row_values, names, table.reasons),
            )
        )
    return _store(version, rows)


def metric_left_out_store(*, version: MetricVersion, metric: Metric, languages: Mapping[str, str]) -> int:
    """Store that a metric skipped conversations in unsupported languages.

    Args:
        languages: languages by the conversations' ids.

    Returns:
        Number of new rows.
    """
    if not languages:
        return 0
    names = {
        level: [column.name for column in metric.columns if column.level == level] for level in ("conversation", "turn")
    }
    rows = []
    for conversation_id, language in languages.items():
        reason = other_language(language, metric.languages or ())  # type: ignore[attr-defined]
        rows.append(
            MetricResult(
                conversation_id=conversation_id,
                metric=version,
                values=dict.fromkeys(names["conversation"]),
                turns={name: [] for name in names["turn"]},
                reasons=dict.fromkeys([*names["conversation"], *names["turn"]], reason.to_json()),
                language=language,
            )
        )
    return _store(version, rows)


def _store(version: MetricVersion, rows: list[MetricResult]) -> int:
    """Store the rows that do not exist yet.

    Returns the number of new rows.
    """
    ids = [row.conversation_id for row in rows]
    with transaction.atomic():
        # A participant may have been erased meanwhile; lock the others' rows until this is stored.
        here = Conversation.objects.filter(pk__in=ids).order_by("pk")
        existing_ids = {str(pk) for pk in here.select_for_update(no_key=True).values_list("pk", flat=True)}
        stored_results = MetricResult.objects.filter(metric=version, conversation__in=ids)
        n_before = stored_results.count()
        MetricResult.objects.bulk_create(
            [row for row in rows if str(row.conversation_id) in existing_ids], ignore_conflicts=True, batch_size=500
        )
        return stored_results.count() - n_before


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _reasons(
    values: Mapping[str, float | None], raw_values: Any, names: Sequence[str], reasons: Mapping[str, str]
) -> dict[str, str]:
    reasons_by_name = {}
    for name, raw in zip(names, raw_values, strict=True):
        if values[name] is None:
            infinite = "the computation returned an infinite number" if math.isinf(raw) else UNDEFINED
            reasons_by_name[name] = reasons.get(name, infinite)
    return reasons_by_name


def _refuse_retired(stored_fit: Mapping[str, Any]) -> None:
    from evaluation.hybrid.features import HybridError, refuse_retired

    identity = stored_fit.get("identity")
    version = identity.get("version") if isinstance(identity, dict) else ""
    try:
        refuse_retired(str(stored_fit.get("preset")), str(version))
    except HybridError as error:
        raise Refused("retired_preset", str(error)) from None


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
    with_people: bool = False,
    include_synthetic: bool = False,
    excluded_flags: Sequence[str] = (),
    condition: Sequence[str] = (),
    seed: int = 0,
    stored_fit: Mapping[str, Any] | None = None,
    same_instrument: bool = False,
    created_by: User | None = None,
    enqueue: bool = True,
) -> HybridFit:
    """Request a leave-bot-out fit.

    Args:
        targets: rating dimensions; several are averaged. None: those of the stored fit, or the overall question.
        run: self-play run to predict as well.
        train_study: study to fit on, before applying the fit to `study`.
        features: metric columns; None: those of the preset.
        exclude_bots: bots to exclude, such as controls made to be bad.
        with_people: also fit on chats with a human partner, who is the reference and not a bot.
        excluded_flags: names of flags; work of participants with one of them is excluded in both studies.
        condition: levels of factors, such as `scenario=trip`; only conversations and self-play with all of them count.
        stored_fit: saved fit to apply instead of fitting (`KeptFit.to_json`).
        same_instrument: the fitted study asks the same questions, so that bots get values, not just ranks.
        enqueue: False for a caller that does the work itself.

    Raises:
        Refused: `unknown_name`, with similar names; `retired_preset` for a saved fit that only an earlier version can
            apply; `other_instrument` if the wording of the questions differs.
    """
    if run is not None and run.is_simulated:
        raise Refused(
            "bad_run",
            f"run {run.pk} is a simulation, not self-play; use the command realism to compare it with the "
            "participants' chats",
        )
    if stored_fit is None:
        fit_arguments_check(
            study=train_study or study,
            preset=preset,
            targets=targets or (),
            features=features or (),
            exclude_bots=exclude_bots,
        )
    else:
        _refuse_retired(stored_fit)
    studies = [used_study for used_study in (study, train_study) if used_study is not None]
    levels = levels_read(condition, studies=studies, run=run)
    if not with_people:
        exclude_bots = [*exclude_bots, *people_of(studies)]
    default_targets = (stored_fit or {}).get("targets") or study_whole(train_study or study) or ["quality"]
    if same_instrument and train_study is not None:
        instrument_check([train_study, study], targets or default_targets)
    with transaction.atomic():
        fit = HybridFit.objects.create(
            study=study,
            train_study=train_study,
            run=run,
            request={
                "targets": list(targets or default_targets),
                "targets_given": targets is not None,
                "preset": preset,
                "intercept": intercept,
                "features": None if features is None else list(features),
                "exclude_bots": list(exclude_bots),
                "include_synthetic": include_synthetic,
                "seed": seed,
                "applies_kept_fit": stored_fit is not None,
                **({"without": sorted(excluded_flags)} if excluded_flags else {}),
                **({"condition": levels} if levels else {}),
                **({"same_instrument": True} if same_instrument else {}),
            },
            kept=None if stored_fit is None else dict(stored_fit),
            n_total=1,
            created_by=created_by,
            inline=not enqueue,
        )
        queue.send_on_commit(fit)
    return fit


def fit_store(*, fit: HybridFit, result: HybridResult, identities: Mapping[str, Any]) -> None:
    """Keep the whole result with every identity used."""
    predictions: dict[str, Any] = {
        name: [_plain(value) for value in values] for name, values in result.predictions.items()
    }
    if "conversation" in predictions:
        rows = zip(*(predictions[name] for name in ("conversation", "target", "predicted")), strict=True)
        predictions["residual"] = {
            chat: predicted - target for chat, target, predicted in rows if math.isfinite(predicted - target)
        }
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
    """Request a study's metrics and its hybrid fit.

    If bots are named, self-play runs first. Returns the first job.

    Args:
        bots: bots for self-play, `n_conversations` each, which the fit then predicts.
        fits: False: metrics only.

    Raises:
        Refused, UnknownName: as the function that creates the first job.
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
    """Request the next job of a chain.

    Nothing happens after the last one, or if its study was deleted.
    """
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
