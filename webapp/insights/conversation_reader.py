"""Conversation reader: turns, metrics, ratings, and reasons for missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from django.db.models import QuerySet

from chatbots.registry import title_of
from evaluation.data.tables import Column
from evaluation.number_format import figure
from evaluation.plots.text_layout import tick_label
from webapp.conversations.images import images_of, with_image
from webapp.conversations.models import ChatImage, Conversation, DistressMark, ReplyMark, ReplyReport, Turn
from webapp.conversations.selectors import reply_html
from webapp.insights.charts.lines import TrackCell, printed, track
from webapp.insights.narrative.phrases import MetricSeries, reason_text, series_of
from webapp.jobs.models import MetricResult
from webapp.jobs.selectors.metrics import metrics_all
from webapp.ratings.error_spans import spans_stored
from webapp.ratings.models import Rating
from webapp.ratings.selectors import title_as_given
from webapp.search.chat_selection import FEEDBACK
from webapp.search.text_search import ExcerptPiece, SearchWords, html_with_hits, opening_of, pieces_of
from webapp.studies.assignment.counterbalance import pair_of_slot
from webapp.studies.questions import BETWEEN_CHOICES
from webapp.studies.reply_filters.base import reply_filters
from webapp.studies.reply_marks import SPANS
from webapp.studies.safety import PHRASES
from webapp.studies.selectors import condition_said, other_questions_of_study

N_TRACKS = 3
_DEFAULT = ("sentiment", "semantic_similarity_user_bot", "words")


@dataclass(frozen=True, slots=True)
class TurnValue:
    """A value with its title.

    Attributes:
        reason: reason for a missing value.
        percent: position of a rating on its scale, in percent.
    """

    title: str
    value: str
    reason: str = ""
    about: str = ""
    name: str = ""
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class TurnView:
    """Turn with its text, tracks and formatted values.

    Attributes:
        highlight: reason why the turn is highlighted; empty if it is not.
    """

    index: int
    speaker: str
    is_bot: bool
    text: str
    vote: int
    latency_s: float | None
    cells: list[TrackCell]
    values: list[TurnValue]
    chosen: bool
    answered_by: str
    said_of: tuple[str, ...] = ()
    withheld_text: str = ""
    pieces: tuple[ExcerptPiece, ...] = ()
    html: str = ""
    image: ChatImage | None = None
    trace: Sequence[dict[str, Any]] = ()
    goes_on: bool | None = None
    other_reply: str = ""
    is_refused: bool = False
    rejected_params: Sequence[str] = ()
    highlight: str = ""

    @property
    def has_missing(self) -> bool:
        """True if a value is missing here."""
        return any(value.reason for value in self.values)


@dataclass(frozen=True, slots=True)
class RatingView:
    """Answers of one rater."""

    rater: str
    answers: list[TurnValue]
    comment: str


@dataclass(frozen=True, slots=True)
class Track:
    """Position of a track, with its series."""

    chosen: MetricSeries
    number: int


@dataclass(frozen=True, slots=True)
class ConversationReading:
    """The whole page; `missing_highlight` says why no turn is highlighted."""

    turns: list[TurnView]
    tracks: list[Track]
    series: list[MetricSeries]
    conversation_values: list[TurnValue]
    ratings: list[RatingView]
    metrics: str
    chosen: int
    condition: list[tuple[str, str]]
    missing_highlight: str = ""

    @property
    def title(self) -> str:
        """The beginning of the first turn that distinguishes the conversation."""
        return shorten(opening_of(turn.text for turn in self.turns[:4]), 60, placeholder="…")


def conversations_to_read() -> QuerySet[Conversation]:
    """Return conversations annotated for the reader's page."""
    return Conversation.objects.select_related(
        "bot", "study__version__rubric", "slot__task__version", "selfplay__run", "selfplay__partner"
    )


