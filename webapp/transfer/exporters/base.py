"""Contract of an exported table, its registry, and the data dictionary.

An exporter declares its columns with their meaning and yields rows in that order, reading the database in chunks, so
memory does not grow with the table. `writers.py` writes the files. Answers to a study's
questions have columns of their own (`answer_column`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from chatbots.registry import C, Registry, UnknownName
from chatbots.text import quote
from evaluation.data.formats.base import CONDITION
from webapp.conversations.models import Conversation
from webapp.jobs.models import SelfPlayRun
from webapp.ratings.flag_selectors import left_out
from webapp.search.pagination import find_conversations
from webapp.studies.models import Slot, Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.questions import BETWEEN_CHOICES, Question
from webapp.studies.selectors import factors_of_study, parts_of_study
from webapp.studies.sittings import SITTING
from webapp.transfer.redaction.redactor import Redactor

ColumnType = Literal["text", "integer", "number", "boolean", "time", "json"]
CHUNK = 1000
Source = Study | SelfPlayRun
"""Source of a table's rows: a study, or for `run_exporters` also a self-play run."""


@dataclass(frozen=True, slots=True)
class ColumnQuestion:
    """Question whose answers a column contains.

    Attributes:
        when: whether it is asked before the first task or after each.
        low, high: ends of its scale; None without a scale.
        is_reversed: True if high answers are bad, False if good, None if unknown; the table has raw answers.
        is_check: True for an attention check.
        is_inferred: True if the ends were inferred from imported answers.
    """

    key: str
    words: str
    when: Literal["before", "after"]
    low: float | None = None
    high: float | None = None
    is_reversed: bool | None = None
    is_inferred: bool = False
    is_check: bool = False


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """Column: its name, meaning and values.

    `json` values are nested in JSON Lines and JSON texts in CSV and Parquet; times are UTC.

    Attributes:
        labels: labels by value; for texts, all possible values.
        unit: unit of a number.
        missing: why a cell may be empty.
        asked: the answered question.
        is_person: True if it identifies a person; data packages replace it by a pseudonym.
        is_private: True if data packages include it only with private data.
    """

    name: str
    type: ColumnType
    description: str
    labels: tuple[tuple[Any, str], ...] = ()
    unit: str = ""
    missing: str = ""
    asked: ColumnQuestion | None = None
    is_person: bool = False
    is_private: bool = False


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of an export beyond the usual content.

    Attributes:
        include_synthetic: also export chats of scripted participants.
        include_failed: also export chats whose bot failed, and work of participants who missed an attention check.
        include_private: also export platform ids of participants, completion codes and answers before the task.
        without: names of flags; the work of participants with one of them is left out.
        include_images: also include participants' images in a data package.
        search: a query of the conversation browser, which filters tables of conversations; empty: none.
        is_redacted: replace personal data in texts as reviewed (`webapp/transfer/redaction`); without images.
        is_package: the tables are for a data package, which may be published.
    """

    include_synthetic: bool = False
    include_failed: bool = False
    include_private: bool = False
    without: tuple[str, ...] = ()
    search: str = ""
    include_images: bool = False
    is_redacted: bool = False
    is_package: bool = False

    def requested(self) -> dict[str, Any]:
        """Return the options that a user chooses: all but `is_package`."""
        return {name: value for name, value in asdict(self).items() if name != "is_package"}


class Exporter(Protocol):
    """Exported table of a study.

    Optional attributes: `right`, if reading the dashboard is not enough; `count(study, options)`, the number of rows
    (or of results that rows are computed from), for main tables of the export page; `is_small`, if it does not grow
    with the study; `packaged`, its file name in a data package; `has_codes`, if its private columns hold completion
    codes, which also need the right to pay; `has_own_texts`, if all its texts are the researchers'; `of_runs`, if
    `columns` and `rows` also accept a self-play run; and
    `is_searched`, if it has conversations only, which `ExportOptions.search` filters.
    """

    name: str
    title: str
    description: str

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        """Return the columns for this study."""
        ...

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        """Yield rows in the columns' order."""
        ...


