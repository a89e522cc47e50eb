"""The questions of the human evaluation datasheet, by their numbers in version 2.0, in words of our own.

A. Shimorina and A. Belz (2022): The Human Evaluation Datasheet: A Template for Recording Details of Human Evaluation
Experiments in NLP. HumEval 2022. Version 3.0 (A. Belz and C. Thomson, 2024) keeps these questions, and splits some of
them: 1.1 to 1.3, 3.1.3, 4.3.11.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "2.0"
SECTIONS = {
    "1": "Paper and resources",
    "2": "Systems",
    "3.1": "Sample of outputs",
    "3.2": "Evaluators",
    "3.3": "Design",
    "4.1": "What quality is assessed",
    "4.2": "How it is assessed",
    "4.3": "How answers are asked for",
    "5": "Ethics",
}


@dataclass(frozen=True, slots=True)
class SheetQuestion:
    """One question of the datasheet.

    Attributes:
        by_people: only people can answer it, or what the study says is only a part.
        each: asked of every criterion, which is every scale that people rate on.
    """

    number: str
    words: str
    by_people: bool = False

    @property
    def each(self) -> bool:
        return self.number.startswith("4.")

    @property
    def section(self) -> str:
        """The number of its section."""
        return next(s for s in sorted(SECTIONS, key=len, reverse=True) if self.number.startswith(s))


def _people(number: str, words: str) -> SheetQuestion:
    return SheetQuestion(number, words, by_people=True)


QUESTIONS = (
    _people("1.1", "Paper that reports the experiment, and which of its experiments this is"),
    _people("1.2", "Where the resources that were used can be found"),
    _people("1.3", "Who fills this in, and whom to write to: name, affiliation, e-mail"),
    SheetQuestion("2.1", "What the systems take as input"),
    SheetQuestion("2.2", "What they give as output"),
    SheetQuestion("2.3", "The task they perform"),
    SheetQuestion("2.4", "Languages of the input"),
    SheetQuestion("2.5", "Languages of the output"),
    SheetQuestion("3.1.1", "Outputs evaluated for each system"),
    _people("3.1.2", "How these were selected"),
    _people("3.1.3", "Statistical power of the sample"),
    SheetQuestion("3.2.1", "Number of evaluators"),
    _people(
        "3.2.2", "Kind of evaluators: experts or not, paid or not, known to the authors or not"
    ),
    _people("3.2.3", "How they were recruited, and who was let in"),
    SheetQuestion("3.2.4", "Training and practice before"),
    SheetQuestion("3.2.5", "What else is known of them"),
    _people("3.3.1", "Whether the design was preregistered, and where"),
    SheetQuestion("3.3.2", "How answers were collected"),
    SheetQuestion("3.3.3", "How quality was assured"),
    _people("3.3.4", "What evaluators saw, with a link to screenshots"),
    SheetQuestion("3.3.5", "How free they were in when and how quickly they worked"),
    SheetQuestion("3.3.6", "Whether they could ask questions or comment"),
    SheetQuestion("3.3.7", "Where and under which conditions they worked"),
    SheetQuestion("3.3.8", "How these conditions differed"),
    _people(
        "4.1.1", "Type of quality: correctness, goodness, or a feature that may be good or bad"
    ),
    _people("4.1.2", "Aspect of the output: form, content, or both"),
    _people("4.1.3", "Judged in its own right, relative to the input, or to something outside"),
    SheetQuestion("4.2.1", "Objective or subjective"),
    SheetQuestion("4.2.2", "Absolute or relative"),
    SheetQuestion("4.2.3", "Intrinsic or extrinsic"),
    SheetQuestion("4.3.1", "What the criterion is called before evaluators"),
    SheetQuestion("4.3.2", "How it is defined before them"),
    SheetQuestion("4.3.3", "Number of possible answers"),
    SheetQuestion("4.3.4", "The possible answers"),
    SheetQuestion("4.3.5", "How they are shown"),
    SheetQuestion("4.3.6", "The task, where there are no such answers"),
    SheetQuestion("4.3.7", "The question, word for word"),
    SheetQuestion("4.3.8", "Form of the question"),
    SheetQuestion("4.3.9", "How answers become scores"),
    SheetQuestion("4.3.10", "How effects and their significance are found"),
    SheetQuestion("4.3.11", "Agreement between evaluators, and of each with themselves"),
    _people("5.1", "Ethics committee that approved it"),
    _people("5.2", "Personal data in outputs or answers, and how they are handled"),
    _people(
        "5.3", "Data of special categories (health, belief and so on), and how they are handled"
    ),
    _people("5.4", "Impact assessments that were made"),
)


def key_of(number: str, criterion: str = "") -> str:
    """Return what an answer is kept under: the question's number, with the criterion's key where it is asked of each."""
    return f"{number}/{criterion}" if criterion else number
