"""Parser of a judge's answers.

The result is the number or letter of the verdict, or the reason for a missing one.

The last label counts (`Rating: 4`, `{"score": 4}`). Without a label there must be exactly one candidate, ignoring
counts and numbers that describe the scale. Competing numbers or letters do not form a verdict.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from chatbots.text import sanitise

NO_NUMBER = "the judge's answer contains no single number of the scale"
NO_LETTER = "its answer was neither A nor B"
REFUSED = "the judge refused to answer"

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_LABELS = (
    *(
        "rating",
        "score",
        "verdict",
        "answer",
        "grade",
        "judgement",
        "judgment",
        "decision",
        "result",
        "value",
        "points",
    ),
    *("better", "best", "winner", "preferred", "preference", "choice", "overall"),
)
_NOUNS = "reply|response|answer|chatbot|conversation|option|candidate|one|rating|score|choice"
_LABEL = re.compile(
    rf"\b(?:{'|'.join(_LABELS)})(?:[^\S\n]+(?:{_NOUNS}))?\b[^\S\n]*"
    rf"(?:is|was|would be|of|[:=]|->|→|[-–—](?=\s))[^\S\n]*",
    re.I,
)
_LINE_LABEL = re.compile(r"^[^\d:=\n]{1,40}[:=][^\S\n]*", re.M)
_THOUGHT_TAG = r"think(?:ing)?|thought|reason(?:ing)?|analysis|scratchpad|reflection|rationale"
_THOUGHT = re.compile(rf"<({_THOUGHT_TAG})\b[^>]*>.*?</\1>", re.S | re.I)
_OPEN_THOUGHT = re.compile(rf"<(?:{_THOUGHT_TAG})\b[^>]*>.*", re.S | re.I)
_BEFORE_CLOSED_THOUGHT = re.compile(rf".*</(?:{_THOUGHT_TAG})>", re.S | re.I)
_ANSWER_TAG = re.compile(rf"<({'|'.join(_LABELS)})>(.*?)</\1>", re.S | re.I)
_VULGAR = re.compile(r"[¼-¾⅐-⅞]")
_REFUSAL = re.compile(
    r"\bsorry\b|\bapologi[sz]e|\bhave (?:no )?(?:personal )?(?:opinions?|feelings|preferences?)\b|"
    r"\b(?:unable|not able|not comfortable|"
    r"not appropriate|not possible) to\b|\b(?:cannot|can ?not|can't|can’t|won't|won’t|will not|must decline to|decline "
    r"to|refuse to|do not|don't|don’t) (?:\w+ )?(?:rate|judge|score|evaluate|assess|compare|choose|pick|decide|answer|"
    r"assist|help|comply|provide|give|assign|say|fulfil\w*|continue|complete)|"
    r"\bes tut mir leid\b|\bdésolée?\b|\blo siento\b",
    re.I,
)
_NUMBER = r"(?<![\w.,/%+−-])(\d+)(?:[.,]0+)?(?![\d%+½]|[.,]\d|[A-Za-z])"
_HEDGE = re.compile(
    r"(?:\bnot|n't|n’t|\bnever|\bno|\bcannot|\bthan|\bexcept|\bbelow|\babove|\bunder|\bover|\bat (?:least|most)|"
    r"\balmost|\bnearly|\binstead of|\bwhether|\bif|\bup to|\bminimum|\bmaximum|\bexcept)\s+(?:\w+\s+){0,4}$",
    re.I,
)
_THING = re.compile(r"\b(?:reply|turn|point|item|step|message|speaker)\s+$", re.I)
_AFTER_NUMBER = re.compile(
    r"\s+(?!(?:out|of|because|as|since|for|points?|stars?|here|overall|is|at|given|and|but|or|to|in|on|due|with|would|"
    r"seems|feels|from|rather|if|would|by)\b)[a-z]{2,}"
)
_REPLY = r"(?:(?:reply|response|answer|chatbot|assistant|option|candidate|conversation|bot|model)\s+)?"
_GOOD = r"better|best|stronger|superior|preferable|preferred|winner|more \w+"
_BAD = r"worse|worst|weaker|inferior|less \w+"
_STATES = re.compile(
    rf"{_REPLY}\b(?P<letter>[AB])\b\s+(?:is|was|seems|feels|appears|looks)\s+(?:\w+ly\s+|much\s+|far\s+|a bit\s+|"
    rf"the\s+|still\s+|overall\s+|by far\s+|slightly\s+|my\s+)*(?:(?P<good>{_GOOD})|(?P<bad>{_BAD}))\b"
)
_CHOOSES = re.compile(
    rf"(?:\b[Pp]refer|\b[Cc]hoose|\b[Pp]ick|\b[Ss]elect|\b[Ff]avou?r|\bvote for|\bgo with|\bgo for)\s+(?:the\s+)?"
    rf"{_REPLY}\b(?P<letter>[AB])\b"
)
_WINS = re.compile(rf"{_REPLY}\b(?P<letter>[AB])\b\s+(?:wins|beats|outperforms)\b")
_DOUBT = re.compile(r"\b(?:whether|if|not|neither|nor|cannot|can't|hard to|unclear|unsure|either)\b|n't|n’t|\?", re.I)
_LETTER = re.compile(r"(?:the\s+)?" + _REPLY.lower() + r"\(?\b([ab])\b\)?", re.I)
_LOOKALIKES = str.maketrans("АВΑΒ", "ABAB")


class Verdict(NamedTuple):
    """Verdict of one answer: a `label`, or a `problem` without label."""

    label: str | None
    problem: str = ""


def read_verdict(text: str, answers: Sequence[str]) -> Verdict:
    """Parse a judge's verdict.

    `answers` are the numbers of the scale in order, or A and B.
    """
    text = _clean(text)
    tagged = _ANSWER_TAG.findall(text)
    parts = [tagged[-1][1]] if tagged else [text]
    labels = {label for part in parts for label in _labels(part, answers)}
    if len(labels) == 1 and (label := labels.pop()) in answers:
        return Verdict(label)
    if _REFUSAL.search(text):
        return Verdict(None, REFUSED)
    return Verdict(None, NO_NUMBER if answers[0].isdigit() else NO_LETTER)


def is_refusal(text: str) -> bool:
    """Return True if an answer without a verdict is a refusal."""
    return _REFUSAL.search(_clean(text)) is not None


def read_reason(text: str) -> str:
    """Return the reason that a judge wrote with its verdict, up to 500 characters; empty without one."""
    text = _clean(text)
    data = _last_json(text)
    if isinstance(data, dict):
        return sanitise(str(data.get("reason") or ""), 500)
    reason = " ".join(line.strip() for line in text.splitlines() if not _LABEL.match(line.strip()))
    return sanitise(reason, 500) if re.search(r"[^\W\d_]", reason) else ""


def read_last_object(text: str) -> dict[str, Any]:
    """Return the last JSON object of an answer, ignoring reasoning; empty if there is none."""
    return _last_json(_clean(text)) or {}


def _clean(text: str) -> str:
    """Return the answer without reasoning and Markdown, with ASCII digits and signs."""
    text = _OPEN_THOUGHT.sub("", _BEFORE_CLOSED_THOUGHT.sub("", _THOUGHT.sub("", text)))
    text = unicodedata.normalize("NFKC", _VULGAR.sub("½", text).replace("½", " point 5 ")).replace("\ufe0f", "")
    text = "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else sign
        for sign in text
        if unicodedata.category(sign) != "Cf"
    )
    text = re.sub(r"\\boxed\{([^{}]*)\}|\$", r" \1 ", text)
    return re.sub(r"[*`\u20e3#⭐★]+|(?<!\w)_+|_+(?!\w)", "", text).replace("−", "-").strip()


def _labels(text: str, answers: Sequence[str]) -> Iterator[str]:
    """Yield the labelled verdicts of a text.

    The caller rejects several verdicts or an invalid one.
    """
    read = _read_number if answers[0].isdigit() else _read_letter
    if (data := _last_json(text)) is not None:
        yield from _json_labels(data, answers)
        return
    ends = [match.end() for pattern in (_LABEL, _LINE_LABEL) for match in pattern.finditer(text)]
    for end in sorted(set(ends), reverse=True):
        line = text[end:].lstrip().split("\n", 1)[0]
        label = read(line, answers)
        if label or re.match(r"\W*\d", line):
            yield label or "none"
            return
    if not _REFUSAL.search(text):
        yield from (_numbers if answers[0].isdigit() else _letters)(text, answers)


def _last_json(text: str) -> Any:
    """Return the last JSON object or list in a text, or None."""
    decoder, data, position = json.JSONDecoder(), None, 0
    while (begin := re.search(r"[{\[]", text[position:])) is not None:
        position += begin.start()
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        data = value if isinstance(value, dict) or data is None else data
        position = end
    return data if isinstance(data, dict) else None


def _json_labels(data: dict[str, Any], answers: Sequence[str]) -> Iterator[str]:
    """Yield the values under a verdict's keys, or under the only key."""
    values = [data[key] for key in data if set(re.split(r"[^a-z]+", key.lower())) & set(_LABELS)]
    read = _read_number if answers[0].isdigit() else _read_letter
    for value in values or (list(data.values()) if len(data) == 1 else []):
        if isinstance(value, dict):
            yield from _json_labels(value, answers)
        elif not isinstance(value, bool | list) and value is not None:
            yield read(str(value), answers) or "none"


