"""Leaderboard: ranking of a study's bots, and two bots compared.

Both are available as pictures. Studies with paired comparisons show preferences. Details are folded sections, requested
when they are opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import content_disposition_header

from evaluation.analysis.comparisons import POWER
from evaluation.analysis.conditions import LevelResult
from evaluation.analysis.planning import RaterPlan
from evaluation.data.result_tables import NamedTable
from evaluation.plots.svg import FORMATS
from webapp.conversations.selectors import excluded_count, synthetic_count
from webapp.dashboard.conversation_list import conversations_link
from webapp.dashboard.filters import apply_flag_filter
from webapp.dashboard.folded_sections import Choice, FoldedSection
from webapp.dashboard.forms import PlanForm
from webapp.dashboard.navigation import Link, read_view
from webapp.dashboard.views.studies import (
    ShownResult,
    additional_result,
    stored_result,
    studies_asked,
    study_page,
    synthetic_asked,
)
from webapp.insights.bots import samples_of
from webapp.insights.charts.bots import bots_figure
from webapp.insights.head_to_head import head_to_head
from webapp.insights.leaderboard import VOTES, BoardParams, board_of, count_refusals, pairs_board, votes_board
from webapp.insights.live_progress import now_rounded
from webapp.insights.narrative.comparisons import bot_link, planning_table, prediction_of
from webapp.insights.narrative.conditions import within_sentence
from webapp.insights.narrative.hybrid_fits import ComparedStudy, studies_table
from webapp.insights.narrative.pairs import pairs_section, protocols_section
from webapp.insights.narrative.phrases import Section, listed
from webapp.insights.report_sections import SECTIONS
from webapp.insights.selectors import studies_to_compare
from webapp.insights.stopping import StoppingLine, stopping_line
from webapp.ratings.paired_comparisons import studies_beside
from webapp.ratings.selectors import study_bots, study_conversations
from webapp.results.bot_means import bot_summary
from webapp.results.compute import has_backgrounds
from webapp.results.item_results import PairPage, study_pairs
from webapp.results.refresh import ranking_newest
from webapp.results.study_data import StudyFrame
from webapp.search.chat_selection import FEEDBACK, ChatSelection
from webapp.search.index_statistics import has_votes, votes_of_bots
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

_KEPT = ("failed", "synthetic", "without", "with", "level")
"""Parameters that folded sections pass on."""
_LONGEST_SEED = 9


@read_view()
def results(request: HttpRequest, study: Study) -> HttpResponse:
    """Show the leaderboard by one question, and two selected bots."""
    context = _pairs(request, study) if get_protocol(study).compares_pairs else _ratings(request, study)
    part, folds = request.GET.get("part", ""), context.get("folds", [])
    if part and folds and part not in [fold.id for fold in folds]:
        raise Http404
    return study_page(
        request,
        "results.html",
        study,
        "results",
        leaves_out=True,
        n_synthetic=synthetic_count(study),
        failed=request.GET.get("failed") == "1",
        refusals=count_refusals(study),
        n_excluded=excluded_count(study),
        stopping=_stopping(request, study),
        suffix_more="".join(f"&{urlencode({name: v})}" for name in _KEPT for v in request.GET.getlist(name) if v),
        **context,
    )


@read_view()
def picture(request: HttpRequest, study: Study, what: str, kind: str) -> HttpResponse:
    """Send the leaderboard, or the two bots, as a file.

    If there is none, the page gives the reason.
    """
    context = _pairs(request, study) if get_protocol(study).compares_pairs else _ratings(request, study)
    if what not in ("board", "against") or kind not in FORMATS:
        raise Http404
    shows = context.get(what)
    if shows is None or ("choice" in context and context["choice"].wrong):
        return HttpResponseRedirect(f"{reverse('dashboard:study_results', args=[study.key])}?{request.GET.urlencode()}")
    name = shows.key if what == "board" else f"{shows.first.bot_id}-{shows.second.bot_id}"
    response = HttpResponse(shows.picture(study.name).to(kind), content_type=FORMATS[kind])
    response["Content-Disposition"] = content_disposition_header(True, f"{study.key}-{name}.{kind}") or ""
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _stopping(request: HttpRequest, study: Study) -> StoppingLine | None:
    """Return the forecast of when to stop; it is about all participants' ratings on the ranking question."""
    if any(request.GET.get(name) for name in ("by", "failed", "synthetic", "without", "level")):
        return None
    return stopping_line(study, ranking_newest(study), now=now_rounded())