exporters: Registry[Exporter] = Registry("table", "webapp.transfer.exporters")


def register_exporter(cls: C) -> C:
    """Instantiate and register the decorated class as an exporter."""
    exporters.register(cls)
    return cls


def exporter_list() -> list[Exporter]:
    """Return every exported table, by name."""
    return list(exporters)


def exporter_get(name: str) -> Exporter:
    """Return the exporter called `name`.

    Raises:
        UnknownName: for an unknown name; the message suggests similar ones.
    """
    return exporters.get(name)


@dataclass(frozen=True, slots=True)
class ExportTable:
    """Table of a study or run: its columns and lazily read rows."""

    exporter: Exporter
    columns: Sequence[ExportColumn]
    rows: Iterator[Sequence[Any]]


def table_of(study: Study, name: str, options: ExportOptions) -> ExportTable:
    """Return a table of a study.

    Raises:
        UnknownName: for an unknown name; the message suggests similar ones.
    """
    exporter = exporters.get(name)
    return ExportTable(exporter, exporter.columns(study, options), rows_of_table(exporter, study, options))


_UNREDACTED = frozenset(
    {
        *("answered_by", "at", "bot", "bot_version", "bots", "category", "check", "code", "codes", "consent_version"),
        *("conversation", "dialogue_id", "filter", "first", "first_bot", "flags", "id", "identity", "image", "item"),
        *("kind", "label", "language", "metric", "model", "name", "ordinal", "outcomes", "partner", "question"),
        *("reply_codes", "reversed", "scale", "scales", "second", "second_bot", "seed", "source", "study", "task"),
    }
)
"""Columns of ids and names that Confab or the researchers chose; the texts of all others are redacted."""