def _read_number(line: str, answers: Sequence[str]) -> str | None:
    """Return the number at the start of a line, or None.

    None if the line contains another number.
    """
    line = _without_scale(line, answers)
    begin = re.match(
        rf"(?:an?\s+|the\s+|is\s+|[(\[\"'<]\s*)*(?:{_NUMBER}|({'|'.join(_WORDS)})\b)(?!\s+(?:and|point)\b)", line, re.I
    )
    if begin is None:
        return None
    number = begin[1] or str(_WORDS.index(begin[2].lower()))
    rest = line[begin.end() :]
    if re.match(r"\s*(?:/|-\s*\d|–|—\s*\d|~|\+|to\s+\d|or\b|out of|of\s+\d|,\s*\d)", rest, re.I):
        return None
    other_numbers = {match[1] for match in re.finditer(_NUMBER, rest)} & set(answers)
    return number if not other_numbers - {number} else None


def _numbers(text: str, answers: Sequence[str]) -> Iterator[str]:
    """Yield the candidates of a text without a label."""
    text = _without_scale(text, answers)
    bare = text.strip(" .!\n\"'()[]")
    if bare.lower() in _WORDS:
        yield str(_WORDS.index(bare.lower()))
        return
    for match in re.finditer(_NUMBER, text):
        before, after = text[: match.start()], text[match.end() :]
        if (_AFTER_NUMBER.match(after) or _THING.search(before)) and not re.match(r"\s*point 5", after):
            continue  # a count ("3 replies") or an ordinal ("reply 3")
        if _HEDGE.search(before) or re.match(r"\s*(?:/|-\s*\d|or\b|out of|of\s+\d|and a half|point)", after):
            yield "none"
        yield match[1]
    for match in re.finditer(
        rf"\b(?:an?|rate (?:it|this)|score (?:it|this)|say)\s+({'|'.join(_WORDS)})\b(?!\s+(?:and|point)|-)", text, re.I
    ):
        if not _AFTER_NUMBER.match(text, match.end()):
            yield "none" if _HEDGE.search(text[: match.start()]) else str(_WORDS.index(match[1].lower()))


