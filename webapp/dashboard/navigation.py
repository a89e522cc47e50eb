"""Navigation of the dashboard: pages, tabs, and the rights they need.

Staff only: anonymous users are redirected to the login, and users without a right see which one is missing. A view's
`rights` list the rights that each HTTP method needs; a test requests every address with every right.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from chatbots.bots.person import staff_among
from chatbots.text import nearest_names
from evaluation.plots.svg import FORMATS, Plot
from webapp.core.pages import staff_refusal
from webapp.core.project_scope import USUAL_PROJECT, active_project, enter_project
from webapp.core.projects import candidate_projects, projects_of
from webapp.core.rights import Right, may
from webapp.dashboard.guide import FIRST, GUIDE_OF, guide_address
from webapp.insights.charts.figure import FIGURE_PARAM, figures_in
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import study_by_key, study_keys

View = Callable[..., Any]


def study_of(key: str) -> Study:
    """Return the study.

    Raises:
        Http404: there is no study with this key; `similar` has the addresses of similar ones.
    """
    try:
        return study_by_key(key)
    except Study.DoesNotExist:
        missing = Http404(f"no study {key}")
        names = nearest_names(key, study_keys())
        addresses = {name: reverse("dashboard:study", args=[name]) for name in names}
        missing.similar = addresses  # type: ignore[attr-defined]
        raise missing from None


def study_of_first_link(request: HttpRequest) -> Study | None:
    """Return the study from whose first link the user came to a page of a bot."""
    try:
        return study_by_key(request.GET.get("study", ""))
    except Study.DoesNotExist:
        return None


def requires(*rights: Right, to_post: Sequence[Right] = (), on_server: bool = False) -> Callable[[View], View]:
    """Declare a view's rights, in addition to `Right.READ`.

    Every view needs `Right.READ`.

    The view works in one project: the one of the session, or, if the page is not found there, another project in
    which the user has the rights. A view that takes a `study` gets the one whose key is in the address.

    Args:
        to_post: additional rights for a POST.
        on_server: the page is about the server, and is open to members of the usual project only.
    """
    always = (Right.READ, *rights)
    posting = (*always, *to_post)

    def declare(view: View) -> View:
        takes_study = "study" in inspect.signature(view).parameters

        def candidates(request: HttpRequest) -> Iterator[str]:
            return (
                iter([USUAL_PROJECT]) if on_server or not request.user.is_authenticated else candidate_projects(request)
            )

        def enter(request: HttpRequest, project: str, kwargs: dict[str, Any]) -> HttpResponseBase | dict[str, Any]:
            """Enter the project.

            Return a refusal, or the arguments of the view.
            """
            enter_project(project)
            if (refusal := staff_refusal(request, *(posting if request.method == "POST" else always))) is not None:
                return refusal
            if not takes_study:
                return kwargs
            return {
                **{name: value for name, value in kwargs.items() if name != "key"},
                "study": study_of(kwargs["key"]),
            }

        if inspect.iscoroutinefunction(view):

            @functools.wraps(view)
            async def asynchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                request.user = await request.auser()  # type: ignore[assignment]
                error: Http404 | None = None
                for project in await sync_to_async(lambda: list(candidates(request)))():
                    enter_project(project)
                    try:
                        entered = await sync_to_async(enter)(request, project, kwargs)
                        if isinstance(entered, dict):
                            return await view(request, *args, **entered)
                    except Http404 as missing:
                        error = error or missing
                        continue
                    if error is None:
                        return entered
                raise error or Http404

            guarded: View = asynchronous
        else:

            @functools.wraps(view)
            def synchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                error: Http404 | None = None
                for project in candidates(request):
                    try:
                        entered = enter(request, project, kwargs)
                        if isinstance(entered, dict):
                            return view(request, *args, **entered)
                    except Http404 as missing:
                        error = error or missing
                        continue
                    if error is None:
                        return entered
                raise error or Http404

            guarded = synchronous
        guarded.rights = {"GET": always, "POST": posting}  # type: ignore[attr-defined]
        guarded.on_server = on_server  # type: ignore[attr-defined]
        return guarded

    return declare


def read_view(*rights: Right, on_server: bool = False) -> Callable[[View], View]:
    """Declare a view that only reads, and its rights."""
    return lambda view: require_safe(requires(*rights, on_server=on_server)(view))


def post_view(*rights: Right, to_post: Sequence[Right] = (), on_server: bool = False) -> Callable[[View], View]:
    """Declare a view that accepts only POST, and its rights.

    The rights are as in `requires`.
    """
    return lambda view: require_POST(requires(*rights, to_post=to_post, on_server=on_server)(view))


def form_view(*rights: Right, to_post: Sequence[Right] = (), on_server: bool = False) -> Callable[[View], View]:
    """Declare a view that shows a form and accepts its POST.

    The rights are as in `requires`.
    """
    return lambda view: require_http_methods(["GET", "HEAD", "POST"])(
        requires(*rights, to_post=to_post, on_server=on_server)(view)
    )


_NEXT_THEME = {"": "light", "light": "dark", "dark": "system"}


@dataclass(frozen=True, slots=True)
class NavItem:
    """Entry of the navigation."""

    key: str
    title: str
    icon: str
    href: str


def navigation() -> list[NavItem]:
    """Return the entries of the sidebar, from top to bottom."""
    return [
        NavItem("home", "Home", "home", reverse("dashboard:home")),
        NavItem("studies", "Studies", "list", reverse("dashboard:studies")),
        NavItem("bots", "Bots", "bot", reverse("dashboard:bots")),
        NavItem("metrics", "Metrics", "chart", reverse("dashboard:metrics")),
        NavItem("settings", "Settings", "sliders", reverse("dashboard:settings")),
    ]


def page(request: HttpRequest, template: str, section: str, status: int = 200, **context: Any) -> HttpResponse:
    """Render a dashboard page with its navigation."""
    theme = request.COOKIES.get("theme", "")
    projects = projects_of(request.user)
    match = request.resolver_match
    place = (GUIDE_OF.get(match.kwargs.get("step", "")) or GUIDE_OF.get(match.url_name or "")) if match else None
    context = {
        "section": section,
        "guide_href": guide_address(place or FIRST),
        "navigation": navigation(),
        "theme_next": _NEXT_THEME.get(theme, "light"),
        "projects": projects,
        "project": next((project for project in projects if project.key == active_project()), None),
        **context,
    }
    if figure_name := request.GET.get(FIGURE_PARAM):
        return _figure_file(context, *figure_name.rpartition(".")[::2])
    return render(request, f"dashboard/{template}", context, status=status)


def _figure_file(context: dict[str, Any], name: str, kind: str) -> HttpResponse:
    """Return a figure of the page as a file."""
    figure = next((figure for figure in figures_in(list(context.values())) if figure.id == name), None)
    if figure is None or kind not in FORMATS:
        raise Http404
    response = HttpResponse(Plot.from_drawing(figure.wide).to(kind), content_type=FORMATS[kind])
    response["Content-Disposition"] = content_disposition_header(True, f"{name}.{kind}") or ""
    response["X-Content-Type-Options"] = "nosniff"
    return response


@dataclass(frozen=True, slots=True)
class StudyPage:
    """Page of a study: name, address, and rights beyond reading."""

    name: str
    title: Any
    route: str
    rights: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab and its pages, the first of which it opens."""

    title: Any
    pages: tuple[StudyPage, ...]