def read_conversation(
    conversation: Conversation,
    requested_series: Sequence[str] = (),
    chosen: str = "",
    words: Sequence[SearchWords] = (),
    first: Sequence[str] = (),
    highlight: str = "",
) -> ConversationReading:
    """Return everything the reader shows, in a fixed number of queries.

    Args:
        requested_series: names of series to draw.
        chosen: number of the turn to show in detail; otherwise the first one with the words, or the first reply.
        words: words to highlight in the turns.
        first: names of columns whose conversation-level values come first.
        highlight: turns to highlight, as in `ChatSelection`; the first of them is shown in detail.
    """
    turns = list(Turn.objects.filter(conversation=conversation).order_by("index"))
    results = results_of(conversation)
    values: dict[str, list[float | None]] = {}
    reasons: dict[str, str] = {}
    totals: dict[str, float | None] = {}
    for result in results.values():
        values.update(result.turns)
        totals.update(result.values)
        reasons.update({name: reason_text(reason) for name, reason in result.reasons.items()})
    declared: dict[tuple[str, str], Column] = {
        (column.level, column.name): column for metric in metrics_all() for column in metric.columns
    }
    series = series_of([column for (level, name), column in declared.items() if level == "turn" and name in values])
    series_values = {metric_series.name: _values(metric_series, values, turns) for metric_series in series}
    missing_reasons = {metric_series.name: _get_missing_reason(metric_series, reasons) for metric_series in series}
    said_of = reported_of(conversation)
    extreme_of = highlight.removeprefix("-")
    if highlight == FEEDBACK:
        highlights = _highlight_feedback(turns, said_of)
    else:
        highlights = _highlight_extremes(
            turns, declared.get(("turn", extreme_of)), values.get(extreme_of), highlight[:1] == "-"
        )
        shown = next((s.name for s in series if extreme_of in [series_column.name for series_column in s.columns]), "")
        requested_series = [*requested_series, *([shown] if shown else [])]
    tracks = _tracks(series, requested_series, series_values)
    speakers = [turn.speaker for turn in turns]
    cells = {
        name: track(series_values[name], speakers, shown_track.chosen.columns[0], missing_reasons[name])
        for shown_track in tracks
        for name in [shown_track.chosen.name]
    }
    pieces = {turn.index: tuple(pieces_of(turn.text, words)) for turn in turns}
    chosen_index = _chosen(
        chosen,
        turns,
        [i for i, turn_pieces in pieces.items() if any(p.is_hit for p in turn_pieces)] or sorted(highlights),
    )
    views, images = [], images_of(conversation)
    other_replies = _other_replies(conversation) if any(turn.goes_on is not None for turn in turns) else {}
    for i, turn in enumerate(turns):
        spelled = [
            TurnValue(
                metric_series.title,
                printed(value, metric_series.unit) if value is not None else "none",
                "" if value is not None else missing_reasons[metric_series.name],
                metric_series.about,
            )
            for metric_series in series
            for value in [series_values[metric_series.name][i]]
        ]
        is_bot = turn.speaker == Turn.Speaker.BOT
        html = reply_html(conversation, turn.text) if is_bot else ""
        html = with_image(html, turn.text, images.get(turn.index), for_staff=True)
        views.append(
            TurnView(
                index=turn.index,
                speaker=_speaker(conversation, turn),
                is_bot=is_bot,
                text=turn.text,
                vote=turn.vote,
                latency_s=None if turn.latency_ms is None else turn.latency_ms / 1000,
                cells=[cells[shown_track.chosen.name][i] for shown_track in tracks],
                values=spelled,
                chosen=turn.index == chosen_index,
                answered_by=turn.answered_by,
                said_of=tuple(said_of.get(turn.index, ())),
                withheld_text=turn.withheld_text,
                pieces=pieces[turn.index],
                html=html_with_hits(html, words),
                image=images.get(turn.index),
                trace=turn.trace,
                goes_on=turn.goes_on,
                other_reply=other_replies.get(turn.index, "") if turn.goes_on is not None else "",
                is_refused=turn.is_refused,
                rejected_params=turn.rejected_params,
                highlight=highlights.get(turn.index, ""),
            )
        )
    overall = [
        TurnValue(
            column.title,
            printed(value, column.unit) if value is not None else "none",
            "" if value is not None else reasons.get(name) or "undefined",
            column.description,
            name,
        )
        for name, value in sorted(totals.items(), key=lambda total: _place(total[0], first))
        if (column := declared.get(("conversation", name))) is not None
    ]
    return ConversationReading(
        turns=views,
        tracks=tracks,
        series=series,
        conversation_values=overall,
        ratings=_ratings(conversation),
        metrics=_about(results),
        chosen=chosen_index,
        condition=condition_said(conversation.study, conversation.condition),
        missing_highlight=_explain_no_highlight(highlight, declared) if highlight and not highlights else "",
    )


_MOST_HIGHLIGHTS = 3


