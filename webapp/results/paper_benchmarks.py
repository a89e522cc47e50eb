"""Finished benchmarks in the form that the tables of papers are filled from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evaluation.agreement.paper_tables import RatedSet
from evaluation.analysis.answers import Approval
from evaluation.data.populations import published_groups
from webapp.core.errors import Refused
from webapp.jobs.models import State
from webapp.ratings.selectors import study_ratings
from webapp.results.benchmark import BenchmarkParams, benchmark_judgements, benchmarks_newest
from webapp.results.item_results import compute_approval
from webapp.studies.models import QuestionAnswers, Study
from webapp.studies.protocols.base import protocols

if TYPE_CHECKING:
    from evaluation.agreement.metric_agreement import JudgedReplies
    from evaluation.data.ratings import Ratings
    from webapp.jobs.models import Job

GROUP = "group"
"""Key of the question before tasks whose answers separate groups of participants."""


@dataclass(frozen=True, slots=True)
class PaperBenchmarks:
    """Rated sets of the newest benchmarks, and what is missing.

    Attributes:
        notes: sentences on benchmarks that are not, or only in part, included.
    """

    sets: tuple[RatedSet, ...]
    notes: tuple[str, ...] = ()

    @property
    def n_replies(self) -> int:
        """Number of rated replies."""
        return sum(len(rated_set.judged.items) for rated_set in self.sets if rated_set.judged)


def paper_benchmarks(studies: Sequence[Study] | None = None) -> PaperBenchmarks:
    """Return the newest finished benchmark of every data set, and the choices of every study.

    Args:
        studies: only these studies, without files; None for all data sets.
    """
    sets: list[RatedSet] = []
    notes: list[str] = []
    keys = None if studies is None else {study.key for study in studies}
    for job in benchmarks_newest():
        result = job.result or {}
        if job.state != State.DONE or "metrics" not in result or "questions" in result:
            continue
        if keys is not None and (job.study is None or job.study.key not in keys):
            continue
        title = job.study.name if job.study is not None else job.payload["title"]
        judged, problem = _judged(job)
        scores = {}
        for row in result["metrics"]:
            if judged is not None and len(row["scores"]) == len(judged.items):
                scores[row["metric"]] = row["scores"]
            scores |= row.get("classes", {})
        if problem:
            notes.append(f"{title}: {problem}")
        agreements = [agreement for row in result["metrics"] for agreement in row["agreement"].values()]
        sets.append(RatedSet(title, agreements, judged, scores))
    shares = _approval(studies)
    if shares:
        sets.append(RatedSet("choices", approval=shares))
    return PaperBenchmarks(tuple(sets), tuple(notes))


def _judged(job: Job) -> tuple[JudgedReplies | None, str]:
    """Return the rated replies, or None with the reason why their statistics are missing."""
    try:
        judged = benchmark_judgements(BenchmarkParams(**job.payload))
    except Refused as error:
        return None, f"statistics of its replies are missing, because {error}."
    if len(judged.items) != (job.result or {})["n_items"]:
        return judged, "its replies have changed since; distributions of metric values are missing."
    return judged, ""


def _approval(studies: Sequence[Study] | None) -> dict[str, Approval]:
    """Return participants' choices by the name of the study, and by group if its participants name theirs."""
    names = [protocol.name for protocol in protocols if "approval" in protocol.results]
    rows = Study.objects.filter(protocol__in=names).order_by("created_at", "pk")
    if studies is not None:
        rows = rows.filter(pk__in=[study.pk for study in studies])
    shares: dict[str, Approval] = {}
    for study in rows:
        for name, ratings in _by_group(study, study_ratings(study)).items():
            shares[name] = compute_approval(ratings)
    return shares


def _by_group(study: Study, ratings: Ratings) -> dict[str, Ratings]:
    """Return the ratings by name of the study and, if there is a question `group`, its answer."""
    if not len(ratings):
        return {}
    rows = QuestionAnswers.objects.filter(participant__study=study).order_by("pk").values_list("participant", "answers")
    group_of = {str(participant): str(answers[GROUP]) for participant, answers in rows if answers.get(GROUP)}
    if not group_of:
        return {study.name: ratings}
    labels = {rater: group_of.get(rater, "no answer") for rater in dict.fromkeys(ratings.rater.tolist())}
    published = published_groups(list(labels.values()), study.values.planning.smallest_group)
    if len(set(published.values())) < 2:
        return {study.name: ratings}
    groups = np.array([published[labels[rater]] for rater in ratings.rater], dtype=object)
    return {f"{study.name}: {group}": ratings.select(groups == group) for group in dict.fromkeys(groups.tolist())}
