"""Leaderboard of a study, and two bots on all questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from markupsafe import Markup

from evaluation.analysis.comparisons import BotMeans, Comparisons
from evaluation.analysis.leaderboard import (
    Leaderboard,
    LeaderboardEntry,
    alike_groups,
    leaderboard,
    ranks_shown,
)
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.ratings import RatingDimension
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.charts.leaderboard import (
    Lane,
    Mark,
    ScaleWindow,
    against_row,
    around,
    axis_row,
    bars_row,
    interval_row,
    lanes_of,
    whole,
)
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import (
    count_cell,
    listed,
    number_cell,
    reason_text,
    span_cell,
)
from webapp.dashboard.narrative.verdicts import pair_verdict, test_said
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame

_LONGEST_SEED = 9


@dataclass(frozen=True, slots=True)
class BoardParams:
    """Options chosen in the address of the page.

    Attributes:
        by: key of the question; empty for the question that bots are ranked by.
        zooms: whether the scale is cut to the range of the data.
        bots: bots shown; empty for all.
        against: bots compared as a pair, two at most.
        seed: seed of the sample of conversations.
        kept: the other parts of the address.
        wrong: sentences on choices that cannot be applied.
    """

    by: str = ""
    zooms: bool = False
    bots: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    seed: int = 1
    kept: tuple[tuple[str, str], ...] = ()
    wrong: tuple[str, ...] = ()

    def parts(self, *but: str) -> list[tuple[str, str]]:
        """Return the parts of the address, without those of these names."""
        found = [
            ("by", self.by),
            ("zoom", "1" if self.zooms else ""),
            *(("bots", bot) for bot in self.bots),
            *(("against", bot) for bot in self.against),
            ("seed", str(self.seed) if self.seed != 1 else ""),
            *self.kept,
        ]
        return [(name, value) for name, value in found if value and name not in but]

    def address(self, **other: str) -> str:
        """Return the address of the page with other values; an empty one leaves its part out."""
        parts = [*self.parts(*other), *((name, value) for name, value in other.items() if value)]
        return f"?{urlencode(parts)}" if parts else "?"


def board_params(request: HttpRequest, frame: StudyFrame, *, more: Sequence[str] = ()) -> BoardParams:
    """Read what an address chooses; what cannot be done is said and left out.

    Args:
        more: what bots can be seen by beside the questions.
    """
    wrong = []
    keys = [*(dimension.key for dimension in frame.all_dimensions), *more]
    by = request.GET.get("by", "")
    if by and by not in keys:
        wrong.append("There is no question “{name}”; there are {known}.".format(name=by, known=", ".join(keys)))
        by = ""
    chosen: dict[str, list[str]] = {}
    for name in ("bots", "against"):
        asked = list(dict.fromkeys(filter(None, request.GET.getlist(name))))
        unknown = [bot for bot in asked if bot not in frame.rated_bots]
        if unknown:
            wrong.append(
                "No rated bot of this study is called {names}; there are {known}.".format(
                    names=listed([f"“{bot}”" for bot in unknown]), known=", ".join(frame.rated_bots)
                )
            )
        chosen[name] = [bot for bot in asked if bot not in unknown]
    if len(chosen["against"]) > 2:
        wrong.append(
            "{n} bots are ticked, and two can be set against each other: here are {names}.".format(
                n=len(chosen["against"]),
                names=listed([frame.title(bot) for bot in chosen["against"][:2]]),
            )
        )
    seed = request.GET.get("seed", "1")
    if not (seed.isascii() and seed.isdigit() and len(seed) <= _LONGEST_SEED):
        wrong.append(f"“{seed}” is no seed; a whole number such as 7 would be.")
        seed = "1"
    kept = [
        (name, value) for name in ("failed", "synthetic", "without") if (value := ",".join(request.GET.getlist(name)))
    ]
    return BoardParams(
        by=by if by != keys[0] else "",
        zooms=request.GET.get("zoom") == "1",
        bots=tuple(chosen["bots"]),
        against=tuple(chosen["against"][:2]),
        seed=int(seed),
        kept=tuple(kept),
        wrong=tuple(wrong),
    )


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A bot on the board.

    Attributes:
        ranks, n: as they are written; ranks_said, n_said: as they are read out.
        close: names of the bots it cannot be told apart from.
        is_ticked: to be set against another.
        place: the numbers that are drawn.
    """

    bot: BotInfo
    place: LeaderboardEntry
    href: str
    ranks: str
    ranks_said: str
    n: str
    n_said: str
    mean: str
    ends: str
    why: str
    close: str
    drawn: Markup
    bars: Markup
    is_ticked: bool


