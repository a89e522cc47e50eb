"""Writes of hybrid fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from evaluation.hybrid.bot_level import PREFERRED_INTERCEPT
from webapp.ratings.selectors import study_whole
from webapp.runs import queue
from webapp.runs.models import HybridFit, SelfPlayRun
from webapp.runs.selectors.fit_arguments import fit_arguments_check
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
    predictions = {
        name: [_plain(value) for value in values] for name, values in result.predictions.items()
    }
    HybridFit.objects.filter(pk=fit.pk).update(
        result=result.to_json(),
        kept=result.fit.to_json(),
        predictions=predictions,
        identities={**identities, "hybrid": result.fit.identity.as_dict()},
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)
