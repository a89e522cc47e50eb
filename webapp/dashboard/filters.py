"""Filters in addresses: the search form, and flags that exclude participants.

Search form: only parts that the user changed in the form are changed in the query. So a part that no control can show,
such as `bot:eliza,retrieval` or `-is:scripted`, stays until another choice replaces it or the user removes it below the
search.

Flags: the value `without=fast,pasted` applies to all results of a study, and is passed from page to page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, QueryDict

from chatbots.registry import UnknownName
from webapp.insights.data_quality import left_out_words
from webapp.ratings.flag_selectors import flag_counts, flags_state, left_out_counts, without_read
from webapp.ratings.flags.base import flag_kinds
from webapp.results.refresh import refresh_flags
from webapp.search.fields import Number, Numbers, QueryTerm, Unreadable, line_of, terms_of
from webapp.search.query import ORDERS
from webapp.studies.models import Study

MARK = "narrow"
"""Parameter of addresses made by the form."""
CHOSEN = ("bot", "first", "condition", "state", "rater", "flag", "tag")
"""Fields with a single value."""
KINDS = {
    "starred": "starred",
    "tagged": "with a tag",
    "noted": "with a note",
    "commented": "with a comment",
    "rated": "rated",
    "unrated": "not rated",
}
OF_RUNS = ("starred", "tagged", "noted")
"""Kinds of conversations without raters."""
_KEPT = ("columns", "highlight", "synthetic", "without", "hold")


@dataclass(frozen=True, slots=True)
class Select:
    """Control with a list of values to choose from.

    Attributes:
        chosen: selected value; empty if none, or if the list cannot show it.
        otherwise: the value in the query that the list cannot show.
    """

    name: str
    title: str
    options: tuple[tuple[str, Any], ...]
    chosen: str
    otherwise: str


@dataclass(frozen=True, slots=True)
class Range:
    """Number with its range in the query; an open end is empty."""

    number: Number
    low: str
    high: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class SearchForm:
    """Content of the search form.

    Attributes:
        rater: None without raters.
        kinds: name, title, and whether the query selects it.
        sample: number of conversations drawn at random.
        seed: seed of the draw.
    """

    selects: dict[str, Select]
    ranges: list[Range]
    shown_range: Range | None
    rater: str | None
    kinds: list[tuple[str, Any, bool]]
    sample: str
    seed: str


def search_form_of(
    line: str, numbers: Numbers, options: Mapping[str, Iterable[tuple[str, Any]]], *, has_raters: bool = True
) -> SearchForm:
    """Return the content of the search form for a query.

    Args:
        options: options of each list, by the field's name; a list without options is left out.
        has_raters: whether participants rate these conversations.
    """
    terms = _terms(line) or []
    chosen_values = _get_chosen_values(terms)
    titles = {"bot": "Bot", "first": "Begins", "condition": "Condition", "state": "State"}
    titles |= {"flag": "Flag of the participant", "tag": "Tag"}
    selects = {
        name: Select(name, titles[name], choices, chosen_values.get(name, ""), _otherwise(terms, name, chosen_values))
        for name, every in options.items()
        if (choices := _with_chosen(every, chosen_values.get(name, "")))
    }
    ranges = [
        Range(number, *range_of(terms, number, numbers), is_shown=False)
        for number in numbers.measured()
        if not number.is_time
    ]
    shown_range = next(
        (number_range for number_range in ranges if number_range.low or number_range.high),
        ranges[0] if ranges else None,
    )
    kinds = _kinds(terms)
    return SearchForm(
        selects=selects,
        ranges=ranges,
        shown_range=shown_range,
        rater=chosen_values.get("rater", "") if has_raters else None,
        kinds=[(name, title, name in kinds) for name, title in KINDS.items() if has_raters or name in OF_RUNS],
        sample=chosen_values.get("sample", ""),
        seed=chosen_values.get("seed", ""),
    )


def address_asked(query: QueryDict, numbers: Numbers) -> QueryDict:
    """Return the address whose query contains the whole form."""
    address = QueryDict(mutable=True)
    address["q"] = line_narrowed(query, numbers)
    for name in _KEPT:
        if query.get(name):
            address.setlist(name, query.getlist(name))
    return address


def line_narrowed(query: QueryDict, numbers: Numbers) -> str:
    """Return the form's query `q`, changed by the chosen filters."""
    line = " ".join(query.get("q", "").split())
    read = _terms(line)
    terms = list(read or [])
    chosen_values, added = _get_chosen_values(terms), []
    for name in CHOSEN:
        value = " ".join(query.get(name, "").split())
        if name in query and value != chosen_values.get(name, ""):
            terms = [term for term in terms if not _is_asked(term, name)]
            added += [QueryTerm(value, name, ":")] if value else []
    number = numbers.get(query.get("number", ""))
    low, high = (query.get(name, "").strip() for name in ("low", "high"))
    if number is not None and (low, high) != range_of(terms, number, numbers):
        terms = [term for term in terms if not _is_range(term, number, numbers)]
        if low or high:
            added.append(QueryTerm(low if low == high else f"{low}..{high}", number.name, ":"))
    were, are = _kinds(terms), {name for name in query.getlist("is") if name in KINDS}
    terms = [term for term in terms if not (_is_asked(term, "is") and term.value in were - are)]
    added += [QueryTerm(name, "is", ":") for name in KINDS if name in are - were]
    sample, seed = (query.get(name, "").strip() for name in ("sample", "seed"))
    seed = seed if sample else ""  # a seed alone draws nothing
    for name, value in (("sample", sample), ("seed", seed)):
        if value != chosen_values.get(name, ""):
            terms = [term for term in terms if term.field != name]
            added += [QueryTerm(value, name, ":")] if value else []
    if read is None:  # the page shows the error and keeps the choices
        return " ".join([line, *map(str, added)])
    return line_of([*terms, *added])


