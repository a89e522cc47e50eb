"""Whose conversations a workbench shows, and what they can be asked by: those of a study or of a self-play run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from evaluation.ratings import Dimension
from webapp.conversations.models import Conversation
from webapp.dashboard.workbench import Workbench, workbench_of
from webapp.ratings.bots import BotInfo, study_bots
from webapp.ratings.selectors import study_dimensions, title_as_given
from webapp.reading.fields import Numbers
from webapp.reading.listing import Source, of_source, people_kept
from webapp.runs.models import SelfPlayRun
from webapp.studies.models import Study


def dimensions_of(study: Study | None) -> list[Dimension]:
    """Return a study's questions, titled for answers as they were given; none for self-play."""
    if study is None:
        return []
    return [replace(d, title=title_as_given(d)) for d in study_dimensions(study)]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The conversations of a study or run, and what they can be asked by.

    Attributes:
        bots: by id, each with what fixes its mark.
        dimensions: that they are rated on, the leading one first.
    """

    source: Source
    rows: QuerySet[Conversation]
    numbers: Numbers
    bots: Mapping[str, BotInfo]
    dimensions: Sequence[Dimension] = field(default=())

    @property
    def study(self) -> Study | None:
        """The study; None for a run."""
        return self.source if isinstance(self.source, Study) else None

    def bench(self, query: QueryDict) -> Workbench:
        """Return the conversation browser with the query of an address."""
        return workbench_of(query, self.numbers, self.dimensions, self.bots, self.study)

    def counted(self, bench: Workbench) -> QuerySet[Conversation]:
        """Return those that the pages count, whatever the line says."""
        return people_kept(self.rows, synthetic=bench.synthetic, without=bench.without)

    def address(self, part: str = "conversations") -> str:
        """Return the address of their workbench or of one of the pages beside it, such as `spread`."""
        if isinstance(self.source, Study):
            return reverse(f"dashboard:study_{part}", args=[self.source.key])
        return reverse(f"dashboard:run_{part}", args=[self.source.pk])


def gathered(source: Source) -> Gathered:
    """Return the conversations of a study or run."""
    if isinstance(source, SelfPlayRun):
        bots = {
            bot_id: BotInfo(bot_id, bot_id, slot, is_control=False)
            for slot, bot_id in enumerate(source.plan.get("bots", []), start=1)
        }
        return Gathered(source, of_source(source), Numbers([]), bots)
    dimensions = dimensions_of(source)
    return Gathered(source, of_source(source), Numbers(dimensions), study_bots(source), dimensions)