TABS = (
    Tab("Overview", (StudyPage("overview", "Overview", "study"),)),
    Tab(
        "People",
        (
            StudyPage("people", "People", "study_people"),
            StudyPage("console", "Console", "study_console", (Right.ADMINISTER,)),
        ),
    ),
    Tab("Conversations", (StudyPage("conversations", "Conversations", "study_conversations"),)),
    Tab(
        "Results",
        (
            StudyPage("results", "Leaderboard", "study_results"),
            StudyPage("why", "Why", "study_why"),
            StudyPage("replacement", "Can it replace people?", "study_replacement"),
        ),
    ),
    Tab("Report", (StudyPage("report", "Report", "study_report"),)),
)
PEOPLE, RESULTS = TABS[1], TABS[3]
_OF_CHOICES = ("why",)
"""Results of a study in which participants choose options; it has no bots to compare."""


@dataclass(frozen=True, slots=True)
class Link:
    """Navigation entry; `is_open` marks the current page's."""

    title: Any
    href: str
    is_open: bool


def pages_open_to(user: Any, tab: Tab, study: Study) -> list[StudyPage]:
    """Return the tab's pages that the user can open and the study can fill.

    The study's own results come first.
    """
    pages = [page for page in tab.pages if may(user, *page.rights)]
    if tab is PEOPLE and study.is_imported:  # no participants come there
        return []
    if tab is PEOPLE and not staff_among(study.bots):
        return [page for page in pages if page.name != "console"]
    if tab is RESULTS and get_protocol(study).has_one_item:
        by_name = {page.name: page for page in pages}
        return [by_name[name] for name in _OF_CHOICES if name in by_name]
    return pages


def tab_links(user: Any, study: Study, name: str, suffix: str = "") -> tuple[list[Link], list[Link]]:
    """Return the tabs, and the pages of the open one.

    A tab with a single page has no list of pages.

    Args:
        name: name of the current page.
        suffix: end of every address, with parts that all pages keep.
    """
    tabs, below = [], []
    for tab in TABS:
        pages = pages_open_to(user, tab, study)
        if not pages:
            continue
        is_open = any(page.name == name for page in tab.pages)
        tabs.append(Link(tab.title, _address(study, pages[0]) + suffix, is_open))
        if is_open and len(pages) > 1:
            below = [Link(p.title, _address(study, p) + suffix, p.name == name) for p in pages]
    return tabs, below


def metric_tabs(name: str) -> list[Link]:
    """Return the tabs of the pages about metrics; `name` is the current one."""
    pages = (("metrics", "Catalogue"), ("benchmark", "Metrics against human ratings"), ("judges", "Judges"))
    return [Link(title, reverse(f"dashboard:{route}"), route == name) for route, title in pages]


def page_title(name: str) -> Any:
    """Return the title of the page with this name."""
    return next(page.title for tab in TABS for page in tab.pages if page.name == name)


def _address(study: Study, page: StudyPage) -> str:
    return reverse(f"dashboard:{page.route}", args=[study.key])
