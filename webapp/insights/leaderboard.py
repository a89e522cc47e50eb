"""Leaderboards of a study: by ratings, votes and paired comparisons.

Page and picture show the same rows, each with a cell drawn by `evaluation.plots.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Count
from markupsafe import Markup

from evaluation.analysis.bot_means import BotMeans
from evaluation.analysis.comparisons import Comparisons
from evaluation.analysis.leaderboard import LeaderboardEntry, find_equal_groups, format_ranks, leaderboard
from evaluation.analysis.pairs import PairResults
from evaluation.data.ratings import MEAN_KEY, RatingDimension
from evaluation.number_format import digits_for, figure, percent, span
from evaluation.plots.rows import (
    Column,
    Lane,
    RowName,
    ScaleWindow,
    axis_cell,
    bars_cell,
    bars_width,
    drawn_column,
    interval_cell,
    lanes_of,
    rating_window,
    rows_drawing,
    unbounded_window,
)
from evaluation.plots.svg import Plot
from evaluation.stats.means import Interval
from webapp.bots.selectors import bot_name
from webapp.conversations.models import Turn
from webapp.core.language import plural
from webapp.insights.charts.figure import TEXT_WIDE
from webapp.insights.narrative import phrases
from webapp.insights.narrative.comparisons import conclusion
from webapp.insights.narrative.phrases import listed, reason_text
from webapp.insights.narrative.verdicts import intervals_sentence, name_comparison_test, one_look, smallest_sentences
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame
from webapp.search.chat_selection import FEEDBACK, ChatSelection
from webapp.search.index_statistics import VOTES_LEVEL, BotVotes, votes_ranked
from webapp.studies.models import Study

VOTES = "votes"
"""Name of the leaderboard of votes in addresses."""
STRENGTHS = "strengths"


@dataclass(frozen=True, slots=True)
class BoardParams:
    """Options chosen in the address of the page.

    Attributes:
        question: key of the question; empty for the question that bots are ranked by.
        is_whole: whether the whole scale is shown, not the range of the data.
        bots: bots shown; empty for all.
        against: bots compared as a pair, two at most.
        seed: seed of the sample of conversations.
        kept_params: the other parts of the address.
        wrong: sentences on invalid choices.
    """

    question: str = ""
    is_whole: bool = False
    bots: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    seed: int = 1
    kept_params: tuple[tuple[str, str], ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """Level of a factor, as `factor.level`; empty for all conditions."""
        return dict(self.kept_params).get("level", "")

    def parts(self, *but: str) -> list[tuple[str, str]]:
        """Return the parts of the address except for these names."""
        address_parts = [
            ("by", self.question),
            ("zoom", "0" if self.is_whole else ""),
            *(("bots", bot) for bot in self.bots),
            *(("against", bot) for bot in self.against),
            ("seed", str(self.seed) if self.seed != 1 else ""),
            *self.kept_params,
        ]
        return [(name, value) for name, value in address_parts if value and name not in but]

    def address(self, **changes: str) -> str:
        """Return the address of the page with other values.

        Empty values are left out.
        """
        parts = [*self.parts(*changes), *((name, value) for name, value in changes.items() if value)]
        return f"?{urlencode(parts)}" if parts else "?"


@dataclass(frozen=True, slots=True)
class BotRefusals:
    """Messages to a bot that a content filter refused."""

    title: str
    n_refused: int
    n_messages: int


def count_refusals(study: Study) -> list[BotRefusals]:
    """Count refused messages per bot, the most first.

    Bots without any are left out.
    """
    messages = Turn.objects.filter(conversation__study=study, conversation__is_synthetic=False, speaker="human")
    per_bot = messages.values_list("conversation__bot__bot_id").order_by().annotate(n=Count("pk"))
    # Refused messages have an index; the others, of which there may be a million, count for these bots only.
    n_refused = dict(per_bot.filter(is_refused=True))
    n_messages = dict(per_bot.filter(conversation__bot__bot_id__in=list(n_refused))) if n_refused else {}
    rows = [BotRefusals(bot_name(bot), n, n_messages[bot]) for bot, n in n_refused.items()]
    return sorted(rows, key=lambda row: (-row.n_refused, row.title))


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A bot on a board.

    Attributes:
        ranks, n: as displayed; ranks_said, n_said: for screen readers.
        close: names of the bots that do not differ significantly from it.
        place: the plotted numbers of a board by ratings.
    """

    bot: BotInfo
    href: str
    n: str
    mean: str
    ends: str
    drawing: Markup
    n_said: str = ""
    ranks: str = ""
    ranks_said: str = ""
    reason: str = ""
    close: str = ""
    bars: Markup | str = ""
    is_ticked: bool = False
    place: LeaderboardEntry | None = None

    @property
    def name(self) -> RowName:
        """Its name in pictures."""
        return RowName(self.bot.title, self.bot.slot, self.bot.is_control)


