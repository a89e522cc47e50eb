"""The list of conversations of a study or run, and the reader."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from evaluation.plots.lettering import plain
from evaluation.plots.scale import rating_ticks
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import synthetic_count
from webapp.dashboard import conversation_list, reader
from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.views.study import study_of, study_page
from webapp.ratings.bots import study_bots
from webapp.ratings.selectors import study_dimensions, title_as_given
from webapp.runs.models import SelfPlayRun


@require_safe
@staff_only
def study_conversations(request: HttpRequest, key: str) -> HttpResponse:
    """Show a study's conversations, filtered, searched and sorted."""
    study = study_of(key)
    without_now(request, study)
    filters = conversation_list.Filters.of(request.GET)
    dimensions = [replace(d, title=title_as_given(d)) for d in study_dimensions(study)]
    leading = filters.asked(dimensions)
    rows = conversation_list.of_study(study)
    bots = study_bots(study)
    steps = rating_ticks(leading.low, leading.high, 11) if leading else []
    listing = filters.apply(rows, dimensions)
    # The list shows the rating that it is sorted by, else the leading one.
    shown = listing.dimension or leading
    found = conversation_list.page_of(
        listing, shown, words=filters.words, after=request.GET.get("after", "")
    )
    n_synthetic = synthetic_count(study)
    n_all = rows.count() - (0 if filters.synthetic else n_synthetic)
    return study_page(
        request,
        "conversations.html",
        study,
        "conversations",
        leaves_out=True,
        page=found,
        rows=[(row, bots.get(row.conversation.bot.bot_id)) for row in found.rows],
        filters=filters,
        query=filters.query(),
        bots=list(bots.values()),
        states=Conversation.State.choices,
        leading=leading,
        shown=shown,
        orders=conversation_list.orders(dimensions),
        n_all=n_all,
        answers=[plain(step) for step in steps if float(step).is_integer()],
        after=request.GET.get("after", ""),
        n_synthetic=0 if filters.synthetic else n_synthetic,
    )


@require_safe
@staff_only
def run_conversations(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show a self-play run's conversations."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    filters = conversation_list.Filters.of(request.GET)
    rows = conversation_list.of_run(run)
    found = conversation_list.page_of(
        filters.apply(rows, []), words=filters.words, after=request.GET.get("after", "")
    )
    slots = {bot_id: slot for slot, bot_id in enumerate(run.plan.get("bots", []), start=1)}
    return page(
        request,
        "run_conversations.html",
        "runs",
        run=run,
        page=found,
        rows=[
            (
                row,
                slots.get(row.conversation.bot.bot_id, 0),
                row.conversation.selfplay.partner_bot_id,
            )
            for row in found.rows
        ],
        has_pairs=run.plan.get("pairs") == "all",
        filters=filters,
        query=filters.query(),
        orders=conversation_list.orders([]),
        n_all=rows.count(),
        slots=slots,
        after=request.GET.get("after", ""),
    )


@require_safe
@staff_only
def conversation(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Show the reader: turns beside their metrics."""
    row = get_object_or_404(reader.conversations_to_read(), pk=conversation_id)
    filters = conversation_list.Filters.of(request.GET)
    run = row.selfplay.run if hasattr(row, "selfplay") else None
    dimensions = study_dimensions(row.study) if row.study is not None else []
    listing = filters.apply(conversation_list.beside(row), dimensions)
    before, following = conversation_list.neighbours(listing, row)
    read = reader.read_conversation(row, request.GET.getlist("track"), request.GET.get("turn", ""))
    query = filters.query()

    def address(pk: UUID | None) -> str:
        if pk is None:
            return ""
        url = reverse("dashboard:conversation", args=[pk])
        parts = [query, *(f"track={name}" for name in request.GET.getlist("track"))]
        joined = "&".join(part for part in parts if part)
        return f"{url}?{joined}" if joined else url

    return page(
        request,
        "conversation.html",
        "studies" if row.study is not None else "runs",
        conversation=row,
        run=run,
        filters=filters,
        query=query,
        read=read,
        before=address(before),
        following=address(following),
    )
