"""A study's pages: the frame of all, the overview, self-play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from chatbots.registry import UnknownName, title_of
from evaluation.hybrid.baselines import MIN_BOTS
from webapp.conversations.selectors import synthetic_count
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard import selectors
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.build.fields import title_of_value
from webapp.dashboard.context import page
from webapp.dashboard.leaving_out import people_of, without_asked
from webapp.dashboard.pipeline import SELFPLAY_EACH, pipeline_of, selfplay_bots
from webapp.dashboard.recruiting import link_to_send, participant_link, recruiting_links
from webapp.dashboard.spending import study_spent
from webapp.dashboard.tabs import page_title, tab_links
from webapp.dashboard.views.jobs import job_context
from webapp.ratings.pairs import compares_pairs
from webapp.runs.services.chain import analysis_start
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.retention import clock_of
from webapp.studies.rules.base import rules
from webapp.studies.selectors import judges_conversations, judges_items, study_by_key


def study_of(key: str) -> Study:
    """Return the study.

    Raises:
        Http404: if there is none with this key.
    """
    try:
        return study_by_key(key)
    except Study.DoesNotExist:
        raise Http404(f"no study {key}") from None


_AMOUNTS = {
    "judging": "n_items",
    "choosing": "n_choose",
    "marking": "n_conversations",
    "dialogues": "n_dialogues",
    "arena": "n_comparisons",
}
"""Of the sections that say how much each person does, the value that says it."""


def amounts_of(study: Study) -> list[tuple[str, str]]:
    """Return how much each person does in a study of this protocol: titles with values."""
    used = protocols.get(study.protocol).settings if study.protocol in protocols else ("chat",)
    found = []
    if "chat" in used:
        chat = study.values.chat
        words = {"low": chat.min_exchanges, "high": chat.max_exchanges}
        found.append((_("Exchanges"), _("%(low)s to %(high)s") % words))
    for section in used:
        if name := _AMOUNTS.get(section):
            found.append((title_of_value(name), str(getattr(getattr(study.values, section), name))))
    return found


def synthetic_asked(request: HttpRequest) -> bool:
    """Tell whether scripted participants are asked for."""
    return request.GET.get("synthetic") == "1"


def kept_in_address(request: HttpRequest, *, synthetic: bool | None = None) -> str:
    """Return the end of an address that says whom all pages of a study count: `?synthetic=1&without=fast`, or nothing.

    Args:
        synthetic: whether scripted participants are counted; None: as on this page.
    """
    scripts = synthetic_asked(request) if synthetic is None else synthetic
    return counting(synthetic=scripts, without=without_asked(request))


def counting(*, synthetic: bool, without: Sequence[str]) -> str:
    """Return the end of an address that counts these people."""
    kept = {"synthetic": "1" if synthetic else "", "without": ",".join(without)}
    query = urlencode({name: value for name, value in kept.items() if value}, safe=",")
    return f"?{query}" if query else ""


def study_page(
    request: HttpRequest,
    template: str,
    study: Study,
    name: str,
    *,
    leaves_out: bool = False,
    **context: Any,
) -> HttpResponse:
    """Show a page within a study's frame: its name and state, the tabs, the participants' link.

    Args:
        name: of the page, as in `webapp.dashboard.tabs`.
        leaves_out: whether people can be left out of what the page shows by their flags.
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
        "without": ",".join(without_asked(request)),
        "suffix": suffix,
        "with_scripts": kept_in_address(request, synthetic=True),
        "without_scripts": kept_in_address(request, synthetic=False) or "?",
        "people": people_of(request, study) if leaves_out else None,
        **context,
    }
    return page(request, template, "studies", **context)


def conversations_link(
    study: Study,
    *,
    bot: str,
    synthetic: bool,
    without: Sequence[str] = (),
    question: str = "",
    answer: str = "",
) -> str:
    """Return the address of the conversations behind a bot's mark."""
    query = {"bot": bot, **({"synthetic": "1"} if synthetic else {})}
    if without:
        query["without"] = ",".join(without)
    if answer:
        query |= {"question": question, "answer": answer}
    address = reverse("dashboard:study_conversations", args=[study.key])
    return f"{address}?{urlencode(query, safe=',')}"


@require_safe
@staff_only
def overview(request: HttpRequest, key: str) -> HttpResponse:
    """Show how far the study is, bot by bot, and its settings in words."""
    study = study_of(key)
    synthetic = synthetic_asked(request)
    progress = selectors.bot_progress(study, include_synthetic=synthetic)
    judges = judges_items(study)
    is_collecting = study.state == Study.State.COLLECTING and not judges
    mine = [bot for bot in progress if bot.bot_id in study.bots] if is_collecting else []
    cards = selectors.study_cards(study, include_synthetic=synthetic)
    is_rated_whole = not (judges or judges_conversations(study) or compares_pairs(study))
    pipeline = pipeline_of(study, cards, progress) if is_rated_whole else None
    running = pipeline.next.job if pipeline else None
    return study_page(
        request,
        "overview.html",
        study,
        "overview",
        touring="tour" in request.GET and not study.is_imported,
        cards=cards,
        pipeline=pipeline,
        running=job_context(running, running.kind) if running is not None else None,
        progress=progress,
        judges_items=judges,
        models=selectors.models_progress(study, include_synthetic=synthetic) if judges else [],
        not_offered=[bot for bot in mine if not bot.is_offered],
        nobody_served=is_collecting and not any(bot.is_offered for bot in mine),
        spent=study_spent(study),
        clock=clock_of(study),
        most=max((bot.n_completed for bot in progress), default=0),
        protocol=title_of(protocols, study.protocol),
        amounts=amounts_of(study),
        rule=title_of(rules, study.rule),
        n_synthetic=synthetic_count(study),
        dimensions=list(study.rubric.dimensions.all()),
        links=recruiting_links(study, participant_link(request, study)),
    )


@require_POST
@needs(to_post=[Right.RUN])
def analyse(request: HttpRequest, key: str) -> HttpResponse:
    """Start what the overview's line says is next: metrics and fit, after self-play where that is asked for."""
    study = study_of(key)
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


@require_safe
@staff_only
def selfplay(request: HttpRequest, key: str) -> HttpResponse:
    """Show self-play runs with bots of the study."""
    study = study_of(key)
    return study_page(
        request,
        "study_selfplay.html",
        study,
        "selfplay",
        rows=selectors.study_runs(study),
    )