@dataclass(frozen=True, slots=True)
class Board:
    """The leaderboard as the page shows it.

    Attributes:
        axis, no_bars: what stands below the rows.
        lead: how many pairs can be told apart; note: what else is to be known.
        n_hidden: rated bots that are not chosen.
        table: the same in numbers.
        window, lanes: the part of the scale that is shown, and the bars that join rows.
    """

    dimension: RatingDimension
    window: ScaleWindow
    lanes: list[Lane]
    method: str
    scale: str
    rows: list[BoardRow]
    axis: Markup
    no_bars: Markup
    is_whole: bool
    lead: str
    note: str
    n_hidden: int
    table: PageTable


def board_of(
    frame: StudyFrame,
    means: BotMeans,
    compared: Comparisons,
    choice: BoardParams,
    dimension: RatingDimension,
) -> Board:
    """Return the leaderboard by the question that was compared.

    Args:
        dimension: that question, with its title for people.
    """
    found = leaderboard(means, compared)
    chosen = set(choice.bots or [place.bot for place in found.places])
    places = [place for place in found.places if place.bot in chosen and place.bot in frame.bots]
    window = whole(dimension.low, dimension.high)
    if choice.zooms:
        window = around(_ends(places), dimension.low, dimension.high)
    order = [place.bot for place in places]
    lanes = lanes_of(alike_groups({place.bot: place.too_close for place in places}), order)
    digits = digits_for(dimension.low, dimension.high)
    rows = [_row(frame, place, window, bars_row(lanes, i), choice, digits) for i, place in enumerate(places)]
    return Board(
        dimension=dimension,
        window=window,
        lanes=lanes,
        method=(
            f"Mean of all ratings with {percent(found.level)} interval. Ranks are ranges: every place the tests "
            f"allow. Bots joined by a bar do not differ significantly ({test_said(compared)})."
        ),
        scale="{name}, {low} to {high}".format(
            name=dimension.title, low=f"{dimension.low:g}", high=f"{dimension.high:g}"
        ),
        rows=rows,
        axis=axis_row(window),
        no_bars=bars_row(lanes, -1),
        is_whole=window.is_whole,
        lead=f"{found.n_told_apart} of {phrases.pairs_text(found.n_pairs)} differ significantly.",
        note=_note(
            found,
            compared,
            len(found.places) - len(places),
            is_headline=dimension == frame.headline,
        ),
        n_hidden=len(found.places) - len(places),
        table=_table(frame, found, places, compared, digits),
    )


def _ends(places: Sequence[LeaderboardEntry]) -> list[float]:
    return [end for place in places for end in (place.mean.low, place.mean.mean, place.mean.high) if end is not None]


def _row(
    frame: StudyFrame,
    place: LeaderboardEntry,
    window: ScaleWindow,
    bars: Markup,
    choice: BoardParams,
    digits: int,
) -> BoardRow:
    info, mean = frame.bots[place.bot], place.mean
    ranks_said = "no rank: control bot"
    if place.ranks is not None:
        best, worst = place.ranks
        ranks_said = f"rank {best}" if best == worst else f"rank {best} to {worst}"
    return BoardRow(
        bot=info,
        place=place,
        href=frame.link(place.bot),
        ranks=ranks_shown(place.ranks),
        ranks_said=ranks_said,
        n=f"{place.n_ratings:,}",
        n_said=phrases.ratings_text(place.n_ratings),
        mean=figure(mean.mean, digits),
        ends=span(mean.low, mean.high, digits),
        why=reason_text(mean.reason),
        close=_closest(frame, place),
        drawn=interval_row(window, mean.mean, mean.low, mean.high, hollow=info.is_control),
        bars=bars,
        is_ticked=place.bot in choice.against,
    )


def _closest(frame: StudyFrame, place: LeaderboardEntry) -> str:
    return listed([frame.title(bot) for bot in place.too_close])


def _note(found: Leaderboard, compared: Comparisons, n_hidden: int, *, is_headline: bool) -> str:
    """Compose the note on how to read the ranks."""
    notes = []
    if is_headline:
        notes.append("The same count stands on the other pages of results and in the report.")
    if compared.rater_share > 0:
        notes.append(
            "Tests and order take out who is strict or kind; the table has those means, too, for the average rater."
        )
    if n_hidden:
        notes.append(f"{phrases.bots_text(n_hidden)} not shown here: ranks and tests count all.")
    if any(place.is_control for place in found.places):
        notes.append("Hollow: control bot, which has no rank.")
    return " ".join(notes)


