"""What readers leave at conversations, and the searches they keep."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from webapp.core.errors import Refused
from webapp.dashboard.access import staff_only
from webapp.dashboard.read_source import Gathered, gathered
from webapp.dashboard.reader import conversations_to_read
from webapp.dashboard.views.study import study_of
from webapp.reading import services
from webapp.runs.models import SelfPlayRun


def _back(request: HttpRequest, otherwise: str) -> HttpResponse:
    where = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(where, {request.get_host()}, request.is_secure())
    return redirect(where if where.startswith("/") and is_ours else otherwise)


def _number(request: HttpRequest, name: str) -> int:
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


@require_POST
@staff_only
def conversation_note(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Star, tag or note a conversation, or take one of these away; go back to where it was read."""
    row = get_object_or_404(conversations_to_read(), pk=conversation_id)
    what, text = request.POST.get("what", ""), request.POST.get("text", "")
    try:
        if what in ("star", "unstar"):
            services.star_set(conversation=row, is_starred=what == "star", author=request.user)
        elif what == "tag":
            services.tag_add(conversation=row, text=text, author=request.user)
        elif what == "note":
            services.note_add(conversation=row, text=text, author=request.user)
        elif what == "remove":
            services.note_remove(conversation=row, pk=_number(request, "note"))
    except Refused as error:
        messages.error(request, str(error))
    return _back(request, reverse("dashboard:conversation", args=[row.pk]))


@require_POST
@staff_only
def study_keep(request: HttpRequest, key: str) -> HttpResponse:
    """Keep a search of a study by name, or forget one."""
    return _keep(request, gathered(study_of(key)))


@require_POST
@staff_only
def run_keep(request: HttpRequest, run_id: int) -> HttpResponse:
    """Keep a search of a self-play run by name, or forget one."""
    return _keep(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _keep(request: HttpRequest, found: Gathered) -> HttpResponse:
    source, owner = found.source, request.user
    try:
        if request.POST.get("what") == "forget":
            services.search_forget(source=source, owner=owner, name=request.POST.get("name", ""))
        else:
            kept = services.search_save(
                source=source,
                owner=owner,
                name=request.POST.get("name", ""),
                line=request.POST.get("q", ""),
                columns=request.POST.get("columns", ""),
            )
            messages.success(request, _("The search is kept as “{name}”.").format(name=kept.name))
    except Refused as error:
        messages.error(request, str(error))
    return _back(request, found.address())
