"""Interface of a builder step, the study's plan, and the preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise

from webapp.bots.selectors import BotEntry, bot_entry_list
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.core.language import LANGUAGES
from webapp.dashboard.builder.forms import SettingsForm
from webapp.dashboard.builder.item_sources import items_judged
from webapp.insights.bots import BotState, bot_state
from webapp.ratings.selectors import study_dimensions
from webapp.studies.conditions import Conditions
from webapp.studies.models import Dimension, Outcome, Study
from webapp.studies.protocols.base import StudyProtocol, header_steps, protocols
from webapp.studies.questions import Question
from webapp.studies.rubrics import post_task_questions
from webapp.studies.selectors import steps_asked
from webapp.studies.settings import CHECK_SECTIONS, SECTION_OF
from webapp.studies.versions import study_revise


@dataclass(frozen=True, slots=True)
class StepState:
    """Progress of a step in a few words; `tone` is "good", "warn" or empty."""

    words: str
    tone: str = ""


@dataclass
class Plan:
    """Study in the builder, with lazily loaded facts."""

    study: Study
    findings: list[Any] | None = None

    @cached_property
    def protocol(self) -> StudyProtocol | None:
        """Protocol of the study; None if its plug-in is not installed."""
        return protocols.get(self.study.protocol) if self.study.protocol in protocols else None

    @property
    def gives(self) -> str:
        """Kind of assignment: "bots", "items" or "conversations".

        "bots" if the protocol is not installed.
        """
        return self.protocol.gives if self.protocol else "bots"

    @property
    def makes_its_item(self) -> bool:
        """True if the protocol makes its only item from the study's settings."""
        return self.protocol is not None and self.gives == "items" and self.protocol.has_one_item

    @cached_property
    def entries(self) -> dict[str, BotEntry]:
        """Registered bots by id."""
        return {entry.id: entry for entry in bot_entry_list()}

    @cached_property
    def states(self) -> dict[str, BotState]:
        """Their states in words."""
        reports = heartbeat_bots()
        return {bot_id: bot_state(entry, reports) for bot_id, entry in self.entries.items()}

    @cached_property
    def not_offered(self) -> list[str]:
        """Bots of the study that cannot be assigned now."""
        return [bot_id for bot_id in self.study.bots if bot_id not in self.states or not self.states[bot_id].is_offered]

    @cached_property
    def not_loaded(self) -> list[str]:
        """Bots of the study that no bot host has loaded so far."""
        return [
            bot_id
            for bot_id in self.study.bots
            if bot_id in self.states and self.states[bot_id].is_offered and not self.states[bot_id].is_loaded
        ]

    @cached_property
    def untried(self) -> list[str]:
        """Bots of the study that have never replied, so may be misconfigured."""
        return [bot_id for bot_id in self.study.bots if bot_id in self.entries and not self.entries[bot_id].is_tried]

    @cached_property
    def n_items(self) -> int:
        """Number of items of the study."""
        return items_judged(self.study).count()

    @cached_property
    def width(self) -> float:
        """Width of the ranking question's scale, in points; 0 without one."""
        leading = next(iter(study_dimensions(self.study)), None)
        return leading.high - leading.low if leading else 0.0

    @cached_property
    def dimensions(self) -> list[Dimension]:
        """The scale questions after the task."""
        return list(self.study.rubric.dimensions.all())

    @cached_property
    def asked_after(self) -> list[Question]:
        """All questions after the task."""
        return list(post_task_questions(self.study.version))


class BuildStep:
    """Step of the builder, listed in the view of steps.

    Attributes:
        name: name in its address.
        title: title in the row of steps.
        heading: heading of its form, a question to the researcher.
        template: template of its form, below `dashboard/builder/`.
        within: name of the step to which a page outside the row belongs; empty for steps of the row.
        is_sent_by_button: True if a button saves the form; otherwise every change does.
        live_template: template of derived content, refreshed after every save; empty without one.
    """

    name: ClassVar[str]
    title: ClassVar[Any]
    heading: ClassVar[Any]
    template: ClassVar[str] = "settings.html"
    live_template: ClassVar[str] = ""
    within: ClassVar[str] = ""
    is_sent_by_button: ClassVar[bool] = False

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
        """Return the form of its fields; None without one.

        Fields are named as in `StudyValues` or the study's row.
        """
        return None

    def rows(self, plan: Plan, form: SettingsForm) -> list[Any]:
        """Return the fields that its template shows as a table."""
        return []

    def live(self, plan: Plan) -> dict[str, Any]:
        """Return the context of the step's live template."""
        return {}

    def save(self, plan: Plan, form: SettingsForm, *, author: str, seen: str | None) -> Study:
        """Store the values of a valid form and return the changed study.

        Raises:
            EditedMeanwhile, ValidationError: as in `study_revise`.
        """
        return study_revise(study=plan.study, changes=form.changes(), author=author, seen=seen)

    def onward(self, form: SettingsForm) -> str:
        """Return the query or fragment of the address after a save without script."""
        return ""

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return additional context for the step's template."""
        return {}


THEMES = {"light": "Light", "dark": "Dark"}
# Steps with several pages under one heading, by the names of those pages.
_TITLES: dict[str, str | Promise] = {
    "consent": "Agreeing",
    "instructions": "How it works",
    "quiz": "Quiz",
    "questions": "Questions before",
    "practice": "Practice",
    "judge": "Items",
}
_STATES = {"quiz": "missed"}
"""Names of preview states in addresses; other steps use the outcome."""
# Page on which participants see an edited field; other fields leave the preview unchanged.
FIELD_STEPS = {
    **dict.fromkeys(
        (
            "title",
            "minutes",
            "payment",
            "organisation",
            "consent_points",
            "consent_text",
            "consent_layout",
            "parts",
            "pay_for_all",
            "content_notice",
            "content_notice_ticked",
            "counts_typing",
            "typing_notice",
            "counts_focus",
            "focus_notice",
            "disclosure",
            "people_notice",
        ),
        "consent",
    ),
    "lets_report": "chat",
    "instructions_text": "instructions",
    "min_exchanges": "chat",
    "max_exchanges": "chat",
    "least_minutes": "chat",
    "most_minutes": "chat",
    "max_message_chars": "chat",
    "thanks_text": "done",
    **{f"{kind}_{outcome}": "done" for kind in ("code", "link") for outcome in Outcome.values},
}