def _board_params(request: HttpRequest, frame: StudyFrame, *, extra_keys: Sequence[str] = ()) -> BoardParams:
    """Parse an address's choices; invalid ones are reported and ignored.

    Args:
        extra_keys: additional measures besides the questions.
    """
    wrong = []
    keys = [*(dimension.key for dimension in frame.all_dimensions), *extra_keys]
    question = request.GET.get("by", "")
    if question and question not in keys:
        wrong.append(f"Unknown question “{question}”. Choose from {', '.join(keys)}.")
        question = ""
    chosen: dict[str, list[str]] = {}
    for name in ("bots", "against"):
        requested_bots = list(dict.fromkeys(filter(None, request.GET.getlist(name))))
        unknown = [f"“{bot}”" for bot in requested_bots if bot not in frame.rated_bots]
        if unknown:
            known = ", ".join(frame.rated_bots)
            wrong.append(f"This study has no rated bot {listed(unknown)}. Choose from {known}.")
        chosen[name] = [bot for bot in requested_bots if bot in frame.rated_bots]
    if (n := len(chosen["against"])) > 2:
        names = listed([frame.title(bot) for bot in chosen["against"][:2]])
        wrong.append(f"{n} bots are selected, but only two can be compared: {names}.")
    seed = request.GET.get("seed", "1")
    if not (seed.isascii() and seed.isdigit() and len(seed) <= _LONGEST_SEED):
        wrong.append(f"“{seed}” is not a valid seed. Use a whole number such as 7.")
        seed = "1"
    kept_params = [
        (name, value)
        for name in ("failed", "synthetic", "without", "level")
        if (value := ",".join(request.GET.getlist(name)))
    ]
    return BoardParams(
        question=question if question != keys[0] else "",
        is_whole=request.GET.get("zoom") == "0",
        bots=tuple(chosen["bots"]),
        against=tuple(chosen["against"][:2]),
        seed=int(seed),
        kept_params=tuple(kept_params),
        wrong=tuple(wrong),
    )


