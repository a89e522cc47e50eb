"""The tour of a study's overview: offered to those who come for the first time, left and found again at any time."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from webapp.dashboard.access import staff_only
from webapp.dashboard.selectors import tour_study

_COOKIE = "tour"
_YEAR_S = 365 * 24 * 3600


def tour_offered(request: HttpRequest) -> bool:
    """Return True if this browser has neither begun nor declined the tour."""
    return _COOKIE not in request.COOKIES


@require_http_methods(["GET", "POST"])
@staff_only
def tour(request: HttpRequest) -> HttpResponse:
    """Begin the tour or go on with it; a POST ends it."""
    study = None if request.method == "POST" else tour_study()
    if study is not None:
        answer = redirect(reverse("dashboard:study", args=[study.key]) + "?tour=1")
    else:
        if request.method == "GET":
            messages.info(request, "The tour needs a study that is collecting; there is none.")
        answer = redirect("dashboard:studies")
    answer.set_cookie(_COOKIE, "1", max_age=_YEAR_S, samesite="Lax", httponly=True)
    return answer
