"""Who may see the dashboard: staff. Others are sent to the login, or told that they may not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

View = Callable[..., Any]


def _refuse(request: HttpRequest, user: Any) -> HttpResponseBase | None:
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    if not (user.is_active and user.is_staff):
        raise PermissionDenied
    return None


def staff_only(view: View) -> View:
    """Let staff in; anonymous people go to the admin's login, everyone else gets 403."""
    if inspect.iscoroutinefunction(view):

        @functools.wraps(view)
        async def asynchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            user = await request.auser()
            return await sync_to_async(_refuse)(request, user) or await view(
                request, *args, **kwargs
            )

        return asynchronous

    @functools.wraps(view)
    def synchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return _refuse(request, request.user) or view(request, *args, **kwargs)

    return synchronous
