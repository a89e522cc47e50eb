"""Phrases shared by all results: counts, cells, reasons, titles, and terms.

Sentences insert counts as a part (`1 rating`, `1,240 ratings`), so that every count has its singular. Every code of
`evaluation.findings.Reason` has one sentence fragment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evaluation.findings import Reason, reason_read
from evaluation.metrics.registry import metric_list
from evaluation.number_format import figure, p_value, percent, probability, share, span
from evaluation.stats.comparisons import ORDER_ALPHA
from evaluation.tables import Column
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, Header, PageFigure, PageTable
from webapp.jobs.selectors.metrics import language_name
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame

Row = TypeVar("Row")


def _counter(one: str, several: str = "") -> Callable[[int], str]:
    """Return a function that writes a number with its noun, `1 bot` or `2 bots`."""
    words = f"%(n)s {one}", f"%(n)s {several or one + 's'}"
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
    """Return the title without the words for whom it is about."""
    for ending in _ENDINGS:
        title = title.replace(ending, "")
    return title.removesuffix(", mean")


def feature_titles(names: Sequence[str]) -> list[str]:
    """Return titles of conversation columns; a name that no metric has becomes words."""
    columns = [column for metric in metric_list() for column in metric.columns if column.level == "conversation"]
    known = {column.name: column.title for column in columns}
    return [known.get(name) or name.replace("_", " ") for name in names]


def short_titles(titles: Sequence[str]) -> list[str]:
    """Shorten each title, unless two would then be alike."""
    counts = Counter(short_title(title) for title in titles)
    return [short_title(title) if counts[short_title(title)] == 1 else title.removesuffix(", mean") for title in titles]


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Trajectory along a conversation: one column, or the same column of participant and bot."""

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
    found: list[MetricSeries] = []
    taken: set[str] = set()
    for column in columns:
        if column.name in taken:
            continue
        stem = column.name.removesuffix("_user").removesuffix("_bot")
        pair = [by_name[name] for name in (f"{stem}_user", f"{stem}_bot") if name in by_name]
        if len(pair) == 2 and column in pair:
            taken.update(one.name for one in pair)
            found.append(MetricSeries(stem, short_title(column.title), tuple(pair)))
        else:
            found.append(MetricSeries(column.name, column.title, (column,)))
    titles = short_titles([one.title for one in found])
    return [MetricSeries(one.name, title, one.columns) for one, title in zip(found, titles, strict=True)]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table without a plot.

    Attributes:
        id: unique on its page, and the name of its CSV.
        title, method, note: as a figure's.
        remarks: further sentences, as a list.
    """

    id: str
    title: str
    table: PageTable
    method: str = ""
    note: str = ""
    remarks: Sequence[str] = ()


Columns = tuple[str | Sequence[str], Callable[[Row], Cell | Sequence[Cell]]]
"""A title and the cell of a row, or the titles of several columns and their cells."""


def page_table(rows: Iterable[Row], *columns: Columns[Row]) -> PageTable:
    """Return a table of declared columns; a column is numeric where one of its cells has a number."""
    titles = [title for names, _make in columns for title in ([names] if isinstance(names, str) else names)]
    cells = [
        [
            cell
            for _names, make in columns
            for made in [make(row)]
            for cell in ([made] if isinstance(made, Cell) else made)
        ]
        for row in rows
    ]
    heads = [Header(title, any(row[i].raw for row in cells)) for i, title in enumerate(titles)]
    return PageTable(heads, cells)


def declared_table(
    id: str, title: str, rows: Iterable[Row], *columns: Columns[Row], method: str = "", note: str = ""
) -> NamedTable:
    """Return a table of declared columns with its title."""
    return NamedTable(id, title, page_table(rows, *columns), method, note)


@dataclass(slots=True)
class Section:
    """One part of the analysis.

    Attributes:
        id: its anchor.
        title: its heading.
        lead: what was found, in sentences; the first is the most important.
        points: single findings, as a list.
        points_title: what the list is of, where a page folds it because it is long.
        how: by which test or rule it was found, in sentences.
        figures, tables: in order, figures first.
        missing: what could not be computed, each with its reason.
        caution: what to know before quoting any of it.
        conclusion: one sentence for a list of sections; "" if it is the first of the others.
    """

    id: str
    title: str
    lead: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    points_title: str = ""
    how: list[str] = field(default_factory=list)
    figures: list[PageFigure] = field(default_factory=list)
    tables: list[NamedTable] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    caution: str = ""
    conclusion: str = ""

    @property
    def in_one_sentence(self) -> str:
        """Its conclusion, or the reason why there is none."""
        return next(iter([one for one in (self.conclusion, *self.lead, *self.points, *self.missing) if one]), "")


def number_cell(value: float | None, digits: int = 2, why: str | None = "") -> Cell:
    """Make a cell of a number; without one, of a dash and the reason."""
    undefined = value is None or not math.isfinite(value)
    return Cell(figure(value, digits), why=(why or "") if undefined else "", raw=(value,))


def share_cell(value: float | None, digits: int = 2, why: str | None = "") -> Cell:
    """Make a cell of a number between −1 and 1."""
    undefined = value is None or not math.isfinite(value)
    return Cell(share(value, digits), why=(why or "") if undefined else "", raw=(value,))


def span_cell(low: float | None, high: float | None, digits: int = 2, *, shares: bool = False, why: str = "") -> Cell:
    """Make a cell of an interval."""
    return Cell(span(low, high, digits, shares=shares), why=why if low is None else "", raw=(low, high))


def mean_cells(
    found: Any, digits: int = 2, *, shares: bool = False, of: str = "mean", why: str | None = None
) -> list[Cell]:
    """Make the cells of an estimate and of its interval, of what has `low`, `high` and `reason`.

    Args:
        of: name of the estimate.
        why: reason for a missing number, where it has none of its own.
    """
    why = reason_text(found.reason) if why is None else why
    cell = share_cell if shares else number_cell
    return [cell(getattr(found, of), digits, why), span_cell(found.low, found.high, digits, shares=shares, why=why)]


def named_cell(bots: Mapping[str, BotInfo], bot: str) -> Cell:
    """Make a cell of a bot's name, with its mark where the study knows it."""
    return bot_cell(bots[bot]) if bot in bots else Cell(bot)