@dataclass(frozen=True, slots=True)
class Board:
    """Content of a leaderboard.

    Attributes:
        key: key of the question; part of file names.
        title: title of the scale; n_title, mean_title: titles of columns.
        verdict: the conclusion; caption: the value drawn and its interval.
        method, note: the method, and further notes.
        lanes: bars that join rows; no_bars: space for them.
    """

    key: str
    title: str
    verdict: str
    caption: str
    method: str
    note: str
    rows: list[BoardRow]
    window: ScaleWindow
    n_title: str = "Ratings"
    mean_title: str = "Mean"
    lanes: list[Lane] = field(default_factory=list)

    @property
    def axis(self) -> Markup:
        """Drawing below the rows."""
        return axis_cell(self.window)

    @property
    def no_bars(self) -> Markup:
        """Space as wide as the bars."""
        return bars_cell(self.lanes, -1)

    @property
    def opens(self) -> str:
        """Description of the page that the marks of a row open."""
        order = {VOTES: ", most votes down first", STRENGTHS: ""}.get(self.key, ", worst first")
        return f"Read the chats{order}"

    @property
    def is_ranked(self) -> bool:
        """True if the bots have ranks."""
        return any(row.ranks for row in self.rows)

    @property
    def can_select(self) -> bool:
        """True if two of its bots can be compared on all questions."""
        return sum(row.place is not None for row in self.rows) > 1

    def picture(self, study: str) -> Plot:
        """Return the board as an SVG document.

        Args:
            study: the study's name, for the title.
        """
        ranks = [Column("Rank", [row.ranks for row in self.rows])] if self.is_ranked else []
        joins = Column("Too close to call", [row.bars for row in self.rows], width=bars_width(self.lanes))
        columns = [
            *ranks,
            Column("Bot", [row.name for row in self.rows]),
            Column(self.n_title, [row.n for row in self.rows], align="end"),
            drawn_column(self.title, [row.drawing for row in self.rows], self.window),
            Column(
                self.mean_title,
                [f"{row.mean} {row.ends}" for row in self.rows],
                align="end",
                bold=frozenset(range(len(self.rows))),
            ),
            *([joins] if self.lanes else []),
        ]
        caption = [self.caption]
        if self.lanes:
            caption.append("Vertical bars on the right join bots that do not differ significantly.")
        if any(row.bot.is_control for row in self.rows):
            caption.append("Hollow: control bot.")
        description = f"{self.verdict} {self.caption} {self.method} {self.note}"
        return plot_alone(columns, f"{study}: {self.title}", description, " ".join(caption))


def plot_alone(columns: Sequence[Column], title: str, description: str, caption: str) -> Plot:
    """Draw rows as a picture with its caption printed below."""
    return Plot.from_drawing(
        rows_drawing([columns], TEXT_WIDE, name=title, title=title, description=description, foot=caption)
    )


