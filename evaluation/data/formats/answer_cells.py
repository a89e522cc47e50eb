"""Parsing of answer cells as numbers.

It handles decimal and thousands commas, labels, yes and no, and words of scales.

The meaning of a cell can depend on its column, so a column is first profiled (`ColumnProfile`) and then parsed by one
rule (`AnswerReading`). A cell that the rule does not cover is skipped without affecting the rest of the column.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chatbots.text import quote
from evaluation.data.formats.base import BadRecord

Comma = Literal["decimal", "thousands", ""]
MOST_WORDS = 200
"""Maximum number of distinct cells counted per column."""
MOST_LABELS = 15

_MISSING = re.compile(
    r"\s*(nan|-nan|na|n/a|#n/a( n/a)?|#na|#nv|null|none|<na>|n\.\s?a\.?|k\.\s?a\.?|[-–—.?]+|missing|no answer|"
    r"not applicable|keine angabe|don'?t know|prefer not to (say|answer)|1\.#(ind|qnan)|"
    r"#(div/0|value|ref|name|num|null|wert|bezug)[!?]?)?\s*",
    re.IGNORECASE,
)
_GROUPS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(\.\d+)?")
_OTHER_GROUPS = re.compile(r"[-+]?\d{1,3}(?:[ '’\u00a0\u202f]\d{3})+(?:[.,]\d+)?")
_DOT_GROUPS = re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(,\d+)?")
_DECIMAL = re.compile(r"[-+]?\d*,\d+")
_NUMBER = r"[-+]?\d+(?:[.,]\d+)?"
_LABELLED = re.compile(
    rf"({_NUMBER})\s*(?:[-–—:=.)|,]\s*|\s)\(?\s*([^\W\d_].*?)\)?|([^\W\d_].*?)\s*(?:\(|=)\s*({_NUMBER})\)?"
)
_SHARE = re.compile(rf"({_NUMBER})\s*(?:%|(?:/|of|out of|von)\s*\d+)")
_WORDS = {
    **dict.fromkeys(("true", "yes", "y", "t", "ja", "wahr", "vrai", "oui", "sí", "si"), 1),
    **dict.fromkeys(("false", "no", "n", "f", "nein", "falsch", "faux", "non"), 0),
}
_SCALES = tuple(
    tuple(tuple(words.split("|")) for words in line.split(" < "))
    for line in (
        "strongly disagree|completely disagree|totally disagree < disagree < neutral|neither agree nor disagree|"
        "neither|undecided|unsure|not sure < agree < strongly agree|completely agree|totally agree|fully agree",
        "strongly disagree|completely disagree < disagree < somewhat disagree|slightly disagree < neutral|"
        "neither agree nor disagree|neither|undecided < somewhat agree|slightly agree < agree < strongly agree|"
        "completely agree",
        "very poor|very bad|terrible|awful < poor|bad < fair|average|ok|okay|acceptable|neutral|medium|mediocre < good "
        "< very good|excellent|great",
        "never < rarely|seldom < sometimes|occasionally < often|frequently|usually < always|very often",
        "very dissatisfied < dissatisfied|somewhat dissatisfied < neutral|neither satisfied nor dissatisfied < "
        "satisfied|somewhat satisfied < very satisfied",
        "very unlikely|extremely unlikely < unlikely|somewhat unlikely < neutral|neither likely nor unlikely < likely|"
        "somewhat likely < very likely|extremely likely",
        "not at all|none < slightly|a little|a bit < moderately|somewhat < very|quite a bit|a lot|very much < "
        "extremely|completely",
        "much worse < worse|somewhat worse < the same|same|about the same|equal < better|somewhat better < much better",
        "very low < low < medium|moderate|average < high < very high",
        "stimme überhaupt nicht zu|stimme gar nicht zu|trifft überhaupt nicht zu|trifft gar nicht zu < stimme nicht zu|"
        "stimme eher nicht zu|trifft nicht zu|trifft eher nicht zu < teils teils|weder noch|neutral|unentschieden < "
        "stimme zu|stimme eher zu|trifft zu|trifft eher zu < stimme voll zu|stimme voll und ganz zu|stimme völlig zu|"
        "trifft voll zu|trifft voll und ganz zu|trifft völlig zu",
        "sehr schlecht < schlecht < mittel|mittelmäßig|teils teils|neutral|befriedigend < gut < sehr gut",
        "nie|niemals < selten < manchmal|gelegentlich < oft|häufig < immer|sehr oft",
    )
)
"""Words of common scales, lowest answer first; `|` separates words for the same answer."""


def is_missing_answer(cell: str) -> bool:
    """Return True if a cell is blank or a word for a missing answer."""
    return _MISSING.fullmatch(cell) is not None


def plain_number(text: str) -> float | None:
    """Parse a finite number in Python's notation, or return None."""
    if "_" in text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shape(cell: str) -> str:
    """Classify the number format of a cell."""
    text = cell.strip().replace("−", "-")
    if is_missing_answer(text):
        return "missing"
    if plain_number(text) is not None:
        return "plain"
    if groups := _GROUPS.fullmatch(text):
        is_one = text.count(",") == 1 and not groups[1] and not text.lstrip("+-").startswith("0")
        return "either" if is_one else "thousands" if not text.lstrip("+-").startswith("0") else "decimal"
    if _DECIMAL.fullmatch(text):
        return "decimal"
    if _OTHER_GROUPS.fullmatch(text):
        return "groups"
    if _DOT_GROUPS.fullmatch(text):
        return "decimal"
    if _SHARE.fullmatch(text):
        return "share"
    if _plain_word(text) in _WORDS:
        return "boolean"
    return "labelled" if _LABELLED.fullmatch(text) else "word"


