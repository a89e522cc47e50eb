"""Views of every installation: sign-in, health check, and the icon."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView, PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.templatetags.static import static
from django.urls import reverse_lazy

from webapp.core.health import health_now

logger = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when this process can serve pages, 503 otherwise; the state of bots is reported separately."""
    results = health_now()
    ok = all(result.ok for result in results.values() if result.is_needed)
    if broken := {n: r.details["error"] for n, r in results.items() if "error" in r.details}:
        logger.warning("not healthy: %s", broken)
    body = {"ok": ok, **{name: {"ok": r.ok, **r.details} for name, r in results.items()}}
    return JsonResponse(body, status=200 if ok else 503)


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Lead to the icon, for pages that name none (those of the admin)."""
    return HttpResponseRedirect(static("core/favicon.svg"))


class SignIn(LoginView):
    """Ask for a name and a password of staff, and redirect to the requested page."""

    template_name = "core/login.html"
    authentication_form = AdminAuthenticationForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form; a user already signed in as staff goes on at once."""
        if request.user.is_staff:  # type: ignore[union-attr]
            return HttpResponseRedirect(self.get_success_url())
        return super().get(request, *args, **kwargs)


class SetPassword(PasswordResetConfirmView):
    """Let a person set the password of their account, by the link that an administrator gave them."""

    template_name = "core/set_password.html"
    success_url = reverse_lazy("login")


class SignOut(LogoutView):
    """End the session, on a POST alone, and show the form again."""

    next_page = "login"
