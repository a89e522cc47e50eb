"""Reads of hybrid fits, and validation of a fit's request.

Everything that a request names must exist before anything is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from chatbots.text import nearest_names, quote
from webapp.core.errors import Refused
from webapp.jobs.models import HybridFit, Job
from webapp.jobs.selectors.analysis_tables import column_names
from webapp.jobs.selectors.metrics import measurable, metrics_all
from webapp.ratings.models import Rating
from webapp.studies.assignment.capacity import is_collecting
from webapp.studies.models import Study


def fit_encodes_texts(fit: HybridFit) -> bool:
    """Return True if the fit reads sentence embeddings, made when it runs, besides the stored metrics.

    A request that the fit itself will refuse reads none.
    """
    from evaluation.hybrid.features import PRESETS, block_of

    if fit.request["applies_kept_fit"]:
        features = (fit.kept or {}).get("features") or ()
        return any(block_of(str(name)) for name in features)
    preset = PRESETS.get(fit.request["preset"])
    return preset is not None and bool(preset.blocks)


def fit_leading(study: Study, without: Sequence[str] = ()) -> HybridFit | None:
    """Return the leading fit, which pages show unless another is requested: the newest that is done.

    Args:
        without: names of flags; a fit that leaves out the people with one of these, and nobody else.
    """
    return _done(study, without).defer("kept", "predictions").order_by("-pk").first()


def _done(study: Study, without: Sequence[str]) -> QuerySet[HybridFit]:
    done = HybridFit.objects.filter(study=study, state=Job.State.DONE, result__isnull=False)
    if without:
        return done.filter(request__without=sorted(without))
    return done.exclude(request__has_key="without")


def fit_by_id(pk: int) -> HybridFit | None:
    """Return a fit, if it is still there."""
    return HybridFit.objects.defer("kept", "predictions").filter(pk=pk).first()


def fit_rule_has_changed(fit: HybridFit) -> bool:
    """Return True if the study now compares bots by another test than when the fit counted its pairs.

    Fits of versions that did not store the test are not known to be behind.
    """
    test = ((fit.result or {}).get("pairs") or {}).get("test")
    return test is not None and test != ("always" if is_collecting(fit.study) else "fixed")


def fit_is_behind(fit: HybridFit) -> bool:
    """Return True if ratings have come or changed since the fit, so that pages made of ratings show other numbers."""
    changed = Rating.objects.filter(conversation__study=fit.train_study or fit.study, updated_at__gt=fit.created_at)
    if not fit.request.get("include_synthetic"):
        changed = changed.filter(conversation__is_synthetic=False)
    return changed.exists()


def fits_newest(study: Study, without: Sequence[str] = ()) -> list[HybridFit]:
    """Return the newest finished fit of each preset, target, intercept, choice of bots and run; `fit_leading` first.

    Args:
        without: as `fit_leading`.
    """
    fits = _done(study, without)
    newest: dict[tuple[str, ...], HybridFit] = {}
    for fit in fits.defer("kept", "predictions").order_by("-pk"):
        asked = fit.request
        newest.setdefault(
            (
                str(asked.get("preset")),
                ",".join(asked.get("targets") or ()),
                str(asked.get("intercept")),
                ",".join(sorted(asked.get("exclude_bots") or ())),
                str(fit.run_id),
            ),
            fit,
        )
    return list(newest.values())


def fits_of(study: Study, n: int) -> list[HybridFit]:
    """Return the study's `n` newest fits, unfinished ones too."""
    return list(HybridFit.objects.filter(study=study).defer("kept", "predictions")[:n])


def fits_beside(studies: Sequence[Study], n: int) -> list[HybridFit]:
    """Return the `n` newest finished fits of these studies, each with its study and its run."""
    done = HybridFit.objects.filter(study__in=studies, state=Job.State.DONE, result__isnull=False).select_related(
        "study", "run"
    )
    return list(done.defer("kept", "predictions").order_by("-pk")[:n])


def fit_arguments_check(
    *, study: Study, preset: str, targets: Sequence[str], features: Sequence[str], exclude_bots: Sequence[str]
) -> None:
    """Look for a name that is none.

    Args:
        study: whose ratings are fitted.

    Raises:
        Refused: `unknown_name`, with the nearest right ones.
    """
    from evaluation.hybrid.features import HybridError, block_of, preset_get

    try:
        preset_get(preset)
    except HybridError as error:
        raise Refused("unknown_name", str(error)) from None
    conversations = measurable(study=study, run=None)
    bots = conversations.order_by("bot__bot_id").values_list("bot__bot_id", flat=True).distinct()
    _known(f"bot of study {study.key}", exclude_bots, list(bots))
    dimensions: dict[str, None] = {}
    for answers in (
        Rating.objects.filter(conversation__in=conversations)
        .values_list("answers", flat=True)
        .iterator(chunk_size=2000)
    ):
        dimensions.update(dict.fromkeys(answers))
    columns = [*column_names(metrics_all()), *dimensions]
    _known("metric column", [name for name in features if block_of(name) is None], columns)
    # A study without ratings gets the sentence of the fit itself, which says just that.
    if dimensions:
        _known(f"rating dimension of study {study.key}", targets, list(dimensions))


def _known(what: str, asked: Sequence[str], known: list[str]) -> None:
    for name in asked:
        if name not in known:
            near = nearest_names(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there is: {', '.join(known)}"
            raise Refused("unknown_name", f"there is no {what} {quote(name)}; {hint}")