def board_of(
    frame: StudyFrame, means: BotMeans, compared: Comparisons, choice: BoardParams, dimension: RatingDimension
) -> Board:
    """Return the leaderboard by the question that was compared.

    Args:
        dimension: that question, with its title for people.
    """
    ranking = leaderboard(means, compared)
    chosen = set(choice.bots or [place.bot for place in ranking.places])
    places = [place for place in ranking.places if place.bot in chosen and place.bot in frame.bots]
    window = rating_window(
        [(place.mean.mean, place.mean.low, place.mean.high) for place in places],
        dimension.low,
        dimension.high,
        is_whole=choice.is_whole,
        is_open=dimension.inferred,
    )
    order = [place.bot for place in places]
    lanes = lanes_of(find_equal_groups({place.bot: place.too_close for place in places}), order)
    digits = digits_for(dimension.low, dimension.high)
    condition = choice.level.replace(".", "=", 1)
    rows = [
        _row(
            frame,
            place,
            window,
            bars_cell(lanes, i),
            choice,
            digits,
            frame.mean_link(dimension, place.bot, condition=condition),
        )
        for i, place in enumerate(places)
    ]
    notes = smallest_sentences(frame.study, compared.smallest, digits)
    mixed = frame.dimensions if dimension.key == MEAN_KEY else [dimension]
    notes += phrases.direction_sentences(mixed)
    if compared.rater_share > 0:
        notes.append("Tests and order are adjusted for strict and lenient raters.")
    if n_hidden := len(ranking.places) - len(places):
        notes.append(f"{phrases.bots_text(n_hidden)} hidden; ranks and tests include all bots.")
    if any(place.is_control for place in ranking.places):
        notes.append("Hollow: control bot, which has no rank.")
    mean_kind = "Mean of the conditions’ means" if compared.n_conditions else "Mean of all ratings"
    return Board(
        key=dimension.key,
        title=f"{dimension.head}, {dimension.low:g} to {dimension.high:g}"
        + (" (lowest and highest answer; the scale is unknown)" if dimension.inferred else ""),
        verdict=conclusion(frame, compared, dimension),
        caption=intervals_sentence(mean_kind, compared.test, ranking.level),
        method=(
            "A range of ranks contains every rank that the tests allow. Bots joined by a bar do not differ "
            f"significantly ({name_comparison_test(compared)}), but are not necessarily equal."
        ),
        note=" ".join(notes),
        rows=rows,
        window=window,
        lanes=lanes,
    )


def _row(
    frame: StudyFrame,
    place: LeaderboardEntry,
    window: ScaleWindow,
    bars: Markup,
    choice: BoardParams,
    digits: int,
    href: str,
) -> BoardRow:
    info, mean = frame.bots[place.bot], place.mean
    return BoardRow(
        bot=info,
        place=place,
        href=href,
        ranks=format_ranks(place.ranks),
        ranks_said=_ranks_said(place.ranks),
        n=f"{place.n_ratings:,}",
        n_said=phrases.ratings_text(place.n_ratings),
        mean=figure(mean.mean, digits),
        ends=span(mean.low, mean.high, digits),
        reason=reason_text(mean.reason),
        close=listed([frame.title(bot) for bot in place.too_close]),
        drawing=interval_cell(window, mean.mean, mean.low, mean.high, hollow=info.is_control),
        bars=bars,
        is_ticked=place.bot in choice.against,
    )


def _ranks_said(ranks: tuple[int, int] | None) -> str:
    if ranks is None:
        return "no rank: control bot"
    best, worst = ranks
    return f"rank {best}" if best == worst else f"rank {best} to {worst}"


def votes_board(frame: StudyFrame, votes: Mapping[str, BotVotes], choice: BoardParams) -> Board:
    """Return the chosen bots by their share of upvotes, highest first.

    Nothing is tested, so there are no ranks.
    """
    chosen = [bot for bot in frame.rated_bots if not choice.bots or bot in choice.bots]
    ranked_votes = votes_ranked([bot for bot in chosen if bot in frame.bots], votes)
    numbers = {bot_votes.bot_id: _in_percent(bot_votes) for bot_votes in ranked_votes}
    window = rating_window(numbers.values(), 0, 100, is_whole=choice.is_whole)
    n_votes = sum(bot_votes.n for bot_votes in ranked_votes)
    rows = []
    for bot_votes in ranked_votes:
        bot = frame.bots[bot_votes.bot_id]
        rows.append(
            BoardRow(
                bot=bot,
                href=frame.link(ChatSelection.of(sort="-down", highlight=FEEDBACK, bot=bot.bot_id, is_="voted"))
                if bot_votes.n
                else "",
                n=f"{bot_votes.up:,} up, {bot_votes.down:,} down",
                mean=percent(bot_votes.share),
                ends=_votes_ends(bot_votes),
                drawing=interval_cell(window, *numbers[bot.bot_id], hollow=bot.is_control),
            )
        )
    sentence = plural(n_votes, "%(n)s vote on single replies.", "%(n)s votes on single replies.") % {
        "n": f"{n_votes:,}"
    }
    return Board(
        key=VOTES,
        title="Votes up, in %",
        verdict=sentence,
        caption=f"Share of votes up with {percent(VOTES_LEVEL)} interval.",
        method="Votes are clustered by conversation.",
        note="Voting is voluntary and often a reaction to annoying replies, so there are no ranks here.",
        rows=rows,
        window=window,
        n_title="Votes",
        mean_title="Share up",
    )