def _ratings(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the context of a study with ratings.

    It has stored results and the state of their jobs.
    """
    failed = request.GET.get("failed") == "1"
    comparisons = stored_result(request, study, "comparisons", failed=failed)
    frame = comparisons.frame
    if frame is None:
        return {"waiting": comparisons.waiting}
    chats = study_conversations(study, **frame.counted_work, include_failed=failed)
    is_voted = has_votes(study, chats)
    choice = _board_params(request, frame, extra_keys=[VOTES] if is_voted else [])
    question_key = choice.question or frame.headline.key
    levels, level = _level(request, comparisons, choice)
    by_question = None
    if choice.question not in ("", VOTES) or len(choice.against) == 2:
        by_question = additional_result(request, comparisons, "dimensions")
    every = by_question.result.compared if by_question and by_question.result else {}
    # The ranking question is read from a single result, so its count agrees with other pages.
    compared = {**every, frame.headline.key: comparisons.result.compared}
    questions = [
        Link(
            dimension.title,
            choice.address(by="" if dimension == frame.headline else dimension.key),
            dimension.key == question_key,
        )
        for dimension in frame.all_dimensions
    ]
    board = None
    if is_voted:
        questions.append(Link("Votes", choice.address(by=VOTES, against=""), question_key == VOTES))
    if level is not None:
        board = board_of(frame, level.means, level.compared, choice, frame.headline)
    elif question_key == VOTES:
        board = votes_board(frame, votes_of_bots(study, chats), choice)
    elif question_key in compared:
        dimension = next(dimension for dimension in frame.all_dimensions if dimension.key == question_key)
        board = board_of(frame, comparisons.result.means, compared[question_key], choice, dimension)
    return {
        "waiting": comparisons.waiting or (by_question.waiting if by_question else None),
        "choice": choice,
        "questions": [] if level is not None else questions,
        "levels": levels,
        "within_said": within_sentence(
            level.compared if level is not None else compared.get(question_key, comparisons.result.compared)
        ),
        "choosable": [(frame.bots[bot], bot in choice.bots) for bot in frame.rated_bots],
        "choice_parts": choice.parts("against"),
        "choose_parts": choice.parts("bots"),
        "board": board,
        "folds": _folds(request, study, comparisons, frame, choice, failed=failed),
        **(_two(study, frame, comparisons, choice, compared, question_key) if every else {}),
    }


def _level(
    request: HttpRequest, comparisons: ShownResult, choice: BoardParams
) -> tuple[list[Link], LevelResult | None]:
    """Return the confidence levels with addresses, and the chosen result."""
    study, level_name = comparisons.question.study, request.GET.get("level", "")
    factor, _dot, key = level_name.partition(".")
    level = None
    if level_name:
        by_condition = additional_result(request, comparisons, "conditions")
        level = by_condition.result.get_level(factor, key) if by_condition.result is not None else None
    links = [Link("All conditions", choice.address(level=""), level is None)]
    for listed_factor in study.values.conditions.factors:
        for each in listed_factor.levels:
            name = f"{listed_factor.key}.{each.key}"
            links.append(
                Link(
                    f"{listed_factor.title}: {each.title}",
                    choice.address(level=name, by="", against=""),
                    level_name == name,
                )
            )
    return (links if len(links) > 1 else []), level


def _two(
    study: Study,
    frame: StudyFrame,
    comparisons: ShownResult,
    choice: BoardParams,
    compared: dict[str, Any],
    question_key: str,
) -> dict[str, Any]:
    """Return the context of two selected bots.

    It has their differences, and conversations to read.
    """
    against = head_to_head(frame, comparisons.result.compared, compared, choice)
    if against is None:
        return {}
    samples = samples_of(
        study,
        [against.first, against.second],
        comparisons.result.means,
        frame.headline.key if question_key == VOTES else question_key,
        seed=choice.seed,
        synthetic=frame.include_synthetic,
        excluded_flags=frame.excluded_flags,
    )
    return {"against": against, "samples": samples, "others": choice.address(seed=str(choice.seed + 1))}


def _folds(
    request: HttpRequest,
    study: Study,
    comparisons: ShownResult,
    frame: StudyFrame,
    choice: BoardParams,
    *,
    failed: bool,
) -> list[FoldedSection]:
    """Return the folded sections of a study with ratings.

    The requested section has its content.
    """
    opened = request.GET.get("part", "")
    questions = FoldedSection("questions", "All questions", is_open=opened == "questions")
    if questions.is_open:
        results = (comparisons.result.means, comparisons.result.compared)
        summary = bot_summary(study, **frame.counted_work, include_failed=failed, means_and_comparisons=results)
        figure = bots_figure(summary, partial(bot_link, frame), is_whole=choice.is_whole)
        questions.content = Section("questions", "All questions", figures=[figure])
    pairs = FoldedSection("comparisons", "All pairs of bots and sample-size plans", is_open=opened == "comparisons")
    if pairs.is_open:
        pairs.content = SECTIONS["comparisons"](frame, comparisons.result)
        del pairs.content.lead[0]  # it is the page's heading
        pairs.plan_form = PlanForm(request.GET or None)
        pairs.plan = _plan(frame, comparisons.result.planned, pairs.plan_form) if pairs.plan_form.is_valid() else None
    related_studies = studies_beside(study)
    parts = []
    if study.helpers.exists():
        parts.append(FoldedSection("helped", "With the help of a judge", is_open=opened in ("", "helped")))
    if has_backgrounds(study):
        has_margins = bool(study.values.planning.margins)
        parts.append(
            FoldedSection(
                "population", "Whose opinion?", is_open=opened == "population" or (has_margins and not opened)
            )
        )
    if study.values.conditions.factors:
        parts.append(FoldedSection("conditions", "Bots by condition", is_open=opened == "conditions"))
    for fold in parts:
        if fold.is_open:
            result = additional_result(request, comparisons, fold.id)
            fold.content = SECTIONS[fold.id](frame, result.result) if result.result is not None else None
            fold.waiting = result.waiting
    return [
        *parts,
        questions,
        pairs,
        *_same_bots(request, study, related_studies),
        *_one_turn(request, study, related_studies),
    ]


def _same_bots(request: HttpRequest, study: Study, of_other_kind: Sequence[Study]) -> list[FoldedSection]:
    """Return the section on the same bots in other studies.

    None without other studies.

    Args:
        of_other_kind: studies in `with` that belong to the section on single replies.
    """
    fold, not_here = (
        FoldedSection("studies", "The same bots in other studies"),
        {other_study.key for other_study in of_other_kind},
    )
    study_keys = [key for key in request.GET.getlist("with") if key not in not_here]
    fold.is_open = request.GET.get("part") == fold.id or any(study_keys)
    if not fold.is_open:
        return [fold] if any(other_study.key not in not_here for other_study in studies_to_compare(study)) else []
    fold.related_studies = studies_asked(study, study_keys)
    fold.content = Section(fold.id, fold.title, missing=fold.related_studies.wrong)
    compared = []
    for compared_study in [study, *fold.related_studies.selected] if fold.related_studies.selected else []:
        stored = stored_result(request, compared_study, "comparisons")
        if stored.frame is not None:
            compared.append(ComparedStudy(stored.frame, stored.result))
        elif stored.waiting is None:
            fold.content.missing.append(f"“{compared_study.key}” has no ratings yet.")
        else:
            fold.content.missing.append(f"The bots of “{compared_study.key}” are being compared.")
    table = studies_table(compared)
    fold.content.tables += [table] if table else []
    return [fold]


def _plan(frame: StudyFrame, planned: RaterPlan | None, form: PlanForm) -> NamedTable | None:
    form_data = form.cleaned_data
    if form_data.get("difference") is None or planned is None:
        return None
    chosen = planned.for_differences([form_data["difference"]], power=form_data["power"] or POWER)
    return planning_table(frame, chosen, prediction_of(frame))


def _one_turn(request: HttpRequest, study: Study, related_studies: Sequence[Study]) -> list[FoldedSection]:
    """Return the section on single replies and chats with the same bots.

    None without a study of the other kind.
    """
    if not related_studies:
        return []
    fold = FoldedSection("one-turn", "Single replies and chats with the same bots")
    fold.is_open = request.GET.get("part") == fold.id or request.GET.get("with") in [
        other_study.key for other_study in related_studies
    ]
    if fold.is_open:
        pair_results = _study_pairs(request, study)
        fold.content = protocols_section(study, pair_results) or Section(
            "one-turn", fold.title, missing=["Two bots are needed that have both rated chats and compared replies."]
        )
        if len(related_studies) > 1:
            fold.choice = Choice(
                "with",
                "Other study",
                [
                    (other_study.key, other_study.name, other_study == pair_results.compared_study)
                    for other_study in related_studies
                ],
            )
    return [fold]


def _study_pairs(request: HttpRequest, study: Study) -> PairPage:
    return study_pairs(
        study,
        compared_key=request.GET.get("with", ""),
        include_synthetic=synthetic_asked(request),
        without=apply_flag_filter(request, study),
    )


def _chats_of(request: HttpRequest, study: Study, *bots: str) -> str:
    """Return the address of the bots' chats in a study that compares pairs; "" if it compares items."""
    if not get_protocol(study).talks_to_bots:
        return ""
    return conversations_link(
        study,
        ChatSelection.of(highlight=FEEDBACK, bot=bots),
        synthetic=synthetic_asked(request),
        excluded_flags=apply_flag_filter(request, study),
    )


def _pairs(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the context of a study with paired comparisons."""
    pair_results = _study_pairs(request, study)
    if pair_results.results is None:
        return {}
    bots = study_bots(study)
    link = partial(_chats_of, request, study)
    section = pairs_section(study, pair_results.results, pair_results.titles, bots, link)
    outcomes, *tables = section.tables
    detail = FoldedSection("pairs", "Agreement, and results without ambiguous pairs")
    detail.is_open = request.GET.get("part") == detail.id
    detail.content = Section("pairs", detail.title, tables=tables)
    return {
        "opening": Section("", "", section.lead[1:], section.points, methods=section.methods, missing=section.missing),
        "verdict": section.lead[0],
        "board": pairs_board(
            pair_results.results, next(iter(pair_results.titles.values())), bots, section.lead[0], link
        ),
        "outcomes": outcomes,
        "folds": [detail, *_one_turn(request, study, studies_beside(study))],
    }
