"""Selection of conversations, with one address and one parser.

Every bar, point, cell and count of the dashboard opens the conversations behind it. A chart names them with a
`ChatSelection`; the conversation browser reads the same value from its address.

Older addresses with a name for each filter (`bot=`, `state=`, `rated=`, `answer=` with `question=`, `words=`, `first=`,
`sort=`) are converted to the equal query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlencode

from django.http import QueryDict

from chatbots.registry import UnknownName
from evaluation.data.ratings import RatingDimension
from webapp.conversations.models import Conversation
from webapp.ratings.flag_selectors import without_read
from webapp.search.fields import QueryTerm, Unreadable, line_of, terms_of

FEEDBACK = "feedback"
"""Highlight of replies that were voted down, reported or marked."""
_NUMBER = re.compile(r"[-−]?\d+(\.\d+)?")
_HIGHLIGHT = re.compile(r"-?[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class ChatSelection:
    """Conversations of a study or run: filters, order, and highlights.

    Attributes:
        line: filters and order, as a query.
        highlight: `feedback`, or the column of a metric whose lowest values are highlighted; a minus before it means
            the highest ones. Empty: none.
        synthetic: True to include scripted participants.
        excluded_flags: flags whose participants are left out.
    """

    line: str = ""
    highlight: str = ""
    synthetic: bool = False
    excluded_flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, sort: str = "", highlight: str = "", **filters: str | Sequence[str]) -> Self:
        """Return a selection from filters.

        The values of one filter are alternatives; filters without a value are left out.

        Args:
            sort: as `sort:` has it.
            filters: fields of the query; `is_` and `not_FIELD` stand for `is` and a negation.
        """
        terms = [*_terms_of_filters(filters), *([QueryTerm(sort, "sort", ":")] if sort else [])]
        return cls(line_of(terms), highlight)

    @classmethod
    def of_mean(cls, dimension: RatingDimension, bots: Sequence[str] = (), **filters: str | Sequence[str]) -> Self:
        """Return the conversations behind a mean rating, worst first.

        Args:
            dimension: with `reversed`; the index has its answers as they were given.
        """
        sort = f"-{dimension.key}" if dimension.reversed else dimension.key
        return cls.of(sort=sort, highlight=FEEDBACK, bot=bots, has=dimension.key, **filters)

    @classmethod
    def of_errors(cls, bot: str) -> Self:
        """Return a bot's conversations that the hybrid metric predicts, largest error first."""
        return cls.of(sort="-residual", highlight=FEEDBACK, bot=bot, has="residual")

    @classmethod
    def of_metric(cls, column: str, **filters: str | Sequence[str]) -> Self:
        """Return the conversations that have a metric, highest values first."""
        name = f"metric.{column}"
        return cls.of(sort=f"-{name}", highlight=f"-{column}", has=name, **filters)

    @classmethod
    def read(cls, query: QueryDict, leading: str = "") -> Self:
        """Return the selection of an address.

        Invalid flags and highlights are left out.

        Args:
            leading: key of the rating that `answer=` is about if the address does not name it.
        """
        highlight = query.get("highlight", "")
        try:
            excluded_flags = without_read(",".join(query.getlist("without")))
        except UnknownName:  # pages refuse such an address
            excluded_flags = ()
        return cls(
            line_asked(query, leading),
            highlight if _HIGHLIGHT.fullmatch(highlight) else "",
            query.get("synthetic") == "1",
            excluded_flags,
        )

    def reversed(self) -> Self:
        """Return the selection in the opposite order.

        One in the order of time stays unchanged.
        """
        terms = [
            replace(term, value=term.value.removeprefix("-") if term.value[0] == "-" else f"-{term.value}")
            if term.field == "sort"
            else term
            for term in terms_of(self.line)
        ]
        return replace(self, line=line_of(terms))

    def narrowed(self, **filters: str | Sequence[str]) -> Self:
        """Return the selection with further filters, which all hold."""
        return replace(self, line=line_of([*_terms_of_filters(filters), *terms_of(self.line)]))

    def within(self, state: str, *, synthetic: bool, excluded_flags: Sequence[str]) -> Self:
        """Return the selection limited to the conversations that a page counts."""
        terms = [QueryTerm(state, "state", ":")] if state else []
        return replace(
            self, line=with_terms(self.line, terms), synthetic=synthetic, excluded_flags=tuple(excluded_flags)
        )

    @property
    def params(self) -> dict[str, str]:
        """Parameters of the address, those with a value."""
        values = {
            "q": self.line,
            "highlight": self.highlight,
            "synthetic": "1" if self.synthetic else "",
            "without": ",".join(self.excluded_flags),
        }
        return {name: value for name, value in values.items() if value}

    def url(self, address: str) -> str:
        """Return the address that opens the selection.

        Args:
            address: of the conversation browser of the study or run.
        """
        query = urlencode(self.params, safe=",:~")
        return f"{address}?{query}" if query else address


def _terms_of_filters(filters: Mapping[str, str | Sequence[str]]) -> list[QueryTerm]:
    terms = []
    for name, values in filters.items():
        value = values if isinstance(values, str) else ",".join(values)
        field = name.removeprefix("not_").strip("_")
        terms += [QueryTerm(value, field, ":", is_not=name.startswith("not_"))] if value else []
    return terms


def line_asked(query: QueryDict, leading: str = "") -> str:
    """Return the line of an address.

    Args:
        leading: key of the rating that `answer=` is about where the address does not say.
    """
    line = " ".join(query.get("q", "").split())
    terms: list[QueryTerm] = [
        QueryTerm(value, name, ":")
        for name in ("bot", "state", "first")
        if (value := query.get(name, "")) and (name != "state" or value in Conversation.State.values)
    ]
    if query.get("rated") in ("yes", "no"):
        terms.append(QueryTerm("rated" if query["rated"] == "yes" else "unrated", "is", ":"))
    question, answer = query.get("question", "") or leading, query.get("answer", "")
    if _NUMBER.fullmatch(answer) and question:
        terms.append(QueryTerm(answer, f"any.{question}", ":"))
    words = " ".join(query.get("words", "").replace('"', " ").split())
    if words:
        terms.append(QueryTerm(words, is_exact=True))
    number, low, high = (query.get(name, "").strip() for name in ("number", "low", "high"))
    if number and (low or high):
        terms.append(QueryTerm(f"{low}..{high}" if low != high else low, number, ":"))
    order = {"longest": "-exchanges", "shortest": "exchanges"}.get(query.get("sort", ""))
    direction, _colon, key = query.get("sort", "").partition(":")
    if key and direction in ("high", "low"):
        order = f"-{key}" if direction == "high" else key
    order = order or query.get("sort", "")
    if order:
        terms.append(QueryTerm(order, "sort", ":"))
    return with_terms(line, terms)


def with_terms(line: str, terms: Sequence[QueryTerm]) -> str:
    """Return a query with these terms replacing those of the same fields."""
    if not terms:
        return line
    fields = {term.field for term in terms} - {""}
    try:
        other_terms = [term for term in terms_of(line) if term.field not in fields or term.is_not]
    except Unreadable:  # reported when the whole query is parsed
        return " ".join([line, *map(str, terms)])
    return line_of([*other_terms, *terms])
