"""The line that asks for conversations, taken apart: `bot:eliza self_repetition_bot>0.6 sort:quality limit:20 "exact
words"`.

The form is that of the searches people know from GitHub, Gmail and Elasticsearch's Kibana: words, phrases in quotes,
`field:value`, comparisons, ranges with two dots, a minus for "not". What a field is and which values it has is decided
in `webapp.search.query`; here stands only the form.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex
from django.utils.translation import gettext as _

_PIECE = regex.compile(
    r"""
    (?P<minus>-)?
    (?:
        (?P<field>[A-Za-z_][\w.-]*)
        (?P<sign>>=|<=|:>=|:<=|:>|:<|[:><=≥≤])
        (?:"(?P<quoted_value>[^"]*)"|(?P<value>[^\s"]*))
      | "(?P<phrase>[^"]*)"
      | (?P<word>[^\s"]+)
    )
    (?=\s|$)
    """,
    regex.VERBOSE,
)
_SIGNS = {":>": ">", ":<": "<", ":>=": ">=", ":<=": "<=", "≥": ">=", "≤": "<=", "=": ":"}
_QUOTES = str.maketrans("“”„«»", '"""""')
LONGEST = 1000
TELLING = "self_repetition_bot"
"""The metric that examples ask by, where it is computed: a share of which everybody sees what much of it is."""
EXAMPLE = f'{TELLING}>0.6 sort:quality limit:20 "exact words"'
"""A line of the right form; `asked_of`, which knows the numbers, says one of those that are there."""


class Unreadable(ValueError):
    """A line that cannot be read: what is wrong, and a line that would work."""

    def __init__(self, why: str, example: str = EXAMPLE) -> None:
        super().__init__(why)
        self.why = why
        self.example = example


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One part of the line.

    Attributes:
        field: empty for words.
        sign: `:`, `>`, `>=`, `<` or `<=`; empty for words.
        value: after the sign, or the words.
        is_exact: whether the words stand in quotes.
        is_not: whether what fits is left out.
    """

    value: str
    field: str = ""
    sign: str = ""
    is_exact: bool = False
    is_not: bool = False

    def __str__(self) -> str:
        minus = "-" if self.is_not else ""
        # A value such as "<b>" would be read as a comparison.
        is_sign = bool(self.sign) and self.value[:1] in ("<", ">", "=")
        quoted = self.is_exact or is_sign or any(sign.isspace() for sign in self.value)
        value = f'"{self.value}"' if quoted else self.value
        return f"{minus}{self.field}{self.sign}{value}"


def terms_of(line: str) -> list[QueryTerm]:
    """Return the parts of a line, in their order.

    Raises:
        Unreadable: for quotes that are not closed, a sign without a value, a line that is too long.
    """
    line = line.replace("\x00", "").translate(_QUOTES).strip()
    if len(line) > LONGEST:
        raise Unreadable(_("The search has {n} characters; {most} is the most.").format(n=len(line), most=LONGEST))
    found, at = [], 0
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            raise Unreadable(_refusal(line[at:]))
        found.append(_term(piece.groupdict(), piece.group()))
        at = piece.end()
        while at < len(line) and line[at].isspace():
            at += 1
    return found


def line_of(terms: list[QueryTerm]) -> str:
    """Return the line that reads as these terms."""
    return " ".join(map(str, terms))


def _term(piece: dict[str, str | None], text: str) -> QueryTerm:
    is_not = bool(piece["minus"])
    if piece["phrase"] is not None:
        return QueryTerm(" ".join(piece["phrase"].split()), is_exact=True, is_not=is_not)
    if piece["word"] is not None:
        return QueryTerm(piece["word"], is_not=is_not)
    value = piece["quoted_value"] if piece["quoted_value"] is not None else piece["value"]
    field, sign = str(piece["field"]).lower(), str(piece["sign"])
    if not value:
        raise Unreadable(
            _("“{text}” has no value after “{sign}”.").format(text=text, sign=sign),
            f"{field}{sign}3" if sign in "<>" else EXAMPLE,
        )
    return QueryTerm(value, field, _SIGNS.get(sign, sign), is_not=is_not)


def _refusal(rest: str) -> str:
    if rest.count('"') % 2:
        return _("A quotation mark is not closed: {text}").format(text=rest)
    return _("A space is missing beside the quotation marks: {text}").format(text=rest)
