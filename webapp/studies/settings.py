"""Settings of a study: values stored in its versions.

They are parsed from a study's file or a form; an error names the path of its value. `webapp.studies.validation` checks
combinations of values, and checks them against the installed bots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from django.utils.safestring import SafeString
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from chatbots.validation import InputModel, Many, Number, ValuesError
from evaluation.data.populations import SMALLEST_GROUP, read_margins
from webapp.core.language import LANGUAGES, Language
from webapp.core.markdown import reply_html
from webapp.studies.assignment.settings import Assignment
from webapp.studies.attention_checks import Attention, CheckEntry, Checking, check_lists
from webapp.studies.conditions import Conditions
from webapp.studies.marking_settings import ErrorMarking, Marking, OwnMarking, StepMarking
from webapp.studies.participant_texts import TEXTS, texts_in
from webapp.studies.people import People
from webapp.studies.protocol_settings import (
    Arena,
    Choosing,
    Comfort,
    ConfidenceLevel,
    Dialogues,
    Filtering,
    Helping,
    Judging,
    LongText,
    Pacing,
    Picking,
    Referencing,
    Safety,
    TextLine,
    Training,
    Typing,
)
from webapp.studies.questions import (
    TAKEN_KEYS,
    Order,
    Question,
    first_duplicate,
    validate_keys,
    validate_no_screening,
    validate_show_when,
)
from webapp.studies.recruitment.settings import RecruitmentValues
from webapp.studies.sittings import Sittings

Days = Annotated[int, Field(ge=0, le=3650)]
Minutes = Annotated[int, Field(ge=1, le=1440)]


class Rights(InputModel):
    """Right to withdraw, and times after which ids and texts are erased.

    Participants read both before they consent.
    """

    withdrawal_days: Days = Field(
        default=30,
        title="Days to withdraw after the end",
        description="For this many days after finishing, participants can have their data deleted by a link on the "
        "last page. Use 0 to allow it only before they finish.",
    )
    ids_kept_days: Days | None = Field(
        default=None,
        title="Days that recruitment ids are kept",
        description="Counted from the end of the study, or from the last decision about a participant's pay if that "
        "is later. Leave empty to keep them until a researcher erases them.",
    )
    texts_kept_days: Days | None = Field(
        default=None,
        title="Days that texts are kept",
        description="Counted from the end of the study. Covers messages, replies, comments and written answers; "
        "ratings and other numbers stay. Leave empty to keep them forever.",
    )


DEFAULT_THANKS = "Thank you for taking part."
Count = Annotated[int, Field(ge=0, le=2_000_000_000)]


def _email(text: str) -> str:
    if text:
        try:
            validate_email(text)
        except ValidationError:
            raise ValueError("it must be an e-mail address") from None
    return text


class Texts(InputModel):
    """Texts for participants."""

    language: Language = Field(
        default="en",
        title="Language",
        description="Language of the study's pages, buttons and messages. Write your own texts in this language.",
        json_schema_extra={"choices": dict(LANGUAGES)},
    )
    languages: Many[Language] = Field(
        default=(),
        title="Languages offered to participants",
        description="Must include the language above. Participants choose on the first page, or the link sets the "
        "language (?lang=de). Confab's pages and texts follow; you can translate your own texts below. Select none "
        "to use only the language above.",
        json_schema_extra={"choices": dict(LANGUAGES)},
    )
    translations: dict[Language, dict[TextLine, TextLine]] = Field(
        default_factory=dict,
        title="Translations of your own texts",
        description="Translated line by line. A line without a translation is shown as you wrote it.",
    )
    browser_translation: Literal["forbid", "allow"] = Field(
        default="forbid",
        title="Translation by the browser",
        description=(
            "If a browser translates the page, participants rate changed texts. “Forbidden” marks replies and items "
            "as not translatable. A translated page is flagged in both cases."
        ),
        json_schema_extra={"choices": {"forbid": "Forbidden for replies and items", "allow": "Allowed"}},
    )
    title: str = Field(
        default="Chat with a chatbot",
        min_length=1,
        max_length=120,
        title="Title on the first page",
        description="The heading that participants see first.",
    )
    minutes: Count = Field(
        default=8, title="Duration in minutes", description="Usual duration, shown on the first page."
    )
    payment: str = Field(
        default="",
        max_length=100,
        title="Pay as shown to participants",
        description="For example “£1.40 per chat”. Shown on the first page. Leave empty to show the amount of “Pay "
        "per task”.",
    )
    promises_pay_on_failure: bool = Field(
        default=True,
        title="Promise pay when a chatbot fails",
        description="Tells participants that they are paid if a chatbot fails. Has no effect in a study without pay.",
    )
    organisation: str = Field(
        default="",
        max_length=200,
        title="Organisation",
        description="Name of the lab or institution, shown to participants.",
    )
    contact: Annotated[str, AfterValidator(_email)] = Field(
        default="", title="Contact address", description="E-mail address for participants' questions."
    )
    consent_points: LongText = Field(
        default=(
            "You can stop at any time.\n"
            "We keep what you write, without your name.\n"
            "Do not write anything private about yourself or others."
        ),
        title="Consent points",
        description="Short sentences, one per line.",
    )
    consent_text: LongText = Field(
        default="",
        title="Full consent form",
        description="Markdown; the text that your ethics board approved. Optional.",
    )
    consent_layout: Literal["folded", "open", "form"] = Field(
        default="folded",
        title="What participants agree to",
        description="“Only the form” shows your board's text and nothing that Confab adds, except notices that you "
        "switch on elsewhere. Without a form, the points are always shown.",
        json_schema_extra={
            "choices": {
                "folded": "Points, and the full form folded below them",
                "open": "Points, and the full form below them",
                "form": "Only the full form",
            }
        },
    )
    instructions_text: LongText = Field(
        default=(
            "Write as you would to a person you have just met.\n"
            "Talk about anything you like.\n"
            "Vote on replies with thumbs up or down as you go.\n"
            "When you have written enough messages, rate the chat."
        ),
        title="Instructions",
        description="One point per line.",
    )
    thanks_text: LongText = Field(
        default=DEFAULT_THANKS, title="Thank-you text", description="Shown on the last page, above the code."
    )

    @field_validator("languages")
    @classmethod
    def _with_their_own(cls, languages: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if twice := first_duplicate(languages):
            raise ValueError(f"it contains {twice} twice; list each language only once")
        study_language = info.data.get("language", "")
        if languages and study_language and study_language not in languages:
            raise ValueError(f"it must include {study_language}, the study's own language")
        return tuple(sorted(languages, key=lambda language: language != study_language))

    @field_validator("translations")
    @classmethod
    def _into_other_languages(cls, lines: dict[str, dict[str, str]], info: ValidationInfo) -> dict[str, dict[str, str]]:
        languages, study_language = info.data.get("languages", ()), info.data.get("language", "")
        for language in lines:
            if language == study_language or (language not in languages and "languages" in info.data):
                raise ValueError(f"it has {language}; use only languages from languages, without the study's own")
        return lines

    @property
    def offered(self) -> tuple[str, ...]:
        """Languages in which participants can read the study, starting with its own."""
        return self.languages or (self.language,)


class ChatRules(InputModel):
    """Rules of a chat."""

    min_exchanges: int = Field(
        default=5,
        ge=1,
        le=32767,
        title="Minimum messages",
        description="Minimum number of replies before the chat can be rated.",
    )
    max_exchanges: int = Field(
        default=20, ge=1, le=32767, title="Maximum messages", description="The chat ends after this many messages."
    )
    least_minutes: Minutes | None = Field(
        default=None,
        title="Minimum minutes",
        description="Minimum time before the chat can be rated, counted from the first message. Leave empty for no "
        "minimum.",
    )
    most_minutes: Minutes | None = Field(
        default=None,
        title="Maximum minutes",
        description="Time limit, counted from the first message. When it is up, the participant goes on to the "
        "rating. The limit is announced in advance. Leave empty for none.",
    )
    max_message_chars: int = Field(
        default=500,
        ge=1,
        le=1_000_000,
        title="Maximum message length",
        description="In characters, for participants' messages.",
    )
    typing_chars_per_s: int = Field(
        default=60,
        ge=0,
        le=1_000_000,
        title="Typing speed",
        description=(
            "Characters per second, for bots that return a whole reply in one piece. 0 shows the reply immediately."
        ),
    )
    format: Literal["plain", "markdown"] = Field(
        default="plain",
        title="Format of replies",
        description="With Markdown, pages show lists, emphasis, code, tables and quotes in all replies, including "
        "stored ones. Metrics read the words without the marks; exports keep the reply as the bot wrote it.",
        json_schema_extra={"choices": {"plain": "As written", "markdown": "Markdown"}},
    )
    links: Literal["text", "open"] = Field(
        default="text",
        title="Links in replies",
        description="Only for Markdown. A link is shown as its text and address, or opens in a new tab. Images are "
        "never loaded; their description and address are shown instead.",
        json_schema_extra={"choices": {"text": "Shown as text", "open": "Open in a new tab"}},
    )
    images: bool = Field(
        default=False,
        title="Participants can send images",
        description=(
            "One per message, in chats whose bot accepts images. JPEG, PNG or WebP up to 5 MB; metadata such as the "
            "location is removed. Replies of endpoint bots can contain an image, too."
        ),
    )
    trace: Literal["hidden", "folded", "shown"] = Field(
        default="hidden",
        title="Reasoning and tool calls",
        description=(
            "For endpoint bots. Shown above each reply, to participants in the chat and to raters. They are always "
            "stored and exported, but are never part of the reply's text."
        ),
        json_schema_extra={"choices": {"hidden": "Hidden", "folded": "Folded", "shown": "Open"}},
    )


class Asking(InputModel):
    """Settings for asking questions."""

    questions_order: Order = Field(
        default="fixed",
        title="Order before the task",
        description="Shuffled: each participant gets a different order and keeps it when they come back.",
    )
    after_order: Order = Field(
        default="fixed",
        title="Order after the task",
        description="Shuffled: each participant gets a different order and keeps it when they come back.",
    )
    asks_comment: bool = Field(
        default=True,
        title="Comment field",
        description="Adds an optional comment field at the end of the form after a chat.",
    )


class Quotas(InputModel):
    """Limits on tasks and cost, and the difference to detect."""

    n_conversations_wanted: Count = Field(
        default=0,
        title="Completed tasks wanted",
        description="The study is full after this many completed tasks. 0 for no limit.",
    )
    max_conversations_per_participant: int = Field(
        default=0,
        ge=0,
        le=32767,
        title="Tasks per participant",
        description="Maximum number of tasks for one participant. 0 allows one with each bot.",
    )
    max_cost: Number | None = Field(
        default=None,
        ge=0,
        title="Cost limit",
        description=(
            "Maximum cost of paid bots' replies in this study, in the currency of their prices. Leave empty for no "
            "limit."
        ),
    )
    smallest_difference: Number | None = Field(
        default=None,
        gt=0,
        title="Smallest difference of interest",
        description="In points of the question that bots are ranked by. If pairs are compared: the share of ratings "
        "for one bot minus the share for the other. Study plans show it. Bots whose difference is certainly smaller "
        "are called equal for practical purposes. Leave empty for a tenth of the scale.",
    )
    planned_sd: Number | None = Field(
        default=None,
        gt=0,
        title="Standard deviation for planning",
        description="Standard deviation of the ratings of one bot, in points. Leave empty to estimate it from "
        "ratings: of the study below, of this study’s pilot, or of the newest study with an equally "
        "wide scale.",
    )
    spread_of: str = Field(
        default="",
        max_length=60,
        title="Study for planning",
        description="Key of a study, such as a pilot, whose spread of ratings and pace the plan uses. Leave empty for "
        "this study, or the newest with an equally wide scale.",
    )
    level: ConfidenceLevel = None


def _day(text: str) -> str:
    if text:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError("it must be a day such as 2027-01-31") from None
    return text


class Closing(InputModel):
    """Rules by which a study closes itself. They are part of the plan, so set them before it opens."""

    closes_when_full: bool = Field(
        default=False,
        title="Close at the planned number",
        description="The study closes itself as soon as all tasks wanted are complete. Otherwise it stays open and "
        "turns new participants away.",
    )
    budget: Number | None = Field(
        default=None,
        ge=0,
        title="Budget for participants",
        description="Pay, bonuses and platform fee, in the study’s currency. The study closes itself when one more "
        "participant could exceed it; those who have started are counted. Leave empty for no limit.",
    )
    closes_on: Annotated[str, AfterValidator(_day)] = Field(
        default="",
        title="Last day",
        description="The study closes itself at the end of this day, in the server’s time zone. Leave empty for none.",
    )

    @property
    def ends_at(self) -> datetime | None:
        """End of the last day; None without one."""
        if not self.closes_on:
            return None
        after = date.fromisoformat(self.closes_on) + timedelta(days=1)
        return timezone.make_aware(datetime.combine(after, datetime.min.time()))


def _margins(text: str) -> str:
    read_margins(text)
    return text


class Planning(InputModel):
    """Expectations of the researchers, stored with the plan when the study opens."""

    hypotheses: LongText = Field(
        default="",
        title="Hypotheses",
        description="One per line, such as “Bot A is rated higher than bot B”. The report shows them next to the "
        "results. Participants never see them. Optional.",
    )
    exclusions: LongText = Field(
        default="",
        title="Exclusions",
        description="Data that will be excluded in addition to failed checks, with reasons. One per line. "
        "Participants never see this. Optional.",
    )
    margins: Annotated[LongText, AfterValidator(_margins)] = Field(
        default="",
        title="Population",
        description="Results are also weighted to this population. The first line is question,answer,share; then one "
        "line per answer, such as gender,Woman,0.51. Questions are those before the task, by key; the shares of each "
        "sum to 1. Leave empty for no weights.",
    )
    smallest_group: int = Field(
        default=SMALLEST_GROUP,
        ge=3,
        le=1000,
        title="Smallest group shown",
        description="Answers to the questions before the task that fewer participants gave are merged in all results, "
        "reports and data packages.",
    )


@dataclass(frozen=True, slots=True)
class CheckList:
    """List of checks in a study's settings.

    Attributes:
        name: name of the value, such as `quiz_questions`.
        kind: class of its entries.
        section: settings next to the list.
    """

    name: str
    kind: type[CheckEntry]
    section: InputModel
    entries: Sequence[CheckEntry]

    @property
    def description(self) -> str:
        """Phrase for the datasheet; empty if the study has none of these checks."""
        return self.kind.describe(len(self.entries), self.section) if self.entries else ""


CHECK_SECTIONS = ("checking", "training", "attention")
"""Sections with lists of checks, in the order of the builder."""


class StudyValues(InputModel):
    """All values of a version of a study.

    Attributes:
        questions: questions asked once, before the first task.
        after: questions after a task. Bots are rated on its scales. If it is empty, the version's rubric has the
            questions (`webapp.studies.rubrics.post_task_questions` reads both).
    """

    bots: Many[str] = ()
    questions: Annotated[Many[Question], Field(max_length=100)] = ()
    after: Annotated[Many[Question], Field(max_length=100)] = ()
    texts: Texts = Texts()
    comfort: Comfort = Comfort()
    chat: ChatRules = ChatRules()
    pacing: Pacing = Pacing()
    people: People = People()
    typing: Typing = Typing()
    filtering: Filtering = Filtering()
    safety: Safety = Safety()
    judging: Judging = Judging()
    helping: Helping = Helping()
    attention: Attention = Attention()
    referencing: Referencing = Referencing()
    choosing: Choosing = Choosing()
    marking: Marking = Marking()
    step_marking: StepMarking = StepMarking()
    own_marking: OwnMarking = OwnMarking()
    error_marking: ErrorMarking = ErrorMarking()
    dialogues: Dialogues = Dialogues()
    asking: Asking = Asking()
    checking: Checking = Checking()
    training: Training = Training()
    arena: Arena = Arena()
    picking: Picking = Picking()
    recruitment: RecruitmentValues = RecruitmentValues()
    quotas: Quotas = Quotas()
    closing: Closing = Closing()
    planning: Planning = Planning()
    assignment: Assignment = Assignment()
    rights: Rights = Rights()
    conditions: Conditions = Conditions()
    sittings: Sittings = Sittings()

    @model_validator(mode="before")
    @classmethod
    def _begin_in_their_language(cls, plain: Any) -> Any:
        """Fill in missing texts in the study's language."""
        texts = plain.get("texts") if isinstance(plain, Mapping) else None
        language = texts.get("language") if isinstance(texts, Mapping) else None
        if not isinstance(language, str) or language not in LANGUAGES or language == "en":
            return plain
        defaults = {
            section: {**first, **plain.get(section, {})}
            for section, first in texts_first(language).items()
            if isinstance(plain.get(section, {}), Mapping)
        }
        return {**plain, **defaults}

    @model_validator(mode="after")
    def _keys_differ(self) -> StudyValues:
        mistakes = validate_keys(self.questions, "questions") + validate_keys(self.after, "after", TAKEN_KEYS)
        mistakes += validate_no_screening(self.after, "after")
        mistakes += validate_show_when(self.questions, "questions") + validate_show_when(self.after, "after")
        if mistakes:
            raise ValuesError(mistakes)
        return self

    def reply_html(self, text: str) -> SafeString | str:
        """Return a bot's reply as HTML.

        Empty if the study shows replies as written.
        """
        if self.chat.format == "plain":
            return ""
        return reply_html(text, links_as_text=self.chat.links == "text", language=self.texts.language)

    @property
    def check_lists(self) -> list[CheckList]:
        """The lists of checks, without those among the questions."""
        return [
            CheckList(name, kind, section, getattr(section, name))
            for section in (getattr(self, section_name) for section_name in CHECK_SECTIONS)
            for name, kind in check_lists(type(section)).items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """Return the values by name, without sections; names are unique."""
        flat_values: dict[str, Any] = {"bots": list(self.bots)}
        for name in ASKED:
            flat_values[name] = [question.model_dump(mode="json") for question in getattr(self, name)]
        for section in SECTIONS:
            flat_values |= dict(getattr(self, section))
        return flat_values


SECTIONS: dict[str, type[InputModel]] = {
    "texts": Texts,
    "comfort": Comfort,
    "chat": ChatRules,
    "pacing": Pacing,
    "people": People,
    "typing": Typing,
    "filtering": Filtering,
    "safety": Safety,
    "judging": Judging,
    "helping": Helping,
    "attention": Attention,
    "referencing": Referencing,
    "choosing": Choosing,
    "marking": Marking,
    "step_marking": StepMarking,
    "own_marking": OwnMarking,
    "error_marking": ErrorMarking,
    "dialogues": Dialogues,
    "asking": Asking,
    "checking": Checking,
    "training": Training,
    "arena": Arena,
    "picking": Picking,
    "recruitment": RecruitmentValues,
    "quotas": Quotas,
    "closing": Closing,
    "planning": Planning,
    "assignment": Assignment,
    "rights": Rights,
    "conditions": Conditions,
    "sittings": Sittings,
}


@cache
def texts_first(language: str) -> dict[str, dict[str, Any]]:
    """Return a study's default texts in a language, by section and name."""
    first = {
        section: {
            name: info.default
            for name, info in kind.model_fields.items()
            if isinstance(info.default, str | tuple) and info.default and name in TEXTS
        }
        for section, kind in SECTIONS.items()
    }
    return texts_in({section: texts for section, texts in first.items() if texts}, language)


SECTION_OF = {name: section for section, kind in SECTIONS.items() for name in kind.model_fields}
ASKED = ("questions", "after")
"""The lists of questions."""
NAMES = ("bots", *ASKED, *SECTION_OF)
"""Names of all values; bots and questions belong to no section."""


@lru_cache(maxsize=256)
def _stored_values(text: str) -> StudyValues:
    """Return a version's stored values, parsed and checked once.

    Cached: they are immutable and every page reads them.
    """
    return StudyValues.model_validate(json.loads(text))


class ValuesField(models.JSONField):
    """JSON column with `StudyValues`. Migrations see it as plain JSON."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None or isinstance(expression, KeyTransform):
            return super().from_db_value(value, expression, connection)
        return _stored_values(value)

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(_plain(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(_plain(value), connection, prepared)

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


def _plain(value: Any) -> Any:
    return value.to_json() if isinstance(value, StudyValues) else value
