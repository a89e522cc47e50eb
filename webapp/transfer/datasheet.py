"""Human evaluation datasheet, filled in from a study.

It is HEDS 3.0 (Belz and Thomson, 2025). `datasheet_questions` has the numbered questions. Some are answered from the
study; researchers answer the others on a page, and `webapp.studies.lifecycle` stores these answers. Files are Markdown
and JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count

from chatbots.registry import title_of
from evaluation.analysis.agreement import rater_agreement
from evaluation.data.populations import NO_ANSWER, OTHER_ANSWERS, label_people, published_groups
from evaluation.number_format import share
from webapp.jobs.selectors.metrics import language_name, languages_named, study_languages
from webapp.ratings.attention_results import own_of_questions, repeats_answered
from webapp.ratings.selectors import conversations_counted, ratings_counted, study_conversations, study_ratings
from webapp.results.cache import DIRECT_RATINGS
from webapp.results.item_results import study_pairs
from webapp.search.index_statistics import rated_by_bot
from webapp.studies.models import Item, Outcome, QuestionAnswers, Study, Task
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.questions import Question
from webapp.studies.recruitment.completion import pay_text
from webapp.studies.rubrics import post_task_questions
from webapp.studies.selectors import questions_of_study
from webapp.transfer.datasheet_questions import QUESTIONS, SECTIONS, VERSION, DatasheetQuestion, key_now, key_of
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.exporters.participants import participants_included
from webapp.transfer.import_mappings import imported_files
from webapp.transfer.llm_answers import llm_answers
from webapp.transfer.redaction.review import summarise_redaction

TO_BE_ANSWERED = "To be completed by the researchers"
_NO_ANSWERS = ("Not assessed.", "Not assessed: there are no answers to compare.")
_NOT_TWICE = ("Not assessed.", "Not assessed: no item was rated twice.")
_PLATFORMS = {
    "link": "a public link",
    "prolific": "Prolific",
    "mturk": "Amazon Mechanical Turk",
    "panel": "a panel",
    "links": "one-time links",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Datasheet question with its answers.

    Attributes:
        criterion: key of the scale it is about; empty for the whole study.
        from_study: answer derived from the study.
        from_people: answer of the researchers.
    """

    question: DatasheetQuestion
    criterion: str = ""
    from_study: str = ""
    from_people: str = ""

    @property
    def key(self) -> str:
        """Key under which the researchers' answer is stored."""
        return key_of(self.question.number, self.criterion)

    @property
    def is_open(self) -> bool:
        """True if researchers still have to answer it."""
        return not self.from_people and (self.question.by_people or not self.from_study)


def datasheet_of(study: Study) -> list[Entry]:
    """Return all datasheet questions with answers.

    Questions about criteria are repeated for each scale.
    """
    scales = [question for question in post_task_questions(study.version) if question.kind == "scale"]
    of_study = _of_study(study)
    agreement, self_agreement = _agreement(study), _own_agreement(study)
    stored_answers: dict[str, str] = {key_now(key): words for key, words in study.datasheet.items()}
    entries = []
    of_models = llm_answers(study)
    of_study |= of_models or {}
    for question in QUESTIONS:
        if not question.each and (of_models is not None or question.section != "L"):
            study_answer = of_study.get(question.number, "")
            entries.append(Entry(question, "", study_answer, stored_answers.get(question.number, "")))
    for scale in scales:
        of_scale = _of_scale(study, scale) | {
            "4.3.11.1": agreement.get(scale.key, _NO_ANSWERS)[0],
            "4.3.11.2": agreement.get(scale.key, _NO_ANSWERS)[1],
            "4.3.12.1": self_agreement.get(scale.key, _NOT_TWICE)[0],
            "4.3.12.2": self_agreement.get(scale.key, _NOT_TWICE)[1],
        }
        for question in QUESTIONS:
            if question.each:
                study_answer = of_scale.get(question.number, "")
                key = key_of(question.number, scale.key)
                entries.append(Entry(question, scale.key, study_answer, stored_answers.get(key, "")))
    return entries