def _plain_word(text: str) -> str:
    return " ".join(re.sub(r"[^\w']+", " ", text.casefold()).split())


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """Rule for parsing the cells of a column.

    Attributes:
        comma: meaning of a single comma before three digits; empty: unknown.
        has_dot_groups: True if a single dot before three digits separates thousands.
        words: number by word.
        notes: assumptions of the rule that a researcher should check.
    """

    comma: Comma = ""
    has_dot_groups: bool = False
    words: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def number(self, cell: str, location: str) -> float | None:
        """Parse the answer in a cell; None if it is missing.

        Whole numbers are returned as integers.

        Raises:
            BadRecord: if the cell is not an answer.
        """
        text = cell.strip().replace("−", "-")
        shape = _shape(text)
        if shape == "missing":
            return None
        word = _plain_word(text)
        if shape in ("share", "labelled") and not self.words.get(word):
            match = (_SHARE if shape == "share" else _LABELLED).fullmatch(text)
            text = next((part for part in (match[1], match[match.re.groups]) if part), "") if match else text
            shape = _shape(text)
        if shape == "either" and not self.comma:
            raise BadRecord(f"{location} is {quote(cell)}, which is ambiguous; write it without the comma")
        number = self.words.get(word)
        if number is None:
            number = plain_number(self._digits(text, shape))
        if number is None:
            raise BadRecord(f"{location} is {quote(cell)}; it must be a number or a word of the scale")
        return int(number) if float(number).is_integer() else number

    def _digits(self, text: str, shape: str) -> str:
        """Rewrite the number in Python's notation."""
        if shape == "groups":
            text = re.sub(r"[ '’\u00a0\u202f]", "", text)
            return text.replace(",", ".")
        if shape == "thousands" or (shape == "either" and self.comma == "thousands"):
            return text.replace(",", "")
        if shape in ("decimal", "either") or (self.has_dot_groups and _DOT_GROUPS.fullmatch(text)):
            return text.replace(".", "").replace(",", ".")
        return text


