"""Results of paired comparisons, and one-turn next to interactive evaluation of the same bots.

Computed at once: resampling goes over raters' sums, which are few however many judgements there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.analysis.one_turn import ProtocolsCompared, compare_protocols
from evaluation.analysis.pairs import PairResults, judge_pairs
from webapp.ratings.pairs import SAME_QUESTION, studies_beside, study_judgements
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class PairPage:
    """Content of a study's page of pairs.

    Attributes:
        titles: of the questions about pairs.
        results: of the study that compares; None where there is none, or without any rating.
        beside: the studies of the other protocol, newest first.
        other: the one of them that is shown; None without any.
        compared: both protocols; None where one of them has no ratings yet.
    """

    titles: dict[str, str]
    results: PairResults | None
    beside: list[Study]
    other: Study | None
    compared: ProtocolsCompared | None


def study_pairs(
    study: Study,
    *,
    beside: str = "",
    include_synthetic: bool = False,
    without: Sequence[str] = (),
) -> PairPage:
    """Return the results of paired comparisons of the study's bots.

    Args:
        beside: key of the study to compare with this one; the newest if there is none of this key.
        without: names of flags; participants with one of them are left out of both studies.
    """
    others = studies_beside(study)
    other = next((one for one in others if one.key == beside), others[0] if others else None)
    mine = study_judgements(study, include_synthetic=include_synthetic, without=without)
    comparing, chatting = (study, other) if mine is not None else (other, study)
    judged = mine
    if mine is None and comparing is not None:
        judged = study_judgements(comparing, include_synthetic=include_synthetic, without=without)
    if judged is None or not len(judged):
        return PairPage(dict(judged.titles) if judged else {}, None, others, other, None)
    shared = (comparing or study).values.judging.kappa_items
    results = judge_pairs(judged, shared=shared)
    compared = None
    if chatting is not None:
        ratings = study_ratings(chatting, include_synthetic=include_synthetic, without=without)
        same = {
            key: asked
            for key in judged.titles
            for asked in (key, SAME_QUESTION.get(key))
            if asked is not None and asked in ratings.answers
        }
        if len(ratings) and same:
            compared = compare_protocols(judged, ratings, same, results=results)
    return PairPage(dict(judged.titles), results, others, other, compared)
