"""Conversation browser: scope, search in the address, and further searches.

The scope is the conversations of a study or of a self-play run. `webapp.search.chat_selection` reads the address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from evaluation.data.ratings import MEAN_KEY, RatingDimension
from evaluation.plots.marks import slots_of
from webapp.conversations.models import Conversation
from webapp.jobs.models import SelfPlayRun
from webapp.ratings.selectors import BotInfo, ranking_dimensions, states_counted, study_bots
from webapp.search.chat_selection import ChatSelection
from webapp.search.fields import TELLING, Number, Numbers, Unreadable, line_of, terms_of
from webapp.search.pagination import Listing, Source, conversations_of_source, filter_conversations, study_numbers
from webapp.search.query import SearchQuery, parse_query
from webapp.studies.models import Study

MOST_COLUMNS = 6
_TRIED = 8
"""Maximum number of terms that are removed, one at a time, to suggest a wider search."""


def conversations_link(
    study: Study,
    selection: ChatSelection,
    *,
    synthetic: bool,
    excluded_flags: Sequence[str] = (),
    include_failed: bool = False,
) -> str:
    """Return the address of a selection of a study's conversations, limited to those that a page counts."""
    state = ",".join(states_counted(include_failed=include_failed))
    counted = selection.within(state, synthetic=synthetic, excluded_flags=excluded_flags)
    return counted.url(reverse("dashboard:study_conversations", args=[study.key]))


