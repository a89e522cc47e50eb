"""Comparison of a study's bots: leaderboard and two bots in detail; and of fits, runs and studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from webapp.conversations.selectors import synthetic_count
from webapp.dashboard.bots import samples_of
from webapp.dashboard.leaderboard import Board, BoardParams, board_of, board_params, head_to_head
from webapp.dashboard.leaderboard_picture import (
    VOTES,
    VotesBoard,
    board_picture,
    head_to_head_picture,
    votes_board,
    votes_picture,
)
from webapp.dashboard.narrative.hybrid_fits import (
    ComparedStudy,
    fits_table,
    runs_table,
    studies_table,
)
from webapp.dashboard.navigation import staff_only
from webapp.dashboard.selectors import studies_to_compare
from webapp.dashboard.views.studies import (
    ShownResult,
    additional_result,
    stored_result,
    study_of,
    study_page,
)
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.fits import fits_beside
from webapp.ratings.selectors import BotInfo, study_bots, study_conversations
from webapp.results.study_data import StudyFrame
from webapp.search.index_statistics import has_votes, votes_of_bots
from webapp.studies.models import Study

MOST_FITS = 40
"""So many fits stand beside one another, the newest."""
MOST_BESIDE = 4
"""So many other studies stand beside one: a table of more cannot be read."""


@require_safe
@staff_only
def compare(request: HttpRequest, key: str) -> HttpResponse:
    """Show the leaderboard by one question and, where two bots are ticked, these on all questions."""
    study = study_of(key)
    return study_page(
        request,
        "compare.html",
        study,
        "compare",
        leaves_out=True,
        n_synthetic=synthetic_count(study),
        **_context(request, study),
    )


@require_safe
@staff_only
def picture(request: HttpRequest, key: str, what: str) -> HttpResponse:
    """Send the leaderboard, or the two bots against each other, as an SVG file; the page says why there is none."""
    study = study_of(key)
    context = _context(request, study)
    shows = context.get(what) or (context.get("votes") if what == "board" else None)
    if shows is None or context["choice"].wrong:
        where = f"{reverse('dashboard:study_compare', args=[key])}?{request.GET.urlencode()}"
        return HttpResponseRedirect(where)
    if isinstance(shows, Board):
        drawn, name = board_picture(shows, study.name), shows.dimension.key
    elif isinstance(shows, VotesBoard):
        drawn, name = votes_picture(shows, study.name), VOTES
    else:
        drawn = head_to_head_picture(shows, study.name)
        name = f"{shows.first.bot_id}-{shows.second.bot_id}"
    response = HttpResponse(drawn.svg, content_type="image/svg+xml; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, f"{key}-{name}.svg") or ""
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _context(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the page's context: the state of the results' jobs, and results if stored."""
    failed = request.GET.get("failed") == "1"
    found = stored_result(request, study, "comparisons", failed=failed)
    context: dict[str, Any] = {"waiting": found.waiting}
    if found.frame is not None:
        chats = study_conversations(
            study,
            include_synthetic=found.frame.include_synthetic,
            include_failed=failed,
            without=found.frame.without,
        )
        is_voted = has_votes(study, chats)
        choice = board_params(request, found.frame, more=[VOTES] if is_voted else [])
        by_question = None
        if choice.by not in ("", VOTES) or len(choice.against) == 2:
            by_question = additional_result(request, found, "dimensions")
            context["waiting"] = found.waiting or by_question.waiting
        context |= _compared(study, choice, found, found.frame, by_question)
        if is_voted:
            context["questions"].append(("Votes", choice.address(by=VOTES, against=""), choice.by == VOTES))
        if choice.by == VOTES:
            context["votes"] = votes_board(found.frame, votes_of_bots(study, chats), choice)
    return context


def _compared(
    study: Study,
    choice: BoardParams,
    found: ShownResult,
    frame: StudyFrame,
    by_question: ShownResult | None,
) -> dict[str, Any]:
    """Return the page's context on stored results.

    Args:
        by_question: comparisons by every question; None where the page needs none of them.
    """
    result = found.result
    by = choice.by or frame.headline.key
    every = by_question.result.compared if by_question and by_question.result else {}
    # What bots are ranked by is read from one result alone, so that its count is the other pages'.
    compared = {**every, frame.headline.key: result.compared}
    dimension = next((one for one in frame.all_dimensions if one.key == by), frame.headline)
    context: dict[str, Any] = {
        "choice": choice,
        "questions": [
            (one.title, choice.address(by="" if one == frame.headline else one.key), one.key == by)
            for one in frame.all_dimensions
        ],
        "choosable": [(frame.bots[bot], bot in choice.bots) for bot in frame.rated_bots],
        "choice_parts": choice.parts("against"),
        "choose_parts": choice.parts("bots"),
        "board": None,
    }
    if by in compared:
        context["board"] = board_of(frame, result.means, compared[by], choice, dimension)
    if every:
        against = head_to_head(frame, result.compared, compared, choice)
        context["against"] = against
        if against is not None:
            two: list[BotInfo] = [against.first, against.second]
            context["samples"] = samples_of(
                study,
                two,
                result.means,
                dimension.key,
                seed=choice.seed,
                synthetic=frame.include_synthetic,
                without=frame.without,
            )
            context["others"] = choice.address(seed=str(choice.seed + 1))
    return context


@require_safe
@staff_only
def fits(request: HttpRequest, key: str) -> HttpResponse:
    """Show fits beside one another, what self-play predicts run by run, and the same bots in several studies."""
    study = study_of(key)
    choosable = studies_to_compare(study)
    asked = list(dict.fromkeys(filter(None, request.GET.getlist("with"))))
    others = [one for one in choosable if one.key in asked][:MOST_BESIDE]
    wrong = _not_beside(asked, choosable)
    studies = [study, *others]
    found = fits_beside(studies, MOST_FITS)
    runs = runs_table(found, study_bots(study), lambda run: reverse("dashboard:run", args=[run.pk]))
    beside, waiting = [], []
    for one in studies if others else []:
        result = stored_result(request, one, "comparisons")
        if result.frame is not None:
            beside.append(ComparedStudy(result.frame, result.result))
        elif result.waiting is None:
            wrong.append(f"“{one.key}” has no ratings yet.")
        if result.waiting is not None:
            waiting.append(one)
    return study_page(
        request,
        "fits.html",
        study,
        "fits",
        leaves_out=True,
        wrong=wrong,
        table=fits_table(found, _fit_address, several=bool(others)) if found else None,
        runs=runs,
        studies=studies_table(beside),
        still=waiting,
        choosable=[(one, one in others) for one in choosable],
        kept=[(name, v) for name in ("synthetic", "without") if (v := request.GET.get(name))],
        n_synthetic=synthetic_count(study),
    )


def _fit_address(fit: HybridFit) -> str:
    query = {"fit": str(fit.pk)}
    if fit.request.get("without"):
        query["without"] = ",".join(fit.request["without"])
    return f"{reverse('dashboard:study_hybrid', args=[fit.study.key])}?{urlencode(query, safe=',')}"


def _not_beside(asked: Sequence[str], choosable: Sequence[Study]) -> list[str]:
    """Compose messages on requested studies that cannot be shown for comparison."""
    known = [one.key for one in choosable]
    wrong = [
        "There is no other study “{key}” in use; there are {known}.".format(key=key, known=", ".join(known) or "none")
        for key in asked
        if key not in known
    ]
    if len([key for key in asked if key in known]) > MOST_BESIDE:
        wrong.append(
            f"{len(asked)} studies are chosen, and {MOST_BESIDE} can stand beside this one: the newest are shown."
        )
    return wrong
