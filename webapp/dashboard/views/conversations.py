"""Conversation browser, live parts of its search form, and the reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.humanize.templatetags.humanize import intcomma
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from webapp.conversations.models import Conversation
from webapp.core.language import plural
from webapp.dashboard import conversation_list, filters
from webapp.dashboard.conversation_list import Gathered, Workbench, dimensions_of, export_query, gathered, workbench_of
from webapp.dashboard.filters import address_asked, apply_flag_filter, without_range
from webapp.dashboard.navigation import page, read_view
from webapp.dashboard.views.chat_actions import undo_count
from webapp.dashboard.views.notes import noted_context
from webapp.dashboard.views.studies import study_page
from webapp.insights import conversation_reader
from webapp.jobs.models import SelfPlayRun
from webapp.results.refresh import flags_there, refresh_flags
from webapp.search.fields import Numbers
from webapp.search.index_statistics import histogram_of
from webapp.search.pagination import Listing, ListPosition, Page, all_and_scripted, page_of, position_of, study_numbers
from webapp.search.query import parse_query
from webapp.search.selectors import Notes, Tag, notes_of, raters_of, saved_searches, tags_of
from webapp.studies.marking_settings import MOST_CHOSEN
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols


@dataclass(frozen=True, slots=True)
class Pane:
    """Conversation shown next to the list.

    Attributes:
        place: position in the list; None if the list does not contain it.
        before, following: addresses of this page with the neighbouring conversations; empty without one.
        kept: parts of the address of this page with this conversation.
        notes: notes, stars and tags of readers.
        path: path of this page.
    """

    conversation: Conversation
    read: conversation_reader.ConversationReading
    place: ListPosition | None
    before: str
    following: str
    address_parts: list[tuple[str, str]]
    notes: Notes
    path: str

    @property
    def here(self) -> str:
        """The address of this page with this conversation, to return to."""
        return f"{self.path}?{self.query}"

    @property
    def query(self) -> str:
        """The query string of this page with this conversation."""
        return urlencode(self.address_parts, safe=",:~")


def pane_of(request: HttpRequest, bench: Workbench, listing: Listing, pk: UUID, first_page: Page | None) -> Pane:
    """Return the conversation for the pane next to the list.

    Args:
        first_page: page of the list, if it is the first one.

    Raises:
        Http404: there is no such conversation.
    """
    row = get_object_or_404(conversation_reader.conversations_to_read(), pk=pk)
    place = position_of(listing, row, first_page)
    after = request.GET.get("after", "")
    address_parts = [*_list_parameters(bench), ("columns", bench.chosen), ("after", after), ("chat", str(pk))]
    before, following = (
        bench.address(chat=str(neighbour), after=after) if neighbour else ""
        for neighbour in ((place.before, place.following) if place else (None, None))
    )
    columns = [number.name for number in bench.columns]
    return Pane(
        row,
        conversation_reader.read_conversation(
            row,
            request.GET.getlist("track"),
            request.GET.get("turn", ""),
            listing.words,
            columns,
            bench.selection.highlight,
        ),
        place,
        before,
        following,
        [(name, value) for name, value in address_parts if value],
        notes_of(row),
        request.path,
    )


def bench_context(request: HttpRequest, gathered: Gathered, bench: Workbench, n_all: int) -> dict[str, Any]:
    """Return the context of the conversation browser.

    It has the list and the open conversation.

    Args:
        n_all: number of conversations without the query.
    """
    bots, numbers = gathered.bots, gathered.numbers
    listing = bench.listing(gathered.rows)
    after, held_id = request.GET.get("after", ""), _uuid(request, "hold")
    is_all = not bench.narrows and not bench.excluded_flags and bench.wrong is None
    listed_page = page_of(listing, bench.columns, after=after, total=n_all if is_all else None)
    chat = _uuid(request, "chat")
    shows_notes, pane = request.GET.get("notes") == "1", None
    if (listed_page.rows or chat) and not shows_notes:
        first = chat or listed_page.rows[0].conversation.pk
        pane = pane_of(request, bench, listing, first, None if after else listed_page)
    order, tags = conversation_list.order_now(bench.search), tags_of(gathered.rows)
    example, examples = conversation_list.examples(numbers, gathered.dimensions, list(bots))
    return {
        "bench": bench,
        "page": listed_page,
        "rows": [
            (row, bots.get(row.conversation.bot.bot_id), _opens(bench, row.conversation.pk, held_id, after))
            for row in listed_page.rows
        ],
        "pane": pane,
        "pane_slot": bots.get(pane.conversation.bot.bot_id) if pane else None,
        "columns_open": [(n, n in bench.columns) for n in numbers.measured()],
        "is_reading": chat is not None or shows_notes,
        "to_list": bench.address(after=after),
        "next_page": bench.address(after=listed_page.after) if listed_page.after else "",
        "first_page": bench.address() if after else "",
        "orders": conversation_list.orders(numbers),
        "example": example,
        "examples": examples,
        "order": order,
        "held": held_id,
        "hold": bench.address(hold=str(pane.conversation.pk), after=after) if pane else "",
        "wider": None if listed_page.total else conversation_list.wider(bench, gathered.rows, numbers),
        "n_all": n_all,
        "saved": saved_searches(gathered.source, request.user, numbers, tuple(bots)),
        "tags": tags,
        "narrow": _form(gathered, bench, tags),
        "raters": raters_of([row.conversation.pk for row in listed_page.rows]),
        "keep_href": gathered.address("keep"),
        "spread_href": gathered.address("spread"),
        "total_href": gathered.address("total"),
        "judge_href": gathered.address("judge"),
        "exclude_href": gathered.address("exclude"),
        "note_href": gathered.address("note"),
        "judging": [protocol for protocol in protocols if protocol.judges_conversations],
        "n_undo": undo_count(request, gathered),
        "most_selected": MOST_CHOSEN,
        "has_excluded": any(row.conversation.state == Conversation.State.EXCLUDED for row in listed_page.rows),
        "notes_href": bench.address(notes="1"),
        **(noted_context(request, gathered, bench) if shows_notes else {}),
    }


def _form(gathered: Gathered, bench: Workbench, tags: Sequence[Tag]) -> filters.SearchForm:
    """Return the search form of the list, with its options."""
    study, source = gathered.study, gathered.source
    bots = [(bot.bot_id, bot.title) for bot in gathered.bots.values()]
    has_pairs = isinstance(source, SelfPlayRun) and source.plan.get("pairs") == "all"
    options: dict[str, Sequence[tuple[str, Any]]] = {
        "bot": bots,
        "first": bots if has_pairs else [],
        "condition": _conditions(study) if study is not None else [],
        "state": Conversation.State.choices,
        "flag": flags_there(study) if study is not None else [],
        "tag": [(tag.text, f"{tag.text} ({tag.n})") for tag in tags],
    }
    return filters.search_form_of(bench.line, gathered.numbers, options, has_raters=study is not None)


def _conditions(study: Study) -> list[tuple[str, str]]:
    """Return the levels of the study's factors to choose from."""
    return [
        (f"{factor.key}={level.key}", f"{factor.title}: {level.title}")
        for factor in study.values.conditions.factors
        for level in factor.levels
    ]