@dataclass(frozen=True, slots=True)
class Chip:
    """Part of the query, with the address of the page without it."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Workbench:
    """Selection and columns in an address.

    Attributes:
        selection: filters, order and highlight of the address.
        search: the parsed query; None if it cannot be read: then `wrong` gives the reason.
        columns: the numbers that the list and the reader show, six at most.
    """

    selection: ChatSelection
    search: SearchQuery | None
    wrong: Unreadable | None
    columns: tuple[Number, ...]
    chosen: str
    study: Study | None

    @property
    def line(self) -> str:
        """The query as it was typed."""
        return self.selection.line

    @property
    def synthetic(self) -> bool:
        """True if scripted participants are included."""
        return self.selection.synthetic

    @property
    def excluded_flags(self) -> tuple[str, ...]:
        """Flags whose participants are left out."""
        return self.selection.excluded_flags

    @property
    def kept_params(self) -> list[tuple[str, str]]:
        """Parts of the address other than query and columns, kept in every link of the page."""
        return [(name, value) for name, value in self.selection.params.items() if name != "q"]

    @property
    def narrows(self) -> bool:
        """True if the query excludes any conversation."""
        return self.search is not None and self.search.narrows

    def address(self, **changes: str) -> str:
        """Return the query string of this page with other values.

        Empty values are left out.
        """
        parts = {"q": self.line, "columns": self.chosen, **dict(self.kept_params), **changes}
        query = urlencode({name: value for name, value in parts.items() if value}, safe=",:~")
        return f"?{query}" if query else "?"

    @property
    def asks_flags(self) -> bool:
        """True if the query may contain flags.

        They are computed only on request.
        """
        return self.wrong is None and "flag" in self.line.lower()

    @property
    def query(self) -> str:
        """The query string that keeps the search and the filter.

        It has no question mark.
        """
        return self.address()[1:]

    @property
    def chips(self) -> list[Chip]:
        """The parts of the query, each with the address without it."""
        if self.wrong is not None:
            return []
        terms = terms_of(self.line)
        return [Chip(str(term), self.address(q=line_of(terms[:i] + terms[i + 1 :]))) for i, term in enumerate(terms)]

    def listing(self, rows: QuerySet[Conversation]) -> Listing:
        """Return the conversations that the page lists.

        None if the query is invalid.
        """
        if self.search is None:
            return Listing(rows.none(), SearchQuery())
        counted_rows = filter_conversations(rows, synthetic=self.synthetic, excluded_flags=self.excluded_flags)
        return Listing(counted_rows, self.search, self.study)


def export_query(bench: Workbench) -> str:
    """Return the query string of the export page for the list.

    Failed chats are included.
    """
    kept_params = dict(bench.kept_params)
    parts = {
        "q": bench.line,
        "include_failed": "on",
        "include_synthetic": "on" if bench.synthetic else "",
        "without": kept_params.get("without", ""),
    }
    return urlencode({name: value for name, value in parts.items() if value}, safe=",:")


def workbench_of(
    query: QueryDict,
    numbers: Numbers,
    dimensions: Sequence[RatingDimension] = (),
    bots: Mapping[str, Any] | None = None,
    study: Study | None = None,
) -> Workbench:
    """Parse an address.

    Args:
        dimensions: the study's questions, the leading one first.
        bots: the bots that can be searched for, by id.
        study: the study whose conversations are searched; None for self-play.
    """
    leading = dimensions[0].key if dimensions else ""
    asked_by_default = next((dimension.key for dimension in dimensions if dimension.key != MEAN_KEY), "")
    selection = ChatSelection.read(query, asked_by_default)
    search, wrong = None, None
    try:
        search = parse_query(selection.line, numbers, bots=tuple(bots or ()), study=study)
    except Unreadable as error:
        wrong = error
    chosen = ",".join(filter(None, query.getlist("columns")))
    return Workbench(selection, search, wrong, _columns(chosen, numbers, leading, search), chosen, study)


def _columns(chosen: str, numbers: Numbers, leading: str, search: SearchQuery | None) -> tuple[Number, ...]:
    """Return the numbers to show.

    By default these are the number sorted by, or the leading rating, and those in the query.
    """
    chosen_numbers = [numbers.get(name) for name in chosen.split(",") if name]
    columns = list(dict.fromkeys(number for number in chosen_numbers if number is not None))
    if not columns:
        spoken = list(search.numbers) if search is not None else []
        first = search.sort if search is not None else None
        lead = first or numbers.get(f"rating.{leading}")
        columns = list(dict.fromkeys([*([lead] if lead else []), *spoken]))
    return tuple(columns[:MOST_COLUMNS])


@dataclass(frozen=True, slots=True)
class Wider:
    """Term of an empty search, and the number of results without it."""

    dropped_term: str
    href: str
    total: int


def wider(bench: Workbench, rows: QuerySet[Conversation], numbers: Numbers) -> Wider | None:
    """Return the term of an empty search whose removal gives most results.

    None if no removal helps.
    """
    if bench.wrong is not None:
        return None
    terms = terms_of(bench.line)
    best = None
    for i, term in enumerate(terms[:_TRIED]):
        if term.field in ("sort", "limit", "seed"):
            continue
        line = line_of(terms[:i] + terms[i + 1 :])
        other_selection = replace(bench.selection, line=line)
        search = parse_query(line, numbers, study=bench.study)
        total = replace(bench, selection=other_selection, search=search).listing(rows).count()
        if total and (best is None or total > best.total):
            best = Wider(str(term), bench.address(q=line), total)
    return best


def examples(numbers: Numbers, dimensions: Sequence[RatingDimension], bots: Sequence[str]) -> tuple[str, list[str]]:
    """Return a short example for the empty search box, and further ones.

    The further ones show every form that these conversations support.
    """
    measured = {number.name for number in numbers.measured()}
    rated = next((dimension for dimension in dimensions if dimension.key in measured), None)
    bot_terms = [f"bot:{','.join(bots[:2])}"] if bots else []
    low = f"{rated.low:g}..{(rated.low + rated.high) / 2:g}" if rated is not None else ""
    key = rated.key if rated is not None else "exchanges"
    lines = [
        *bot_terms,
        f"{key}:{low}" if low else f"{key}>5",
        *([f"{TELLING}>0.6"] if TELLING in measured else []),
        "-word",
        '"exact words"',
        *(("is:rated",) if rated is not None else ()),
        "is:starred",
        "tag:name",
        *(("flag:fast", "rater:name") if rated is not None else ()),
        f"sort:-{key}",
        "limit:20",
        "sample:20",
        "seed:3",
    ]
    # The empty search box is narrow.
    return f"bot:{min(bots, key=len)}" if bots else lines[0], lines


def orders(numbers: Numbers) -> list[tuple[str, str]]:
    """Return the available orders: value of `sort:`, and name."""
    choices = [("newest", "newest first"), ("oldest", "oldest first")]
    rising, falling = "{title}, lowest first", "{title}, highest first"
    for number in numbers.measured():
        choices.append((number.name, rising.format(title=number.title)))
        choices.append((f"-{number.name}", falling.format(title=number.title)))
    return choices


def order_now(search: SearchQuery | None) -> str:
    """Return the order of a query, as a value of `sort:`."""
    if search is None or search.sort is None:
        return "newest" if search is None or search.is_falling else "oldest"
    return f"{'-' if search.is_falling else ''}{search.sort.name}"


def dimensions_of(study: Study | None) -> list[RatingDimension]:
    """Return a study's measures, the one that bots are ranked by first, titled for raw answers; none for self-play."""
    return [] if study is None else ranking_dimensions(study)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Conversations of a study or run, and what can be searched.

    Attributes:
        bots: bots by id, each with the number that sets its mark.
        dimensions: the questions they are rated on, the leading one first.
    """

    source: Source
    rows: QuerySet[Conversation]
    numbers: Numbers
    bots: Mapping[str, BotInfo]
    dimensions: Sequence[RatingDimension] = field(default=())

    @property
    def study(self) -> Study | None:
        """The study; None for a run."""
        return self.source if isinstance(self.source, Study) else None

    def bench(self, query: QueryDict) -> Workbench:
        """Return the conversation browser with the query of an address."""
        return workbench_of(query, self.numbers, self.dimensions, self.bots, self.study)

    def get_counted_rows(self, bench: Workbench) -> QuerySet[Conversation]:
        """Return the conversations that pages count, whatever the query is."""
        return filter_conversations(self.rows, synthetic=bench.synthetic, excluded_flags=bench.excluded_flags)

    def address(self, part: str = "conversations") -> str:
        """Return the address of the conversation browser or a related page."""
        if isinstance(self.source, Study):
            return reverse(f"dashboard:study_{part}", args=[self.source.key])
        return reverse(f"dashboard:run_{part}", args=[self.source.pk])


def gathered(source: Source) -> Gathered:
    """Return the conversations of a study or run."""
    if isinstance(source, SelfPlayRun):
        played = source.plan.get("bots", [])
        bots = {
            bot_id: BotInfo(bot_id, bot_id, slot, is_control=False)
            for slot, bot_id in zip(slots_of(len(played)), played, strict=True)
        }
        return Gathered(source, conversations_of_source(source), Numbers([]), bots)
    dimensions = dimensions_of(source)
    return Gathered(
        source, conversations_of_source(source), study_numbers(source, dimensions), study_bots(source), dimensions
    )
