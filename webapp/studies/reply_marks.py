"""Marks of one reply: errors in its words and labels of its steps, as a page sends them and as they are stored.

A page sends each error as `start:end:category:severity`. Offsets are code points of the reply as it is stored, in a
study that shows Markdown too. A reply without an error is sent as `NONE`.

A label of a step of the reply's trace is sent as `step:label`, with the step's number from 0. They are stored as a list
of labels for each step, in the order of the trace.
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
from webapp.studies.models import StudyVersion
from webapp.studies.rubrics import post_task_questions

NONE = "_none"
"""Ticked in place of labels: none of them is true."""
SPANS = "spans"
"""Name of the errors among the answers to one reply."""
STEPS = "steps"
"""Name of the labels of its steps among them."""
_CODE = re.compile(r"([0-9]{1,7}):([0-9]{1,7}):([a-z0-9_]{0,50}):([a-z]{0,20})")
# A word of a script without spaces between words is one character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return the text before each word of a reply, and the offsets of its beginning and end."""
    ends = [(0, 0), *(match.span() for match in _WORD.finditer(text))]
    return [(text[before:start], start, end) for (_start, before), (start, end) in pairwise(ends)]


def span_code(span: ErrorSpan) -> str:
    """Return an error as a page sends it."""
    return ":".join(map(str, astuple(span)))


def spans_read(codes: Sequence[str], text: str, categories: Collection[str]) -> tuple[list[ErrorSpan], str]:
    """Return the valid errors in order, and a message about an invalid one."""
    spans, wrong = set(), ""
    for code in codes:
        parts = _CODE.fullmatch(code)
        start, end = (int(parts[1]), int(parts[2])) if parts else (0, 0)
        if not start < end <= len(text) or is_blank(text[start:end]):
            words = _(
                "“%(code)s” does not mark any words in this reply. Choose a first word and a last word that does not "
                "come before it."
            )
            wrong = words % {"code": code[:100]}
        elif parts is None or parts[3] not in categories or parts[4] not in SEVERITIES:
            wrong = _("Choose what is wrong with “%(words)s”, and how bad it is.") % {"words": text[start:end][:100]}
        else:
            spans.add(ErrorSpan(start, end, parts[3], parts[4]))
    return sorted(spans), wrong


def span_answers(submitted: Any, text: str, version: StudyVersion) -> tuple[dict[str, int], list[dict[str, Any]], str]:
    """Return labels, score and errors to store, and error messages."""
    codes = [str(code) for code in submitted] if isinstance(submitted, list | tuple) else []
    settings, is_none = version.values.error_marking, NONE in codes
    categories = [question.key for question in post_task_questions(version) if question.is_rated]
    spans, wrong = spans_read([code for code in codes if code != NONE], text, categories)
    if not codes:
        wrong = _("Mark an error, or choose “No error”.")
    elif is_none and spans:
        wrong = _("“No error” cannot be combined with errors. Remove one of the two.")
    elif len(spans) > settings.n_errors_most:
        limit, n = settings.n_errors_most, len(spans)
        wrong = _("You can mark up to %(most)s errors per reply; you marked %(n)s.") % {"most": limit, "n": n}
    marked = {span.category for span in spans}
    answers = {key: int(key in marked) for key in categories}
    answers[SCORE] = -sum(settings.weights[span.severity] for span in spans)
    return answers, [asdict(span) for span in spans], wrong


def step_answers(submitted: Any, n_steps: int, version: StudyVersion) -> tuple[dict[str, Any], dict[str, str]]:
    """Return step labels to store and error messages, both under `STEPS`.

    Both are empty if no labels are requested.
    """
    codes = set(map(str, submitted)) if isinstance(submitted, list | tuple) else set()
    known = [
        {f"{number}:{label}": label for label in version.values.step_marking.step_labels} for number in range(n_steps)
    ]
    if not known:
        return {}, {}
    wrong = {}
    if not codes or codes.difference(*known, {NONE}):
        wrong[STEPS] = _("Tick what is true of the steps above the reply, or “None of these in any step”.")
    elif NONE in codes and len(codes) > 1:
        wrong[STEPS] = _("“None of these in any step” cannot be combined with others. Untick one.")
    return {STEPS: [[label for code, label in labels.items() if code in codes] for labels in known]}, wrong
