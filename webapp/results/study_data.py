"""Data of a study, as the analysis reads them.

Reading takes a constant number of queries. `read_once` caches the data for several results, as in a report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

import numpy as np
from django.db.models import QuerySet

from chatbots.text import quote
from evaluation.analysis.comparisons import means_compared
from evaluation.data.ratings import RatingDimension, Ratings
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.jobs.selectors.analysis_tables import bot_versions, factors_of, measured_of, metric_frame
from webapp.ratings.selectors import (
    BotInfo,
    CountedWork,
    dimensions_led,
    study_bots,
    study_conversations,
    study_ratings,
)
from webapp.results.fingerprint import data_state
from webapp.search.chat_selection import FEEDBACK, ChatSelection
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    import pandas as pd

Link = Callable[[ChatSelection], str]
PointLink = Callable[[str, str, int, int], str]
ChatLink = Callable[[UUID], str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Amount of data analysed, stored with every result.

    Attributes:
        n_raters: raters with a name.
        rated_bots: ids of rated bots, best mean of the headline first.
        dimensions: the rubric's questions.
        all_dimensions: the measure that bots are ranked by first: a question, or the mean of several.
    """

    n_ratings: int
    n_raters: int
    n_conversations: int
    rated_bots: tuple[str, ...]
    dimensions: tuple[RatingDimension, ...]
    all_dimensions: tuple[RatingDimension, ...]


@dataclass(frozen=True, slots=True)
class StudyFrame:
    """Context of a study's results in words.

    Attributes:
        bots: by id, in the order of their colours.
        facts: amount of data behind the results.
        link: address of a selection of the conversations that count; "" in the report.
        point_link: address of the conversations behind a point of a trajectory, by figure, column, group and
            exchange; "" in the report.
        chat_link: address of a single conversation, also of another study; "" in the report.
        excluded_flags: names of flags; the work of participants with one of them is left out.
    """

    study: Study
    include_synthetic: bool
    bots: Mapping[str, BotInfo]
    facts: Facts
    link: Link = lambda selection: ""
    point_link: PointLink = lambda *point: ""
    excluded_flags: tuple[str, ...] = ()
    chat_link: ChatLink = lambda chat: ""

    @property
    def counted_work(self) -> dict[str, Any]:
        """Included work, as `CountedWork` options."""
        return {"include_synthetic": self.include_synthetic, "without": self.excluded_flags}

    @property
    def dimensions(self) -> tuple[RatingDimension, ...]:
        """The rubric's questions."""
        return self.facts.dimensions

    @property
    def all_dimensions(self) -> tuple[RatingDimension, ...]:
        """Dimensions: the measure that bots are ranked by first, then the questions."""
        return self.facts.all_dimensions

    @property
    def headline(self) -> RatingDimension:
        """Dimension that bots are ranked by."""
        return self.facts.all_dimensions[0]

    @property
    def rated_bots(self) -> list[str]:
        """Ids of rated bots still in the study, best mean first."""
        return [bot for bot in self.facts.rated_bots if bot in self.bots]

    @property
    def controls(self) -> list[str]:
        """Ids of rated control bots."""
        return [bot for bot in self.rated_bots if self.bots[bot].is_control]

    @property
    def _has_chats(self) -> bool:
        """True if the ratings are of the study's own chats.

        Not of items or of another study's chats.
        """
        protocol = get_protocol(self.study)
        return protocol.talks_to_bots or (self.study.is_imported and not protocol.judges_items)

    def mean_link(self, dimension: RatingDimension, *bots: str, **filters: str | Sequence[str]) -> str:
        """Return the address of the conversations behind a mean rating.

        The worst come first; "" if there are none.

        Args:
            dimension: what was rated.
            bots: whose conversations; none: all bots.
            filters: further fields of the query, such as `condition`.
        """
        if not self._has_chats:
            return ""
        if get_protocol(self.study).marks_turns:  # the index has ratings of whole chats only
            return self.link(ChatSelection.of(highlight=FEEDBACK, bot=bots).narrowed(**filters))
        return self.link(ChatSelection.of_mean(dimension, bots, **filters))

    @property
    def compared_bots(self) -> list[str]:
        """Bots that models compare, to name in links; empty if that is all of them."""
        controls = self.controls
        return [bot for bot in self.rated_bots if bot not in controls] if controls else []

    def ratings_link(self, first: str, *others: str, bots: Sequence[str] = ()) -> str:
        """Return the address of conversations with answers to all of these questions.

        The worst by the first question come first.

        Args:
            bots: whose conversations; none: all bots.
        """
        if not self._has_chats or get_protocol(self.study).marks_turns:
            return ""
        questions = {dimension.key: dimension for dimension in self.all_dimensions}
        selection = ChatSelection.of_mean(questions[first], bots)
        for other in others:
            selection = selection.narrowed(has=other)
        return self.link(selection)

    def metric_link(self, column: str, *dimensions: RatingDimension) -> str:
        """Return the address of conversations with a metric and these ratings.

        The highest values come first.

        Control bots are left out, as in correlations with metrics.
        """
        if not self._has_chats:
            return ""
        selection = ChatSelection.of_metric(column, not_bot=self.controls)
        for dimension in dimensions:
            selection = selection.narrowed(has=dimension.key)
        return self.link(selection)

    def answer_link(self, dimension: RatingDimension, bot: str, answer: str) -> str:
        """Return the address of a bot's conversations with a raw answer.

        The most disputed come first.

        Args:
            answer: empty: all answers, worst first.
        """
        if not answer or not self._has_chats or get_protocol(self.study).marks_turns:
            return self.mean_link(dimension, bot)
        sort = f"-spread.{dimension.key}"
        return self.link(ChatSelection.of(sort=sort, highlight=FEEDBACK, bot=bot, **{f"any.{dimension.key}": answer}))

    def disputed_link(self, dimension: RatingDimension, *bots: str) -> str:
        """Return the address of conversations rated by several people.

        The most disputed come first.
        """
        if not self._has_chats or get_protocol(self.study).marks_turns:
            return ""
        spread = f"spread.{dimension.key}"
        return self.link(ChatSelection.of(sort=f"-{spread}", highlight=FEEDBACK, bot=bots, has=spread))

    def title(self, bot: str) -> str:
        """Return a bot's title on pages."""
        return self.bots[bot].title if bot in self.bots else bot