def rows_of_table(exporter: Exporter, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
    """Return the rows of a table, redacted if the options say so."""
    rows = exporter.rows(study, options)
    if not options.is_redacted or hasattr(exporter, "has_own_texts"):
        return rows
    places = [
        place
        for place, column in enumerate(exporter.columns(study, options))
        if column.type in ("text", "json")
        and (column.asked is not None or column.name not in _UNREDACTED)
        and not (column.is_person or column.is_private or (column.labels and column.type == "text"))
    ]
    return _redacted(rows, places, Redactor(study))


def _redacted(rows: Iterator[Sequence[Any]], places: Sequence[int], redactor: Redactor) -> Iterator[Sequence[Any]]:
    for row in rows:
        cells = list(row)
        for place in places:
            cells[place] = redactor.redact_value(cells[place])
        yield cells


def run_exporters() -> list[Exporter]:
    """Return the tables that self-play runs have, by name."""
    return [exporter for exporter in exporters if hasattr(exporter, "of_runs")]


def table_of_run(run: SelfPlayRun, name: str, options: ExportOptions) -> ExportTable:
    """Return a table of a self-play run.

    Raises:
        UnknownName: runs have no such table; the message lists those they have.
    """
    exporter: Any = next((run_exporter for run_exporter in run_exporters() if run_exporter.name == name), None)
    if exporter is None:
        names_text = ", ".join(run_exporter.name for run_exporter in run_exporters())
        raise UnknownName(f"a self-play run has no table {quote(name)}; it has {names_text}")
    return ExportTable(exporter, exporter.columns(run, options), exporter.rows(run, options))


def search_check(source: Source, name: str, options: ExportOptions) -> None:
    """Check that the query can filter a table, before reading rows.

    Raises:
        Unreadable: the query is invalid; with the error and a valid example.
        ValueError: the table cannot be filtered; the message lists those that can.
    """
    if not options.search:
        return
    find_conversations(source, options.search)
    narrowed = [exporter.name for exporter in exporters if hasattr(exporter, "is_searched")]
    if name not in narrowed:
        message = _(
            "The search finds conversations, but “{name}” has other rows, too. The search can be used with: {names}."
        )
        raise ValueError(message.format(name=name, names=", ".join(narrowed)))


def exporter_counts(study: Study, options: ExportOptions) -> dict[str, int]:
    """Return the number of rows of every main table, by its name."""
    return {exporter.name: exporter.count(study, options) for exporter in exporters if hasattr(exporter, "count")}


def study_key(source: Source) -> str | None:
    """Return the study's key; None for a self-play run."""
    return source.key if isinstance(source, Study) else None


def of_source(source: Source, *, prefix: str = "") -> Q:
    """Return the condition for the conversations of a study or run."""
    if isinstance(source, Study):
        return Q(**{f"{prefix}study": source})
    return Q(**{f"{prefix}selfplay__run": source})


def included(study: Source, options: ExportOptions, *, prefix: str = "") -> Q:
    """Return the common condition of all tables, without withdrawn data.

    Args:
        study: or a self-play run.
        prefix: lookup path from the queried model to the conversation, e.g. "conversation__".
    """
    condition = of_source(study, prefix=prefix)
    if isinstance(study, Study):
        condition &= left_out(study, options.without, way=f"{prefix}participant")
    not_these = [Conversation.State.WITHDRAWN]
    if not options.include_failed:
        not_these += [Conversation.State.FAILED, Conversation.State.ENDED, Conversation.State.EXCLUDED]
    condition &= ~Q(**{f"{prefix}state__in": not_these})
    if not options.include_synthetic:
        condition &= Q(**{f"{prefix}is_synthetic": False})
    return condition & _searched(study, options, prefix)


def _searched(study: Source, options: ExportOptions, prefix: str) -> Q:
    """Return the condition that conversations match the search."""
    if not options.search:
        return Q()
    conversations = find_conversations(
        study, options.search, synthetic=options.include_synthetic, excluded_flags=options.without
    )
    return Q(**{f"{prefix}pk__in": conversations.values("pk")})


def build_shown_filter(study: Source, options: ExportOptions, *, prefix: str = "") -> Q:
    """Return the condition for conversations held or rated here.

    Args:
        prefix: as `included`.
    """
    condition = included(study, options, prefix=prefix)
    if isinstance(study, SelfPlayRun) or not get_protocol(study).judges_conversations:
        return condition
    judged = Slot.objects.filter(task__participant__study=study, conversation__isnull=False)
    if not options.include_synthetic:
        judged = judged.filter(task__participant__is_synthetic=False)
    is_present = ~Q(**{f"{prefix}state": Conversation.State.WITHDRAWN})
    is_judged = Q(**{f"{prefix}pk__in": judged.values("conversation")}) & is_present
    return condition | (is_judged & _searched(study, options, prefix))


def conversations_included(study: Source, options: ExportOptions) -> QuerySet[Conversation]:
    """Return the conversations of an export, oldest first."""
    rows = Conversation.objects.all()
    if isinstance(study, Study) and not get_protocol(study).judges_conversations:
        rows = study.conversations.all()  # its own chats need no check of the project
    return rows.filter(build_shown_filter(study, options)).select_related("bot").order_by("created_at", "id")


def dialogue_id(conversation_id: Any, external_id: str, bot_params: Mapping[str, Any]) -> str:
    """Return a conversation's id in interchange files: its source's or ours."""
    if not external_id:
        return str(conversation_id)
    source = bot_params.get("source", "")
    return external_id.removeprefix(f"{source}/") if source else external_id


def rater_of(rater: str, participant_id: Any) -> str | None:
    """Return the name of a rater in exports.

    It is the imported name, or the participant's random id.
    """
    return rater or (str(participant_id) if participant_id else None)


SPEAKERS = (("human", "The participant"), ("bot", "The bot"))
STATES = tuple((state.value, str(state.label)) for state in Conversation.State)
STUDY_COLUMNS = (
    ExportColumn("study", "text", "Key of the study."),
    ExportColumn("is_synthetic", "boolean", "Whether the participant was a script."),
)
CONVERSATION_COLUMNS = (
    ExportColumn("conversation", "text", "Id of the conversation."),
    ExportColumn("bot", "text", "Id of the bot."),
    *STUDY_COLUMNS,
)


def condition_columns(source: Source) -> list[ExportColumn]:
    """Return a column per factor and for parts; none for self-play.

    All tables name them `condition_` plus the factor's key, which no question or metric can have.
    """
    factors = factors_of_study(source) if isinstance(source, Study) else []
    parts = parts_of_study(source) if isinstance(source, Study) else []
    titles = tuple((part.key, part.title) for part in parts)
    words = "Key of the part of the study that the conversation or rating belongs to."
    sitting = ExportColumn(SITTING, "text", words, titles, missing="Created before the study had parts.")
    columns = [
        ExportColumn(
            f"{CONDITION}{factor.key}",
            "text",
            f"Level of the factor “{factor.title}” in this conversation.",
            tuple((level.key, level.title) for level in factor.levels),
            missing="The conversation took place before the study had this factor, or there is no conversation.",
        )
        for factor in factors
    ]
    for key in sorted(_imported_factors(source) - {factor.key for factor in factors}):
        words = f"Level of “{key}” given for the imported conversation; the study does not vary this factor."
        columns.append(ExportColumn(f"{CONDITION}{key}", "text", words, missing="The file gives no level."))
    return columns + [sitting] * bool(parts)


def _imported_factors(source: Source) -> set[str]:
    """Return the factors of conversations that were imported with their conditions."""
    if not isinstance(source, Study):
        return set()
    imported = source.conversations.filter(source=Conversation.Source.IMPORT).exclude(condition={})
    return {
        key for condition in imported.order_by().values_list("condition", flat=True).distinct() for key in condition
    }


def condition_cells(
    columns: Sequence[ExportColumn], condition: Mapping[str, str] | None, sitting: str
) -> list[str | None]:
    """Return the cells of the condition columns."""
    values = {f"{CONDITION}{factor}": level for factor, level in (condition or {}).items()} | {SITTING: sitting}
    return [values.get(column.name) or None for column in columns]


NOT_ANSWERED = "Not answered, or not asked in the version of the study that the participant saw."


def answer_column(question: Question, name: str, when: Literal["before", "after"]) -> ExportColumn:
    """Return the column of a question.

    Args:
        when: whether it is asked before or after the task.
    """
    words = f"Answer {when} the task to “{question.title}”"
    if question.kind == "scale":
        words += f", {question.low} to {question.high}"
        if question.labels:
            labels = (f"{point} {words}" for point, words in sorted(question.labels.items()))
            words += f" ({', '.join(labels)})"
    elif question.options:
        words += f"; {'one' if question.kind == 'choice' else 'any'} of: {', '.join(question.options)}"
    if question.kind == "choices":
        words += ". Several answers are joined by “; ”"
    is_scale = question.kind == "scale"
    pairs: tuple[tuple[Any, str], ...] = tuple(sorted(question.labels.items()))
    if question.kind == "choice":
        pairs = tuple((option, option) for option in question.options)
    return ExportColumn(
        name,
        "number" if is_scale else "text",
        f"{words}. Empty if not answered.",
        pairs,
        missing=NOT_ANSWERED,
        asked=ColumnQuestion(
            question.key,
            question.title,
            when,
            question.low if is_scale else None,
            question.high if is_scale else None,
            question.reversed,
            is_check=question.is_check,
        ),
    )


def answer_cell(question: Question, answer: Any) -> Any:
    """Return an answer's cell value."""
    if question.kind == "scale":
        return answer
    return BETWEEN_CHOICES.join(answer) if isinstance(answer, list) else answer or ""


_COLUMNS = (
    ExportColumn("table", "text", "Name of the exported table."),
    ExportColumn("column", "text", "Name of the column."),
    ExportColumn("type", "text", "text, integer, number, boolean, time (UTC) or json."),
    ExportColumn("description", "text", "Meaning of the column."),
)


@register_exporter
class DictionaryTable:
    name = "dictionary"
    has_own_texts = True
    title = "Data dictionary"
    description = "One row per column of all tables, with its meaning."
    is_small = True

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for exporter in exporter_list():
            for column in exporter.columns(study, options):
                yield [exporter.name, column.name, column.type, column.description]