def _of_study(study: Study) -> dict[str, str]:
    texts, values = study.values.texts, study.values
    people = participants_included(study, ExportOptions())
    outputs = _outputs(study)
    language = languages_named(texts.offered)
    heard = [language_name(code) for code, _n in study_languages(study).most_common(3)]
    spoken = ", ".join(heard) if heard else f"{language} (the language of the study pages)"
    n_raters = people.filter(ratings__isnull=False).distinct().count()
    contact = f"Participants could write to {texts.contact}." if texts.contact else ""
    answers = {
        "1.2": "Data, texts and settings are in this data package.",
        "1.3.2.2": f"Run by {texts.organisation}." if texts.organisation else "",
        "1.3.2.3": contact,
        "2.1": "Text: dialogue (all previous turns).",
        "2.2": "Text: the next turn of the dialogue, of one or more sentences.",
        "2.3": "Dialogue turn generation.",
        "2.4": spoken,
        "2.5": spoken,
        "3.1.1": "; ".join(f"{bot}: {n}" for bot, n in sorted(outputs.items())),
        "3.1.2": _selection(study),
        "3.2.1": str(n_raters or ""),
        "3.2.2.2": f"Paid: {pay_text(values)}." if pay_text(values) else "",
        "3.2.3": f"By {_PLATFORMS[values.recruitment.platform]}.",
        "3.2.4": _training(study),
        "3.2.5": _known(study, people),
        "3.3.2": (
            f"On web pages made with Confab (protocol: {title_of(protocols, study.protocol)}); every answer is "
            "stored immediately."
        ),
        "3.3.3.1": _quality_types(study),
        "3.3.3.2": _quality(study),
        "3.3.4.2": _describe_page(study),
        "3.3.5": (
            f"No time limit for an assessment; participants are told that the study takes {texts.minutes} minutes. "
            "Participants who leave can return to the open task."
        ),
        "3.3.6": _feedback(study),
        "3.3.7": "Online, at a place of their own choosing.",
        "3.3.8": "Not applicable.",
        "5.2": _personal(study),
    }
    return {number: words for number, words in answers.items() if words}


def _outputs(study: Study) -> dict[str, int]:
    """Return by bot the number of outputs that participants evaluated."""
    if get_protocol(study).compares_pairs:
        counts: Counter[str] = Counter()
        results = study_pairs(study).results
        for outcome in results.outcomes if results is not None else ():
            if outcome.question == results.outcomes[0].question:  # type: ignore[union-attr]
                counts[outcome.a] += outcome.n_items
                counts[outcome.b] += outcome.n_items
        return dict(counts)
    ratings = ratings_counted(study).order_by()
    rows: Any
    if get_protocol(study).judges_items:
        rows = ratings.values_list("item__responses__0__model").annotate(n=Count("item", distinct=True))
    elif get_protocol(study).marks_turns:
        rows = ratings.values_list("turn__conversation__bot__bot_id").annotate(n=Count("turn", distinct=True))
    else:
        rows = rated_by_bot(study, conversations_counted(study)).items()
    return {str(name or "(not named)"): n for name, n in rows}


def _selection(study: Study) -> str:
    origins = " ".join(file.describe() for file in imported_files(study))
    if study.is_imported:
        return origins
    return f"{_describe_selection(study)} {origins}".strip()


def _describe_selection(study: Study) -> str:
    if get_protocol(study).judges_items:
        is_drawn = study.items.filter(purpose=Item.Purpose.JUDGED).exclude(origin={}).exists()
        if is_drawn:
            return "Items were drawn from conversations at random, with the seed and filters stored in the study."
        return ""
    protocol = protocols.get(study.protocol) if study.protocol in protocols else None
    if protocol is not None and protocol.gives == "conversations":
        return "Stored conversations, drawn for each participant by the study's assignment rule."
    rule = study.rule
    origin_text = f"Made in the experiment: every participant chatted with bots assigned by the rule “{rule}”."
    return f"{origin_text} {_conditions(study)}".strip()


