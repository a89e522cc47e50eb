"""Addresses of earlier versions, redirected to the current pages.

Bookmarks, mails and notes in data packages name them. The query string is kept, as are the parts of the address that
the new page takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import URLPattern, path, reverse
from django.urls.exceptions import NoReverseMatch

from webapp.dashboard.navigation import read_view


@dataclass(frozen=True, slots=True)
class OldRoute:
    """Address of an earlier version.

    Attributes:
        route: earlier route in `urls.py`, below `/dashboard/`.
        name: name of the current page, without `dashboard:`.
        fragment: section of that page, without `#`.
        query: query added to that of the address.
    """

    route: str
    name: str
    fragment: str = ""
    query: str = ""


OLD_ROUTES: tuple[OldRoute, ...] = (
    OldRoute("studies/<slug:key>/fits/", "study_prediction", "fits"),
    OldRoute("studies/<slug:key>/hybrid/", "study_prediction"),
    OldRoute("studies/<slug:key>/metrics/", "study_prediction", "metrics"),
    OldRoute("studies/<slug:key>/selfplay/", "study_prediction", "selfplay"),
    OldRoute("studies/<slug:key>/conversations/notes/", "study_conversations", query="notes=1"),
    OldRoute("runs/<int:run_id>/conversations/notes/", "run_conversations", query="notes=1"),
    OldRoute("system/", "system"),
    OldRoute("system/live/", "system_live"),
    OldRoute("system/test-alert/", "alerts"),
    OldRoute("tokens/", "tokens"),
    OldRoute("tokens/<int:pk>/end/", "tokens"),
    OldRoute("studies/<slug:key>/compare/", "study_results"),
    OldRoute("studies/<slug:key>/compare/<slug:what>.<slug:kind>", "study_results_picture"),
    OldRoute("studies/<slug:key>/bots/", "study_results", "questions"),
    OldRoute("studies/<slug:key>/pairs/", "study_results"),
    OldRoute("studies/<slug:key>/agreement/", "study_why", "agreement"),
    *(
        OldRoute(f"studies/<slug:key>/statistics/{part}/", "study_why", part)
        for part in ("models", "raters", "trajectories", "correlations", "powered")
    ),
    OldRoute("studies/<slug:key>/statistics/items/", "study_why"),
    OldRoute("studies/<slug:key>/statistics/", "study_results", "comparisons"),
    OldRoute("studies/<slug:key>/statistics/<slug:part>/", "study_results", "comparisons"),
    *(
        OldRoute(f"studies/<slug:key>/collect/{route}", name, fragment)
        for route, name, fragment in (
            ("", "study_people", ""),
            ("live/", "study_people", ""),
            ("live/now/", "study_people_now", ""),
            ("live/state/", "study_people", ""),
            ("pay/", "study_people", "participants"),
            ("pay/codes/", "study_people", ""),
            ("pay/decide/", "study_people", "participants"),
            ("pay/mturk.csv", "study_pay_mturk", ""),
            ("pay/<uuid:participant_id>/", "study_person", ""),
            ("quality/", "study_people", "quality"),
            ("places/", "study_people", "bots"),
            ("reports/", "study_people", "reports"),
            ("links/", "study_people", "links"),
            ("links.csv", "study_links_csv", ""),
        )
    ),
)


def _redirect_to(old: OldRoute) -> Callable[..., HttpResponse]:
    @read_view()
    def redirect(request: HttpRequest, **parts: Any) -> HttpResponse:
        try:
            address = reverse(f"dashboard:{old.name}", kwargs=parts)
        except NoReverseMatch:  # the current page takes fewer arguments
            address = reverse(f"dashboard:{old.name}", kwargs={"key": parts["key"]} if "key" in parts else {})
        query = "&".join(filter(None, (request.META["QUERY_STRING"], old.query)))
        return HttpResponsePermanentRedirect(
            f"{address}{'?' if query else ''}{query}{'#' if old.fragment else ''}{old.fragment}"
        )

    return redirect


urlpatterns: list[URLPattern] = [path(old.route, _redirect_to(old)) for old in OLD_ROUTES]
