"""Phrases shared by all results: counts, cells, reasons, titles, terms.

Sentences insert counts with their noun (`1 rating`, `1,240 ratings`), so that each count has its singular. Every code
of `evaluation.findings.Reason` has one phrase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evaluation.data.ratings import MEAN_KEY, RatingDimension
from evaluation.data.result_tables import Cell, NamedTable, Wording, estimate_cells, linked
from evaluation.data.tables import Column
from evaluation.findings import Reason, reason_read
from evaluation.number_format import digits_for, figure, percent, probability, share
from webapp.core.language import plural
from webapp.insights.charts.figure import PageFigure
from webapp.insights.narrative.reasons import FRAGMENTS
from webapp.jobs.selectors.metrics import language_name, metrics_all
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame

Row = TypeVar("Row")


def _counter(singular: str, several: str = "") -> Callable[[int], str]:
    """Return a function that writes a number with its noun.

    For example `1 bot` or `2 bots`.
    """
    words = f"%(n)s {singular}", f"%(n)s {several or singular + 's'}"
    return lambda n: plural(n, *words) % {"n": f"{n:,}"}


bots_text = _counter("bot")
conversations_text = _counter("conversation")
dimensions_text = _counter("dimension")
items_text = _counter("item")
judgements_text = _counter("judgement")
pairs_text = _counter("pair")
people_text = _counter("person", "people")
raters_text = _counter("rater")
ratings_text = _counter("rating")
replies_text = _counter("reply", "replies")

_ENDINGS = (", participant and bot", ", participant", ", bot")


def short_title(title: str) -> str:
    """Return the title without its participant or bot suffix."""
    for ending in _ENDINGS:
        title = title.replace(ending, "")
    return title.removesuffix(", mean")


def feature_titles(names: Sequence[str]) -> list[str]:
    """Return titles of conversation columns; unknown names are written as words."""
    columns = [column for metric in metrics_all() for column in metric.columns if column.level == "conversation"]
    known = {column.name: column.title for column in columns}
    return [known.get(name) or name.replace("_", " ") for name in names]


def short_titles(titles: Sequence[str]) -> list[str]:
    """Shorten each title unless two would become equal."""
    counts = Counter(short_title(title) for title in titles)
    return [short_title(title) if counts[short_title(title)] == 1 else title.removesuffix(", mean") for title in titles]


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Trajectory along a conversation.

    It has one column, or the same column of participant and bot.
    """

    name: str
    title: str
    columns: tuple[Column, ...]

    @property
    def unit(self) -> str:
        """Of all its columns."""
        return self.columns[0].unit

    @property
    def about(self) -> str:
        """The columns' descriptions."""
        return " ".join(dict.fromkeys(column.description for column in self.columns))


def series_of(columns: Sequence[Column]) -> list[MetricSeries]:
    """Group columns into series: `words_user` and `words_bot` become one."""
    by_name = {column.name: column for column in columns}
    series: list[MetricSeries] = []
    grouped_names: set[str] = set()
    for column in columns:
        if column.name in grouped_names:
            continue
        stem = column.name.removesuffix("_user").removesuffix("_bot")
        pair = [by_name[name] for name in (f"{stem}_user", f"{stem}_bot") if name in by_name]
        if len(pair) == 2 and column in pair:
            grouped_names.update(paired.name for paired in pair)
            series.append(MetricSeries(stem, short_title(column.title), tuple(pair)))
        else:
            series.append(MetricSeries(column.name, column.title, (column,)))
    titles = short_titles([metric_series.title for metric_series in series])
    return [
        MetricSeries(metric_series.name, title, metric_series.columns)
        for metric_series, title in zip(series, titles, strict=True)
    ]


@dataclass(slots=True)
class Section:
    """Section of the analysis.

    Attributes:
        id: its anchor.
        title: its heading.
        lead: findings in sentences, the most important first.
        points: single findings, as a list.
        points_title: title of the list on pages that fold it.
        methods: tests and rules behind the findings, in sentences.
        figures, tables: in order, figures first.
        missing: sentences on missing results, each with its reason.
        caution: limits of the section's results.
        conclusion: one sentence for a list of sections; "" if it is the first of the others.
    """

    id: str
    title: str
    lead: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    points_title: str = ""
    methods: list[str] = field(default_factory=list)
    figures: list[PageFigure] = field(default_factory=list)
    tables: list[NamedTable] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    caution: str = ""
    conclusion: str = ""

    @property
    def in_one_sentence(self) -> str:
        """Its conclusion, or the reason for none."""
        return next(
            iter([sentence for sentence in (self.conclusion, *self.lead, *self.points, *self.missing) if sentence]), ""
        )

    @property
    def open_tables(self) -> list[NamedTable]:
        """Tables that pages show at once: the first one of a section without a figure."""
        return [] if self.figures else self.tables[:1]

    @property
    def folded_tables(self) -> list[NamedTable]:
        """Further tables, which pages of explanations fold."""
        return self.tables[len(self.open_tables) :]


def mean_cells(
    estimate: Any, digits: int = 2, *, shares: bool = False, attribute: str = "mean", reason: str | None = None
) -> list[Cell]:
    """Make the cells of an estimate and of its interval, with the phrase of its reason (`estimate_cells`)."""
    reason = reason_text(estimate.reason) if reason is None else reason
    return estimate_cells(estimate, digits, shares=shares, attribute=attribute, reason=reason)


