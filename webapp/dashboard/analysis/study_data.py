"""Everything the analysis of a study reads, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from django.db.models import QuerySet

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.ratings.summary import (
    BotInfo,
    DimensionInfo,
    RatingTable,
    rating_table,
    study_bots,
    study_conversations,
    study_dimensions,
    study_headline,
    with_headline,
)
from webapp.runs.selectors.bot_facts import bot_versions, factors_of, measured_of
from webapp.runs.selectors.frames import metric_frame
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study

if TYPE_CHECKING:
    import pandas as pd

Link = Callable[[str], str]
PointLink = Callable[[str, str, int, int], str]


@dataclass(eq=False)
class StudyData:
    """A study's ratings as columns, its bots and what is known of them.

    Attributes:
        dimensions: the rubric's; `headline` is one of them or the mean of all.
        table: all ratings with a value for every dimension and the headline.
        bots: by id, in the order of their marks.
        versions: identities that conversations were held with.
        link: address of a bot's conversations; "" in the report.
        turned: keys of dimensions that were worded negatively and turned round.
        point_link: address of the conversations behind a point of a trajectory, by figure, column, group and
            exchange; "" in the report.
    """

    study: Study
    include_synthetic: bool
    dimensions: list[DimensionInfo]
    headline: DimensionInfo
    table: RatingTable
    bots: Mapping[str, BotInfo]
    versions: list[BotVersion]
    own: BotColumns
    conversations: QuerySet[Conversation]
    link: Link
    turned: frozenset[str] = frozenset()
    point_link: PointLink = lambda *point: ""

    @cached_property
    def bot(self) -> np.ndarray:
        """(k,) whom each rating rates."""
        return np.array(self.table.bot_ids, dtype=object)

    @cached_property
    def ranked(self) -> np.ndarray:
        """(k,) whether the bot is one that rankings count: no control."""
        return np.array([not self.bots[bot].is_control for bot in self.table.bot_ids], dtype=bool)

    @cached_property
    def raters(self) -> list[str | None]:
        """(k,) who rated, None where nobody is named."""
        return [unit if unit.startswith("p ") else None for unit in self.table.units]

    @property
    def values(self) -> np.ndarray:
        """(k,) the headline."""
        return self.table.answers[self.headline.key]

    @cached_property
    def answers(self) -> np.ndarray:
        """(k, d) all dimensions of the rubric."""
        return np.stack([self.table.answers[d.key] for d in self.dimensions], axis=1)

    @cached_property
    def rated_bots(self) -> list[str]:
        """Ids of bots with a rating of the headline, best mean first."""
        means = {}
        for bot in self.bots:
            mine = self.values[self.bot == bot]
            mine = mine[np.isfinite(mine)]
            if len(mine):
                means[bot] = float(mine.mean())
        return sorted(means, key=lambda bot: -means[bot])

    @cached_property
    def per_conversation(self) -> pd.DataFrame:
        """One row per rated conversation, its id as index: `bot`, and the mean of every dimension."""
        import pandas as pd

        columns = {d.key: self.table.answers[d.key] for d in self.all_dimensions}
        frame = pd.DataFrame(columns)
        frame["conversation"] = self.table.conversations
        means = frame.groupby("conversation", sort=False).mean()
        bots = dict(zip(self.table.conversations, self.table.bot_ids, strict=True))
        means["bot"] = [bots[conversation] for conversation in means.index]
        return means

    @property
    def all_dimensions(self) -> list[DimensionInfo]:
        """The headline first."""
        return with_headline(self.study, self.dimensions)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """`metric_frame` of the study, the conversation's id as index."""
        frame = metric_frame(study=self.study, include_synthetic=self.include_synthetic)
        return frame.set_index("conversation_id")

    @cached_property
    def factors(self) -> dict[str, dict[str, str]]:
        """What the bots are made of: factor to bot to level, from the researcher's table or the bots' identities."""
        return factors_of(self.versions, self.own)

    @cached_property
    def bot_columns(self) -> dict[str, dict[str, float]]:
        """Numbers known of the bots: figures of their checkpoints, then the researcher's own."""
        return measured_of(self.versions, self.own)

    def title(self, bot: str) -> str:
        """A bot's name for people."""
        return self.bots[bot].title if bot in self.bots else bot


def study_data(
    study: Study,
    *,
    include_synthetic: bool = False,
    own: BotColumns | None = None,
    link: Link = lambda bot: "",
    turned: Collection[str] = (),
    point_link: PointLink = lambda *point: "",
) -> StudyData | None:
    """Read a study; None without a rating.

    Args:
        own: in place of the study's own table of bots.
        link: address of a bot's conversations.
        turned: keys of dimensions that were worded negatively and turned round.
        point_link: address of the conversations behind a point of a trajectory.

    Raises:
        ValueError: for a turned dimension that the rubric does not have.
    """
    dimensions = study_dimensions(study)
    headline = study_headline(study, dimensions)
    keys = [dimension.key for dimension in dimensions]
    unknown = next((key for key in turned if key not in keys), None)
    if unknown is not None:
        raise ValueError(f"the study has no dimension {unknown!r}; it has {', '.join(keys)}")
    conversations = study_conversations(study, include_synthetic=include_synthetic)
    table = rating_table(study, with_headline(study, dimensions), conversations)
    if headline is None or not table.bot_ids:
        return None
    if own is not None:
        study.bot_columns = own.to_json()  # not saved: for this reading alone
    return StudyData(
        study=study,
        include_synthetic=include_synthetic,
        dimensions=dimensions,
        headline=headline,
        table=table,
        bots=study_bots(study),
        versions=bot_versions(study),
        own=BotColumns.from_json(study.bot_columns),
        conversations=conversations,
        link=link,
        turned=frozenset(turned),
        point_link=point_link,
    )
