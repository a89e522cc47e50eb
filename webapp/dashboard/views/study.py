"""A study's pages: the frame of all, self-play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.dashboard import selectors
from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.leaving_out import people_of, without_asked, without_now
from webapp.dashboard.recruiting import link_to_send
from webapp.dashboard.tabs import page_title, tab_links
from webapp.ratings.pairs import answers_counted, compares_pairs
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items, study_by_key, talks_to_bots


def study_of(key: str) -> Study:
    """Return the study.

    Raises:
        Http404: if there is none with this key.
    """
    try:
        return study_by_key(key)
    except Study.DoesNotExist:
        raise Http404(f"no study {key}") from None


def synthetic_asked(request: HttpRequest) -> bool:
    """Return True if the request includes scripted participants."""
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
        "judges_items": judges_items(study),
        "has_chats": talks_to_bots(study),
        # Counted by the page that has no other result to show.
        "n_compared": lambda: _n_compared(request, study),
        **context,
    }
    return page(request, template, "studies", **context)


def _n_compared(request: HttpRequest, study: Study) -> int:
    """Return the number of paired comparisons; 0 if the study collects other ratings."""
    if not compares_pairs(study):
        return 0
    return answers_counted(
        study, include_synthetic=synthetic_asked(request), without=without_now(request, study)
    ).count()


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
