"""Signing in and out, in the look of every page; for the dashboard and the admin alike."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect


class SignIn(LoginView):
    """Ask for a name and a password of staff, and redirect to the requested page."""

    template_name = "core/login.html"
    authentication_form = AdminAuthenticationForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form; a user already signed in as staff goes on at once."""
        if request.user.is_staff:  # type: ignore[union-attr]
            return HttpResponseRedirect(self.get_success_url())
        return super().get(request, *args, **kwargs)


class SignOut(LogoutView):
    """End the session, on a POST alone, and show the form again."""

    next_page = "login"