def _narrowed(request: HttpRequest, gathered: Gathered) -> HttpResponse | None:
    """Return a redirect with the form's choices as a query.

    None if the form was not submitted.
    """
    if filters.MARK not in request.GET:
        return None
    parameters = filters.address_asked(request.GET, gathered.numbers)
    address = gathered.bench(parameters).address(hold=parameters.get("hold", ""))
    return redirect(f"{request.path}{address}")


def _uuid(request: HttpRequest, name: str) -> UUID | None:
    try:
        return UUID(request.GET.get(name, ""))
    except ValueError:
        return None


def _opens(bench: Workbench, pk: UUID, held_id: UUID | None, after: str) -> str:
    """Return the address that a row opens.

    It shows the conversation, next to a pinned one if any.
    """
    if held_id is None or held_id == pk:
        return bench.address(chat=str(pk), after=after)
    return reverse("dashboard:side_by_side", args=[held_id, pk]) + bench.address()


@read_view()
def study_conversations(request: HttpRequest, study: Study) -> HttpResponse:
    """Show a study's conversations that match a query, with one open."""
    apply_flag_filter(request, study)
    collection = gathered(study)
    if (narrowed := _narrowed(request, collection)) is not None:
        return narrowed
    bench = collection.bench(request.GET)
    if bench.asks_flags:
        refresh_flags(study)
    n_all, n_synthetic = all_and_scripted(collection.rows)
    n_all -= 0 if bench.synthetic else n_synthetic
    return study_page(
        request,
        "conversations.html",
        study,
        "conversations",
        leaves_out=True,
        n_synthetic=0 if bench.synthetic else n_synthetic,
        export_href=f"{reverse('dashboard:study_export', args=[study.key])}?{export_query(bench)}",
        **bench_context(request, collection, bench, n_all),
    )


