"""Pages of all apps: errors, refusals, template context, and static files."""

from __future__ import annotations

import logging
import random
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.request import split_domain_port
from django.shortcuts import render
from django.utils import translation
from whitenoise.storage import CompressedManifestStaticFilesStorage

from webapp.core.database import database_outage, is_unreachable
from webapp.core.language import locale_for
from webapp.core.logs import request_id_new, route_of
from webapp.core.rights import Right, may
from webapp.core.thread_pool import RETRY_AFTER_S, busy_page


def page_context(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of every page.

    `theme`, from the cookie of that name: light, dark or the system's. `prefix`: the path below which Confab runs.
    `program`: the name of the command.
    """
    theme = request.COOKIES.get("theme", "")
    return {
        "theme": theme if theme in ("light", "dark") else "",
        "prefix": settings.CONFAB_PATH_PREFIX,
        "program": settings.CONFAB_PROGRAM,
    }


class ModuleManifestStorage(CompressedManifestStaticFilesStorage):
    """Static storage that rewrites imports in modules.

    It handles `import … from "./x.js"`, so that modules can be cached forever.
    """

    support_js_module_import_aggregation = True


def server_address(request: HttpRequest) -> str:
    """Return the address at which workers reach this server.

    A setting defines it. Otherwise it is the host of the request, without a foreign port: anyone can write a port into
    the header, and Django does not check it.
    """
    if settings.CONFAB_REHEARSAL_URL:
        return settings.CONFAB_REHEARSAL_URL
    if settings.CONFAB_PUBLIC_URL:
        return f"{settings.CONFAB_PUBLIC_URL}{settings.CONFAB_PATH_PREFIX}"
    host, port = split_domain_port(request.get_host())
    own_port = f":{port}" if port and port == request.META.get("SERVER_PORT") else ""
    return f"{request.scheme}://{host}{own_port}{settings.CONFAB_PATH_PREFIX}"


def staff_refusal(request: HttpRequest, *rights: Right) -> HttpResponseBase | None:
    """Return the login, or a page that names the missing rights.

    None for staff with all of them.
    """
    user = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    missing = [right.label for right in rights if not may(user, right)]
    if not missing:
        return None
    context = {"missing": missing, "is_staff": user.is_staff}  # type: ignore[union-attr]
    return render(request, "core/forbidden.html", context, status=403)


logger = logging.getLogger(__name__)


def reference_of(request: HttpRequest) -> str:
    """Return the request's id, by which errors can be found in the log."""
    return getattr(request, "request_id", None) or request_id_new()


def server_error(request: HttpRequest) -> HttpResponse:
    """Respond 500 with a reference code that is also in the log.

    503 if the database is unavailable or busy.
    """
    error = sys.exc_info()[1]
    if isinstance(error, (OperationalError, InterfaceError)):
        seconds = random.randint(*RETRY_AFTER_S)
        is_outage = is_unreachable(error)
        if is_outage:
            database_outage.note()
        with translation.override(locale_for(request)):
            body = busy_page(seconds, reloads=request.method in ("GET", "HEAD"), is_outage=is_outage)
        return HttpResponse(body, status=503, headers={"Retry-After": str(seconds)})
    reference = reference_of(request)
    logger.error("server error %s at %s", reference, route_of(request))
    with translation.override(locale_for(request)):
        return render(request, "core/server_error.html", {"reference": reference}, status=500)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Respond 404 in the frame of every page.

    On the dashboard, staff see similar addresses if the view names them.
    """
    user = getattr(request, "user", None)  # missing if middleware rejects the address
    is_staff = request.path_info.startswith("/dashboard/") and getattr(user, "is_staff", False)
    context = {"is_staff": is_staff, "similar": getattr(exception, "similar", {}) if is_staff else {}}
    with translation.override(locale_for(request)):
        return render(request, "core/not_found.html", context, status=404)


def form_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Respond 403 to a form with a missing or old CSRF token.

    The page says what to do.

    Args:
        reason: Django's reason, which is logged.
    """
    with translation.override(locale_for(request)):
        return render(request, "core/form_refused.html", status=403)
