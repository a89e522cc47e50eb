"""Access control of pages that are for staff alone."""

from __future__ import annotations

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from webapp.core.rights import Right, may


def refusal(request: HttpRequest, *rights: Right) -> HttpResponseBase | None:
    """Return the login, or a page that names the missing rights; None for staff who have them all."""
    user = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    missing = [right.label for right in rights if not may(user, right)]
    if not missing:
        return None
    context = {"missing": missing, "is_staff": user.is_staff}  # type: ignore[union-attr]
    return render(request, "core/forbidden.html", context, status=403)
