"""The workbench of a study's or run's conversations, and the reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.conversations.models import Conversation
from webapp.dashboard import narrowing, reader, workbench
from webapp.dashboard.access import staff_only
from webapp.dashboard.context import page
from webapp.dashboard.leaving_out import without_now
from webapp.dashboard.read_source import Gathered, dimensions_of, gathered
from webapp.dashboard.views.study import study_of, study_page
from webapp.dashboard.workbench import Workbench, export_query, workbench_of
from webapp.reading.fields import Numbers
from webapp.reading.listing import (
    Listing,
    Page,
    Place,
    all_and_scripted,
    beside,
    page_of,
    place_of,
)
from webapp.reading.selectors import Notes, Tag, notes_of, raters_of, saved_searches, tags_of
from webapp.results.flags import flags_now, flags_there
from webapp.runs.models import SelfPlayRun


@dataclass(frozen=True, slots=True)
class Pane:
    """The conversation that is read beside the list.

    Attributes:
        place: in the list; None for one that does not fit what the list shows.
        before, following: addresses of this page with the conversations beside it; empty where there is none.
        kept: parts of the address of this page with this conversation.
        notes: what readers left at it.
        path: of this page.
    """

    conversation: Conversation
    read: reader.Reading
    place: Place | None
    before: str
    following: str
    kept: list[tuple[str, str]]
    notes: Notes
    path: str

    @property
    def here(self) -> str:
        """The address of this page with this conversation, to come back to."""
        return f"{self.path}?{self.query}"

    @property
    def query(self) -> str:
        """The address part of this page with this conversation."""
        return urlencode(self.kept, safe=",:~")


def pane_of(
    request: HttpRequest, bench: Workbench, listing: Listing, pk: UUID, shown: Page | None
) -> Pane:
    """Return the conversation with this id as the pane beside the list shows it.

    Args:
        shown: the page of the list, where it is the first one.

    Raises:
        Http404: there is none.
    """
    row = get_object_or_404(reader.conversations_to_read(), pk=pk)
    place = place_of(listing, row, shown)
    after = request.GET.get("after", "")
    kept = [*_kept(bench), ("columns", bench.chosen), ("after", after), ("chat", str(pk))]
    before, following = (
        bench.address(chat=str(one), after=after) if one else ""
        for one in ((place.before, place.following) if place else (None, None))
    )
    columns = [one.name for one in bench.columns]
    return Pane(
        row,
        reader.read_conversation(
            row,
            request.GET.getlist("track"),
            request.GET.get("turn", ""),
            listing.words,
            columns,
        ),
        place,
        before,
        following,
        [(name, value) for name, value in kept if value],
        notes_of(row),
        request.path,
    )


def bench_context(
    request: HttpRequest, gathered: Gathered, bench: Workbench, n_all: int
) -> dict[str, Any]:
    """Return the context of the conversation browser: the list and the open conversation.

    Args:
        n_all: number of conversations without the query.
    """
    bots, numbers = gathered.bots, gathered.numbers
    listing = bench.listing(gathered.rows)
    after, held = request.GET.get("after", ""), _uuid(request, "hold")
    is_all = not bench.narrows and not bench.without and bench.wrong is None
    found = page_of(listing, bench.columns, after=after, total=n_all if is_all else None)
    chat = _uuid(request, "chat")
    pane = None
    if found.rows or chat:
        first = chat or found.rows[0].conversation.pk
        pane = pane_of(request, bench, listing, first, None if after else found)
    order, tags = workbench.order_now(bench.asked), tags_of(gathered.rows)
    example, examples = workbench.examples(numbers, gathered.dimensions, list(bots))
    return {
        "bench": bench,
        "page": found,
        "rows": [
            (
                row,
                bots.get(row.conversation.bot.bot_id),
                _opens(bench, row.conversation.pk, held, after),
            )
            for row in found.rows
        ],
        "pane": pane,
        "pane_slot": bots.get(pane.conversation.bot.bot_id) if pane else None,
        "columns_open": [(n, n in bench.columns) for n in numbers.measured()],
        "is_reading": chat is not None,
        "to_list": bench.address(after=after),
        "next_page": bench.address(after=found.after) if found.after else "",
        "first_page": bench.address() if after else "",
        "orders": workbench.orders(numbers),
        "example": example,
        "examples": examples,
        "order": order,
        "held": held,
        "hold": bench.address(hold=str(pane.conversation.pk), after=after) if pane else "",
        "wider": None if found.total else workbench.wider(bench, gathered.rows, numbers),
        "n_all": n_all,
        "saved": saved_searches(gathered.source, request.user, numbers, tuple(bots)),
        "tags": tags,
        "narrow": _form(gathered, bench, tags),
        "raters": raters_of([row.conversation.pk for row in found.rows]),
        "keep_href": gathered.address("keep"),
        "spread_href": gathered.address("spread"),
        "total_href": gathered.address("total"),
    }


def _form(gathered: Gathered, bench: Workbench, tags: Sequence[Tag]) -> narrowing.Form:
    """Return the form that narrows the list, with what there is to choose from."""
    study, source = gathered.study, gathered.source
    bots = [(one.bot_id, one.title) for one in gathered.bots.values()]
    has_pairs = isinstance(source, SelfPlayRun) and source.plan.get("pairs") == "all"
    options: dict[str, Sequence[tuple[str, Any]]] = {
        "bot": bots,
        "first": bots if has_pairs else [],
        "state": Conversation.State.choices,
        "flag": flags_there(study) if study is not None else [],
        "tag": [(tag.text, f"{tag.text} ({tag.n})") for tag in tags],
    }
    return narrowing.form_of(bench.line, gathered.numbers, options, has_raters=study is not None)


def _narrowed(request: HttpRequest, gathered: Gathered) -> HttpResponse | None:
    """Return a redirect to the address with the form's choices as a query; None if the form was not submitted."""
    if narrowing.MARK not in request.GET:
        return None
    asked = narrowing.address_asked(request.GET, gathered.numbers)
    address = gathered.bench(asked).address(hold=asked.get("hold", ""))
    return redirect(f"{request.path}{address}")


