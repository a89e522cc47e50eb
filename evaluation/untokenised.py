"""Texts of data sets as a person would write them: tokens put together again before a model reads them.

Sets mix habits, sometimes within one row: "I ' m fine .", "do n't", "it 's". A language model or an encoder sees
another text there than the judges did. Metrics that count words as published take the text as it stands.
"""

from __future__ import annotations

import re

from evaluation.items import ReplyInContext

_APOSTROPHE = re.compile(
    r"(?<=\w)(?: ['’]|['’] | ['’] |['’])(?=(?:m|s|re|ve|ll|d|t)\b)", re.IGNORECASE
)
_NEGATION = re.compile(r"(?<=\w) (?=n['’]t\b)", re.IGNORECASE)
_SPLIT_NEGATION = re.compile(r"(?<=\w) n ['’] ?t\b", re.IGNORECASE)
_DOTS = re.compile(r" ?\.(?: \.)+")
_BEFORE_MARK = re.compile(r" +(?=[,.!?;:%](?:[\s,.!?;:]|$))")
_BLANKS = re.compile(r"\s+")


def untokenised(text: str) -> str:
    """Return the text with clitics and punctuation joined to the words before them, and single blanks.

    A text without such tokens comes back as it is, but for its white space.
    """
    text = _BLANKS.sub(" ", text).strip()
    text = _SPLIT_NEGATION.sub("n't", text)
    text = _NEGATION.sub("", text)
    text = _APOSTROPHE.sub("'", text)
    text = _DOTS.sub(lambda found: found.group().replace(" ", ""), text)
    return _BEFORE_MARK.sub("", text)


def reply_untokenised(reply: ReplyInContext) -> ReplyInContext:
    """Put the texts of a reply, its context and its reference together again."""
    context, response, reference = reply
    return ReplyInContext(
        tuple(map(untokenised, context)),
        untokenised(response),
        None if reference is None else untokenised(reference),
    )
