"""Search for words: condition on conversations, and hits within a text.

A word matches all words that begin with it, in every language, so that "cook" finds "cooks"; quoted words match
exactly. Case is ignored. Languages that are written without spaces are searched for the characters themselves, which
takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

import regex
from django.contrib.postgres.search import SearchQuery
from django.db import connection
from django.db.models import Exists, Func, OuterRef, Q, Value
from django.db.models.expressions import RawSQL
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from webapp.conversations.models import Turn
from webapp.ratings.models import Rating
from webapp.search.models import ConversationWords

_FEWEST_TO_BEGIN = 3
"""Minimum length for prefix search; shorter words match exactly, because half of all words begin with one letter or
another.
"""
_SPACELESS = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}"
    r"\p{Script=Khmer}\p{Script=Myanmar}]"
)
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")


@dataclass(frozen=True, slots=True)
class SearchWords:
    """Words of a query.

    Attributes:
        text: one word, or a phrase.
        exact: True to match whole words instead of prefixes.
    """

    text: str
    exact: bool = False

    @property
    def parts(self) -> list[str]:
        """Words without punctuation."""
        return _WORD.findall(self.text)

    @property
    def by_beginning(self) -> bool:
        """True if the last word may be the beginning of a longer one."""
        parts = self.parts
        return not self.exact and bool(parts) and len(parts[-1]) >= _FEWEST_TO_BEGIN

    @property
    def is_spaceless(self) -> bool:
        """True if the language has no spaces between words."""
        return _SPACELESS.search(self.text) is not None

    @property
    def pattern(self) -> str:
        """Regular expression of hits in a text."""
        if self.is_spaceless:
            return regex.escape(self.text)
        joined = r"[^\p{L}\p{N}\p{M}]+".join(map(regex.escape, self.parts))
        rest = r"[\p{L}\p{N}\p{M}]*" if self.by_beginning else ""
        return rf"(?<![\p{{L}}\p{{N}}\p{{M}}]){joined}{rest}(?![\p{{L}}\p{{N}}\p{{M}}])"


class _Beginning(SearchQuery):
    """Phrase whose last word is a prefix."""

    def as_sql(self, *args: Any, **kwargs: Any) -> Any:
        sql, params = super().as_sql(*args, **kwargs)
        return f"(NULLIF({sql}::text, '') || ':*')::tsquery", params


class _Without(Func):
    """Text without punctuation, as indexed."""

    function = "reading_words"


def words_within(words: SearchWords) -> Q:
    """Return the condition that a turn or comment contains these words."""
    if words.is_spaceless:
        turns = Turn.objects.filter(conversation=OuterRef("pk"), text__icontains=words.text)
        comments = Rating.objects.filter(conversation=OuterRef("pk"), comment__icontains=words.text)
        return Q(Exists(turns)) | Q(Exists(comments))
    if connection.vendor == "postgresql":
        query_class = _Beginning if words.by_beginning else SearchQuery
        query = query_class(_Without(Value(words.text)), config="simple", search_type="phrase")
        # With EXISTS a negation is joined row by row; with IN it would read all words of the database.
        return Q(Exists(ConversationWords.objects.filter(conversation=OuterRef("pk"), document=query)))
    phrase = '"{}"'.format(" ".join(words.parts)) + ("*" if words.by_beginning else "")
    return Q(pk__in=_fts("conversations_turn", "reading_turnwords", phrase)) | Q(
        pk__in=_fts("ratings_rating", "reading_commentwords", phrase)
    )


def _fts(table: str, words: str, phrase: str) -> RawSQL:
    """Return the conversations of a table's rows that FTS5 finds.

    Only this module passes the names, so they are safe in SQL.
    """
    return RawSQL(  # noqa: S611
        f"SELECT found.conversation_id FROM {words} JOIN {table} found ON found.id = {words}.rowid"  # noqa: S608
        f" WHERE {words} MATCH %s AND found.conversation_id IS NOT NULL",
        (phrase,),
    )


@dataclass(frozen=True, slots=True)
class ExcerptPiece:
    """Piece of a text; `is_hit` if it matches the query."""

    text: str
    is_hit: bool = False

    @property
    def marked(self) -> SafeString:
        """The piece as HTML."""
        return format_html("<mark>{}</mark>" if self.is_hit else "{}", self.text)


def pieces_of(text: str, searched_words: Sequence[SearchWords]) -> list[ExcerptPiece]:
    """Split a text into pieces, marking hits."""
    patterns = [words.pattern for words in searched_words if words.parts or words.is_spaceless]
    if not patterns:
        return [ExcerptPiece(text)]
    pieces, position = [], 0
    for hit in regex.finditer("|".join(patterns), text, regex.IGNORECASE):
        pieces += [ExcerptPiece(text[position : hit.start()]), ExcerptPiece(hit.group(), True)]
        position = hit.end()
    return [piece for piece in [*pieces, ExcerptPiece(text[position:])] if piece.text]


def html_with_hits(html: str, searched_words: Sequence[SearchWords]) -> SafeString:
    """Return HTML with hits highlighted in its texts, not in tags."""
    parts = regex.split(r"(<[^>]*>)", html)
    for n in range(0, len(parts), 2):
        pieces = pieces_of(unescape(parts[n]), searched_words)
        parts[n] = format_html_join("", "{}", ((piece.marked,) for piece in pieces))
    return mark_safe("".join(parts))  # noqa: S308  tags of the given HTML, and escaped texts


_OPENING, _BEFORE_HIT = 120, 40
_TELLING_WORDS = 4


def opening_of(texts: Iterable[str]) -> str:
    """Return the first text of at least four words, or the first text."""
    nonempty_texts = [text for text in texts if text]
    return next(
        (text for text in nonempty_texts if len(text.split()) >= _TELLING_WORDS),
        nonempty_texts[0] if nonempty_texts else "",
    )


def excerpt_of(text: str, searched_words: Sequence[SearchWords]) -> list[ExcerptPiece]:
    """Return about 120 characters of a text in pieces, around the first hit."""
    pieces = pieces_of(text, searched_words)
    first = next((i for i, piece in enumerate(pieces) if piece.is_hit), None)
    if first is None:
        return [ExcerptPiece(text[:_OPENING])]
    before = "".join(piece.text for piece in pieces[:first])
    start = max(0, len(before) - _BEFORE_HIT)
    excerpt = [ExcerptPiece(("…" if start else "") + before[start:])]
    room = _OPENING - len(excerpt[0].text)
    for piece in pieces[first:]:
        if room <= 0:
            break
        excerpt.append(ExcerptPiece(piece.text[:room], piece.is_hit))
        room -= len(piece.text)
    return [piece for piece in excerpt if piece.text]
