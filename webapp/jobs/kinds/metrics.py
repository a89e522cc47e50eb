"""Metrics of conversations, and hybrid fits of them.

The job computes metrics for every conversation of a study or self-play run that has no result of the current version.
A shard is a list of conversations that lack the same metrics, in batches of fixed size and without any cache: the last
digits of a sentence vector depend on its batch. A metric skips conversations in languages that it does not support; the
skip is stored in place of a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel
from webapp.bots.selectors import text_store
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversations_for_metrics
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import HybridFit, MetricRun
from webapp.jobs.selectors.fits import fit_condition
from webapp.jobs.selectors.metrics import conversation_languages, conversations_lacking, metrics_find, metrics_lacked
from webapp.jobs.selectors.selfplay import selfplay_alone
from webapp.jobs.services.fits import (
    chain_follow,
    fit_store,
    metric_left_out_store,
    metric_results_store,
    metric_version_record,
)
from webapp.ratings.services import flags_ensure

BATCH = 128
SHARD = 2 * BATCH


class MetricsParams(InputModel):
    """Parameters of a metrics job; services have validated the names."""

    metrics: list[str]


@register_kind
class MetricsJob(JobKind[MetricRun, MetricsParams]):
    """Job that stores one result per conversation and metric."""

    name = "metrics"
    title = _("Metrics")
    queue = "gpu"
    Payload = MetricsParams
    model = MetricRun

    def job_title(self, job: MetricRun) -> str:
        name = job.study.name if job.study is not None else str(job.run)
        return str(_("Metrics for {name}")).format(name=name)

    def plan(self, job: MetricRun, params: MetricsParams) -> Iterable[ShardPlan]:
        versions = {metric.name: metric_version_record(metric=metric) for metric in metrics_find(params.metrics)}
        ids = conversations_lacking(study=job.study, run=job.run, versions=list(versions.values()))
        groups: dict[tuple[bool, tuple[str, ...]], list[UUID]] = {}
        for start in range(0, len(ids), CHUNK):
            some = ids[start : start + CHUNK]
            alone, lacked = selfplay_alone(some), metrics_lacked(some, versions)
            for pk in some:
                groups.setdefault((pk in alone, lacked[pk]), []).append(pk)
        for (self_play, names), group in groups.items():
            for start in range(0, len(group), SHARD):
                some = group[start : start + SHARD]
                yield ShardPlan(
                    {"self_play": self_play, "metrics": names, "ids": [str(pk) for pk in some]}, n_total=len(some)
                )

    def slice(self, work: ShardWork[MetricRun, MetricsParams]) -> None:
        """Compute and store."""
        from evaluation.data.languages import holds_for
        from evaluation.metrics.text_cache import TextCache

        metrics = metrics_find(work.shard["metrics"])
        tells_languages = any(getattr(metric, "languages", None) for metric in metrics)
        shared = TextCache(settings.CONFAB_DEVICE, store=text_store())
        ids = work.shard["ids"]
        for start in range(0, len(ids), BATCH):
            # A participant may have been erased in the meantime.
            rows = Conversation.objects.filter(pk__in=ids[start : start + BATCH])
            conversations = list(conversations_for_metrics(rows.order_by("created_at", "pk")))
            languages = conversation_languages(conversations) if tells_languages else {}
            for metric in metrics:
                version = metric_version_record(metric=metric)
                unsupported_languages = {
                    conversation.id: language
                    for conversation in conversations
                    if (language := languages.get(conversation.id))
                    and not holds_for(getattr(metric, "languages", None), language)
                }
                n_turns = {
                    conversation.id: len(conversation.turns)
                    for conversation in conversations
                    if conversation.id not in unsupported_languages
                }
                metric_left_out_store(version=version, metric=metric, languages=unsupported_languages)
                if not n_turns:
                    continue
                table = metric.compute(
                    [conversation for conversation in conversations if conversation.id in n_turns],
                    self_play=work.shard["self_play"],
                    shared=shared,
                )
                if missing_ids := set(n_turns).difference(table.conversations.index):
                    raise RuntimeError(f"{metric.name} gave no result for conversation {min(missing_ids)}")
                metric_results_store(version=version, table=table, n_turns=n_turns)
                work.beat()
            work.beat(min(start + BATCH, len(ids)), now=True)

    def describe_result(self, job: MetricRun, result: Any) -> list[str]:
        n = plural(job.n_done, "1 conversation", "%(n)d conversations") % {"n": job.n_done}
        return [f"The metrics {', '.join(job.metrics)} were computed for {n}."]

    def follow_up(self, job: MetricRun) -> None:
        chain_follow(job)


CHUNK = 5_000
"""Number of conversations whose results are looked up at once: SQLite limits the parameters of a query."""


class HybridFitParams(InputModel):
    """Parameters of a fit, stored by `fit_create` after validation."""

    targets: list[str]
    targets_given: bool = True
    preset: str = "paper"
    intercept: str = "common"
    features: list[str] | None = None
    exclude_bots: list[str] = []
    include_synthetic: bool = False
    without: list[str] = []
    condition: dict[str, str] = {}
    seed: int = 0
    applies_kept_fit: bool = False
    same_instrument: bool = False


@register_kind
class HybridFitJob(JobKind[HybridFit, HybridFitParams]):
    """Job that computes a fit with its predictions and all identities used."""

    name = "hybrid"
    title = _("Hybrid metric")
    Payload = HybridFitParams
    model = HybridFit

    def job_title(self, job: HybridFit) -> str:
        name = ", ".join(filter(None, [job.study.name, fit_condition(job)]))
        return str(_("Hybrid metric for {name}")).format(name=name)

    def slice(self, work: ShardWork[HybridFit, HybridFitParams]) -> None:
        from evaluation.hybrid.features import preset_get
        from evaluation.hybrid.fit import apply_fit, fit_hybrid
        from evaluation.hybrid.results import KeptFit
        from webapp.jobs.selectors.fits import FitTables, bot_keys, features_held

        fit, params = work.job, work.params
        if params.without:
            for study in (fit.train_study, fit.study):
                if study is not None:
                    flags_ensure(study=study)
        stored_fit = KeptFit.from_json(fit.kept or {}) if params.applies_kept_fit else None
        if stored_fit is None:
            features = params.features or list(preset_get(params.preset).features)
        else:
            features = [name for name in stored_fit.shown_features if name in stored_fit.features]
        features, out = features_held(fit, features, may_leave_out=stored_fit is None)
        tables = FitTables(fit, features)
        identities: dict[str, Any] = {"metrics": tables.identities}
        selfplay = tables.selfplay()
        if fit.run is not None:
            identities["selfplay_bots"] = fit.run.plan["identities"]
        if stored_fit is None:
            table, ratings = tables.rated(fit.train_study or fit.study)
            common = {
                "features": features,
                "targets": params.targets,
                "preset": params.preset,
                "intercept": params.intercept,
                "seed": params.seed,
                "metric_identities": identities["metrics"],
                "ratings": ratings,
                "study": (fit.train_study or fit.study).key,
            }
            if fit.train_study is None:
                result = fit_hybrid(table, selfplay=selfplay, dimensions=list(ratings.answers), **common)
            else:
                stored_fit = fit_hybrid(table, **common).fit
        if stored_fit is not None:
            human, ratings = tables.to_apply_to()
            result = apply_fit(
                stored_fit,
                human=human if len(human) else None,
                selfplay=selfplay,
                targets=params.targets if params.targets_given else None,
                seed=params.seed,
                ratings=ratings,
                study=fit.study.key,
                same_instrument=params.same_instrument,
            )
        if out := [*tables.conditions_found(ratings), *out]:
            result = replace(result, cautions=(*result.cautions, *out))
        work.beat(now=True)
        identities["bots"] = bot_keys(fit)
        fit_store(fit=fit, result=result, identities=identities)

    def describe_result(self, job: HybridFit, result: Any) -> list[str]:
        return [f"The fit uses {result.get('n_conversations', 0)} conversations of {result.get('n_bots', 0)} bots."]