def study_frame(
    study: Study,
    facts: Facts,
    *,
    include_synthetic: bool = False,
    link: Link = lambda selection: "",
    point_link: PointLink = lambda *point: "",
    without: Sequence[str] = (),
    chat_link: ChatLink = lambda chat: "",
) -> StudyFrame:
    """Return the context of a study's results; reads its bots."""
    bots = study_bots(study)
    return StudyFrame(study, include_synthetic, bots, facts, link, point_link, tuple(without), chat_link)


@dataclass(eq=False)
class StudyData:
    """Ratings, bots and bot facts of a study.

    Attributes:
        bots: bots by id, in the order of their marks.
        versions: bot identities in the conversations.
        turned: keys of negatively worded dimensions whose answers were already reversed in the data.
    """

    study: Study
    counted_work: CountedWork
    ratings: Ratings
    bots: Mapping[str, BotInfo]
    versions: list[BotVersion]
    bot_table: BotColumns
    conversations: QuerySet[Conversation]
    turned: frozenset[str] = frozenset()

    @property
    def excluded_flags(self) -> Sequence[str]:
        """Names of flags whose participants' work is left out."""
        return self.counted_work.get("without", ())

    @cached_property
    def facts(self) -> Facts:
        """Amount of data analysed."""
        return Facts(
            n_ratings=len(self.ratings),
            n_raters=self.ratings.n_raters,
            n_conversations=self.ratings.n_conversations,
            rated_bots=tuple(self.rated_bots),
            dimensions=self.dimensions,
            all_dimensions=tuple(self.all_dimensions),
        )

    @property
    def dimensions(self) -> tuple[RatingDimension, ...]:
        """The rubric's questions."""
        return self.ratings.dimensions

    @cached_property
    def all_dimensions(self) -> list[RatingDimension]:
        """Dimensions, with the ranking measure first.

        That is a question, or the mean of several.
        """
        return dimensions_led(self.ratings.dimensions, self.ratings.headline)

    @property
    def headline(self) -> RatingDimension:
        """Dimension that bots are ranked by."""
        return self.all_dimensions[0]

    @property
    def bot(self) -> np.ndarray:
        """(k,) bot of each rating."""
        return self.ratings.bot

    @property
    def values(self) -> np.ndarray:
        """(k,) headline value of each rating."""
        return self.ratings.values()

    @cached_property
    def rated_bots(self) -> list[str]:
        """Ids of rated bots, best first in the order of all comparisons.

        Ratings of the headline count.
        """
        means = means_compared(self.ratings)
        return sorted(means.keys() & self.bots.keys(), key=lambda bot: (-means[bot], bot))

    @cached_property
    def per_conversation(self) -> pd.DataFrame:
        """One row per rated conversation, with its id as index.

        Columns are `bot`, the mean of every dimension, and the headline.
        """
        return self.ratings.per_conversation()

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """`metric_frame` of the study, the conversation's id as index."""
        synthetic = self.counted_work.get("include_synthetic", False)
        frame = metric_frame(study=self.study, include_synthetic=synthetic, excluded_flags=self.excluded_flags)
        return frame.set_index("conversation")

    @cached_property
    def factors(self) -> dict[str, dict[str, str]]:
        """Level by factor and bot.

        From the researcher's table or the bots' identities.
        """
        return factors_of(self.versions, self.bot_table)

    @cached_property
    def bot_columns(self) -> dict[str, dict[str, float]]:
        """Known numbers of the bots.

        They are figures of their checkpoints, then the researcher's own.
        """
        return measured_of(self.versions, self.bot_table)


