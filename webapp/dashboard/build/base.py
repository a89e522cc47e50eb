"""The contract of a step of the builder, and what steps are told of the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from django.http import HttpRequest

from webapp.bots.selectors import BotEntry, bot_entry_list
from webapp.conversations.selectors import heartbeat_bots
from webapp.dashboard.bot_states import BotState, bot_state
from webapp.dashboard.build.fields import SettingsForm
from webapp.dashboard.build.items import items_judged
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Dimension, Study
from webapp.studies.protocols.base import StudyProtocol, protocols
from webapp.studies.questions import Question
from webapp.studies.rubrics import asked_after


@dataclass(frozen=True, slots=True)
class StepState:
    """Progress of a step, in a few words; `tone` is "good", "warn" or empty."""

    words: str
    tone: str = ""


@dataclass
class Plan:
    """A study as the builder sees it; each fact is read once, and only where it is asked for."""

    study: Study
    findings: list[Any] | None = None

    @cached_property
    def protocol(self) -> StudyProtocol | None:
        """The study's protocol; None while its plug-in is away."""
        return protocols.get(self.study.protocol) if self.study.protocol in protocols else None

    @property
    def gives(self) -> str:
        """Kind of thing that participants get: "bots", "items" or "conversations"; "bots" without a protocol."""
        return self.protocol.gives if self.protocol else "bots"

    @property
    def makes_its_item(self) -> bool:
        """True if the protocol makes its only item from the study's settings."""
        return self.protocol is not None and self.gives == "items" and self.protocol.has_one_item

    @cached_property
    def entries(self) -> dict[str, BotEntry]:
        """Every bot that is registered here, by its id."""
        return {entry.id: entry for entry in bot_entry_list()}

    @cached_property
    def states(self) -> dict[str, BotState]:
        """Their states in words."""
        reports = heartbeat_bots()
        return {bot_id: bot_state(entry, reports) for bot_id, entry in self.entries.items()}

    @cached_property
    def not_offered(self) -> list[str]:
        """Those of the study's bots that nobody would be given now."""
        return [
            bot_id
            for bot_id in self.study.bots
            if bot_id not in self.states or not self.states[bot_id].is_offered
        ]

    @cached_property
    def not_loaded(self) -> list[str]:
        """Those of the study's bots that no bot host has loaded so far."""
        return [
            bot_id
            for bot_id in self.study.bots
            if bot_id in self.states and self.states[bot_id].words == "Ready to load"
        ]

    @cached_property
    def n_items(self) -> int:
        """Number of items of the study."""
        return items_judged(self.study).count()

    @cached_property
    def width(self) -> float:
        """Width in points of the scale that bots are ranked by; 0 without one."""
        leading = next(iter(study_dimensions(self.study)), None)
        return leading.high - leading.low if leading else 0.0

    @cached_property
    def dimensions(self) -> list[Dimension]:
        """The scale questions that are asked after the task."""
        return list(self.study.rubric.dimensions.all())

    @cached_property
    def asked_after(self) -> list[Question]:
        """Everything that is asked after the task."""
        return list(asked_after(self.study.version))


class BuildStep:
    """One step of the builder. Made by a class in a module of its own and listed in `registry.py`.

    Attributes:
        name: in its address.
        title: in the row of steps.
        heading: of its form, as a question to the researcher.
        template: of its form, below `dashboard/build/`.
        within: name of the step that it belongs to, for a page that is none of the row's own; empty for those of the
            row.
        live_template: of what follows from the values and is shown anew after every save; empty without.
    """

    name: ClassVar[str]
    title: ClassVar[Any]
    heading: ClassVar[Any]
    template: ClassVar[str] = "settings.html"
    live_template: ClassVar[str] = ""
    within: ClassVar[str] = ""

    def title_in(self, plan: Plan) -> str:
        """Return the title of the step in this study."""
        return str(self.title)

    def heading_in(self, plan: Plan) -> str:
        """Return the heading of its form in this study."""
        return str(self.heading)

    def state(self, plan: Plan) -> StepState:
        """Return the progress of the step."""
        raise NotImplementedError

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm | None:
        """Return the form of its fields, by their names in `StudyValues` or in the study's row; None without."""
        return None

    def rows(self, plan: Plan, form: SettingsForm) -> list[Any]:
        """Return the fields that its template shows as a table."""
        return []

    def live(self, plan: Plan) -> dict[str, Any]:
        """Return the context of the step's live template."""
        return {}

    def onward(self, form: SettingsForm) -> str:
        """Return the query or fragment added to the step's address after a save without script."""
        return ""

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return additional context for the step's template."""
        return {}