def _conditions(study: Study) -> str:
    """Describe the factors and the rated conversations per cell.

    Empty without factors.
    """
    factors = study.values.conditions.factors
    if not factors:
        return ""
    factors_text = "; ".join(
        f"{factor.title}, {factor.varies} participants ({', '.join(level.title for level in factor.levels)})"
        for factor in factors
    )
    rated = study_conversations(study).filter(ratings__isnull=False).order_by()
    rows = rated.values_list("bot__bot_id", "condition").annotate(n=Count("pk", distinct=True))
    cells = sorted((bot, [condition.get(factor.key, "none") for factor in factors], n) for bot, condition, n in rows)
    counts_text = "; ".join(f"{bot} with {', '.join(levels)}: {n}" for bot, levels, n in cells)
    return f"Chats differ by {factors_text}. Rated conversations in each cell: {counts_text or 'none yet'}."


def _training(study: Study) -> str:
    values = study.values
    sentences = ["Instructions on the first pages."]
    if values.training.training_pairs:
        sentences.append(
            f"{len(values.training.training_pairs)} practice pairs with known answers, which participants had to pass."
        )
    if values.checking.quiz_questions:
        sentences.append(f"{len(values.checking.quiz_questions)} questions about the instructions, with two attempts.")
    return " ".join(sentences)


def _known(study: Study, people: Any) -> str:
    """Describe the answers before the task: the number of participants by option."""
    questions = {question.key: question for question in questions_of_study(study) if question.kind == "choice"}
    if not questions:
        return "No questions about the evaluators were asked."
    answers_by_key: dict[str, dict[str, str]] = {key: {} for key in questions}
    rows = QuestionAnswers.objects.filter(participant__in=people).order_by("pk").values_list("participant", "answers")
    for participant, answers in rows.iterator(chunk_size=2000):
        for key in answers_by_key.keys() & answers.keys():
            answers_by_key[key][str(participant)] = str(answers[key] or "")
    names = [str(pk) for pk in people.values_list("pk", flat=True)]
    labels = {key: label_people(names, by_person) for key, by_person in answers_by_key.items()}
    smallest, sentences = study.values.planning.smallest_group, []
    for key, question in questions.items():
        groups = published_groups(labels[key], smallest)
        counts = Counter(groups[label] for label in labels[key])
        options_text = ", ".join(
            f"{option}: {counts[option]}"
            for option in (*question.options, OTHER_ANSWERS, NO_ANSWER)
            if counts[option] or (option in question.options and option not in groups)
        )
        sentences.append(f"{question.title} {options_text}.")
    return f"{' '.join(sentences)} Answers of fewer than {smallest} people are merged as “{OTHER_ANSWERS}”."


def _describe_page(study: Study) -> str:
    """Describe the parts of the page next to the questions."""
    content = "The conversation that the evaluator has just had"
    if get_protocol(study).judges_items:
        content = "The item: the context and the replies"
    elif get_protocol(study).marks_turns:
        content = "The conversation, reply by reply"
    elif get_protocol(study).compares_pairs:
        content = "Both conversations or replies side by side"
    return (
        f"{content}, and the question with its labelled scale. The bot's identity is hidden. Instructions before: "
        f"{' / '.join(study.values.texts.instructions_text.splitlines())}"
    )


def _quality_types(study: Study) -> str:
    """Return the types of the datasheet's list that the study has."""
    checks, asked_before = _checks(study), _asked_before(study)
    if not checks and not asked_before:
        return "The study used none of the listed types."
    text = "Automatic checks during and after the evaluation"
    if checks:
        text += "; the work of participants who fail is excluded"
    if asked_before:
        text += "; participants are only admitted after passing them"
    return f"{text}."