def _table(
    frame: StudyFrame,
    found: Leaderboard,
    places: Sequence[LeaderboardEntry],
    compared: Comparisons,
    digits: int,
) -> PageTable:
    headers = [
        Header("Bot"),
        Header("Rank", numeric=True),
        Header("Ratings", numeric=True),
        Header("Mean", numeric=True),
        Header(percent(found.level), numeric=True),
        Header("For the average rater", numeric=True),
        Header("Too close to"),
    ]
    if compared.rater_share <= 0:
        del headers[5]
    rows = []
    for place in places:
        info, mean = frame.bots[place.bot], place.mean
        cells = [
            Cell(info.title, frame.link(place.bot), slot=info.slot, hollow=info.is_control),
            Cell(
                ranks_shown(place.ranks),
                why="" if place.ranks else "a control bot has no rank",
                raw=place.ranks or (None, None),
            ),
            count_cell(place.n_ratings),
            number_cell(mean.mean, digits, reason_text(mean.reason)),
            span_cell(mean.low, mean.high, digits, why=reason_text(mean.reason)),
            number_cell(place.compared_mean, digits),
            Cell(_closest(frame, place) or "none"),
        ]
        if compared.rater_share <= 0:
            del cells[5]
        rows.append(cells)
    return PageTable(headers, rows)


@dataclass(frozen=True, slots=True)
class QuestionComparison:
    """Two bots on one question.

    Attributes:
        gap, ends: of their difference, as it is written; why: there is no interval.
        is_apart: whether the two are told apart by this question.
        said: the same as a sentence.
        window, marks: what is drawn.
    """

    title: str
    means: tuple[str, str]
    gap: str
    ends: str
    why: str
    is_apart: bool
    said: str
    drawn: Markup
    window: ScaleWindow
    marks: list[Mark]


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two bots on all questions, the one that stands higher first.

    Attributes:
        window, axis: of the scale; None where the questions have different ones.
        lead: which questions set them apart; need: what would tell them apart by what bots are ranked by.
    """

    first: BotInfo
    second: BotInfo
    questions: list[QuestionComparison]
    window: ScaleWindow | None
    axis: Markup | None
    level: str
    lead: str
    need: str


def head_to_head(
    frame: StudyFrame,
    headline: Comparisons,
    compared: Mapping[str, Comparisons],
    choice: BoardParams,
) -> HeadToHead | None:
    """Return the two ticked bots on every question; None where not two of them are ticked.

    Args:
        headline: of what bots are ranked by, with plans.
        compared: of every question.
    """
    if len(choice.against) < 2:
        return None
    standing = [*headline.order, *headline.controls]
    a, b = sorted(
        choice.against,
        key=lambda bot: standing.index(bot) if bot in standing else len(standing),
    )
    infos = frame.bots[a], frame.bots[b]
    asked = [d for d in frame.all_dimensions if d.key in compared]
    questions = [_question(infos, compared[d.key], d) for d in asked]
    scales = {(d.low, d.high) for d in asked}
    window = whole(*scales.pop()) if len(scales) == 1 else None
    apart = [one.title.lower() for one in questions if one.is_apart]
    if not apart:
        lead = "No question sets them apart."
    elif len(apart) == len(questions):
        lead = "Every question sets them apart."
    elif len(apart) == 1:
        lead = f"Only {apart[0]} sets them apart."
    else:
        lead = f"{listed(apart).capitalize()} set them apart."
    titles = {bot: info.title for bot, info in frame.bots.items()}
    pair = headline.pair(a, b)
    need = ""
    if pair is not None and not pair.ordered:
        digits = digits_for(frame.headline.low, frame.headline.high)
        need = f"By {frame.headline.title.lower()}: {pair_verdict(pair, headline, titles, digits)}"
    return HeadToHead(
        *infos,
        questions=questions,
        window=window,
        axis=axis_row(window) if window else None,
        level=percent(1 - headline.alpha),
        lead=lead,
        need=need,
    )


def _question(infos: tuple[BotInfo, BotInfo], compared: Comparisons, dimension: RatingDimension) -> QuestionComparison:
    first, second = infos
    digits = digits_for(dimension.low, dimension.high)
    means = [compared.means.get(info.bot_id) for info in infos]
    pair = compared.pair(first.bot_id, second.bot_id)
    gap, low, high = (None, None, None) if pair is None else (pair.difference, pair.low, pair.high)
    if pair is not None and pair.a != first.bot_id and gap is not None:
        gap = -gap
        low, high = (None, None) if low is None or high is None else (-high, -low)
    titles = {info.bot_id: info.title for info in infos}
    window = whole(dimension.low, dimension.high)
    marks = [(mean, info.slot, info.is_control) for mean, info in zip(means, infos, strict=True)]
    return QuestionComparison(
        title=dimension.title,
        means=(figure(means[0], digits), figure(means[1], digits)),
        gap=figure(gap, digits),
        ends=span(low, high, digits) if low is not None else "",
        why=reason_text(pair.reason) if pair is not None else "one of them has no rating of this",
        is_apart=compared.are_told_apart(first.bot_id, second.bot_id),
        said=pair_verdict(pair, compared, titles, digits) if pair is not None else "",
        drawn=against_row(window, marks),
        window=window,
        marks=marks,
    )
