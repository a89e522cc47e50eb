"""Hybrid fits in one shard: a leave-bot-out fit against a study's ratings, or a stored one applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel
from webapp.bots.selectors import text_store
from webapp.jobs.kinds.base import JobKind, Queue, ShardWork, register_kind
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import fit_encodes_texts
from webapp.jobs.services.fits import fit_store
from webapp.ratings.services import flags_ensure


class HybridFitParams(InputModel):
    """Payload that `fit_create` stores, when names have been looked up."""

    targets: list[str]
    targets_given: bool = True
    preset: str = "paper"
    intercept: str = "common"
    features: list[str] | None = None
    exclude_bots: list[str] = []
    include_synthetic: bool = False
    without: list[str] = []
    seed: int = 0
    applies_kept_fit: bool = False


@register_kind
class HybridFitJob(JobKind[HybridFit, HybridFitParams]):
    """A fit, with its predictions and every identity used."""

    name = "hybrid"
    title = _("Hybrid metric")
    Payload = HybridFitParams
    model = HybridFit

    def job_title(self, job: HybridFit) -> str:
        return str(_("Hybrid metric for {name}")).format(name=job.study.name)

    def queue_of(self, job: HybridFit) -> Queue:
        return "gpu" if fit_encodes_texts(job) else "default"

    def slice(self, work: ShardWork[HybridFit, HybridFitParams]) -> None:
        from evaluation.hybrid.features import block_of, preset_get
        from evaluation.hybrid.fit import apply_fit, fit_hybrid
        from evaluation.hybrid.results import KeptFit
        from evaluation.metrics.text_cache import TextCache
        from webapp.jobs.hybrid_tables import FitTables, bot_keys, features_held

        fit, asked = work.job, work.asked
        if asked.without:
            for study in (fit.train_study, fit.study):
                if study is not None:
                    flags_ensure(study=study)
        shared = TextCache(settings.CONFAB_DEVICE, store=text_store())
        kept = KeptFit.from_json(fit.kept or {}) if asked.applies_kept_fit else None
        if kept is None:
            preset = preset_get(asked.preset)
            features, blocks = asked.features or list(preset.features), list(preset.blocks)
        else:
            features = [name for name in kept.shown if name in kept.features]
            blocks = list(dict.fromkeys(block for name in kept.features if (block := block_of(name))))
        features, out = features_held(fit, features, blocks, may_leave_out=kept is None)
        tables = FitTables(fit, features, blocks, shared, work.beat)
        identities: dict[str, Any] = {"metrics": tables.identities}
        selfplay = tables.selfplay()
        if fit.run is not None:
            identities["selfplay_bots"] = fit.run.plan["identities"]
        if kept is None:
            table, ratings = tables.rated(fit.train_study or fit.study)
            common = {
                "features": features,
                "targets": asked.targets,
                "preset": asked.preset,
                "intercept": asked.intercept,
                "seed": asked.seed,
                "metric_identities": identities["metrics"],
                "ratings": ratings,
                "study": (fit.train_study or fit.study).key,
            }
            if fit.train_study is None:
                result = fit_hybrid(table, selfplay=selfplay, dimensions=list(ratings.answers), **common)
            else:
                kept = fit_hybrid(table, **common).fit
        if kept is not None:
            human, ratings = tables.to_apply_to()
            result = apply_fit(
                kept,
                human=human if len(human) else None,
                selfplay=selfplay,
                targets=asked.targets if asked.targets_given else None,
                seed=asked.seed,
                ratings=ratings,
                study=fit.study.key,
            )
        if out:
            result = replace(result, cautions=(*result.cautions, *out))
        work.beat(now=True)
        identities["bots"] = bot_keys(fit)
        fit_store(fit=fit, result=result, identities=identities)