def _checks(study: Study) -> list[str]:
    """Return the attention checks among items and questions."""
    attention, lists = study.values.attention, study.values.check_lists
    checks = [checks.description for checks in lists if checks.section is attention]
    if attention.n_gold:
        checks.append(f"{attention.n_gold} items with known answers per task")
    if attention.n_repeated:
        checks.append(f"{attention.n_repeated} items shown twice per task")
    checks += [
        checks.description for checks in lists if checks.section is not attention and not checks.kind.card.is_step
    ]
    return list(filter(None, checks))


def _asked_before(study: Study) -> list[str]:
    """Return the checks before the task."""
    return [
        checks.description for checks in study.values.check_lists if checks.kind.card.is_step and checks.description
    ]


def _quality(study: Study) -> str:
    checks = _checks(study) + _asked_before(study)
    failed = Task.objects.filter(
        participant__study=study,
        participant__is_synthetic=False,
        outcome__in=[Outcome.FAILED_CHECK, Outcome.SCREENED_OUT],
    )
    outcome_counts = Counter(failed.values_list("outcome", flat=True))
    text = f"Automatic: {', '.join(checks)}." if checks else "No checks were used."
    if outcome_counts:
        text += (
            f" Excluded for a failed attention check: {outcome_counts[Outcome.FAILED_CHECK]} tasks; screened out: "
            f"{outcome_counts[Outcome.SCREENED_OUT]}."
        )
    return text


def _feedback(study: Study) -> str:
    texts = study.values.texts
    sentences = []
    if texts.contact:
        sentences.append("An e-mail address for questions was given.")
    if study.values.asking.asks_comment:
        sentences.append("There was a comment box after each task.")
    return " ".join(sentences) or "Neither was offered."


def _personal(study: Study) -> str:
    rights = study.values.rights
    sentences = [
        "Ids from recruitment platforms are stored separately from the participants' work and excluded from "
        "exports; participants have pseudonyms. Participants' texts may contain personal data."
    ]
    if rights.withdrawal_days:
        sentences.append(f"Participants could withdraw until {rights.withdrawal_days} days after the end.")
    if rights.ids_kept_days is not None:
        sentences.append(f"Ids are kept for {rights.ids_kept_days} days.")
    if rights.texts_kept_days is not None:
        sentences.append(f"Texts are kept for {rights.texts_kept_days} days.")
    if (summary := summarise_redaction(study)) is not None:
        sentences.append(f"Redaction for publication: {summary.describe()}")
    return " ".join(sentences)


def _of_scale(study: Study, scale: Question) -> dict[str, str]:
    protocol = get_protocol(study)
    relative = protocol.compares_pairs
    points = range(scale.low, scale.high + 1)
    labels_text = "; ".join(f"{point} {scale.labels[point]}" for point in points if point in scale.labels)
    aggregated = "Means of each bot's answers" if not relative else "Shares of wins, ties and losses"
    return {
        "4.2.1": "Subjective.",
        "4.2.2": "Relative." if relative else "Absolute.",
        "4.2.3": "Intrinsic.",
        "4.3.1": scale.short,
        "4.3.2": scale.help or "No definition was given.",
        "4.3.3": str(len(points)),
        "4.3.4": f"{scale.low} to {scale.high}"
        + (f" ({labels_text})" if labels_text else "")
        + ("; lower is better" if scale.reversed else ""),
        "4.3.5": "Multiple choice: one point of the scale is selected." if scale.is_row else "A number field.",
        "4.3.6": "Not applicable.",
        "4.3.7": scale.title,
        "4.3.8": protocol.elicitation,
        "4.3.9": f"{aggregated}, with intervals over raters.",
        "4.3.10": _significance(relative=relative),
    }


def _significance(*, relative: bool) -> str:
    if relative:
        return (
            "Bradley–Terry model with ties, with raters as units; pairwise comparisons of bots with Holm "
            "correction. Effects are differences of log odds with intervals."
        )
    return (
        "Differences of means with intervals; pairwise comparisons of bots by generalised least squares with raters "
        "as a random effect and errors clustered by rater (CR2), with Holm correction; mixed and ordinal models "
        "with random raters."
    )


