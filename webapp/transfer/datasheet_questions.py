"""Questions of the human evaluation datasheet, version 3.0, reworded.

A. Belz and C. Thomson (2025): HEDS 3.0: The Human Evaluation Data Sheet Version 3.0. GEM 2025. Its form is at
nlp-heds.github.io. Version 2.0 (A. Shimorina and A. Belz, 2022, HumEval) combined several of them.

Section L is not part of HEDS; `llm_answers` names its source.
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
    "4.1": "Quality criterion",
    "4.2": "Mode of evaluation",
    "4.3": "Response elicitation",
    "5": "Ethics",
    "L": "Language models (Baltes et al., 2025)",
}


@dataclass(frozen=True, slots=True)
class DatasheetQuestion:
    """Question of the datasheet.

    Attributes:
        by_people: True if researchers must answer it or complete the answer.
        each: True if repeated for every criterion, that is, every rating scale.
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
    _people("1.1.2", "Experiment in the paper that this datasheet describes"),
    _people("1.2", "Location of the resources used"),
    _people("1.3.1.1", "Person completing this datasheet: name"),
    _people("1.3.1.2", "Person completing this datasheet: affiliation"),
    _people("1.3.1.3", "Person completing this datasheet: e-mail"),
    _people("1.3.2.1", "Contact person: name"),
    _people("1.3.2.2", "Contact person: affiliation"),
    _people("1.3.2.3", "Contact person: e-mail"),
    DatasheetQuestion("2.1", "Input of the systems"),
    DatasheetQuestion("2.2", "Output of the systems"),
    DatasheetQuestion("2.3", "Task of the systems"),
    DatasheetQuestion("2.4", "Languages of the input"),
    DatasheetQuestion("2.5", "Languages of the output"),
    DatasheetQuestion("3.1.1", "Number of outputs evaluated for each system"),
    _people("3.1.2", "Selection of the outputs"),
    _people("3.1.3.1", "Method of the power analysis used to choose the sample size"),
    _people("3.1.3.2", "Statistical power of the sample"),
    _people("3.1.3.3", "Location of the code of the power analysis"),
    DatasheetQuestion("3.2.1", "Number of evaluators"),
    _people("3.2.2.1", "Expertise of the evaluators in the topic of the dialogues"),
    DatasheetQuestion("3.2.2.2", "Payment of the evaluators"),
    _people("3.2.2.3", "Evaluators known to the authors"),
    _people("3.2.2.4", "Authors among the evaluators"),
    _people("3.2.3", "Recruitment and admission of the evaluators"),
    DatasheetQuestion("3.2.4", "Training and practice of the evaluators"),
    DatasheetQuestion("3.2.5", "Other known characteristics of the evaluators"),
    _people("3.3.1", "Preregistration of the design"),
    DatasheetQuestion("3.3.2", "Method of collecting the answers"),
    DatasheetQuestion("3.3.3.1", "Types of quality assurance"),
    DatasheetQuestion("3.3.3.2", "Quality assurance in detail"),
    _people("3.3.4.1", "Location of the pages shown to evaluators"),
    DatasheetQuestion("3.3.4.2", "Content shown to evaluators during the evaluation"),
    DatasheetQuestion("3.3.5", "Freedom of evaluators to choose when and how quickly they work"),
    DatasheetQuestion("3.3.6", "Opportunities for evaluators to ask questions or comment"),
    DatasheetQuestion("3.3.7", "Place and conditions of the evaluation"),
    DatasheetQuestion("3.3.8", "Differences between these conditions"),
    _people("4.1.1", "Type of quality: correctness, goodness, or a feature that may be good or bad"),
    _people("4.1.2", "Aspect of the output: form, content, or both"),
    _people("4.1.3", "Evaluated on its own, relative to the input, or relative to an external reference"),
    DatasheetQuestion("4.2.1", "Objective or subjective"),
    DatasheetQuestion("4.2.2", "Absolute or relative"),
    DatasheetQuestion("4.2.3", "Intrinsic or extrinsic"),
    DatasheetQuestion("4.3.1", "Name of the criterion shown to evaluators"),
    DatasheetQuestion("4.3.2", "Definition of the criterion shown to evaluators"),
    DatasheetQuestion("4.3.3", "Number of possible answers"),
    DatasheetQuestion("4.3.4", "List of possible answers"),
    DatasheetQuestion("4.3.5", "Presentation of the possible answers"),
    DatasheetQuestion("4.3.6", "Task, if there is no list of possible answers"),
    DatasheetQuestion("4.3.7", "Exact wording of the question"),
    DatasheetQuestion("4.3.8", "Form of the question"),
    DatasheetQuestion("4.3.9", "Computation of scores from answers"),
    DatasheetQuestion("4.3.10", "Method of estimating effects and their significance"),
    DatasheetQuestion("4.3.11.1", "Method of measuring inter-annotator agreement"),
    DatasheetQuestion("4.3.11.2", "Inter-annotator agreement"),
    DatasheetQuestion("4.3.12.1", "Method of measuring intra-annotator agreement"),
    DatasheetQuestion("4.3.12.2", "Intra-annotator agreement"),
    _people("5.1", "Ethics committee that approved it"),
    _people("5.2", "Personal data in outputs or answers, and their handling"),
    _people("5.3", "Special-category data (such as health or beliefs), and their handling"),
    _people("5.4", "Impact assessments"),
    DatasheetQuestion("L.1", "Language models used, with the role of each"),
    DatasheetQuestion("L.2.1", "Exact model and version of each"),
    DatasheetQuestion("L.2.2", "Parameters of each"),
    DatasheetQuestion("L.2.3", "Dates of use"),
    _people("L.2.4", "Fine-tuning and other customisation"),
    DatasheetQuestion("L.3.1", "Parts of the system besides the models"),
    DatasheetQuestion("L.3.2", "Prompts, in full"),
    _people("L.3.3", "Development of the prompts"),
    DatasheetQuestion("L.4", "Logs of the interactions"),
    _people("L.5", "Baselines, benchmarks and metrics, and why they are suitable"),
    _people("L.6", "Open model as a baseline, or the reason for none"),
    DatasheetQuestion("L.7", "Validation of the models' output by people"),
    _people("L.8", "Limitations due to the models, and their mitigation"),
)


def key_of(number: str, criterion: str = "") -> str:
    """Return an answer's key: question number and criterion, if any."""
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
"""Version 3.0 questions that version 2.0 combined: where earlier answers are stored."""


def key_now(key: str) -> str:
    """Return the current key of an answer stored under version 2.0."""
    number, slash, criterion = key.partition("/")
    return f"{_OF_TWO.get(number, number)}{slash}{criterion}"
