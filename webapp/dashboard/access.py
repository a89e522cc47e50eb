"""Access control of the dashboard: staff only, by the rights that each view declares.

Anonymous users are redirected to the login; other users see which right is missing. A view's `rights`
list the rights that each HTTP method needs; a test requests every address with every right.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponseBase

from webapp.core.rights import Right
from webapp.core.staff import refusal

View = Callable[..., Any]


def needs(*rights: Right, to_post: Sequence[Right] = ()) -> Callable[[View], View]:
    """Declare the rights of a view beside `Right.READ`, which every view needs.

    Args:
        to_post: needed besides for a POST.
    """
    always = (Right.READ, *rights)
    posting = (*always, *to_post)

    def declare(view: View) -> View:
        def refused(request: HttpRequest) -> HttpResponseBase | None:
            return refusal(request, *(posting if request.method == "POST" else always))

        if inspect.iscoroutinefunction(view):

            @functools.wraps(view)
            async def asynchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                request.user = await request.auser()  # type: ignore[assignment]
                return await sync_to_async(refused)(request) or await view(request, *args, **kwargs)

            guarded: View = asynchronous
        else:

            @functools.wraps(view)
            def synchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                return refused(request) or view(request, *args, **kwargs)

            guarded = synchronous
        guarded.rights = {"GET": always, "POST": posting}  # type: ignore[attr-defined]
        return guarded

    return declare


def staff_only(view: View) -> View:
    """Let staff in who may read; for views that only show."""
    return needs()(view)
