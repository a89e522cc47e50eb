"""Fingerprint of a study's data: amount, and a digest of their state."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from django.db.models import Count, Max

from chatbots.identity import canonical_json
from chatbots.installation import release
from webapp.bots.models import BotVersion
from webapp.jobs.models import SELF_PLAY, ImportedMetric, Job, MetricRun, SelfPlayRun, State
from webapp.jobs.selectors.fits import fit_leading
from webapp.ratings.flag_selectors import without_state
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import answers_counted, pairs_counted
from webapp.ratings.selectors import CountedWork, conversations_counted, study_bots, study_conversations
from webapp.search.index_statistics import conversation_totals, rated_totals
from webapp.studies.models import Rubric, Study
from webapp.studies.protocols.base import get_protocol

Reads = Literal["metrics", "runs", "candidates", "criteria"]
"""Inputs of a result in addition to the ratings: metrics of rated chats; self-play and the hybrid fit; judges and
simulated participants; judges of criteria.
"""
JUDGES_KIND, BENCHMARK_KIND = "judges", "benchmark"
"""Names of the jobs that compare judges, and metrics of single replies, with people."""
CRITERIA_KIND = "criteria"
"""Name of the jobs in which a judge checks criteria."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """Amount of data that an analysis reads.

    These are ratings, or else paired comparisons, metric results of rated chats, and finished hybrid fits.
    """

    n_ratings: int
    n_measured: int
    n_fits: int


@dataclass(frozen=True, slots=True)
class DataState:
    """State of the data: amount and digest.

    Attributes:
        n_ratings, n_bots: amount of data, which determines the work.
        digest: changes with any input of the result.
    """

    n_ratings: int
    n_bots: int
    digest: str


def analysed_counts(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = (), n_ratings: int | None = None
) -> Analysed:
    """Count the data to analyse.

    Args:
        n_ratings: number of ratings, if already counted.
    """
    counted_work: dict[str, Any] = {"include_synthetic": include_synthetic, "without": without}
    if n_ratings is None:
        n_ratings = rated_totals(study, **counted_work)["n"]
    if get_protocol(study).compares_pairs:
        n_ratings = answers_counted(study, **counted_work).count()
    return Analysed(
        n_ratings=n_ratings,
        n_measured=conversation_totals(study, conversations_counted(study, **counted_work), "results").n_results,
        n_fits=study.hybrid_fits.filter(result__isnull=False).count(),
    )


@dataclass(frozen=True, slots=True)
class DataCounts:
    """Counts that tell whether a study's data have changed.

    Attributes:
        rated: number of ratings, and the time of the last change.
        by_version: key of a bot's version, number of its conversations, and their last change.
    """

    rated: Mapping[str, Any]
    by_version: Sequence[tuple[int, int, Any]]


def data_counts(study: Study, **counted_work: Unpack[CountedWork]) -> DataCounts:
    """Count the data of all results on the same work."""
    chats = study_conversations(study, **counted_work)
    # Group by version id, because comparing names is slow.
    by_version = list(chats.order_by().values_list("bot").annotate(Count("pk"), Max("updated_at")))
    return DataCounts(rated_totals(study, **counted_work), by_version)


def data_state(
    study: Study, reads: Collection[Reads] = (), counts: DataCounts | None = None, **counted_work: Unpack[CountedWork]
) -> DataState:
    """Return the state of a result's data, without reading answers.

    Args:
        reads: its input besides ratings.
        counts: of the same work, if already counted.
    """
    excluded_flags = counted_work.get("without", ())
    counts = counts or data_counts(study, **counted_work)
    rated, counts_by_version = counts.rated, counts.by_version
    versions = BotVersion.objects.filter(pk__in=[version for version, _n, _newest in counts_by_version])
    n_bots = versions.values("bot_id").distinct().count()
    parts = [
        release(),
        study.pk,
        study.updated_at,
        list(Rubric.objects.filter(pk=study.rubric_id).values_list()),
        list(study.rubric.dimensions.values_list()),
        [
            counted_work.get("include_synthetic", False),
            counted_work.get("include_failed", False),
            without_state(study, excluded_flags),
        ],
        (study.values.quotas.smallest_difference, study.values.quotas.level),
        (study.values.planning.margins, study.values.planning.smallest_group),
        rated,
        sorted(counts_by_version),
    ]
    if get_protocol(study).compares_pairs:
        judged = pairs_counted(
            study, include_synthetic=counted_work.get("include_synthetic", False), without=excluded_flags
        )
        parts.append(judged.aggregate(Count("pk"), Max("updated_at")))
    if weights := study.values.referencing.weights_study:
        weights_ratings = Rating.objects.filter(item__study__key=weights)
        parts.append(weights_ratings.aggregate(Count("pk"), Max("updated_at")))
    if reads:
        parts.append(ImportedMetric.objects.aggregate(Count("pk"), Max("updated_at")))
    if "metrics" in reads:
        parts.append(MetricRun.objects.filter(study=study).aggregate(Count("pk"), Max("ended_at")))
    if "runs" in reads:
        fit = fit_leading(study, excluded_flags)
        played = SelfPlayRun.objects.filter(SELF_PLAY, state=State.DONE)
        parts += [
            fit and fit.pk,
            played.aggregate(Count("pk"), Max("ended_at")),
            MetricRun.objects.filter(study=None, run__study=None, run__plan__participants__isnull=True).aggregate(
                Count("pk"), Max("ended_at")
            ),
        ]
    if "candidates" in reads:
        judged = Job.objects.filter(kind__in=(JUDGES_KIND, BENCHMARK_KIND), study=study, state=State.DONE)
        measured = MetricRun.objects.filter(run__study=study)
        parts += [jobs.aggregate(Count("pk"), Max("ended_at")) for jobs in (judged, study.simulations, measured)]
    if "criteria" in reads and get_protocol(study).needs_criteria:
        checked = Job.objects.filter(kind=CRITERIA_KIND, study=study, state=State.DONE)
        parts.append(checked.aggregate(Count("pk"), Max("ended_at")))
    digest = hashlib.sha256(canonical_json(_plain(parts)).encode()).hexdigest()[:16]
    if get_protocol(study).judges_items:
        n_bots = len(study_bots(study))
    return DataState(rated["n"], n_bots, digest)


def _plain(parts: object) -> object:
    if isinstance(parts, dict):
        return {name: _plain(part) for name, part in parts.items()}
    if isinstance(parts, list | tuple):
        return [_plain(part) for part in parts]
    return parts if isinstance(parts, int | float | None) else str(parts)