def study_data(
    study: Study,
    *,
    bot_table: BotColumns | None = None,
    turned: Collection[str] = (),
    **counted_work: Unpack[CountedWork],
) -> StudyData | None:
    """Read a study; None without a rating.

    Args:
        bot_table: table of bots to use instead of the study's own.
        turned: keys of negatively worded dimensions whose answers were already reversed in the data.

    Raises:
        ValueError: for a reversed dimension that the rubric lacks.
    """
    if bot_table is not None:
        bot_table = replace(bot_table, marked=BotColumns.from_json(study.bot_columns).marked)
        study.bot_columns = bot_table.to_json()  # not saved, only used for this analysis
    ratings = study_ratings(study, **counted_work)
    keys = list(ratings.answers)
    unknown = next((key for key in turned if key not in keys), None)
    if unknown is not None:
        raise ValueError(f"the study has no dimension {quote(unknown)}; it has {', '.join(keys)}")
    if not keys or not len(ratings):
        return None
    return StudyData(
        study=study,
        counted_work=counted_work,
        ratings=ratings,
        bots=study_bots(study),
        versions=bot_versions(study),
        bot_table=BotColumns.from_json(study.bot_columns),
        conversations=study_conversations(study, **counted_work),
        turned=frozenset(turned),
    )


@dataclass(slots=True)
class _LastRead:
    """Most recently read data, with their study and state."""

    key: Any = None
    data: StudyData | None = None


_last_read: ContextVar[_LastRead | None] = ContextVar("kept", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Cache the data of `study_read` within the block."""
    token = _last_read.set(_LastRead())
    try:
        yield
    finally:
        _last_read.reset(token)


def study_read(study: Study, **counted_work: Unpack[CountedWork]) -> StudyData | None:
    """Return `study_data`, cached within `read_once` while data are unchanged."""
    last_read = _last_read.get()
    if last_read is None:
        return study_data(study, **counted_work)
    # Take the state before reading, so that concurrent changes invalidate the cache.
    key = (counted_work, data_state(study, ("metrics", "runs"), **counted_work).digest)
    if last_read.key != key:
        last_read.key, last_read.data = None, None  # never two studies at a time
        last_read.data, last_read.key = study_data(study, **counted_work), key
    return last_read.data
