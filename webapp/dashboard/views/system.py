"""Settings: state of the installation, alerts, and the user's API tokens."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from webapp.core.authentication import token_make, token_revoke, tokens_of
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.project_scope import USUAL_PROJECT, active_project
from webapp.core.rights import Right, may
from webapp.dashboard.forms import TokenForm
from webapp.dashboard.navigation import Link, form_view, page, post_view, read_view
from webapp.insights.bots import troubled_bots
from webapp.insights.system import alert_rows, retention_rows, system_now
from webapp.operating.incidents import alert_try
from webapp.studies.privacy.retention import WITHDRAWN_IDS_KEPT
from webapp.transfer.job_files import EXPORTS_KEPT, UPLOADS_KEPT

SETTINGS = (
    ("People and rights", "people", (Right.ADMINISTER,)),
    ("Projects", "projects", ()),
    ("Audit log", "audit", (Right.ADMINISTER,)),
    ("Tokens", "tokens", ()),
    ("Alerts", "alerts", ()),
    ("Retention", "retention", ()),
    ("Secrets", "secrets", (Right.BOTS,)),
    ("System", "system", ()),
)
"""Pages of the settings: title, route, and rights beyond reading."""
_ON_SERVER = ("alerts", "retention", "system")
"""Pages about the server, which only the usual project has."""


def page_of_settings(
    request: HttpRequest, template: str, route: str, status: int = 200, **context: Any
) -> HttpResponse:
    """Render a settings page, with links to the user's other ones."""
    links = [
        Link(title, reverse(f"dashboard:{page_route}"), page_route == route)
        for title, page_route, rights in SETTINGS
        if may(request.user, *rights) and (page_route not in _ON_SERVER or active_project() == USUAL_PROJECT)
    ]
    title = next(str(link.title) for link in links if link.is_open)
    return page(request, template, "settings", status, settings_pages=links, page_title=title, **context)


@read_view()
def settings_page(request: HttpRequest) -> HttpResponse:
    """Redirect to the user's first settings page."""
    return redirect(next(f"dashboard:{route}" for _title, route, rights in SETTINGS if may(request.user, *rights)))


@read_view(on_server=True)
def system(request: HttpRequest) -> HttpResponse:
    """Show the state of the installation.

    The changing part is polled every few seconds.
    """
    return page_of_settings(request, "system.html", "system", **_state())


@read_view(on_server=True)
def system_live(request: HttpRequest) -> HttpResponse:
    """Send the changing part of the page, for polling."""
    response = render(request, "dashboard/_system_live.html", _state())
    response["Cache-Control"] = "no-store"
    return response


def _state() -> dict[str, Any]:
    try:
        return {"state": system_now(), "bots": troubled_bots()}
    except (DatabaseError, OSError) as error:
        return {"state": None, "error": type(error).__name__}


@read_view(on_server=True)
def alerts(request: HttpRequest) -> HttpResponse:
    """Show the channels of alerts, and the latest ones."""
    return page_of_settings(
        request,
        "alerts.html",
        "alerts",
        alerts=alert_rows(),
        emails=settings.CONFAB_ALERT_EMAILS,
        has_webhook=bool(settings.CONFAB_ALERT_WEBHOOK),
    )


@read_view(on_server=True)
def alerts_live(request: HttpRequest) -> HttpResponse:
    """Send the latest alerts, for polling."""
    response = render(request, "dashboard/_alerts_live.html", {"alerts": alert_rows()})
    response["Cache-Control"] = "no-store"
    return response


@read_view(on_server=True)
def retention(request: HttpRequest) -> HttpResponse:
    """Show what is erased when, by study and for the server's own files."""
    return page_of_settings(
        request,
        "retention.html",
        "retention",
        rows=retention_rows(),
        withdrawn_days=WITHDRAWN_IDS_KEPT.days,
        exports_days=EXPORTS_KEPT.days,
        uploads_days=UPLOADS_KEPT.days,
    )


@post_view(to_post=[Right.ADMINISTER], on_server=True)
def alert_test(request: HttpRequest) -> HttpResponse:
    """Send a test alert."""
    if alert_try():
        messages.info(request, "A test alert was sent. The table below shows whether it was delivered.")
    else:
        messages.warning(
            request, "Nothing was sent, because neither CONFAB_ALERT_WEBHOOK nor CONFAB_ALERT_EMAILS is set."
        )
    return redirect("dashboard:alerts")


@never_cache
@form_view()
def tokens(request: HttpRequest) -> HttpResponse:
    """Show the user's tokens, and the form for a new one.

    After a POST, the new token's text is shown once.
    """
    user: Any = request.user
    rights = [(right.value, right.label) for right in Right if may(user, right)]
    form = TokenForm(request.POST if request.method == "POST" else None, rights=rights)
    text = ""
    if request.method == "POST" and form.is_valid():
        try:
            _row, text = token_make(user=user, **form.cleaned_data)
        except Refused as error:
            form.add_error(None, error.message)
        else:
            form = TokenForm(None, rights=rights)
    return page_of_settings(
        request,
        "tokens.html",
        "tokens",
        form=form,
        text=text,
        tokens=tokens_of(user),
        now=database_now(),
        labels=dict(rights),
        calls=_calls(request),
        openapi=reverse("api:openapi-json"),
        status=400 if form.errors else 200,
    )


def _calls(request: HttpRequest) -> list[tuple[str, str]]:
    """Return example API calls with this server's address and titles."""
    base = request.build_absolute_uri(reverse("api:openapi-json")).removesuffix("/api/v1/openapi.json")
    curl = 'curl -H "Authorization: Bearer TOKEN" '
    return [
        ("List the studies", f"{curl}{base}/api/v1/studies"),
        (
            "Download the ratings of a study",
            f"{curl}-o ratings.csv '{base}/api/v1/studies/KEY/tables/ratings?format=csv'",
        ),
        ("List the bots", f"{curl}{base}/api/v1/bots"),
        ("The same in Python", f'import confab\nlab = confab.connect("{base}", "TOKEN")\nlab.studies()'),
    ]


@post_view()
def token_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke one of the user's tokens."""
    user: Any = request.user
    token = get_object_or_404(tokens_of(user), pk=pk)
    token_revoke(token=token)
    messages.success(request, f"“{token.name}” was revoked.")
    return redirect("dashboard:tokens")