def count_cell(n: int | None, why: str = "") -> Cell:
    """Make a cell of a whole number."""
    return Cell("–" if n is None else f"{n:,}", why=why if n is None else "", raw=(n,))


def p_cell(p: float | None, why: str | None = "") -> Cell:
    """Make a cell of a p-value."""
    return Cell(p_value(p), why=(why or "") if p is None else "", raw=(p,))


def bot_cell(bot: BotInfo) -> Cell:
    """Make a cell of a bot's name with its mark, hollow for a control."""
    return Cell(bot.title, slot=bot.slot, hollow=bot.is_control)


def listed(names: Sequence[str]) -> str:
    """Join names to a list in words, `A, B and C`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def controls_said(frame: StudyFrame, *, left_out: bool) -> str:
    """Name what was done with rated controls; empty without any."""
    if not frame.controls:
        return ""
    return "Controls are left out." if left_out else "Controls are in."


def two_digits(n: int) -> str:
    """Write a planned number rounded up to two figures, because more digits would promise too much."""
    if n < 100:
        return str(n)
    power = 10 ** (len(str(n)) - 2)
    return f"{-(-n // power) * power:,}"


FRAGMENTS: dict[str, str] = {
    "no_value": "no value",
    "not_played": "no conversation with itself in this run",
    "not_computed": "not computed for this run by the metric as it is now",
    "other_language": "left out: it holds for {holds}, and this is in {language}",
    "one_value": "one value: no interval",
    "one_group": "all values of one rater: no interval",
    "no_rating": "no rating",
    "no_rating_yet": "no rating yet",
    "no_rating_of_bot": "{bot} has no rating",
    "one_rating": "a bot has one rating: its spread is unknown",
    "few_raters_for_weight": "too few raters to estimate a weight",
    "no_unrated": "no unrated conversation is predicted",
    "constant_prediction": "the predictions do not vary",
    "one_judgement": "they were compared once",
    "one_rater": "a bot was rated by one participant only",
    "effect_one_look": "its interval holds for one look, once the study has all its ratings",
    "all_above": "every rating of one is above every rating of the other",
    "no_spread": "neither bot’s ratings vary",
    "too_few_raters": "a bot has fewer than two raters: its spread is unknown",
    "no_difference": "no difference can be shown",
    "too_many_raters": "more than {most} raters per bot",
    "no_smallest": "no smallest difference of interest is named, and the scale is not known",
    "few_bots": "ratings of {n_bots}; at least 2 are needed",
    "one_rater_only": "one rater only: nothing can be said about others",
    "one_rating_each": "every rater gave one rating: rater effects and chance cannot be separated; compare the bots "
    "without raters",
    "nothing_left": "{n_ratings} by {n_raters}: nothing left to judge {n_bots} by",
    "no_error": "the ratings do not vary around the bots’ and raters’ means",
    "one_answer": "every rating is {answer}: nothing tells the bots apart",
    "too_few_for_bots": "{n_raters}: too few to judge {n_bots} by",
    "one_rater_of_bot": "{bot} was rated by one rater only: how far its odds can be off is not known",
    "raters_alike": "the few raters of a bot answer alike: nothing tells how far its odds can be off",
    "not_independent": "no interval: raters gave several ratings each, which are not independent",
    "always_lowest": "every rating of {bot} is the lowest one: its effect is infinite",
    "always_highest": "every rating of {bot} is the highest one: its effect is infinite",
    "separated": "no rating of {upper} is below {at} and none of {lower} above: their difference is infinite",
    "no_optimum": "no optimum found: the bots’ ratings hardly overlap",
    "one_level": "factor {factor} has one level: there is nothing to compare",
    "empty_cells": (
        "{n_empty} of the {n_cells} combinations of levels have no rating: the interactions cannot be told from "
        "the factors"
    ),
    "one_rating_a_cell": "as many cells as ratings: nothing is left to judge the effects by",
    "constant_cells": "the ratings do not vary within the cells: nothing to judge the effects by",
    "one_rater_of_some": "one rater gave all ratings of a bot: how far its mean can be off is not known",
    "few_raters_for_test": "too few raters to test {n_differences} differences at once",
    "few_shared_items": "{n_items} items rated by both; at least 2 are needed",
    "both_gave_one": "both raters gave only {answer}: agreement is certain",
    "no_pair_defined": "no pair has a kappa",
    "no_pair_correlates": "no pair of raters has a correlation",
    "no_pair_shares": "no pair of raters shares {min_items} items",
    "all_alike": "all values are the same: nothing tells how far the mean can be off",
    "no_scale": "the scale is not known, and without it nothing tells how far the mean can be off",
    "all_the_same": "all ratings are the same: agreement is certain",
    "no_interval": "no interval: most resamples are undefined",
    "few_items_for_interval": "no interval: {needed} items are needed, there are {n_items}",
    "few_other_answers": "no interval: only {percent} of the answers are other than the most frequent one",
    "no_disagreement": "no interval: without a disagreement nothing tells how far it can be off",
    "always_tied": "one of the two always called them the same",
    "few_items": "{n_items} items with two ratings or more; at least 2 are needed",
    "few_raters": "{n_raters}; at least 2 are needed",
    "gaps": "{n_gaps} of {n_items} items lack a rating: forms 2 and 3 need every rater on every item",
    "no_variance": "all ratings are the same: there is no variance to share out",
    "same_means": "the items’ means are all the same: no variance of their own",
    "few_shared": "{n_shared} of {n_conversations} rated by more than one",
    "not_named": "raters are not named, so no two of them can be compared",
    "many_answers": "{n_answers} different answers: kappas need few categories",
    "few_pairs": "only {n_pairs} of the 3 pairs that a correlation needs",
    "constant_side": "one side is constant",
    "few_systems": "{n} systems are too few; {needed} are needed",
    "people_tie_all": "people’s means of all systems are equal",
    "no_reply_pairs": "no two replies were rated",
    "few_pairs_for_interval": "no interval and no p: {n_pairs} pairs are too few",
    "units_tell_nothing": "no interval: too few people or contexts, or too much alike, to tell how far it can be off",
    "few_carry": "no interval and no p: {n_carrying} of {n_units} people, contexts or items carry one side",
    "many_pairs_of_units": "no interval: {n_pairs} pairs are too many for Kendall’s tau",
    "few_pairs_in_groups": "{n_pairs} pairs in {n_groups} groups leave nothing to correlate",
    "few_rated": "{n_conversations} rated; {k} best and {k} worst need {needed}",
    "rated_alike": "all conversations are rated the same",
    "no_trait": "no bot is known by any of these: {traits}",
    "one_level_rated": "only one level of {trait} has rated conversations",
    "not_told": "not told by this fit",
    "no_rated_conversation": "no conversation has a rating",
    "no_features": "no conversation with people has all features defined",
    "no_selfplay_features": "no self-play conversation has all features defined",
    "not_adjusted": "no mean less the habits of raters: no bot has two of these ratings that differ",
    "not_combined": "not combined with the prediction: these are not known to be the ratings of the fit",
    "selfplay_unchecked": "only {n_bots} have ratings and self-play to see by how far predictions from self-play "
    "err; {needed} others are needed",
    "embedding": "{n_directions} directions of an embedding, which mean nothing one by one",
    "constant_feature": "constant in every fold: dropped",
    "one_fold": "used in one fold only: no interval",
    "sum_of_features": "a feature is a sum of others: the condition number is infinite",
    "few_bots_for_reliability": "{n_bots} with two rated conversations; {needed} are needed to see how far means "
    "agree with themselves",
    "few_bots_for_values": "{n_bots}; {needed} with different means are needed",
    "no_gain_no_slope": "no interval: Q² is not above 0; predictions near the mean of the other bots make the slope "
    "negative",
    "lengths_explain": "the lengths of the conversations leave nothing of one side",
    "in_words": "{words}",
    "no_pair_judged": "no comparison of two bots",
    "only_ties": "every judgement is a tie: nothing tells the bots apart",
    "never_met": "{bots} never met {bot}, directly or through others",
    "place_decides": "who was shown first, or the tie, decides every judgement: its effect is infinite",
    "never_lost": (
        "{best} never lost against {others} (or too few judgements tell): the difference of their strengths is infinite"
    ),
    "no_strengths_found": "no optimum found",
    "nobody_chose": "no participant has chosen yet",
    "nobody_named": "no rater is named in the data",
    "no_rater_with": "no rater has {needed} ratings that differ",
    "unnamed_ratings": "{n_ratings} without a rater",
    "few_own_ratings": "{n} of the {needed} ratings needed",
    "same_own_rating": "the same rating {n} times: no deviation to divide by",
    "several_scales": "the questions have different scales",
    "few_conversations": "only {n_conversations}",
    "few_long_forms": "only {n_conversations} with three answers or more",
    "one_answer_to_all": "one answer to all questions in {percent} of {n_conversations}",
    "spread_of_answers": "answers vary by {spread} of the scale (standard deviation)",
    "no_bots": "no bots given",
    "few_shared_bots": "{n_bots} rated by others too",
    "same_for_every_bot": "the same rating for every bot",
    "r_with_others": "r = {r} with the other raters over {n_bots}",
    "no_times": "no times given",
    "no_times_of_rater": "no times known",
    "time_taken": "{seconds} s a conversation, where raters usually take {usual_seconds} s",
    "no_opposites": "no statements of opposite wording",
    "one_side_unanswered": "one side was never answered",
    "affirms_opposites": "affirms opposite statements: {percent} of the scale beyond balance",
    "denies_opposites": "denies opposite statements: {percent} of the scale beyond balance",
    "no_control": "no control in the study",
    "rated_no_control": "rated no control",
    "rated_no_bot": "rated no bot but the control",
    "control_lower": "control rated {control_mean}, real bots {bots_mean}: lower ({p})",
    "control_not_lower": "control rated {control_mean}, real bots {bots_mean}: not clearly lower ({p})",
}
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
    "seconds": lambda value: figure(value, 0),
    "usual_seconds": lambda value: figure(value, 0),
}
"""How values of these names are shown."""


def reason_text(found: Reason | Mapping[str, Any] | str | None) -> str:
    """Return the reason for a missing number, without a full stop; "" without a reason.

    Args:
        found: a reason, or its form in a stored document.
    """
    reason = reason_read(found)
    if reason is None:
        return ""
    shown = {name: _shown(name, value) for name, value in reason.values.items()}
    return FRAGMENTS[reason.code].format(**shown)


def _shown(name: str, value: Any) -> str:
    if name in _SHOWN:
        return _SHOWN[name](value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def glossary_terms() -> list[tuple[str, str]]:
    """Return each word with its explanation."""
    return [
        (
            "Significant difference",
            (
                "Two bots differ significantly if a test of their mean ratings says so. The test is generalised "
                "least squares with raters as a random effect and errors clustered by rater. It equals Welch’s "
                "test if every rater rates once, and the paired t test if every rater rates both. P values are "
                f"corrected by Holm for all pairs of the study, p < {share(ORDER_ALPHA)}. While a study collects, "
                "and until its planned size is reached, an always-valid test takes its place: you may look at it "
                "at any time, but it needs a clearer difference (confidence sequences of a normal mixture; "
                "Robbins, 1970)."
            ),
        ),
        (
            "Equal for practical purposes",
            (
                "Two bots are equal for practical purposes if the 90 % interval of their difference lies within the "
                "smallest difference of interest on both sides of 0 (two one-sided tests, p < .05; Schuirmann, 1987). "
                "The study names that difference before people take part; it is a tenth of the scale if it names none. "
                "Bots that do not differ significantly are not therefore equal: often the ratings are too few."
            ),
        ),
        (
            "Raters",
            (
                "All ratings with one rater ID are by one rater. Ratings without a rater ID are treated as one "
                "rater per conversation. So are ratings by a position such as “slot 1”."
            ),
        ),
        (
            "Intercept",
            (
                "Where the line of a hybrid fit starts. One intercept for all folds is preferred: with one for each "
                "fold, as in the paper, features that say nothing correlate at nearly −1 with the ratings."
            ),
        ),
    ]
