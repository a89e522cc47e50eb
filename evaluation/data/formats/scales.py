"""Scales that a researcher specifies for a file's questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chatbots.text import quote
from evaluation.data.formats.base import BadRecord, Record, RecordRating, Skipped
from evaluation.data.formats.jsonl import dimension_key

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FileScales:
    """Ends of the scales of a file's questions.

    Attributes:
        default: scale of all questions not in `of`; None: inferred from the answers.
        of: scales by question.
    """

    default: Scale | None = None
    by_question: Mapping[str, Scale] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.default is not None or bool(self.by_question)

    def get(self, question: str) -> Scale | None:
        """Return the scale of a question, or None."""
        return self.by_question.get(question, self.default)

    @classmethod
    def read(cls, scales: FileScales | Scale | Mapping[str, Scale] | None) -> FileScales:
        """Parse one scale, or scales by question with "" for all others.

        Raises:
            ValueError: if ends are not numbers or in the wrong order, or a name is not a valid question.
        """
        if isinstance(scales, FileScales):
            return scales
        if scales is None:
            return cls()
        if not isinstance(scales, Mapping):
            return cls(_checked(scales, "scale"))
        ends_by_question = {name: _checked(ends, f"scale of {quote(name)}") for name, ends in scales.items()}
        default = ends_by_question.pop("", None)
        return cls(default, {_question(name): ends for name, ends in ends_by_question.items()})

    @classmethod
    def parse(cls, texts: Sequence[str]) -> FileScales:
        """Parse texts such as "1:7" for all questions and "fun=0:1" for one.

        Raises:
            ValueError: if a text has another form, or a question has two scales.
        """
        ends_by_question: dict[str, Scale] = {}
        for text in texts:
            name, separator, ends = text.rpartition("=")
            name = _question(name) if separator else ""
            try:
                low, high = (float(part) for part in ends.split(":"))
            except ValueError:
                raise ValueError(
                    f"the scale is {quote(text)}; it must be two numbers such as 1:7, or fun=1:7 for one question"
                ) from None
            if name in ends_by_question:
                raise ValueError(f"{name or 'the scale of all questions'} is given twice")
            ends_by_question[name] = (low, high)
        return cls.read(ends_by_question)

    def texts(self) -> list[str]:
        """Format the scales for `parse`."""
        default = [] if self.default is None else [_written(self.default)]
        return [*default, *(f"{name}={_written(ends)}" for name, ends in self.by_question.items())]

    def check_questions(self, known: Iterable[str]) -> None:
        """Check that all named questions have ratings.

        Raises:
            ValueError: if one has none; the message lists those that have.
        """
        known = sorted(known)
        unknown = next((name for name in self.by_question if name not in known), None)
        if unknown is not None:
            raise ValueError(f"a scale is given for {quote(unknown)}; rated questions: {', '.join(known) or 'none'}")

    def keep(self, ratings: Sequence[RecordRating]) -> tuple[tuple[RecordRating, ...], list[str]]:
        """Remove answers outside their scales.

        Returns:
            The ratings that still have answers, and a reason for each removed answer.
        """
        valid_ratings, reasons = [], []
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
                valid_ratings.append(
                    rating if len(answers) == len(rating.answers) else replace(rating, answers=answers)
                )
        return tuple(valid_ratings), reasons

    def within(self, record: Record) -> tuple[Record, list[Skipped]]:
        """Remove answers outside their scales and return them as skipped."""
        if not self:
            return record, []
        valid_ratings, reasons = self.keep(record.ratings)
        if not reasons:
            return record, []
        return replace(record, ratings=valid_ratings), [Skipped(record.line, reason) for reason in reasons]


def _question(name: str) -> str:
    try:
        return dimension_key(name, "a scale")
    except BadRecord as error:
        raise ValueError(str(error)) from None


def _written(ends: Scale) -> str:
    return f"{quote(ends[0])}:{quote(ends[1])}"


def _checked(ends: Scale, subject: str) -> Scale:
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ValueError(f"the {subject} is {quote(ends)}; it must be the lowest and highest value") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the {subject} is {low:g} to {high:g}; the first must be below the second")
    return low, high
