"""What a study's analysis is made of: how much there is, and whether any of it has changed."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max

from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_conversations
from webapp.runs.models import MetricResult, SelfPlayRun
from webapp.runs.selectors.fits import fit_leading
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class Analysed:
    """How much an analysis reads: ratings, metric results of rated chats, and finished hybrid fits."""

    n_ratings: int
    n_measured: int
    n_fits: int


def analysed_counts(study: Study, *, include_synthetic: bool = False) -> Analysed:
    """Return how much there is to analyse."""
    chats = study_conversations(study, include_synthetic=include_synthetic)
    return Analysed(
        n_ratings=Rating.objects.filter(conversation__in=chats).count(),
        n_measured=MetricResult.objects.filter(conversation__in=chats).count(),
        n_fits=study.hybrid_fits.filter(result__isnull=False).count(),
    )


def analysis_stamp(study: Study, *, include_synthetic: bool = False) -> str:
    """Return a text that changes with anything that the analysis reads."""
    chats = study_conversations(study, include_synthetic=include_synthetic)
    rated = Rating.objects.filter(conversation__in=chats).aggregate(
        n=Count("pk"), newest=Max("updated_at"), changed=Max("conversation__updated_at")
    )
    measured = MetricResult.objects.filter(conversation__in=chats).aggregate(
        n=Count("pk"), newest=Max("updated_at")
    )
    run = SelfPlayRun.objects.aggregate(newest=Max("updated_at"))["newest"]
    fit = fit_leading(study)
    turned = study.rubric.dimensions.filter(reversed=True).values_list("key", flat=True)
    parts = [
        study.pk,
        study.updated_at,
        ",".join(turned),
        *rated.values(),
        *measured.values(),
        run,
        include_synthetic,
        fit and fit.pk,
    ]
    return ":".join(str(part).replace(" ", "T") for part in parts)