def _without_scale(text: str, answers: Sequence[str]) -> str:
    """Return the text without descriptions of the scale.

    `4/5` and `4 out of 5` become `4`.
    """
    low, high = answers[0], answers[-1]
    label = r"(?:\s*(?:\([^()\n]*\)|[=:]\s*[a-z ]+))?"
    text = re.sub(
        rf"(?<![\d.])(\d)(?:[.,]0)?\s*(?:/|out of(?: a (?:possible|maximum of))?|of)\s*{high}(?:[.,]0)?(?![\d.,]\d|\d)",
        r"\1",
        text,
        flags=re.I,
    )
    span = rf"(?<![\d.,]){low}{label}\s*(?:-|–|—|to|through|and|,)\s*{high}{label}(?![.,]?\d)"
    text = re.sub(
        rf"(?:scale|range|rang\w+|rating|score\w*|points?|number)\s*(?:\w+\s+){{0,3}}[(\[]?{span}"
        rf"|(?:from|between)\s+{span}",
        " ",
        text,
        flags=re.I,
    )
    text = re.sub(rf"{span}(?=[-\s]*(?:point|rating|likert)?[-\s]*scale)", " ", text, flags=re.I)
    text = re.sub(rf"[(\[][^()\[\]\n]*{span}[^()\[\]\n]*[)\]]", " ", text, flags=re.I)
    return re.sub(rf"\b{high}[-\s]point\b", " ", text, flags=re.I)


def _read_letter(line: str, answers: Sequence[str]) -> str | None:
    """Return the letter at the start of a line, or None.

    None if the line calls the other one equal.
    """
    line = line.translate(_LOOKALIKES).lstrip(" [(\"'<")
    if (begin := _LETTER.match(line)) is None or re.match(
        r"\s*(?:/|or\b|and\b|=|&|\bnor\b)", line[begin.end() :], re.I
    ):
        return None
    if begin[1] == "a" and re.match(r"\s+\w", line[begin.end() :]):
        return None  # the article "a"
    return begin[1].upper()


def _letters(text: str, answers: Sequence[str]) -> Iterator[str]:
    """Yield the letters that the text prefers."""
    text = text.translate(_LOOKALIKES)
    if (double := re.findall(r"\[\[([AB])\]\]", text)) or (
        double := re.findall(r"^[\s(\[\"']*" + _REPLY + r"([AB])(?=[\s.:)\]\"'!,]*(?:\n|$)|[.:)]\s)", text, re.I)
    ):
        yield double[-1].upper()
    last = text.rsplit("\n", 1)[-1].strip(" .()[]\"'!")
    if re.fullmatch(_REPLY + r"[AB]", last, re.I) and not last.islower():
        yield last[-1].upper()
    for first, sign, second in re.findall(r"\b([AB])\s*([<>])+\s*([AB])\b", text):
        yield first if sign == ">" else second
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", text):
        for match in [*_STATES.finditer(sentence), *_CHOOSES.finditer(sentence), *_WINS.finditer(sentence)]:
            is_doubted = bool(_DOUBT.search(sentence[: match.end()])) or sentence.rstrip().endswith("?")
            is_bad = "bad" in match.re.groupindex and match["bad"] is not None
            yield "none" if is_doubted else {"A": "B", "B": "A"}[match["letter"]] if is_bad else match["letter"]
