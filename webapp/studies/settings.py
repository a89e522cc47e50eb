"""Settings of a study: its questions and promises, stored by its versions.

Reading a study's file or editing a study in a form creates them; an error names the path of its value.
`webapp.studies.validation` validates several values together, and against the bots that are installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models
from django.db.models.fields.json import KeyTransform
from django.utils.safestring import SafeString
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from chatbots.validation import InputModel, Many, Number, ValuesError
from webapp.core.language import LANGUAGES, Language
from webapp.core.markdown import reply_html
from webapp.studies.assignment.settings import Assignment
from webapp.studies.attention_checks import Attention, Checking
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
    Judging,
    LongText,
    Pacing,
    Picking,
    Referencing,
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
    """Withdrawing after the end, and the clock by which ids and texts are erased.
    People read both before they agree.
    """

    withdrawal_days: Days = Field(
        default=30,
        title="Days to withdraw after the end",
        description="So long after finishing, people can have their data deleted by a link on the last page. 0: only "
        "before they finish.",
    )
    ids_kept_days: Days | None = Field(
        default=None,
        title="Days that recruitment ids are kept",
        description="After the end of the study, or after the last decision about a person's pay where that is later. "
        "Empty: until a researcher erases them.",
    )
    texts_kept_days: Days | None = Field(
        default=None,
        title="Days that texts are kept",
        description="After the end of the study: messages, replies, comments and answers in words. Ratings and other "
        "numbers stay. Empty: for ever.",
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
        description="Pages, buttons and messages of the study speak it. Your own texts are yours to write in it.",
        json_schema_extra={"choices": dict(LANGUAGES)},
    )
    languages: Many[Language] = Field(
        default=(),
        title="Participants choose among",
        description="The language above is one of them. The first page lists them, or the link says (?lang=de). Pages "
        "and texts of Confab follow; your own texts can be translated below. None: all read the language above.",
        json_schema_extra={"choices": dict(LANGUAGES)},
    )
    translations: dict[Language, dict[TextLine, TextLine]] = Field(
        default_factory=dict,
        title="Your own texts in the other languages",
        description="Line by line; a line without a translation stays as you wrote it.",
    )
    browser_translation: Literal["forbid", "allow"] = Field(
        default="forbid",
        title="Translation by the browser",
        description="A browser that translates the page changes the texts that participants rate. Forbidden, replies "
        "and items are marked as not to be translated. A translated page is flagged in both cases.",
        json_schema_extra={"choices": {"forbid": "Forbidden for replies and items", "allow": "Allowed"}},
    )
    title: str = Field(
        default="Chat with a chatbot",
        min_length=1,
        max_length=120,
        title="Title on the first page",
        description="What participants read first.",
    )
    minutes: Count = Field(
        default=8, title="Minutes", description="How long it usually takes; shown on the first page."
    )
    payment: str = Field(
        default="",
        max_length=100,
        title="Pay, in words",
        description="For example “£1.40 per chat”; shown on the first page. Empty: the amount of “Pay each”.",
    )
    promises_pay_on_failure: bool = Field(
        default=True,
        title="Promise pay when a chatbot fails",
        description="People read that they are paid if a chatbot fails. A study without pay promises none.",
    )
    organisation: str = Field(
        default="",
        max_length=200,
        title="Who runs the study",
        description="The lab or institution that people read of.",
    )
    contact: Annotated[str, AfterValidator(_email)] = Field(
        default="", title="Whom people write to", description="An e-mail address for questions."
    )
    consent_points: LongText = Field(
        default=(
            "You can stop at any time.\n"
            "We keep what you write, without your name.\n"
            "Do not write anything private about yourself or others."
        ),
        title="Points before agreeing",
        description="Short sentences, one a line.",
    )
    consent_text: LongText = Field(
        default="", title="Full consent form", description="Markdown. Opens from the first page; may stay empty."
    )
    instructions_text: LongText = Field(
        default=(
            "Write as you would to a person you have just met.\n"
            "Talk about anything you like.\n"
            "Vote on replies with thumbs up or down as you go.\n"
            "When you have written enough messages, rate the chat."
        ),
        title="Instructions",
        description="One point a line.",
    )
    thanks_text: LongText = Field(
        default=DEFAULT_THANKS, title="Words of thanks", description="On the last page, above the code."
    )

    @field_validator("languages")
    @classmethod
    def _with_their_own(cls, languages: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if twice := first_duplicate(languages):
            raise ValueError(f"it names {twice} twice; once is enough")
        study_language = info.data.get("language", "")
        if languages and study_language and study_language not in languages:
            raise ValueError(f"it leaves out {study_language}, the study's own language; name that, too")
        return tuple(sorted(languages, key=lambda language: language != study_language))

    @field_validator("translations")
    @classmethod
    def _into_other_languages(cls, lines: dict[str, dict[str, str]], info: ValidationInfo) -> dict[str, dict[str, str]]:
        languages, study_language = info.data.get("languages", ()), info.data.get("language", "")
        for language in lines:
            if language == study_language or (language not in languages and "languages" in info.data):
                raise ValueError(f"it has {language}, which must be one of languages and not the study's own")
        return lines

    @property
    def offered(self) -> tuple[str, ...]:
        """Languages that participants may read the study in, its own first."""
        return self.languages or (self.language,)


class ChatRules(InputModel):
    """Rules of a chat."""

    min_exchanges: int = Field(
        default=5,
        ge=1,
        le=32767,
        title="Messages at least",
        description="So many messages are answered before the chat can be rated.",
    )
    max_exchanges: int = Field(
        default=20, ge=1, le=32767, title="Messages at most", description="After so many the chat ends."
    )
    least_minutes: Minutes | None = Field(
        default=None,
        title="Minutes at least",
        description="So long after the participant's first message the chat can be rated. Empty: no matter how soon.",
    )
    most_minutes: Minutes | None = Field(
        default=None,
        title="Minutes at most",
        description="So long after the first message the chat takes no more messages and can be rated, however few "
        "were answered. Participants are told before. Empty: no limit.",
    )
    max_message_chars: int = Field(
        default=500, ge=1, le=1_000_000, title="Longest message", description="In characters."
    )
    typing_chars_per_s: int = Field(
        default=60,
        ge=0,
        le=1_000_000,
        title="Typing pace",
        description=("Characters a second, for bots that know their whole reply at once; 0 shows it at once."),
    )
    format: Literal["plain", "markdown"] = Field(
        default="plain",
        title="Format of replies",
        description="Markdown: pages show lists, emphasis, code, tables and quotes of all replies, stored ones too. "
        "Metrics read the words without the marks; exports have the reply as the bot wrote it.",
        json_schema_extra={"choices": {"plain": "As written", "markdown": "Markdown"}},
    )
    links: Literal["text", "open"] = Field(
        default="text",
        title="Links in replies",
        description="In Markdown: the address behind the words, or a link that opens in a new tab. Images are never "
        "loaded; their description and address are shown.",
        json_schema_extra={"choices": {"text": "Shown as text", "open": "Open in a new tab"}},
    )
    images: bool = Field(
        default=False,
        title="Participants may send images",
        description="One with each message, in chats whose bot takes images. JPEG, PNG or WebP of at most 5 MB; stored "
        "without metadata such as the place. A reply of an endpoint bot may have one, too.",
    )
    trace: Literal["hidden", "folded", "shown"] = Field(
        default="hidden",
        title="Reasoning and tool calls",
        description="Of endpoint bots, above each reply: for participants in the chat and for raters. They are stored "
        "and exported in any case, and are never part of the reply's text.",
        json_schema_extra={"choices": {"hidden": "Hidden", "folded": "Folded", "shown": "Open"}},
    )


class Asking(InputModel):
    """Settings for asking questions."""

    questions_order: Order = Field(
        default="fixed",
        title="Order before the task",
        description="Shuffled: another one for each person, and the same whenever they come back.",
    )
    after_order: Order = Field(
        default="fixed",
        title="Order after the task",
        description="Shuffled: another one for each person, and the same whenever they come back.",
    )
    asks_comment: bool = Field(
        default=True, title="Ends with a box for comments", description="The form after a chat; never required."
    )


class Quotas(InputModel):
    """Limits on the number of tasks and on the cost, and the difference that they are planned for."""

    n_conversations_wanted: Count = Field(
        default=0, title="Wanted in all", description="Completed tasks aimed at; the study is full then. 0: no limit."
    )
    max_conversations_per_participant: int = Field(
        default=0, ge=0, le=32767, title="A person may do", description="Tasks of one person; 0: one with every bot."
    )
    max_cost: Number | None = Field(
        default=None,
        ge=0,
        title="Cap on cost",
        description=(
            "The most that replies of paid bots may cost here, in the currency of their prices; empty: no cap."
        ),
    )
    smallest_difference: Number | None = Field(
        default=None,
        gt=0,
        title="Smallest difference of interest",
        description="In points of the question that bots are ranked by; where pairs are compared, the share of "
        "judgements for one bot less the share for the other. Plans show it, and bots whose difference is surely "
        "smaller are called equal for practical purposes. Empty: a tenth of the scale.",
    )
    level: ConfidenceLevel = None


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
    judging: Judging = Judging()
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
    assignment: Assignment = Assignment()
    rights: Rights = Rights()
    conditions: Conditions = Conditions()
    sittings: Sittings = Sittings()

    @model_validator(mode="before")
    @classmethod
    def _begin_in_their_language(cls, plain: Any) -> Any:
        """Return the values with texts that are left out in the language of the study."""
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
        """Return a bot's reply as HTML if the study shows Markdown; empty if it shows replies as written."""
        if self.chat.format == "plain":
            return ""
        return reply_html(text, links_as_text=self.chat.links == "text", language=self.texts.language)

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """Return the values by their names alone, which no two sections share."""
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
    "judging": Judging,
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
"""Of all values; bots and questions stand in no section."""


@lru_cache(maxsize=256)
def _stored_values(text: str) -> StudyValues:
    """Return the values of a stored text, checked once: they are frozen, and every page reads them."""
    return StudyValues.model_validate(json.loads(text))


class ValuesField(models.JSONField):
    """A JSON column that holds `StudyValues`. Migrations know it as plain JSON."""

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