@dataclass(slots=True)
class ColumnProfile:
    """Counts of a column's cells by number format.

    Attributes:
        shapes: number of cells by shape.
        first: line and text of the first cell of each shape.
        cells: distinct cells, up to `MOST_WORDS`.
        missing: words for missing answers.
    """

    shapes: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    cells: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    lowest: float = math.inf
    highest: float = -math.inf

    def add(self, line: int, cell: str) -> None:
        """Count a cell."""
        shape = _shape(cell)
        if shape == "missing":
            if cell.strip():
                self.missing[cell.strip()] += 1
            return
        self.shapes[shape] += 1
        self.first.setdefault(shape, (line, cell))
        if shape == "plain":
            number = float(cell.replace("−", "-"))
            self.lowest, self.highest = min(self.lowest, number), max(self.highest, number)
        if len(self.cells) < MOST_WORDS or cell in self.cells:
            self.cells[cell] += 1

    @property
    def n_given(self) -> int:
        """Number of cells that are not missing."""
        return self.shapes.total()

    def first_odd(self) -> tuple[int, str] | None:
        """Return line and text of the first non-numeric cell."""
        odd = [place for shape, place in self.first.items() if shape != "plain"]
        return min(odd, default=None)

    def _has_labels(self) -> bool:
        labels = {cell for cell in self.cells if _shape(cell) == "labelled"}
        return len(labels) <= MOST_LABELS

    def kind(self) -> Literal["numbers", "words", ""]:
        """Return the form of most cells: numbers, words or neither."""
        n = self.n_given
        n_digits = n - self.shapes["word"] - self.shapes["boolean"]
        if not self._has_labels():
            n_digits -= self.shapes["labelled"]
        if n and 2 * n_digits > n:
            return "numbers"
        return "words" if n and self._scale() else ""

    def is_of_digits(self) -> bool:
        """Return True if most cells are bare numbers.

        Words and percent signs do not count as bare numbers.
        """
        n_others = sum(self.shapes[shape] for shape in ("word", "boolean", "labelled", "share"))
        return 2 * n_others < self.n_given

    def _scale(self) -> dict[str, float]:
        """Return numbers by word, from the best-matching scale."""
        words = Counter[str]()
        for cell, n in self.cells.items():
            words[_plain_word(cell)] += n
        if 2 * sum(n for word, n in words.items() if word in _WORDS) > words.total():
            return {word: float(number) for word, number in _WORDS.items() if word in words}
        scales = [{word: float(n) for n, same in enumerate(scale, 1) for word in same} for scale in _SCALES]
        best = max(scales, key=lambda scale: sum(n for word, n in words.items() if word in scale))
        n_covered = sum(n for word, n in words.items() if word in best)
        return best if 2 * n_covered > words.total() else {}

    def comma(self) -> Comma:
        """Return the meaning of commas, if the column reveals it."""
        if self.shapes["decimal"] and not self.shapes["thousands"]:
            return "decimal"
        return "thousands" if self.shapes["thousands"] and not self.shapes["decimal"] else ""

    def reading(self, column: str, comma: Comma) -> AnswerReading:
        """Return the rule for the column.

        Args:
            column: name of the column, for the notes.
            comma: meaning of a comma in other columns of the file.
        """
        notes: list[str] = []
        has_both_commas = self.shapes["decimal"] and self.shapes["thousands"]
        comma = "" if has_both_commas else self.comma() or comma
        name = f"Column {quote(column)}"
        if (example := self.first.get("either")) and comma:
            digits = AnswerReading(comma).number(example[1], column)
            notes.append(f"{name}: {example[1].strip()} is read as {digits} ({comma} comma)")
        elif example := self.first.get("decimal"):
            notes.append(f"{name}: {example[1].strip()} is read as {AnswerReading().number(example[1], column)}")
        for shape in ("thousands", "groups", "share", "labelled"):
            if shape in self.first:
                cell = self.first[shape][1]
                notes.append(f"{name}: {quote(cell.strip())} is read as {AnswerReading(comma).number(cell, column)}")
        words: dict[str, float] = {}
        if self.kind() == "words":
            words = self._scale()
            used = sorted({(words[word], cell.strip()) for cell in self.cells if (word := _plain_word(cell)) in words})
            words_text = ", ".join(f"{quote(word)} = {number:g}" for number, word in used[:10])
            ends = f", on a scale from 1 to {max(words.values()):g}" if max(words.values()) > 1 else ""
            notes.append(f"{name}: words are read as numbers: {words_text}{ends}")
        if self.missing:
            n = self.missing.total()
            missing_text = ", ".join(map(quote, list(self.missing)[:5]))
            notes.append(f"{name}: {n} cell{'s' * (n > 1)} with {missing_text} counted as missing")
        return AnswerReading(comma, bool(self.shapes["decimal"]), words, tuple(notes))


def comma_of(profiles: Iterable[ColumnProfile], delimiter: str) -> Comma:
    """Infer the meaning of commas from other columns and the delimiter."""
    commas = {profile.comma() for profile in profiles if profile.kind() == "numbers"} - {""}
    if len(commas) == 1:
        return commas.pop()
    return "thousands" if not commas and delimiter == "," else ""
