"""Results of studies that rate items, mark errors or compare pairs.

Results of pairs are compared with the interactive evaluation of the same bots. They are computed at once: resampling
uses raters' sums, which are few however many comparisons there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.agreement import ItemSets, item_sets
from evaluation.analysis.answers import Approval, approval, softmax_weights
from evaluation.analysis.criteria import CriteriaResults, CriterionAnswer, criteria_results
from evaluation.analysis.error_spans import ErrorResults, error_results
from evaluation.analysis.items import Grades, ItemMeans, grades, item_means
from evaluation.analysis.pairs import PairResults, judge_pairs
from evaluation.analysis.reference_ratings import ReferenceRatings, reference_ratings
from evaluation.analysis.single_turn import ProtocolComparison, compare_protocols
from evaluation.data.ratings import Ratings
from evaluation.data.tables import to_plain
from webapp.jobs.models import Job, State
from webapp.ratings.error_spans import spans_stored
from webapp.ratings.paired_comparisons import SAME_QUESTION, studies_beside, study_judgements, study_references
from webapp.ratings.selectors import ratings_counted, study_ratings
from webapp.results.fingerprint import CRITERIA_KIND
from webapp.results.study_data import StudyData
from webapp.studies.items import study_item_sets
from webapp.studies.models import Item, Study
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.protocols.criteria import CRITERIA


@dataclass(frozen=True, slots=True)
class StudyItems:
    """Item results of a study; None for parts its protocol lacks.

    Attributes:
        means: mean of every item on every question.
        sets: raters' agreement on each set of items.
        grades: majority grades with their labels.
        beside: ratings next to references.
        weights_from: key of the study whose choices weight its questions; empty: equal weights.
        approval: participants' choices.
        errors: errors marked in replies.
        criteria: agreement on each criterion; None before the first rating with ticks.
    """

    means: ItemMeans | None = None
    sets: ItemSets | None = None
    grades: Grades | None = None
    beside: ReferenceRatings | None = None
    weights_from: str = ""
    approval: Approval | None = None
    errors: ErrorResults | None = None
    criteria: CriteriaResults | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        document: dict[str, Any] = to_plain(self)
        return document


def study_items(data: StudyData) -> StudyItems:
    """Return the results of the study's items, or of errors in replies.

    Empty if participants rate chats.
    """
    if get_protocol(data.study).marks_errors:
        return StudyItems(errors=_errors(data))
    if not get_protocol(data.study).judges_items:
        return StudyItems()
    result_names = protocols.get(data.study.protocol).results
    weights = _weights(data) if "reference" in result_names else {}
    return StudyItems(
        means=item_means(data.ratings),
        sets=item_sets(data.ratings, study_item_sets(data.study), shared=data.study.values.judging.kappa_items)
        if "approval" not in result_names
        else None,
        grades=grades(data.ratings) if "grades" in result_names else None,
        beside=reference_ratings(data.ratings, *_references(data), weights or None)
        if "reference" in result_names
        else None,
        weights_from=data.study.values.referencing.weights_study if weights else "",
        approval=compute_approval(data.ratings) if "approval" in result_names else None,
        criteria=_criteria(data) if "criteria" in result_names else None,
    )


def _errors(data: StudyData) -> ErrorResults:
    """Return the marked errors.

    They are matched by reply and rater, because ratings may have been added since.
    """
    rows = ratings_counted(data.study, **data.counted_work).select_related("turn")
    marked = {
        (f"{rating.turn.conversation_id}/{rating.turn.index}", str(rating.participant_id)): (
            spans_stored(rating),
            rating.turn.text,
        )
        for rating in rows
        if rating.turn is not None
    }
    known = zip(data.ratings.conversation, data.ratings.rater, strict=True)
    spans, texts = zip(*(marked.get(key, ([], "")) for key in known), strict=True)
    return error_results(data.ratings, spans, texts)


def _criteria(data: StudyData) -> CriteriaResults | None:
    """Return the agreement on criteria, without ratings that have been added since.

    Ratings from before a change of protocol, or from an edited package, can have no ticks that fit the item; they are
    counted.
    """
    known = set(zip(data.ratings.conversation.tolist(), data.ratings.rater.tolist(), strict=True))
    answers: list[CriterionAnswer] = []
    rated_items: dict[str, Item] = {}
    n_without_ticks = 0
    for rating in ratings_counted(data.study, **data.counted_work).select_related("item").order_by("pk"):
        ticks, rater = rating.other_answers.get(CRITERIA, ()), str(rating.participant_id)
        if rating.item is None or (rating.item.key, rater) not in known:
            continue
        known.remove((rating.item.key, rater))
        if not isinstance(ticks, list) or len(ticks) != len(rating.item.criteria):
            n_without_ticks += 1
            continue
        rated_items[rating.item.key] = rating.item
        answers += ticked_criteria(rating.item, rater, ticks)
    return (
        criteria_results(answers, _judged(data.study, rated_items), n_without_ticks=n_without_ticks)
        if answers
        else None
    )


def _judged(study: Study, items: Mapping[str, Item]) -> Iterator[CriterionAnswer]:
    """Yield the answers of every judge's newest job about these items."""
    jobs = Job.objects.filter(kind=CRITERIA_KIND, study=study, state=State.DONE, result__isnull=False)
    newest = {job.payload["judge"]: job for job in jobs.order_by("pk")}
    titles = Counter(job.result["judge"] for job in newest.values())
    for name, job in newest.items():
        title = job.result["judge"]
        judge = title if titles[title] == 1 else f"{title} ({name})"
        for key, item in items.items():
            ticks = job.result["ticks"].get(key)
            # An item can be removed, and imported again with other criteria.
            if ticks and len(ticks) == len(item.criteria) and (job.started_at or job.created_at) > item.created_at:
                yield from ticked_criteria(item, judge, ticks)


