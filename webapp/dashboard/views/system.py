"""The state of the installation: what is wrong, processes, queues, room, and alerts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from webapp.core.rights import Right, may
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.context import page
from webapp.dashboard.system import system_now
from webapp.operating.watching import alert_try


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
@needs(to_post=[Right.ADMINISTER])
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
