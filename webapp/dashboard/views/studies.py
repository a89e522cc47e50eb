"""Studies: list, frame of a study's pages, overview, and tour.

A page of results shows the stored result, the job that computes it, or both if the data have changed. The tour is
offered at the first visit, and can be left and resumed at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from chatbots.registry import UnknownName, title_of
from evaluation.hybrid.baselines import MIN_BOTS
from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.dashboard.conversation_list import conversations_link
from webapp.dashboard.filters import apply_flag_filter, exclusion_notice, requested_flags
from webapp.dashboard.navigation import Link, form_view, page, page_title, post_view, read_view, tab_links
from webapp.dashboard.recruitment import link_to_send, participant_link, recruiting_links
from webapp.dashboard.views.jobs import job_context, job_rows
from webapp.insights import selectors
from webapp.insights.action_items import action_items
from webapp.insights.bots import study_spent
from webapp.insights.live_progress import now_rounded
from webapp.insights.overview import headline_findings, selfplay_bots, study_action_items
from webapp.insights.pipeline import SELFPLAY_EACH, pipeline_of
from webapp.insights.selectors import studies_to_compare, tour_study
from webapp.insights.stopping import stopping_line
from webapp.jobs.models import State
from webapp.jobs.services.fits import analysis_start
from webapp.jobs.services.jobs import jobs_settle
from webapp.ratings.paired_comparisons import answers_counted
from webapp.results.cache import AnalysisKey, CurrentResult, get_result
from webapp.results.refresh import ranking_newest
from webapp.results.study_data import StudyFrame, study_frame
from webapp.studies.models import Study
from webapp.studies.privacy.retention import clock_of
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.transfer.import_mappings import imported_files


def synthetic_asked(request: HttpRequest) -> bool:
    """Return True if the request includes scripted participants."""
    return request.GET.get("synthetic") == "1"


def kept_in_address(request: HttpRequest, *, synthetic: bool | None = None) -> str:
    """Return the query that all pages of a study keep.

    For example `?synthetic=1&without=fast`; it selects the counted participants.

    Args:
        synthetic: whether scripted participants count; None: as on this page.
    """
    scripts = synthetic_asked(request) if synthetic is None else synthetic
    return counting(synthetic=scripts, excluded_flags=requested_flags(request))


def counting(*, synthetic: bool, excluded_flags: Sequence[str]) -> str:
    """Return the query that counts these participants."""
    parameters = {"synthetic": "1" if synthetic else "", "without": ",".join(excluded_flags)}
    query = urlencode({name: value for name, value in parameters.items() if value}, safe=",")
    return f"?{query}" if query else ""


def study_page(
    request: HttpRequest, template: str, study: Study, name: str, *, leaves_out: bool = False, **context: Any
) -> HttpResponse:
    """Show a page within a study's frame.

    The frame has name, state, tabs, and the participants' link.

    Args:
        name: name of the page in `webapp.dashboard.navigation`.
        leaves_out: whether the page can exclude participants by their flags.
    """
    state, pill = selectors.study_state(study)
    suffix = kept_in_address(request)
    tabs, below = tab_links(request.user, study, name, suffix)
    context = {
        "study": study,
        "page_title": page_title(name),
        "tabs": tabs,
        "below": below,
        "state_title": state,
        "state_pill": pill,
        "participant_link": link_to_send(request, study),
        "synthetic": synthetic_asked(request),
        "without": ",".join(requested_flags(request)),
        "suffix": suffix,
        "suffix_more": suffix.replace("?", "&"),
        "with_scripts": kept_in_address(request, synthetic=True),
        "without_scripts": kept_in_address(request, synthetic=False) or "?",
        "people": exclusion_notice(request, study) if leaves_out else None,
        "closed_said": selectors.closed_sentence(study),
        "judges_items": get_protocol(study).judges_items,
        "has_chats": get_protocol(study).talks_to_bots,
        # Counted by the page that has no other result.
        "n_compared": lambda: _n_compared(request, study),
        **context,
    }
    return page(request, template, "studies", **context)


def _n_compared(request: HttpRequest, study: Study) -> int:
    """Return the number of paired comparisons.

    0 if the study collects other ratings.
    """
    if not get_protocol(study).compares_pairs:
        return 0
    return answers_counted(
        study, include_synthetic=synthetic_asked(request), without=apply_flag_filter(request, study)
    ).count()


@dataclass(frozen=True, slots=True)
class ShownResult:
    """Result as shown on a page.

    Attributes:
        result: None without one.
        frame: diagnostics in words; None without a result.
        waiting: content of `_waiting.html` about the job that computes a new one; None if none is needed.
        question: question that it answers.
    """

    result: Any
    frame: StudyFrame | None
    waiting: dict[str, Any] | None
    question: AnalysisKey


def analysis_key(request: HttpRequest, study: Study, part: str, *, failed: bool = False) -> AnalysisKey:
    """Return the key of a part of the analysis.

    It contains the conversations that the page counts.

    Args:
        failed: whether to include chats whose bot failed.
    """
    return AnalysisKey(
        study,
        part,
        include_synthetic=synthetic_asked(request),
        include_failed=failed,
        without=apply_flag_filter(request, study),
    )


def stored_result(request: HttpRequest, study: Study, part: str, *, failed: bool = False) -> ShownResult:
    """Return the stored result of a part of the analysis.

    If there is none, it is requested.
    """
    return shown_result(request, analysis_key(request, study, part, failed=failed))


def additional_result(request: HttpRequest, base_result: ShownResult, part: str) -> ShownResult:
    """Return the stored result of a further part, for the same data."""
    return shown_result(request, base_result.question.with_part(part))


def shown_result(request: HttpRequest, question: AnalysisKey) -> ShownResult:
    """Return the stored result of a question as shown on a page.

    If there is none, it is requested.
    """
    answer = get_result(question, created_by=request.user)  # type: ignore[arg-type]
    waiting = _waiting(request, question, answer)
    if answer.computed_result is None:
        return ShownResult(None, None, waiting, question)
    study, synthetic, excluded_flags = question.study, question.include_synthetic, question.without
    suffix = kept_in_address(request)
    frame = study_frame(
        study,
        answer.computed_result.facts,
        include_synthetic=synthetic,
        link=partial(
            conversations_link,
            study,
            synthetic=synthetic,
            excluded_flags=excluded_flags,
            include_failed=question.include_failed,
        ),
        point_link=lambda *point: reverse("dashboard:study_point", args=[study.key, *point]) + suffix,
        without=excluded_flags,
        chat_link=lambda chat: reverse("dashboard:conversation", args=[chat]),
    )
    return ShownResult(answer.computed_result.result, frame, waiting, question)


def _waiting(request: HttpRequest, question: AnalysisKey, answer: CurrentResult) -> dict[str, Any] | None:
    if answer.job is None:
        return None
    return {
        **job_context(answer.job, answer.job.kind),
        "over": answer.job.is_over,
        "failed": answer.job.state == State.FAILED,
        "made_at": answer.made_at,
        "n_since": max(answer.n_since, 0),
        "n_ratings": question.state.n_ratings,
        "n_bots": question.state.n_bots,
        "back": request.get_full_path(),
    }


MOST_BESIDE = 4
"""Maximum number of other studies in a comparison, so that the table stays readable."""


@dataclass(frozen=True, slots=True)
class StudiesBeside:
    """Other studies to compare with one.

    Attributes:
        selected: studies to compare; choosable: studies that can be added.
        wrong: sentences about studies that cannot be shown.
    """

    selected: list[Study]
    choosable: list[Study]
    wrong: list[str]


def studies_asked(study: Study, keys: Sequence[str]) -> StudiesBeside:
    """Return the studies with these keys.

    A user who may read one study may read all.
    """
    choosable = studies_to_compare(study)
    requested_keys = list(dict.fromkeys(filter(None, keys)))
    selected = [other_study for other_study in choosable if other_study.key in requested_keys][:MOST_BESIDE]
    return StudiesBeside(
        selected,
        [other_study for other_study in choosable if other_study not in selected],
        _explain_missing(requested_keys, choosable),
    )


def _explain_missing(requested_keys: Sequence[str], choosable: Sequence[Study]) -> list[str]:
    """Compose messages about studies that cannot be compared."""
    known = [other_study.key for other_study in choosable]
    wrong = [
        f"Unknown study “{key}”. Other studies in use: {', '.join(known) or 'none'}."
        for key in requested_keys
        if key not in known
    ]
    if len(requested_keys) - len(wrong) > MOST_BESIDE:
        wrong.append(
            f"{len(requested_keys)} studies are selected, but only {MOST_BESIDE} can be compared with this one. The "
            "newest are shown."
        )
    return wrong


_COOKIE = "tour"
_YEAR_S = 365 * 24 * 3600


def tour_offered(request: HttpRequest) -> bool:
    """Return True if this browser has neither started nor declined the tour."""
    return _COOKIE not in request.COOKIES


@form_view()
def tour(request: HttpRequest) -> HttpResponse:
    """Start or resume the tour; a POST ends it."""
    study = None if request.method == "POST" else tour_study()
    if study is not None:
        answer = redirect(reverse("dashboard:study", args=[study.key]) + "?tour=1")
    else:
        if request.method == "GET":
            messages.info(request, "The tour needs a study that is collecting data, but there is none.")
        answer = redirect("dashboard:home")
    answer.set_cookie(_COOKIE, "1", max_age=_YEAR_S, samesite="Lax", httponly=True)
    return answer


_NEWEST = 5


@read_view()
def home(request: HttpRequest) -> HttpResponse:
    """Show action items, running jobs, and the newest studies."""
    if request.GET.get("archived") == "1":  # the list of studies was here before version 0.9
        return redirect(f"{reverse('dashboard:studies')}?state=archived")
    jobs_settle()
    counts = selectors.study_counts()
    return page(
        request,
        "home.html",
        "home",
        studies=selectors.study_rows(selectors.studies_found()[:_NEWEST]),
        n_studies=counts[""],
        n_collecting=counts[Study.State.COLLECTING],
        tour_of=selectors.tour_study() if tour_offered(request) else None,
        needs=action_items(may_pay=may(request.user, Right.PAY)),
        rows=job_rows(),
    )


@read_view()
def studies(request: HttpRequest) -> HttpResponse:
    """Show the studies of one state that match a search."""
    state, words = request.GET.get("state", ""), " ".join(request.GET.get("q", "").split())
    state = state if state in selectors.STUDY_STATES else ""
    counts = selectors.study_counts()
    tabs = [
        Link(f"{title} {counts[name]:,}", f"?{urlencode({'state': name, 'q': words})}", name == state)
        for name, (title, _condition) in selectors.STUDY_STATES.items()
        if counts[name] or name == state
    ]
    rows = selectors.study_rows(selectors.studies_found(state, words))
    return page(request, "studies.html", "studies", rows=rows, tabs=tabs, state=state, words=words)


@post_view()
def theme(request: HttpRequest) -> HttpResponse:
    """Store the chosen theme in a cookie and redirect back."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = reverse("dashboard:home")
    response = redirect(back)
    chosen = request.POST.get("theme")
    if chosen in ("light", "dark"):
        response.set_cookie("theme", chosen, max_age=_YEAR_S, samesite="Lax", httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response


@read_view()
def overview(request: HttpRequest, study: Study) -> HttpResponse:
    """Show a study's next step, findings, action items, and progress by bot."""
    synthetic = synthetic_asked(request)
    progress = selectors.bot_progress(study, include_synthetic=synthetic)
    judges = get_protocol(study).judges_items
    serves = study.state == Study.State.COLLECTING and get_protocol(study).talks_to_bots
    own_bots = [bot for bot in progress if bot.bot_id in study.bots] if serves else []
    cards = selectors.study_cards(study, include_synthetic=synthetic)
    is_rated_whole = get_protocol(study).rates_conversations
    pipeline = pipeline_of(study, cards, progress) if is_rated_whole else None
    running = pipeline.next.job if pipeline else None
    n_synthetic = synthetic_count(study)
    known, known_waits = None, False
    if is_rated_whole and sum(1 for bot in progress if bot.n_completed) > 1:
        comparisons = stored_result(request, study, "comparisons")
        known_waits = comparisons.waiting is not None
        if comparisons.frame is not None:
            known = headline_findings(comparisons.frame, comparisons.result)
    things = study_action_items(study, cards, progress, may_pay=may(request.user, Right.PAY))
    return study_page(
        request,
        "overview.html",
        study,
        "overview",
        touring="tour" in request.GET and not study.is_imported,
        cards=cards,
        pipeline=pipeline,
        known=known,
        known_waits=known_waits,
        stopping=None if synthetic else stopping_line(study, ranking_newest(study), now=now_rounded()),
        running=job_context(running, running.kind) if running is not None else None,
        progress=progress,
        judges_items=judges,
        models=selectors.models_progress(study, include_synthetic=synthetic) if judges else [],
        nobody_served=serves and not any(bot.is_offered for bot in own_bots),
        spent=study_spent(study),
        clock=clock_of(study),
        most=max((bot.n_completed for bot in progress), default=0),
        protocol="Imported ratings" if study.is_imported else title_of(protocols, study.protocol),
        n_synthetic=n_synthetic,
        origins=imported_files(study),
        needs=things if things or not study.is_imported else None,
        may_rehearse=not (study.is_imported or n_synthetic) and may(request.user, Right.RUN),
        links=recruiting_links(study, participant_link(request, study)),
    )


@post_view(to_post=[Right.RUN])
def analyse(request: HttpRequest, study: Study) -> HttpResponse:
    """Start metrics and fit, after self-play if requested."""
    bots = selfplay_bots(study) if request.POST.get("with") == "selfplay" else []
    n_rated = sum(1 for bot in selectors.bot_progress(study) if bot.n_completed)
    try:
        analysis_start(
            study=study,
            bots=bots,
            n_conversations=SELFPLAY_EACH,
            fits=n_rated >= MIN_BOTS,
            created_by=request.user,  # type: ignore[arg-type]
        )
    except (Refused, UnknownName) as error:
        messages.error(request, str(error))
    return redirect("dashboard:study", study.key)
