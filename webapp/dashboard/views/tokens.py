"""One's own tokens of the API: made, shown once, taken back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from webapp.core.errors import Refused
from webapp.core.rights import Right, may
from webapp.core.tokens import token_make, token_revoke, tokens_of
from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.forms import TokenForm


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