def _in_percent(votes: BotVotes) -> tuple[float | None, float | None, float | None]:
    share, low, high = (None if value is None else 100 * value for value in (votes.share, votes.low, votes.high))
    return share, low, high


def _votes_ends(votes: BotVotes) -> str:
    if votes.low is None or votes.high is None:
        return "no interval: all votes are from one conversation" if votes.n_chats else "no votes"
    return f"[{100 * votes.low:.0f}, {100 * votes.high:.0f}]"


def pairs_board(
    pair_results: PairResults, title: str, bots: Mapping[str, BotInfo], verdict: str, link: Callable[[str], str]
) -> Board | None:
    """Return the bots by their strengths in paired comparisons.

    None if no strengths could be estimated.

    Args:
        title: title of the question.
        verdict: the conclusion.
        link: function that returns the address of a bot's conversations.
    """
    own_strengths = pair_results.choices.strengths() if pair_results.choices is not None else {}
    strengths = own_strengths or {
        bot.bot: Interval(bot.strength, bot.low, bot.high, pair_results.n) for bot in pair_results.strengths.bots
    }
    ordered = sorted(pair_results.strengths.bots, key=lambda bot: (-(strengths[bot.bot].mean or 0.0), bot.bot))
    if pair_results.strengths.reason is not None or not ordered:
        return None
    window = unbounded_window(
        [
            end
            for bot_strength in ordered
            for strength in [strengths[bot_strength.bot]]
            for end in (strength.low, strength.mean, strength.high)
            if end is not None
        ]
    )
    ranks = pair_results.strengths.rank_ranges()
    model, method = "Bradley–Terry", "Bradley–Terry model with ties (Davidson, 1970); intervals clustered by rater."
    if own_strengths and pair_results.choices is not None:
        model, method = pair_results.choices.model, pair_results.choices.model_method
    rows = []
    for bot_strength in ordered:
        bot = bots.get(bot_strength.bot) or BotInfo(bot_strength.bot, bot_strength.bot, 0, is_control=False)
        strength = strengths[bot_strength.bot]
        rows.append(
            BoardRow(
                bot=bot,
                href=link(bot.bot_id),
                n=f"{bot_strength.wins:,}, {bot_strength.losses:,}, {bot_strength.ties:,}",
                n_said=f"{bot_strength.wins:,} won, {bot_strength.losses:,} lost, {bot_strength.ties:,} tied",
                ranks=format_ranks(ranks[bot_strength.bot]),
                ranks_said=_ranks_said(ranks[bot_strength.bot]),
                mean=figure(strength.mean),
                ends=span(strength.low, strength.high),
                drawing=interval_cell(window, strength.mean, strength.low, strength.high, hollow=bot.is_control),
            )
        )
    return Board(
        key=STRENGTHS,
        title=f"Strength in {title.lower()}, log odds relative to the average bot",
        verdict=verdict,
        caption=f"{model} strength with {percent(pair_results.level)} interval."
        + (f" {one_look()} The always-valid test of pairs decides." if pair_results.is_collecting else ""),
        method=(
            f"{method} A range of ranks contains all ranks that the pairwise comparisons, corrected by Holm, leave "
            "open."
        ),
        note="",
        rows=rows,
        window=window,
        n_title="Won, lost, tied",
        mean_title="Strength",
    )