_HOMES = {
    **dict.fromkeys(("texts", "comfort", "rights"), "texts"),
    **dict.fromkeys(("recruitment", "quotas", "closing", "planning", "assignment"), "pay"),
    **dict.fromkeys(CHECK_SECTIONS, "checks"),
    "conditions": "conditions",
    "sittings": "sittings",
}
FIELD_HOMES = {name: _HOMES.get(section, "bots") for name, section in SECTION_OF.items()}
"""Step of the builder that edits a setting."""


@dataclass(frozen=True, slots=True)
class PreviewParams:
    """Page of the preview: its address, and the builder's address with it."""

    title: str | Promise
    is_open: bool
    address: str
    href: str


@dataclass(frozen=True, slots=True)
class Preview:
    """Content of the phone in the preview.

    Attributes:
        tabs: one for each step in the participants' header.
        pages: pages of the step, if it has several.
        address: address of the shown page.
        title: title of the frame.
        level, levels: level whose texts are shown, and the available levels, as in `preview_levels`.
    """

    tabs: list[PreviewParams]
    pages: list[PreviewParams]
    address: str
    title: str
    theme: str
    themes: dict[str, str | Promise]
    language: str
    languages: dict[str, str]
    level: str
    levels: list[tuple[str, str]]
    field_steps: dict[str, str]
    field_homes: dict[str, str]
    step: str
    outcome: str


def preview_levels(conditions: Conditions) -> list[tuple[str, str]]:
    """Return each level's name in addresses, with its title.

    The name consists of the numbers of its factor and of the level.
    """
    return [
        (f"{n}.{place}", f"{factor.title}: {level.title}")
        for n, factor in enumerate(conditions.factors, start=1)
        for place, level in enumerate(factor.levels, start=1)
    ]


def preview_of(study: Study, query: Mapping[str, str], *, step_name: str) -> Preview:
    """Return the phone preview for a page of the builder.

    Args:
        query: the query of that page's address: `preview`, `outcome`, `theme` and `lang` select the content.
        step_name: name of the builder's step, which decides if the address does not.
    """
    header_places = header_steps(protocols.get(study.protocol).steps)
    has = steps_asked(study)
    work = [name for name in work_steps(protocols.get(study.protocol)) if name in has]
    first = {
        "checks": [name for name in has if name == "quiz"] or work,
        "bots": work[:1],
        "conditions": work[:1],
        "questions": work[-1:],
        "pay": has[-1:],
        "sittings": has[:1],
    }.get(step_name) or has
    now = query.get("preview", "")
    now = now if now in has else first[0]
    is_missed = query.get("missed") == "1" and now == "quiz"
    outcome = query.get("outcome", "")
    outcome = outcome if now == "done" and outcome in Outcome.values else ""
    language = query.get("lang", "")
    levels = preview_levels(study.values.conditions)
    level = query.get("level", "")
    look = {
        "theme": query["theme"] if query.get("theme") in THEMES else "light",
        **({"lang": language} if language in LANGUAGES else {}),
        **({"level": level} if level in dict(levels) else {}),
    }

    def choice(title: str | Promise, name: str, ended: str = "", *, is_open: bool) -> PreviewParams:
        page = reverse("participant:preview", args=[study.key, name])
        state_params = {_STATES.get(name, "outcome"): ended} if ended else {}
        href = "?" + urlencode({"preview": name, **state_params, **look})
        address = f"{page}?{urlencode({**look, **state_params})}"
        return PreviewParams(title, is_open, address, href)

    tabs, pages = [], []
    for place in header_places:
        here = [name for name in place.steps if name in has]
        if not here:
            continue
        tabs.append(choice(place.heading, here[0], is_open=now in here))
        if now in here and len(here) > 1:
            pages = [choice(_TITLES.get(n, n), n, is_open=n == now and not is_missed) for n in here]
            if "quiz" in here:
                missed = choice("Quiz, missed once", "quiz", "1", is_open=is_missed)
                pages.insert(here.index("quiz") + 1, missed)
    if now == "done":
        ended_so = outcome or Outcome.RATED
        pages = [choice(t, now, value, is_open=value == ended_so) for value, t in Outcome.choices]
    state_params = {"outcome": outcome} if outcome else {}
    if is_missed:
        state_params["missed"] = "1"
    page = reverse("participant:preview", args=[study.key, now])
    heading = next(place.heading for place in header_places if now in place.steps)
    return Preview(
        tabs=tabs,
        pages=pages,
        address=f"{page}?{urlencode({**look, **state_params})}",
        title=f"The participant's page: {heading}",
        theme=look["theme"],
        themes=dict(THEMES),
        language=look.get("lang", study.values.texts.language),
        languages=LANGUAGES,
        level=look.get("level", ""),
        levels=levels,
        field_steps={name: step for name, step in FIELD_STEPS.items() if step in has},
        field_homes=FIELD_HOMES,
        step=now,
        outcome=outcome,
    )


def work_steps(protocol: StudyProtocol) -> list[str]:
    """Return the steps of the work itself, and questions about it.

    The first and the last step are not included.
    """
    return [name for place in header_steps(protocol.steps)[1:-1] for name in place.steps]