def _uuid(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


def _opens(bench: Workbench, pk: UUID, held: UUID | None, after: str) -> str:
    """Return the address that a row opens: its conversation, next to any held one."""
    if held is None or held == pk:
        return bench.address(chat=str(pk), after=after)
    return reverse("dashboard:side_by_side", args=[held, pk]) + bench.address()


@require_safe
@staff_only
def study_conversations(request: HttpRequest, key: str) -> HttpResponse:
    """Show a study's conversations, asked for by a line, with one of them beside the list."""
    study = study_of(key)
    without_now(request, study)
    found = gathered(study)
    if (narrowed := _narrowed(request, found)) is not None:
        return narrowed
    bench = found.bench(request.GET)
    if bench.asks_flags:
        flags_now(study)
    n_all, n_synthetic = all_and_scripted(found.rows)
    n_all -= 0 if bench.synthetic else n_synthetic
    return study_page(
        request,
        "conversations.html",
        study,
        "conversations",
        leaves_out=True,
        n_synthetic=0 if bench.synthetic else n_synthetic,
        export_href=f"{reverse('dashboard:study_export', args=[study.key])}?{export_query(bench)}",
        **bench_context(request, found, bench, n_all),
    )


@require_safe
@staff_only
def run_conversations(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show a self-play run's conversations."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    found = gathered(run)
    if (narrowed := _narrowed(request, found)) is not None:
        return narrowed
    bench = found.bench(request.GET)
    return page(
        request,
        "run_conversations.html",
        "runs",
        run=run,
        export_href=f"{reverse('dashboard:run', args=[run.pk])}?{export_query(bench)}#export",
        **bench_context(request, found, bench, found.rows.count()),
    )


@require_safe
@staff_only
def conversation(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Show the reader: turns beside their metrics."""
    row = get_object_or_404(reader.conversations_to_read(), pk=conversation_id)
    run = row.selfplay.run if hasattr(row, "selfplay") else None
    dimensions = dimensions_of(row.study)
    bench = workbench_of(request.GET, Numbers(dimensions), dimensions, study=row.study)
    listing = bench.listing(beside(row))
    place = place_of(listing, row)
    tracks = request.GET.getlist("track")
    read = reader.read_conversation(row, tracks, request.GET.get("turn", ""), listing.words)
    return page(
        request,
        "conversation.html",
        "studies" if row.study is not None else "runs",
        conversation=row,
        run=run,
        query=bench.query,
        kept=_kept(bench),
        read=read,
        before=_address(place.before if place else None, bench, tracks),
        following=_address(place.following if place else None, bench, tracks),
    )


@require_safe
@staff_only
def side_by_side(request: HttpRequest, conversation_id: UUID, other_id: UUID) -> HttpResponse:
    """Show two conversations beside one another, with their ratings and the same numbers of both."""
    both = [
        get_object_or_404(reader.conversations_to_read(), pk=pk)
        for pk in (conversation_id, other_id)
    ]
    dimensions = dimensions_of(both[0].study)
    bench = workbench_of(request.GET, Numbers(dimensions), dimensions, study=both[0].study)
    words = bench.asked.words if bench.asked is not None else ()
    names = [one.name for one in bench.columns]
    sides = [(row, reader.read_conversation(row, words=words, first=names)) for row in both]
    study = both[0].study
    back = reverse("dashboard:study_conversations", args=[study.key]) if study else ""
    return page(
        request,
        "side_by_side.html",
        "studies" if study is not None else "runs",
        study=study,
        sides=sides,
        numbers=reader.numbers_beside([read for _row, read in sides]),
        back=f"{back}{bench.address()}" if back else "",
        query=bench.query,
    )


def _kept(bench: Workbench) -> list[tuple[str, str]]:
    return [(name, value) for name, value in (("q", bench.line), *bench.kept) if value]


def _address(pk: UUID | None, bench: Workbench, tracks: Sequence[str]) -> str:
    """Return the address of another conversation's page with the same line and tracks."""
    if pk is None:
        return ""
    query = urlencode([*_kept(bench), *(("track", name) for name in tracks)], safe=",:")
    url = reverse("dashboard:conversation", args=[pk])
    return f"{url}?{query}" if query else url
