"""Record of a bot over studies: ranks, best and worst conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.urls import reverse

from evaluation.analysis.leaderboard import format_ranks, leaderboard
from evaluation.number_format import digits_for, figure, span
from webapp.dashboard.conversation_list import conversations_link
from webapp.insights.bots import BotRole
from webapp.results.cache import AnalysisKey, result_at_hand
from webapp.results.study_data import StudyFrame, study_frame
from webapp.search.chat_selection import ChatSelection
from webapp.search.fields import Number
from webapp.search.pagination import Listing, conversations_of_study, filter_conversations, page_of, study_numbers
from webapp.search.query import parse_query
from webapp.search.text_search import ExcerptPiece
from webapp.studies.models import Study

STUDIES = 10
"""Maximum number of studies on a bot's page; the newest are shown."""
CHATS = 3
"""Number of best and of worst conversations quoted for a study."""
QUOTED_STUDIES = 2
"""Number of studies from which conversations are quoted."""


@dataclass(frozen=True, slots=True)
class QuotedChat:
    """Conversation with its rating, quoted on a bot's page."""

    href: str
    excerpt: Sequence[ExcerptPiece]
    rating: tuple[Number, Any]


@dataclass(frozen=True, slots=True)
class BotStanding:
    """A bot in one study.

    Attributes:
        ranks: range of its ranks; empty for a control bot.
        of_n: number of rated bots.
        mean: mean of what bots are ranked by, with its interval.
        measure: title of that.
        worst_href, best_href: addresses of its conversations in both orders.
        worst, best: some of them.
    """

    study: Study
    ranks: str
    of_n: int
    mean: str
    measure: str
    worst_href: str
    best_href: str
    worst: Sequence[QuotedChat] = ()
    best: Sequence[QuotedChat] = ()

    @property
    def quotes(self) -> list[tuple[str, Sequence[QuotedChat]]]:
        """Quoted conversations under their headings."""
        return [("Best", self.best), ("Worst", self.worst)]


def standings_of(bot_id: str, roles: Sequence[BotRole]) -> tuple[list[BotStanding], int]:
    """Return the bot's standing in the newest studies.

    Only those with a stored result; the number of the other studies comes with it.

    A study without ratings of the bot, and one whose result is still being computed, is among the others.
    """
    standings: list[BotStanding] = []
    newest = sorted(roles, key=lambda role: role.study.created_at, reverse=True)
    for role in newest[:STUDIES]:
        standing = _standing(role.study, bot_id, quotes=len(standings) < QUOTED_STUDIES)
        standings += [standing] if standing is not None else []
    return standings, len(roles) - len(standings)


def _standing(study: Study, bot_id: str, *, quotes: bool) -> BotStanding | None:
    computed = result_at_hand(AnalysisKey(study, "comparisons"))
    if computed is None:
        return None
    link = partial(conversations_link, study, synthetic=False)
    frame = study_frame(study, computed.facts, link=link)
    places = leaderboard(computed.result.means, computed.result.compared).places
    place = next((place for place in places if place.bot == bot_id), None)
    if place is None:
        return None
    headline = frame.headline
    digits = digits_for(headline.low, headline.high)
    worst_href = frame.mean_link(headline, bot_id)
    worst, best = _selection(frame, bot_id, is_best=False), _selection(frame, bot_id, is_best=True)
    return BotStanding(
        study=study,
        ranks=format_ranks(place.ranks),
        of_n=sum(not other.is_control for other in places),
        mean=f"{figure(place.mean.mean, digits)} {span(place.mean.low, place.mean.high, digits)}",
        measure=headline.title,
        worst_href=worst_href,
        best_href=frame.link(best) if worst_href else "",
        worst=_quoted(frame, worst) if quotes and worst_href else (),
        best=_quoted(frame, best) if quotes and worst_href else (),
    )


def _selection(frame: StudyFrame, bot_id: str, *, is_best: bool) -> ChatSelection:
    selection = ChatSelection.of_mean(frame.headline, [bot_id])
    return selection.reversed() if is_best else selection


def _quoted(frame: StudyFrame, selection: ChatSelection) -> list[QuotedChat]:
    numbers = study_numbers(frame.study)
    counted = selection.within("completed", synthetic=False, excluded_flags=())
    rows = filter_conversations(conversations_of_study(frame.study), synthetic=False)
    query = parse_query(counted.line, numbers, study=frame.study)
    listing = Listing(rows, query, frame.study)
    address = reverse("dashboard:study_conversations", args=[frame.study.key])
    columns = [query.sort] if query.sort is not None else []
    page = page_of(listing, columns, size=CHATS, total=CHATS)
    return [
        QuotedChat(f"{counted.url(address)}&chat={row.conversation.pk}", row.excerpt, row.figures[0])
        for row in page.rows
        if row.figures
    ]
