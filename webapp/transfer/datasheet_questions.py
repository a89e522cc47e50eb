"""Questions of the human evaluation datasheet, numbered as in version 3.0, reworded.

A. Belz and C. Thomson (2025): HEDS 3.0: The Human Evaluation Data Sheet Version 3.0. GEM 2025. Its form is at
nlp-heds.github.io. Version 2.0 (A. Shimorina and A. Belz, 2022, HumEval) had several of them in one.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "3.0"
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
class DatasheetQuestion:
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


def _people(number: str, words: str) -> DatasheetQuestion:
    return DatasheetQuestion(number, words, by_people=True)


QUESTIONS = (
    _people("1.1.1", "Paper that reports the experiment, or where it is preregistered"),
    _people("1.1.2", "Which of its experiments this is"),
    _people("1.2", "Where the resources that were used can be found"),
    _people("1.3.1.1", "Who fills this in: name"),
    _people("1.3.1.2", "Who fills this in: affiliation"),
    _people("1.3.1.3", "Who fills this in: e-mail"),
    _people("1.3.2.1", "Whom to write to about it: name"),
    _people("1.3.2.2", "Whom to write to about it: affiliation"),
    _people("1.3.2.3", "Whom to write to about it: e-mail"),
    DatasheetQuestion("2.1", "What the systems take as input"),
    DatasheetQuestion("2.2", "What they give as output"),
    DatasheetQuestion("2.3", "The task they perform"),
    DatasheetQuestion("2.4", "Languages of the input"),
    DatasheetQuestion("2.5", "Languages of the output"),
    DatasheetQuestion("3.1.1", "Outputs evaluated for each system"),
    _people("3.1.2", "How these were selected"),
    _people("3.1.3.1", "Method of the power analysis that the size of the sample was chosen by"),
    _people("3.1.3.2", "Statistical power of the sample"),
    _people("3.1.3.3", "Where the code of the power analysis can be found"),
    DatasheetQuestion("3.2.1", "Number of evaluators"),
    _people("3.2.2.1", "Whether evaluators are experts in what is talked about"),
    DatasheetQuestion("3.2.2.2", "Whether and how they were paid"),
    _people("3.2.2.3", "Whether any was known to the authors before"),
    _people("3.2.2.4", "Whether any of the authors is among them"),
    _people("3.2.3", "How they were recruited, and who was let in"),
    DatasheetQuestion("3.2.4", "Training and practice before"),
    DatasheetQuestion("3.2.5", "What else is known of them"),
    _people("3.3.1", "Whether the design was preregistered, and where"),
    DatasheetQuestion("3.3.2", "How answers were collected"),
    DatasheetQuestion("3.3.3.1", "Which types of quality assurance there were"),
    DatasheetQuestion("3.3.3.2", "What was done for each of them"),
    _people("3.3.4.1", "Where the pages that evaluators saw can be viewed"),
    DatasheetQuestion("3.3.4.2", "What evaluators are shown while they judge"),
    DatasheetQuestion("3.3.5", "How free they were in when and how quickly they worked"),
    DatasheetQuestion("3.3.6", "Whether they could ask questions or comment"),
    DatasheetQuestion("3.3.7", "Where and under which conditions they worked"),
    DatasheetQuestion("3.3.8", "How these conditions differed"),
    _people("4.1.1", "Type of quality: correctness, goodness, or a feature that may be good or bad"),
    _people("4.1.2", "Aspect of the output: form, content, or both"),
    _people("4.1.3", "Judged in its own right, relative to the input, or to something outside"),
    DatasheetQuestion("4.2.1", "Objective or subjective"),
    DatasheetQuestion("4.2.2", "Absolute or relative"),
    DatasheetQuestion("4.2.3", "Intrinsic or extrinsic"),
    DatasheetQuestion("4.3.1", "What the criterion is called before evaluators"),
    DatasheetQuestion("4.3.2", "How it is defined before them"),
    DatasheetQuestion("4.3.3", "Number of possible answers"),
    DatasheetQuestion("4.3.4", "The possible answers"),
    DatasheetQuestion("4.3.5", "How they are shown"),
    DatasheetQuestion("4.3.6", "The task, where there are no such answers"),
    DatasheetQuestion("4.3.7", "The question, word for word"),
    DatasheetQuestion("4.3.8", "Form of the question"),
    DatasheetQuestion("4.3.9", "How answers become scores"),
    DatasheetQuestion("4.3.10", "How effects and their significance are found"),
    DatasheetQuestion("4.3.11.1", "How agreement between evaluators was measured"),
    DatasheetQuestion("4.3.11.2", "Agreement between evaluators"),
    DatasheetQuestion("4.3.12.1", "How agreement of each evaluator with themselves was measured"),
    DatasheetQuestion("4.3.12.2", "Agreement of each evaluator with themselves"),
    _people("5.1", "Ethics committee that approved it"),
    _people("5.2", "Personal data in outputs or answers, and how they are handled"),
    _people("5.3", "Data of special categories (health, belief and so on), and how they are handled"),
    _people("5.4", "Impact assessments that were made"),
)


def key_of(number: str, criterion: str = "") -> str:
    """Return the key of an answer: the question's number, with the criterion's key where there is one for each."""
    return f"{number}/{criterion}" if criterion else number


_OF_TWO = {
    "1.1": "1.1.1",
    "1.3": "1.3.1.1",
    "3.1.3": "3.1.3.2",
    "3.2.2": "3.2.2.1",
    "3.3.3": "3.3.3.2",
    "3.3.4": "3.3.4.1",
    "4.3.11": "4.3.11.2",
}
"""Where answers stand that were given to questions of version 2.0 which version 3.0 asks in parts."""


def key_now(key: str) -> str:
    """Return the present key of an answer that was stored by a number of version 2.0."""
    number, slash, criterion = key.partition("/")
    return f"{_OF_TWO.get(number, number)}{slash}{criterion}"