def range_of(terms: Sequence[QueryTerm], number: Number, numbers: Numbers) -> tuple[str, str]:
    """Return both ends of a number's range in a query."""
    low = high = ""
    for term in terms:
        if not _is_range(term, number, numbers):
            continue
        if term.sign.startswith(">"):
            low = term.value
        elif term.sign.startswith("<"):
            high = term.value
        else:
            first, dots, last = term.value.partition("..")
            low, high = first.strip("*"), last.strip("*") if dots else first
    return low, high


def without_range(line: str, number: Number, numbers: Numbers) -> str:
    """Return a query without a number's range, order and limits.

    The range can then be set in another way.

    Raises:
        Unreadable: the query is invalid.
    """
    return line_of(
        [term for term in terms_of(line) if term.field not in ORDERS and not _is_range(term, number, numbers)]
    )


def _terms(line: str) -> list[QueryTerm] | None:
    """Return the terms of a query; None if invalid."""
    try:
        return terms_of(line)
    except Unreadable:
        return None


def _is_asked(term: QueryTerm, name: str) -> bool:
    return term.field == name and term.sign == ":" and not term.is_not


def _is_range(term: QueryTerm, number: Number, numbers: Numbers) -> bool:
    return bool(term.field) and not term.is_not and numbers.get(term.field) == number


def _get_chosen_values(terms: Sequence[QueryTerm]) -> dict[str, str]:
    """Return the values that single-value controls show."""
    values = {}
    for name in CHOSEN:
        term_values = [term.value for term in terms if _is_asked(term, name)]
        # The field of raters can contain several; a list has one entry for each value.
        if len(term_values) == 1 and (name == "rater" or "," not in term_values[0]):
            values[name] = term_values[0].lower() if name == "tag" else term_values[0]
    for term in terms:
        if term.field in ("sample", "seed"):
            values[term.field] = term.value
    return values


def _kinds(terms: Sequence[QueryTerm]) -> set[str]:
    return {term.value for term in terms if _is_asked(term, "is") and term.value in KINDS}


def _otherwise(terms: Sequence[QueryTerm], name: str, chosen_values: Mapping[str, str]) -> str:
    if name in chosen_values:
        return ""
    return " ".join(term.value for term in terms if _is_asked(term, name))


def _with_chosen(options: Iterable[tuple[str, Any]], chosen: str) -> tuple[tuple[str, Any], ...]:
    """Return the options, including the value in the query.

    It is included even if it is unknown.
    """
    all_options = tuple(options)
    is_there = not chosen or chosen in {value for value, _title in all_options}
    return all_options if is_there else ((chosen, chosen), *all_options)


_NOT_KEPT = ("without", "after", "page")
"""Parameters that become meaningless with another selection of participants."""


def requested_flags(request: HttpRequest) -> tuple[str, ...]:
    """Return the flags whose participants an address excludes.

    Forms name each flag separately.

    Raises:
        Http404: for an unknown flag: ignoring it would silently change the result.
    """
    try:
        return without_read(",".join(request.GET.getlist("without")))
    except UnknownName as error:
        raise Http404(str(error)) from None


def apply_flag_filter(request: HttpRequest, study: Study) -> tuple[str, ...]:
    """Return the flags, once they have been computed for the study.

    This must precede all counts.
    """
    excluded_flags = requested_flags(request)
    if excluded_flags:
        refresh_flags(study)
    return excluded_flags


@dataclass(frozen=True, slots=True)
class FlagFilterOption:
    """Flag whose participants can be excluded."""

    name: str
    title: Any
    n: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class ExclusionNotice:
    """Notice about excluded participants on a page.

    Attributes:
        words: number of excluded participants and the reasons; empty without any.
        all_in: address of the same page with all participants.
        choices: flags that at least one participant has, and those chosen.
        kept_params: parts of the address that stay when other flags are chosen.
        is_current: whether flags were computed from the current data.
    """

    words: str
    all_in: str
    choices: list[FlagFilterOption]
    kept_params: list[tuple[str, str]]
    is_current: bool


def exclusion_notice(request: HttpRequest, study: Study) -> ExclusionNotice | None:
    """Return the notice about excluded participants.

    None if no flags were given to anyone or selected.
    """
    excluded_flags = requested_flags(request)
    is_current = refresh_flags(study).is_current if excluded_flags else True
    if not excluded_flags and flags_state(study) is None:
        return None
    counts = flag_counts(study)
    choices = [
        FlagFilterOption(kind.name, kind.title, counts.get(kind.name, 0), kind.name in excluded_flags)
        for kind in flag_kinds
        if counts.get(kind.name) or kind.name in excluded_flags
    ]
    if not choices:
        return None
    kept_params = [(name, value) for name, values in request.GET.lists() if name not in _NOT_KEPT for value in values]
    return ExclusionNotice(
        words=left_out_words(left_out_counts(study, excluded_flags)) if excluded_flags else "",
        all_in=f"?{urlencode(kept_params)}",
        choices=choices,
        kept_params=kept_params,
        is_current=is_current,
    )