def _highlight_feedback(turns: Sequence[Turn], said_of: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Return the turns that were voted down, reported, filtered or marked, each with the reason."""
    highlights = dict.fromkeys(said_of, "Reported or marked")
    return highlights | {turn.index: "Voted down" for turn in turns if turn.vote < 0}


def _highlight_extremes(
    turns: Sequence[Turn], column: Column | None, stored: Sequence[float | None] | None, is_high: bool
) -> dict[int, str]:
    """Return the turns with the highest or lowest values of a metric, each with its value."""
    if column is None or stored is None:
        return {}
    by_turn = _values(MetricSeries(column.name, column.title, (column,)), {column.name: list(stored)}, turns)
    known = [(value, turn.index) for turn, value in zip(turns, by_turn, strict=True) if value is not None]
    known.sort(key=lambda place: (-place[0] if is_high else place[0], place[1]))
    word = "Highest" if is_high else "Lowest"
    return {
        index: f"{word if not place else f'{word}, {place + 1}'}: {column.title}, {printed(value, column.unit)}"
        for place, (value, index) in enumerate(known[:_MOST_HIGHLIGHTS])
    }


def _explain_no_highlight(highlight: str, declared: Mapping[tuple[str, str], Column]) -> str:
    if highlight == FEEDBACK:
        return "No reply in this conversation was voted down, reported or marked."
    column = declared.get(("conversation", highlight.removeprefix("-")))
    title = column.title if column is not None else highlight.removeprefix("-")
    return f"{title} has no values for single turns here."


def _other_replies(conversation: Conversation) -> dict[int, str]:
    """Return the other bot's replies to the same messages, by turn."""
    pair = pair_of_slot(conversation.slot) if conversation.slot is not None else None
    turns = Turn.objects.filter(conversation__slot__in=pair or (), speaker=Turn.Speaker.BOT)
    return dict(turns.exclude(conversation=conversation).values_list("index", "text"))


def compare_numbers(readings: Sequence[ConversationReading]) -> list[tuple[TurnValue, list[TurnValue | None]]]:
    """Return conversation-level numbers with their value in each conversation."""
    values_by_name = [{value.name: value for value in reading.conversation_values} for reading in readings]
    every = {name: value for values in reversed(values_by_name) for name, value in values.items()}
    order = dict.fromkeys(name for values in values_by_name for name in values)
    return [(every[name], [values.get(name) for values in values_by_name]) for name in order]


def reported_of(conversation: Conversation) -> dict[int, list[str]]:
    """Return reports, filter matches, signs of distress and marked errors in words, by turn, in four queries."""
    remarks_by_turn: dict[int, list[str]] = {}
    reports = ReplyReport.objects.filter(turn__conversation=conversation).select_related("turn")
    for report in reports.order_by("pk"):
        assert report.turn is not None, "found by its turn"
        remark = f"Reported: {ReplyReport.Reason(report.reason).label}"
        quoted_remark = f"{remark}. “{report.words}”"
        remarks_by_turn.setdefault(report.turn.index, []).append(quoted_remark if report.words else remark)
    for distress in DistressMark.objects.filter(turn__conversation=conversation).select_related("turn"):
        source = "a listed phrase" if distress.source == PHRASES else title_of(reply_filters, distress.source)
        remarks_by_turn.setdefault(distress.turn.index, []).append(f"Signs of distress: found by {source}")
    marks = ReplyMark.objects.filter(turn__conversation=conversation).select_related("turn")
    for mark in marks.order_by("pk"):
        words = ", ".join(f"“{word}”" for word in mark.found)
        title = title_of(reply_filters, mark.filter)
        remark = f"{title}: {mark.reason} {words}"
        remarks_by_turn.setdefault(mark.turn.index, []).append(remark.strip())
    ratings = Rating.objects.filter(turn__conversation=conversation, other_answers__has_key=SPANS)
    for rating in ratings.select_related("turn").prefetch_related("rubric__dimensions").order_by("pk"):
        assert rating.turn is not None, "found by its turn"
        titles = {dimension.key: dimension.title for dimension in rating.rubric.dimensions.all()}
        for dimension in spans_stored(rating):
            words, kind = (
                rating.turn.text[dimension.start : dimension.end],
                titles.get(dimension.category, dimension.category),
            )
            remark = f"{dimension.severity.capitalize()} error: “{words}” ({kind})"
            remarks_by_turn.setdefault(rating.turn.index, []).append(remark)
    return remarks_by_turn


def current_keys() -> dict[str, str]:
    """Return the key of each metric's current version, by name."""
    return {metric.name: metric.identity.key for metric in metrics_all()}


def results_of(conversation: Conversation) -> dict[str, MetricResult]:
    """Return one result per metric for a conversation.

    It is that of the current version, else the newest.
    """
    keys = current_keys()
    results: dict[str, MetricResult] = {}
    rows = MetricResult.objects.filter(conversation=conversation).select_related("metric")
    for result in rows.order_by("created_at", "pk"):
        name = result.metric.name
        if name not in results or results[name].metric.key != keys.get(name):
            results[name] = result
    return results


def _about(results: dict[str, MetricResult]) -> str:
    if not results:
        return ""
    keys = current_keys()
    n_current = sum(result.metric.key == keys.get(name) for name, result in results.items())
    if n_current == len(results):
        return f"{n_current} metrics, all in the current version."
    return f"{len(results)} metrics, {len(results) - n_current} in an earlier version."


def _tracks(
    series: Sequence[MetricSeries], requested_series: Sequence[str], values: dict[str, list[float | None]]
) -> list[Track]:
    by_name = {metric_series.name: metric_series for metric_series in series}
    names = [name for name in dict.fromkeys(requested_series) if name in by_name][:N_TRACKS]
    filled = sorted(series, key=lambda metric_series: -sum(v is not None for v in values[metric_series.name]))
    for name in [*_DEFAULT, *(metric_series.name for metric_series in filled)]:
        if len(names) >= N_TRACKS:
            break
        if name in by_name and name not in names:
            names.append(name)
    return [Track(by_name[name], number) for number, name in enumerate(names)]


def _values(series: MetricSeries, values: dict[str, list[float | None]], turns: Sequence[Turn]) -> list[float | None]:
    """Return the value of the matching column by turn.

    None for refused messages.
    """
    rows = []
    for column in series.columns:
        stored = iter(values[column.name])
        rows.append([None if turn.is_refused else next(stored, None) for turn in turns])
    return [next((v for v in turn_values if v is not None), None) for turn_values in zip(*rows, strict=True)]


def _get_missing_reason(series: MetricSeries, reasons: dict[str, str]) -> str:
    column_reasons = [reasons[column.name] for column in series.columns if column.name in reasons]
    return "; ".join(dict.fromkeys(column_reasons)) or "not one of the turns it describes"


USUAL = (
    "sentiment_user",
    "semantic_similarity_user_bot",
    "question_bot",
    "conversation_repetition_bot",
    "words_user",
    "words_bot",
)
"""Default first columns: one of each kind that the paper found important."""


def _place(name: str, first: Sequence[str]) -> tuple[int, str]:
    order = (*first, *(usual_name for usual_name in USUAL if usual_name not in first))
    return (order.index(name) if name in order else len(order), name)


def _chosen(text: str, turns: Sequence[Turn], hits: Sequence[int]) -> int:
    indices = [turn.index for turn in turns]
    if text.isdigit() and int(text) in indices:
        return int(text)
    if hits:
        return hits[0]
    replies = [turn.index for turn in turns if turn.speaker == Turn.Speaker.BOT]
    return (replies or indices or [0])[0]


def _speaker(conversation: Conversation, turn: Turn) -> str:
    link = getattr(conversation, "selfplay", None)
    if link is not None and link.partner is not None:
        return (conversation.bot if turn.speaker == Turn.Speaker.BOT else link.partner).title
    if turn.speaker == Turn.Speaker.BOT:
        return "Bot"
    if conversation.source == Conversation.Source.SELFPLAY:
        return "Bot (opener)"
    if conversation.source == Conversation.Source.SIMULATED:
        return "Simulated participant"
    return "Participant"


def _ratings(conversation: Conversation) -> list[RatingView]:
    views = []
    questions = other_questions_of_study(conversation.study) if conversation.study else []
    rows = Rating.objects.filter(conversation=conversation).select_related("rubric")
    rows = rows.prefetch_related("rubric__dimensions").order_by("submitted_at", "pk")
    for number, rating in enumerate(rows, start=1):
        rubric = rating.rubric
        answers = []
        for dimension in rubric.dimensions.all():
            high = rubric.high if dimension.high is None else dimension.high
            value = rating.answers.get(dimension.key)
            text, percent = "not answered", None
            if isinstance(value, int | float):
                number_text = tick_label(value) if float(value).is_integer() else figure(value)
                text = f"{number_text} of {tick_label(high)}"
                low = rubric.low if dimension.low is None else dimension.low
                percent = 100 * (value - low) / (high - low) if high > low else None
            answers.append(TurnValue(title_as_given(dimension), text, percent=percent))
        for question in questions:
            answer = rating.other_answers.get(question.key)
            if answer is not None:
                text = BETWEEN_CHOICES.join(answer) if isinstance(answer, list) else answer
                answers.append(TurnValue(question.short, text))
        rater = rating.rater or f"Rater {number}"
        views.append(RatingView(rater, answers, rating.comment))
    return views