def ticked_criteria(item: Item, rater: str, ticks: Sequence[int]) -> list[CriterionAnswer]:
    """Return a rater's answer to each criterion of an item."""
    return [
        CriterionAnswer(item.key, rater, criterion["text"], criterion["points"], bool(tick))
        for criterion, tick in zip(item.criteria, ticks, strict=True)
    ]


def compute_approval(ratings: Ratings) -> Approval:
    """Return the participants' choices, using the first of repeated ones."""
    once = ratings.once()
    chosen = np.nan_to_num(once.table())
    return approval(chosen, [dimension.key for dimension in once.dimensions])


def _weights(data: StudyData) -> dict[str, float]:
    """Return question weights from a study's choices; empty for equal weights.

    Weights are equal before the first choice, or if a question was not an option.
    """
    weights_study = Study.objects.filter(key=data.study.values.referencing.weights_study).first()
    if weights_study is None:
        return {}
    ratings = study_ratings(weights_study)
    keys = [dimension.key for dimension in data.dimensions]
    if not len(ratings) or not set(keys) <= set(ratings.answers):
        return {}
    options = compute_approval(ratings).options
    return softmax_weights({option.option: option.approval for option in options if option.option in keys})


def _references(data: StudyData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return study_references(data.study, **data.counted_work)


@dataclass(frozen=True, slots=True)
class PairPage:
    """Content of a study's page of pairs.

    Attributes:
        titles: titles of the pair questions.
        results: results of the comparing study; None without a study or ratings.
        comparable_studies: comparable studies of the other protocol, newest first.
        compared_study: the shown study among them, or None.
        compared: comparison of both protocols; None if one has no ratings yet.
    """

    titles: dict[str, str]
    results: PairResults | None
    comparable_studies: list[Study]
    compared_study: Study | None
    compared: ProtocolComparison | None


def study_pairs(
    study: Study, *, compared_key: str = "", include_synthetic: bool = False, without: Sequence[str] = ()
) -> PairPage:
    """Return the results of paired comparisons of the study's bots.

    Args:
        compared_key: key of the study to compare with this one; the newest if there is none of this key.
        without: names of flags; participants with one of them are left out of both studies.
    """
    comparable_studies = studies_beside(study)
    compared_study = next(
        (comparable for comparable in comparable_studies if comparable.key == compared_key),
        comparable_studies[0] if comparable_studies else None,
    )
    judgements = study_judgements(study, include_synthetic=include_synthetic, excluded_flags=without)
    comparing, chatting = (study, compared_study) if judgements is not None else (compared_study, study)
    judged = judgements
    if judgements is None and comparing is not None:
        judged = study_judgements(comparing, include_synthetic=include_synthetic, excluded_flags=without)
    if judged is None or not len(judged):
        return PairPage(dict(judged.titles) if judged else {}, None, comparable_studies, compared_study, None)
    shared = (comparing or study).values.judging.kappa_items
    results = judge_pairs(judged, shared=shared)
    compared = None
    if chatting is not None:
        ratings = study_ratings(chatting, include_synthetic=include_synthetic, without=without)
        same = {
            key: question
            for key in judged.titles
            for question in (key, SAME_QUESTION.get(key))
            if question is not None and question in ratings.answers
        }
        if len(ratings) and same:
            compared = compare_protocols(judged, ratings, same, results=results)
    return PairPage(dict(judged.titles), results, comparable_studies, compared_study, compared)