def wording_of(frame: StudyFrame) -> Wording:
    """Return titles of bots and of conditions' levels, and phrases of reasons, for the tables of results."""

    def level_cell(column: str, level: str) -> Cell:
        if column == "bot":
            return named_cell(frame.bots, level)
        factor = next((factor for factor in frame.study.values.conditions.factors if factor.key == column), None)
        known = factor.level(level) if factor is not None else None
        return Cell(known.title if known is not None else level)

    return Wording(level_cell, reason_text, digits_for(frame.headline.low, frame.headline.high))


def named_cell(bots: Mapping[str, BotInfo], bot: str) -> Cell:
    """Make a cell of a bot's name, with its mark if known."""
    return bot_cell(bots[bot]) if bot in bots else Cell(bot)


def bot_cell(bot: BotInfo) -> Cell:
    """Make a cell of a bot's name with its mark.

    The mark of a control is hollow.
    """
    return Cell(bot.title, slot=bot.slot, hollow=bot.is_control)


def link_bots(table: NamedTable, bots: Mapping[str, BotInfo], link: Callable[[str], str]) -> NamedTable:
    """Link the bots in a table's first column to their conversations, and return the table.

    Args:
        link: address of a bot's conversations.
    """
    ids = {bot.title: bot_id for bot_id, bot in bots.items()}
    for row in table.table.rows:
        if row[0].slot and row[0].text in ids:
            row[:1] = linked(row[:1], link(ids[row[0].text]))
    return table


def direction_sentences(dimensions: Iterable[RatingDimension]) -> list[str]:
    """Name the questions with unknown direction; empty if all are known."""
    unknown = [
        f"“{dimension.title}”" for dimension in dimensions if dimension.reversed is None and dimension.key != MEAN_KEY
    ]
    if not unknown:
        return []
    return [
        f"The direction of {listed(unknown)} is unknown; analyses assume that high answers are good. You can set the "
        "direction of each question in the study’s settings."
    ]


def listed(names: Sequence[str], word: str = "and") -> str:
    """Join names to a list in words, `A, B and C`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def controls_sentence(frame: StudyFrame, *, left_out: bool) -> str:
    """Describe the handling of rated controls; empty without any."""
    if not frame.controls:
        return ""
    return "Controls are excluded." if left_out else "Controls are included."


def two_digits(n: int) -> str:
    """Round a planned number up to two figures.

    More digits would promise too much.
    """
    if n < 100:
        return str(n)
    power = 10 ** (len(str(n)) - 2)
    return f"{-(-n // power) * power:,}"


_SHOWN: dict[str, Callable[[Any], str]] = {
    "n_bots": bots_text,
    "n_raters": raters_text,
    "n_ratings": ratings_text,
    "n_conversations": conversations_text,
    "n_carrying": lambda value: f"{value:.1f}",
    "percent": percent,
    "spread": lambda value: percent(value, 1),
    "r": share,
    "p": probability,
    "control_mean": figure,
    "bots_mean": figure,
    "language": language_name,
    "holds": lambda codes: listed([language_name(code) for code in codes]),
    "blocks": listed,
    "columns": lambda names: listed([f"“{title}”" for title in feature_titles(names)]),
    "seconds": lambda value: figure(value, 0),
    "usual_seconds": lambda value: figure(value, 0),
}
"""Formats of values by name."""


def reason_text(stored_reason: Reason | Mapping[str, Any] | str | None) -> str:
    """Return the reason for a missing number, without a full stop.

    "" without a reason.

    Args:
        stored_reason: a reason, or its form in a stored document.
    """
    reason = reason_read(stored_reason)
    if reason is None:
        return ""
    values = {name: _format_value(name, value) for name, value in reason.values.items()}
    return FRAGMENTS[reason.code].format(**values)


def _format_value(name: str, value: Any) -> str:
    if name in _SHOWN:
        return _SHOWN[name](value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def glossary_terms() -> list[tuple[str, str]]:
    """Return each term with its explanation."""
    return [
        (
            "Significant difference",
            (
                "Two bots differ significantly if a test of their mean ratings says so. The test is generalised "
                "least squares with raters as a random effect and errors clustered by rater. It equals Welch’s test "
                "if every rater rates once, and the paired t test if every rater rates both. P values are corrected "
                "by Holm for all pairs of the study at the study's level. A study that collects data here uses an "
                "always-valid test instead until it reaches its planned size. You may look at that test at any time, "
                "but it needs a larger difference (confidence sequences of a normal mixture; Robbins, 1970)."
            ),
        ),
        (
            "Equal for practical purposes",
            (
                "Two bots are equal for practical purposes if the 90 % interval of their difference lies within the "
                "smallest difference of interest on both sides of 0 (two one-sided tests, p < .05; Schuirmann, "
                "1987). The study defines that difference in advance; the default is a tenth of the scale. Bots that "
                "do not differ significantly are not necessarily equal: often there are too few ratings."
            ),
        ),
        (
            "Raters",
            (
                "Ratings with the same rater ID are by the same rater. Without rater IDs, each conversation counts "
                "as one rater. IDs that are only positions, such as “slot 1”, are treated as missing."
            ),
        ),
        (
            "Intercept",
            (
                "Constant term of a hybrid fit. One intercept for all folds is preferred. With one per fold, as in "
                "the paper, uninformative features correlate at nearly −1 with the ratings."
            ),
        ),
    ]


def duration_text(seconds: float | None) -> str:
    """Write a rough duration, such as `4 minutes`."""
    if seconds is None:
        return "–"
    if seconds < 90:
        return plural(round(seconds), "%(n)d second", "%(n)d seconds") % {"n": round(seconds)}
    n = round(seconds / 60)
    if n < 120:
        return plural(n, "%(n)d minute", "%(n)d minutes") % {"n": n}
    return f"{seconds / 3600:.1f} hours"
