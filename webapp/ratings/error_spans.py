"""Errors that raters mark in a reply: reading what a page sends, and the answers that follow from it.

A page sends each error as `start:end:category:severity`. Offsets are code points of the reply as it is stored, in a
study that shows Markdown too. A reply without an error is sent as `NONE`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext as _

from chatbots.text import is_blank
from evaluation.analysis.error_spans import SCORE, SEVERITIES, ErrorSpan
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import NONE
from webapp.studies.models import StudyVersion
from webapp.studies.rubrics import post_task_questions

SPANS = "spans"
"""Name of the errors among the answers to one reply."""
_CODE = re.compile(r"([0-9]{1,7}):([0-9]{1,7}):([a-z0-9_]{0,50}):([a-z]{0,20})")
# A word of a script without spaces between words is one character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return the text before each word of a reply, and the offsets of its beginning and end."""
    ends = [(0, 0), *(one.span() for one in _WORD.finditer(text))]
    return [(text[before:start], start, end) for (_start, before), (start, end) in pairwise(ends)]


def span_code(span: ErrorSpan) -> str:
    """Return an error as a page sends it."""
    return ":".join(map(str, astuple(span)))


def spans_stored(rating: Rating) -> list[ErrorSpan]:
    """Return the errors of a stored rating."""
    return [ErrorSpan(**one) for one in rating.other_answers.get(SPANS, ())]


def spans_read(codes: Sequence[str], text: str, categories: Collection[str]) -> tuple[list[ErrorSpan], str]:
    """Return the errors that can be taken, in their order in the reply, and a sentence about one that cannot."""
    found, wrong = set(), ""
    for code in codes:
        parts = _CODE.fullmatch(code)
        start, end = (int(parts[1]), int(parts[2])) if parts else (0, 0)
        if not start < end <= len(text) or is_blank(text[start:end]):
            words = _(
                "“%(code)s” marks no words of this reply. Choose a first word, and a last one that is not before it."
            )
            wrong = words % {"code": code[:100]}
        elif parts is None or parts[3] not in categories or parts[4] not in SEVERITIES:
            wrong = _("Choose what is wrong with “%(words)s”, and how bad it is.") % {"words": text[start:end][:100]}
        else:
            found.add(ErrorSpan(start, end, parts[3], parts[4]))
    return sorted(found), wrong


def span_answers(given: Any, text: str, version: StudyVersion) -> tuple[dict[str, int], list[dict[str, Any]], str]:
    """Return the labels and the score of a reply, its errors as they are stored, and what is wrong with them."""
    codes = [str(one) for one in given] if isinstance(given, list | tuple) else []
    settings, is_none = version.values.error_marking, NONE in codes
    categories = [one.key for one in post_task_questions(version) if one.is_rated]
    spans, wrong = spans_read([one for one in codes if one != NONE], text, categories)
    if not codes:
        wrong = _("Mark an error, or say that there is none.")
    elif is_none and spans:
        wrong = _("“No error” cannot be combined with errors. Remove one of the two.")
    elif len(spans) > settings.n_errors_most:
        most, n = settings.n_errors_most, len(spans)
        wrong = _("At most %(most)s errors of a reply can be marked, and these are %(n)s.") % {"most": most, "n": n}
    marked = {one.category for one in spans}
    answers = {key: int(key in marked) for key in categories}
    answers[SCORE] = -sum(settings.weights[one.severity] for one in spans)
    return answers, [asdict(one) for one in spans], wrong
