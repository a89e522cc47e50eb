"""State of the installation, and the user's API tokens."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.core.authentication import token_make, token_revoke, tokens_of
from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.dashboard.forms import TokenForm
from webapp.dashboard.navigation import page, requires, staff_only
from webapp.dashboard.system import system_now
from webapp.operating.alerting import alert_try


@require_safe
@staff_only
def system(request: HttpRequest) -> HttpResponse:
    """Show how the installation is; what changes is asked for again every few seconds."""
    return page(request, "system.html", "system", **_context(request))


@require_safe
@staff_only
def system_live(request: HttpRequest) -> HttpResponse:
    """Send the part of the page that changes, for polling."""
    response = render(request, "dashboard/_system_live.html", _context(request))
    response["Cache-Control"] = "no-store"
    return response


@require_POST
@requires(to_post=[Right.ADMINISTER])
def system_test_alert(request: HttpRequest) -> HttpResponse:
    """Send an alert that says that it is a test."""
    if alert_try():
        messages.info(request, "A test is on its way. Below stands whether it arrived.")
    else:
        messages.warning(
            request,
            "Nothing was sent: neither CONFAB_ALERT_WEBHOOK nor CONFAB_ALERT_EMAILS is set.",
        )
    return redirect("dashboard:system")


def _context(request: HttpRequest) -> dict[str, Any]:
    common = {
        "now": timezone.now(),
        "may_test": may(request.user, Right.ADMINISTER),
        "emails": settings.CONFAB_ALERT_EMAILS,
        "has_webhook": bool(settings.CONFAB_ALERT_WEBHOOK),
    }
    try:
        return {**common, "state": system_now()}
    except (DatabaseError, OSError) as error:
        return {**common, "state": None, "error": type(error).__name__}


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@staff_only
def tokens(request: HttpRequest) -> HttpResponse:
    """Show the form and one's tokens; after a POST the new one, whose text is not shown again."""
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
    return page(
        request,
        "tokens.html",
        "tokens",
        form=form,
        text=text,
        tokens=tokens_of(user),
        now=timezone.now(),
        labels=dict(rights),
        status=400 if form.errors else 200,
    )


@require_POST
@staff_only
def token_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Take one of one's tokens back."""
    user: Any = request.user
    token = get_object_or_404(tokens_of(user), pk=pk)
    token_revoke(token=token)
    messages.success(request, f"“{token.name}” opens nothing any more.")
    return redirect("dashboard:tokens")