def _agreement(study: Study) -> dict[str, tuple[str, str]]:
    """Return method and size of inter-rater agreement by scale."""
    if get_protocol(study).compares_pairs:
        results = study_pairs(study).results
        return {
            kappa.question: ("The median of Cohen's kappa over all pairs of raters.", _value(kappa.found))
            for kappa in (results.kappas if results is not None else ())
        }
    n_ratings = ratings_counted(study).order_by()[: DIRECT_RATINGS + 1].count()
    if not n_ratings:
        return {}
    if n_ratings > DIRECT_RATINGS:
        method = "Agreement is measured by Krippendorff's alpha, Fleiss' kappa, Gwet's AC and intraclass correlations."
        return {question.key: (method, "See the study's report.") for question in post_task_questions(study.version)}
    ratings = study_ratings(study)
    if ratings.leading is None:
        return {}
    agreement_by_scale: dict[str, tuple[str, str]] = {}
    for coefficient in rater_agreement(ratings).coefficients:
        if coefficient.about == "conversation" and coefficient.code in ("alpha_ordinal", "alpha_interval"):
            method = f"Krippendorff's alpha ({coefficient.code.removeprefix('alpha_')})."
            agreement_by_scale[coefficient.dimension] = (method, _value(coefficient.found))
    return agreement_by_scale


def _own_agreement(study: Study) -> dict[str, tuple[str, str]]:
    """Return method and size of intra-rater agreement by scale."""
    method = (
        "Share of items shown twice with identical answers, over participants; 90% interval, clustered by participant."
    )
    agreement_by_scale: dict[str, tuple[str, str]] = {}
    for key, repeats in own_of_questions(study, list(repeats_answered(study))).items():
        same = repeats.same
        share_text = "Undefined" if same.mean is None else share(same.mean)
        if same.low is not None and same.high is not None:
            share_text += f" ({share(same.low)} to {share(same.high)})"
        agreement_by_scale[key] = (method, f"{share_text}, {repeats.n_people} participants.")
    return agreement_by_scale


def _value(coefficient: Any) -> str:
    if coefficient.value is None:
        return f"Undefined: {coefficient.reason}."
    return f"{share(coefficient.value)}, over {coefficient.n_items} items."


def datasheet_md(study: Study, entries: Sequence[Entry]) -> str:
    """Return the datasheet as Markdown, with open questions in bold."""
    n_open = sum(question_entry.is_open for question_entry in entries)
    parts = [
        f"# Human evaluation datasheet: {study.name}\n",
        f"Based on HEDS {VERSION} (Belz and Thomson, 2025), shortened and reworded by Confab; the numbering is that "
        "of the datasheet. Section L, on language models, follows Baltes et al. (2025).\n",
        f"{n_open} of {len(entries)} questions remain for the researchers.\n",
    ]
    for (section, criterion), section_entries in groupby(
        entries, key=lambda question_entry: (question_entry.question.section, question_entry.criterion)
    ):
        heading_suffix = f": {criterion}" if criterion else ""
        parts.append(f"\n## {section} {SECTIONS[section]}{heading_suffix}\n")
        for question_entry in section_entries:
            parts.append(f"\n**{question_entry.question.number} {question_entry.question.words}**\n")
            parts += [f"\n{text}\n" for text in (question_entry.from_study, question_entry.from_people) if text]
            if question_entry.is_open:
                parts.append(f"\n**[{TO_BE_ANSWERED}]**\n")
    return "".join(parts)


def datasheet_json(study: Study, entries: Sequence[Entry]) -> str:
    """Return the datasheet as JSON."""
    document = {
        "heds": VERSION,
        "study": study.key,
        "answers": [
            {
                "number": question_entry.question.number,
                "criterion": question_entry.criterion or None,
                "question": question_entry.question.words,
                "from_study": question_entry.from_study or None,
                "from_researchers": question_entry.from_people or None,
                "to_be_answered": question_entry.is_open,
            }
            for question_entry in entries
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