@read_view()
def run_conversations(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show a self-play run's conversations."""
    run = get_object_or_404(SelfPlayRun, pk=run_id)
    collection = gathered(run)
    if (narrowed := _narrowed(request, collection)) is not None:
        return narrowed
    bench = collection.bench(request.GET)
    return page(
        request,
        "run_conversations.html",
        "bots",
        run=run,
        export_href=f"{reverse('dashboard:run', args=[run.pk])}?{export_query(bench)}#export",
        **bench_context(request, collection, bench, collection.rows.count()),
    )


@read_view()
def conversation(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Redirect to the conversation in the list of its study or run."""
    row = get_object_or_404(conversation_reader.conversations_to_read(), pk=conversation_id)
    if row.study is not None:
        address = reverse("dashboard:study_conversations", args=[row.study.key])
    elif hasattr(row, "selfplay"):
        address = reverse("dashboard:run_conversations", args=[row.selfplay.run.pk])
    else:
        raise Http404("the conversation belongs to neither a study nor a run")
    query = request.GET.copy()
    query["chat"] = str(row.pk)
    return redirect(f"{address}?{query.urlencode(safe=',:~')}")


@read_view()
def side_by_side(request: HttpRequest, conversation_id: UUID, other_id: UUID) -> HttpResponse:
    """Show two conversations side by side, with ratings and common numbers."""
    rows = [get_object_or_404(conversation_reader.conversations_to_read(), pk=pk) for pk in (conversation_id, other_id)]
    first_study = rows[0].study
    numbers = study_numbers(first_study) if first_study is not None else Numbers([])
    bench = workbench_of(request.GET, numbers, dimensions_of(first_study), study=first_study)
    words = bench.search.words if bench.search is not None else ()
    names = [number.name for number in bench.columns]
    sides = [(row, conversation_reader.read_conversation(row, words=words, first=names)) for row in rows]
    study = rows[0].study
    back = reverse("dashboard:study_conversations", args=[study.key]) if study else ""
    return page(
        request,
        "side_by_side.html",
        "studies" if study is not None else "bots",
        study=study,
        sides=sides,
        numbers=conversation_reader.compare_numbers([read for _row, read in sides]),
        back=f"{back}{bench.address()}" if back else "",
        query=bench.query,
    )


def _list_parameters(bench: Workbench) -> list[tuple[str, str]]:
    return [(name, value) for name, value in (("q", bench.line), *bench.kept_params) if value]


@read_view()
def study_spread(request: HttpRequest, study: Study) -> HttpResponse:
    """Draw the distribution of a number over a study's conversations.

    The response is a part of the page.
    """
    return _spread(request, gathered(study))


@read_view()
def run_spread(request: HttpRequest, run_id: int) -> HttpResponse:
    """Draw the distribution of a number over a run's conversations.

    The response is a part of the page.
    """
    return _spread(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _spread(request: HttpRequest, collection: Gathered) -> HttpResponse:
    """Draw the distribution of the number `of` over the search's results.

    The search's own range of this number is ignored.
    """
    number = collection.numbers.get(request.GET.get("of", ""))
    if number is None or number.is_time:
        raise Http404(f"unknown value {request.GET.get('of', '')}")
    bench = collection.bench(request.GET)
    rows = collection.get_counted_rows(bench)
    if bench.wrong is None:
        rest = without_range(bench.line, number, collection.numbers)
        rows = parse_query(rest, collection.numbers, study=collection.study).matching(rows)
    context = {"number": number, "spread": histogram_of(rows, number, collection.study)}
    return render(request, "dashboard/_spread.html", context)


@read_view()
def study_total(request: HttpRequest, study: Study) -> HttpResponse:
    """Return the number of a study's conversations that match the form."""
    apply_flag_filter(request, study)
    return _total(request, gathered(study))


@read_view()
def run_total(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the number of a run's conversations that match the form."""
    return _total(request, gathered(get_object_or_404(SelfPlayRun, pk=run_id)))


def _total(request: HttpRequest, collection: Gathered) -> HttpResponse:
    bench = collection.bench(address_asked(request.GET, collection.numbers))
    if bench.wrong is not None:
        words = bench.wrong.reason
    else:
        n = bench.listing(collection.rows).count()
        words = plural(n, "{n} matching conversation.", "{n} matching conversations.").format(n=intcomma(n))
    return HttpResponse(words, content_type="text/plain; charset=utf-8")
