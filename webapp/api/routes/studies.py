"""Routes of studies and their pages.

Read studies or create one from a file. Pages: overview, live page, leaderboard, votes, flags and paired comparisons.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from ninja.pagination import paginate
from pydantic import Field

from chatbots.text import quote
from chatbots.validation import Mistake, ValuesError
from evaluation.analysis.leaderboard import leaderboard
from webapp.api.errors import BODY_FAILURES, FAILURES, Token, rights_of
from webapp.api.schemas import Pages, StudyDetail, StudyMade, StudyOut, fields_of
from webapp.api.schemas_study import BotVotesOut, FlagsOut, LiveOut, OverviewOut, PairsOut, StudyLeaderboard, VotesOut
from webapp.conversations.selectors import synthetic_count
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.rights import Right
from webapp.insights.data_quality import flags_counted
from webapp.insights.live_page import live_room
from webapp.insights.live_progress import now_rounded
from webapp.insights.overview import study_action_items
from webapp.insights.pipeline import pipeline_of
from webapp.insights.selectors import bot_progress, study_cards
from webapp.insights.stopping import stopping_line
from webapp.ratings.flag_selectors import without_read
from webapp.ratings.selectors import study_bots, study_conversations
from webapp.results.cache import AnalysisKey, get_result
from webapp.results.fingerprint import analysed_counts
from webapp.results.item_results import study_pairs
from webapp.results.refresh import ranking_newest, refresh_flags
from webapp.search.index_statistics import VOTES_LEVEL, votes_of_bots, votes_ranked
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import study_by_key
from webapp.studies.study_file import StudyFile, study_file_of, without_codes

router = Router(tags=["studies"], auth=Token())


@router.get("/studies", response={200: list[StudyOut], **FAILURES}, operation_id="studies")
@paginate(Pages)
def studies(request: HttpRequest) -> Any:
    """List all studies including archived ones, newest first."""
    return Study.objects.order_by("-created_at", "-pk")


@router.get("/studies/{key}", response={200: StudyDetail, **FAILURES}, operation_id="study")
def study(request: HttpRequest, key: str) -> Any:
    """Return a study with counts of its data."""
    selected_study = study_by_key(key)
    counts = analysed_counts(selected_study)
    for name in ("n_ratings", "n_measured", "n_fits"):
        setattr(selected_study, name, getattr(counts, name))
    return selected_study


@router.get("/studies/{key}/file", response={200: dict[str, Any], **FAILURES}, operation_id="study_file")
def study_file(request: HttpRequest, key: str) -> Any:
    """Download a study's file, which `import_study` and `POST /studies` read.

    Completion codes are included only if the token may pay or administer.
    """
    selected_study = study_by_key(key)
    file = study_file_of(selected_study)
    record(DOWNLOAD, selected_study, file="study_file")
    sees_codes = {Right.PAY, Right.ADMINISTER} & set(rights_of(request))
    return (file if sees_codes else without_codes(file)).to_plain()


@router.post(
    "/studies", auth=Token(Right.ADMINISTER), response={200: StudyMade, **BODY_FAILURES}, operation_id="study_make"
)
def study_make(request: HttpRequest, file: StudyFile, opens: bool = False) -> Any:
    """Create a study from a file, or a new version of one.

    `opens` starts data collection.

    All mistakes are returned at once, each with its path.
    """
    imported = study_import(file=file, opens=opens, author=request.user.get_username())
    return StudyMade(
        key=imported.study.key, is_new=imported.is_new, n_changes=len(imported.changes), n_items=imported.n_items
    )


pages_router = Router(tags=["pages"], auth=Token())


class Counted(Schema):
    """Options that select the participants to count."""

    include_synthetic: bool = False
    without: str = Field("", max_length=500, description="Comma-separated flags.")

    def flags(self, study: Study) -> tuple[str, ...]:
        """Return the flags that exclude participants, and refresh the study's flags first."""
        flags = without_read(self.without)
        if flags:
            refresh_flags(study)
        return flags


@pages_router.get("/studies/{key}/overview", response={200: OverviewOut, **FAILURES}, operation_id="overview")
def overview(request: HttpRequest, key: str, include_synthetic: bool = False) -> Any:
    """Return a study's progress: stages, next step, bots, and what needs attention."""
    study = study_by_key(key)
    progress = bot_progress(study, include_synthetic=include_synthetic)
    cards = study_cards(study, include_synthetic=include_synthetic)
    is_rated_whole = get_protocol(study).rates_conversations
    needs = study_action_items(study, cards, progress, may_pay=Right.PAY in rights_of(request))
    return {
        "key": study.key,
        "state": study.state,
        "n_synthetic": synthetic_count(study),
        "cards": cards,
        "bots": progress,
        "pipeline": pipeline_of(study, cards, progress) if is_rated_whole else None,
        "stopping": None if include_synthetic else stopping_line(study, ranking_newest(study), now=now_rounded()),
        "needs": needs,
    }


