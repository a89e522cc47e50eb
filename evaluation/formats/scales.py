"""Scales that a researcher gives for a file: of single questions, and one of all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chatbots.text import quote
from evaluation.formats.base import BadRecord, Record, RecordRating, Skipped
from evaluation.formats.jsonl import dimension_key

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FileScales:
    """The ends of the scales of a file's questions.

    Attributes:
        default: of every question that `of` does not name; None: they are read off the answers.
        of: by question.
    """

    default: Scale | None = None
    of: Mapping[str, Scale] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.default is not None or bool(self.of)

    def get(self, question: str) -> Scale | None:
        """Return the scale of a question; None where it is not given."""
        return self.of.get(question, self.default)

    @classmethod
    def read(cls, given: FileScales | Scale | Mapping[str, Scale] | None) -> FileScales:
        """Read a scale of all questions, or scales by question, under "" that of the others.

        Raises:
            ValueError: ends that are no numbers or in the wrong order, or a name that is no question's.
        """
        if isinstance(given, FileScales):
            return given
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            return cls(_checked(given, "scale"))
        found = {name: _checked(ends, f"scale of {quote(name)}") for name, ends in given.items()}
        default = found.pop("", None)
        return cls(default, {_question(name): ends for name, ends in found.items()})

    @classmethod
    def parse(cls, texts: Sequence[str]) -> FileScales:
        """Read texts such as "1:7", of all questions, and "fun=0:1", of one.

        Raises:
            ValueError: for another text, or a question with two scales.
        """
        found: dict[str, Scale] = {}
        for text in texts:
            name, given, ends = text.rpartition("=")
            name = _question(name) if given else ""
            try:
                low, high = (float(part) for part in ends.split(":"))
            except ValueError:
                raise ValueError(
                    f"the scale is {quote(text)}; two numbers such as 1:7 are needed, or fun=1:7 for one question"
                ) from None
            if name in found:
                raise ValueError(f"{name or 'the scale of all questions'} is given twice")
            found[name] = (low, high)
        return cls.read(found)

    def texts(self) -> list[str]:
        """Return the scales as texts that `parse` reads."""
        default = [] if self.default is None else [_written(self.default)]
        return [*default, *(f"{name}={_written(ends)}" for name, ends in self.of.items())]

    def check_questions(self, known: Iterable[str]) -> None:
        """Check that the questions named are rated.

        Raises:
            ValueError: one is not; the message names those that are.
        """
        known = sorted(known)
        unknown = next((name for name in self.of if name not in known), None)
        if unknown is not None:
            raise ValueError(f"a scale is given for {quote(unknown)}; rated are {', '.join(known) or 'no questions'}")

    def keep(self, ratings: Sequence[RecordRating]) -> tuple[tuple[RecordRating, ...], list[str]]:
        """Leave out answers beyond their scales.

        Returns:
            The ratings, but those of which nothing is left, and a reason for each answer left out.
        """
        kept, reasons = [], []
        for number, rating in enumerate(ratings):
            answers = {}
            for key, value in rating.answers.items():
                ends = self.get(key)
                if ends is None or ends[0] <= value <= ends[1]:
                    answers[key] = value
                else:
                    reasons.append(
                        f"ratings[{number}].{key} is {value:g}, which is not on the scale "
                        f"from {ends[0]:g} to {ends[1]:g}"
                    )
            if answers or rating.comment or not rating.answers:
                kept.append(rating if len(answers) == len(rating.answers) else replace(rating, answers=answers))
        return tuple(kept), reasons

    def within(self, record: Record) -> tuple[Record, list[Skipped]]:
        """Return a record without its answers beyond their scales, and each of those as skipped."""
        if not self:
            return record, []
        kept, reasons = self.keep(record.ratings)
        if not reasons:
            return record, []
        return replace(record, ratings=kept), [Skipped(record.line, why) for why in reasons]


def _question(name: str) -> str:
    try:
        return dimension_key(name, "a scale")
    except BadRecord as error:
        raise ValueError(str(error)) from None


def _written(ends: Scale) -> str:
    return f"{quote(ends[0])}:{quote(ends[1])}"


def _checked(ends: Scale, what: str) -> Scale:
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ValueError(f"the {what} is {quote(ends)}; its lowest and highest value are needed") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the {what} is {low:g} to {high:g}; the first must be below the second")
    return low, high
