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
    """Respond 200 if this process can serve pages, 503 otherwise.

    The state of bots is reported separately.
    """
    results = health_now()
    ok = all(result.ok for result in results.values() if result.is_needed)
    if broken := {n: r.details["error"] for n, r in results.items() if "error" in r.details}:
        logger.warning("not healthy: %s", broken)
    body = {"ok": ok, **{name: {"ok": r.ok, **r.details} for name, r in results.items()}}
    return JsonResponse(body, status=200 if ok else 503)


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the icon, for pages that name none (the admin's)."""
    return HttpResponseRedirect(static("core/favicon.svg"))


class SignIn(LoginView):
    """Sign-in page of staff; redirects to the requested page."""

    template_name = "core/login.html"
    authentication_form = AdminAuthenticationForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form.

        A user already signed in as staff is redirected at once.
        """
        if request.user.is_staff:  # type: ignore[union-attr]
            return HttpResponseRedirect(self.get_success_url())
        return super().get(request, *args, **kwargs)


class SetPassword(PasswordResetConfirmView):
    """Page to set an account's password, opened by an administrator's link."""

    template_name = "core/set_password.html"
    success_url = reverse_lazy("login")


class SignOut(LogoutView):
    """Sign-out by POST only, followed by the sign-in form."""

    next_page = "login"