@pages_router.get("/studies/{key}/live", response={200: LiveOut, **FAILURES}, operation_id="live")
def live(request: HttpRequest, key: str, include_synthetic: bool = False) -> Any:
    """Return the live page of a collecting study.

    It has current participants, replies, pace, cost and ranking.
    """
    study = study_by_key(key)
    if study.is_imported:
        raise Http404(f"{key} is imported, so it has no participants")
    return live_room(
        study, include_synthetic=include_synthetic, now=now_rounded(), may_pay=Right.PAY in rights_of(request)
    )


@pages_router.get(
    "/studies/{key}/leaderboard", response={200: StudyLeaderboard, **FAILURES}, operation_id="leaderboard"
)
def study_leaderboard(
    request: HttpRequest, key: str, participant_filter: Query[Counted], by: str = "", include_failed: bool = False
) -> Any:
    """Return the leaderboard by a question, with ranges of ranks.

    Without `by`, the study's default ranking measure is used.
    """
    study = study_by_key(key)
    analysis_filter = (participant_filter.include_synthetic, include_failed, participant_filter.flags(study))
    result_key = AnalysisKey(study, "comparisons", *analysis_filter)
    answer = get_result(result_key, created_by=request.user)  # type: ignore[arg-type]
    if answer.computed_result is None:
        return {"questions": [], "made_at": None, "n_ratings": None, "document": None, "job": answer.job}
    result, facts = answer.computed_result.result, answer.computed_result.facts
    questions = [dimension.key for dimension in facts.all_dimensions]
    if by and by not in questions:
        message = f"by is {quote(by)}; it must be one of {', '.join(questions)}"
        raise ValuesError([Mistake("by", message)])
    compared = result.compared
    if by and by != questions[0]:
        # Read the ranking measure from this result only, so that counts equal those of the page.
        result_key = AnalysisKey(study, "dimensions", *analysis_filter)
        answer = get_result(result_key, created_by=request.user)  # type: ignore[arg-type]
        compared = None if answer.computed_result is None else answer.computed_result.result.compared.get(by)
    ranking = None if compared is None else leaderboard(result.means, compared)
    return {
        "questions": questions,
        "made_at": answer.made_at,
        "n_ratings": facts.n_ratings if answer.computed_result is None else answer.computed_result.facts.n_ratings,
        "document": None if ranking is None else ranking.to_json(),
        "stopping": stopping_line(study, ranking_newest(study), now=now_rounded())
        if not (by or include_failed or participant_filter.include_synthetic or participant_filter.flags(study))
        else None,
        "job": answer.job,
    }


@pages_router.get("/studies/{key}/votes", response={200: VotesOut, **FAILURES}, operation_id="votes")
def votes(request: HttpRequest, key: str, participant_filter: Query[Counted], include_failed: bool = False) -> Any:
    """Return votes on single replies by bot, highest share of upvotes first."""
    study = study_by_key(key)
    chats = study_conversations(
        study,
        include_synthetic=participant_filter.include_synthetic,
        include_failed=include_failed,
        without=participant_filter.flags(study),
    )
    bots = study_bots(study)
    ranked_votes = votes_ranked(bots, votes_of_bots(study, chats))
    return {
        "level": VOTES_LEVEL,
        "n": sum(bot_votes.n for bot_votes in ranked_votes),
        "bots": [
            fields_of(
                BotVotesOut,
                bot_votes,
                bot=bot_votes.bot_id,
                title=bots[bot_votes.bot_id].title,
                is_control=bots[bot_votes.bot_id].is_control,
            )
            for bot_votes in ranked_votes
        ],
    }


@pages_router.get("/studies/{key}/flags", response={200: FlagsOut, **FAILURES}, operation_id="flags")
def flags(request: HttpRequest, key: str) -> Any:
    """Count participants with flags by kind, without ids.

    These are the counts of the page Quality.
    """
    study = study_by_key(key)
    now = refresh_flags(study)
    state = now.state
    counts = None if state is None else flags_counted(study, state)
    return {
        "made_at": None if state is None else state.made_at,
        "is_current": now.is_current,
        "n_people": None if state is None else state.n_people,
        "n_tasks": None if state is None else state.n_tasks,
        "n_flagged": None if counts is None else counts.n_flagged,
        "kinds": [] if counts is None else counts.kinds,
        "job": now.job,
    }


@pages_router.get("/studies/{key}/results/pairs", response={200: PairsOut, **FAILURES}, operation_id="pairs")
def pairs(request: HttpRequest, key: str, participant_filter: Query[Counted], beside: str = "") -> Any:
    """Return the results of paired comparisons.

    `beside` is the key of a study with the other protocol, for comparison.
    """
    study = study_by_key(key)
    pair_results = study_pairs(
        study,
        compared_key=beside,
        include_synthetic=participant_filter.include_synthetic,
        without=participant_filter.flags(study),
    )
    return PairsOut(
        questions=pair_results.titles,
        document=pair_results.results.to_json() if pair_results.results is not None else None,
        beside=pair_results.compared_study.key if pair_results.compared_study is not None else None,
        others=[other_study.key for other_study in pair_results.comparable_studies],
        one_turn=pair_results.compared.to_json() if pair_results.compared is not None else None,
    )
