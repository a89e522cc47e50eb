"""Settings of chats and of single protocols.

Chats have a content notice, reports, typing, pacing and reply filters. All chatbots of a study share one pace: the
start and speed of a reply are drawn alike for each of them.

Practice precedes comparisons: participants must answer pairs with known answers correctly. Researchers write them as a
list in YAML or JSON:

    - context: [My dog died last week.]
      first: Oh no. How long did you have him?
      second: Dogs are animals.
      answers: {quality: first, empathy: first}
      why: The first one asks about the person's loss.

For questions without an answer here, every answer is right.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.fields import FieldInfo

from chatbots import derive_seed
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Number
from evaluation.data.items import ANSWER_NUMBERS
from webapp.core.language import Language
from webapp.studies.attention_checks import CheckCard, CheckEntry
from webapp.studies.marking_settings import MOST_CHOSEN, ChatId
from webapp.studies.questions import Key


class Arena(InputModel):
    """Settings for comparing two chatbots that both answer the participant."""

    n_comparisons: int = Field(
        default=4,
        ge=1,
        le=50,
        title="Comparisons per participant",
        description="Number of chatbot pairs that each participant compares, one after another. If there are fewer "
        "different pairs, participants get all of them.",
    )
    reveals_bots: bool = Field(
        default=False,
        title="Reveal the chatbots afterwards",
        description="Shows which chatbots they were, next to the code, after the participant's last comparison. "
        "Participants who have read it can tell others what to look for.",
    )


class Picking(InputModel):
    """Settings for picking one of two replies at every turn."""

    allows_equal: bool = Field(
        default=True,
        title="Allow ties",
        description="Participants can rate the two replies as equal. The reply with which the chat continues is then "
        "drawn at random.",
    )


Raters = Annotated[int, Field(ge=0, le=10_000)]


class Judging(InputModel):
    """Settings for judging items, in studies without a chat."""

    n_items: int = Field(
        default=5,
        ge=1,
        le=200,
        title="Items per participant",
        description="Number of items that each participant rates in one task.",
    )
    show_reference: bool = Field(
        default=False,
        title="Show the reference reply",
        description="Shows the reply that a person wrote, for items that have one.",
    )
    raters_least: Raters = Field(
        default=0,
        title="Minimum raters per item",
        description="An item with fewer raters counts as unfinished. 0 for no minimum.",
    )
    raters_wanted: Raters = Field(
        default=0,
        title="Raters wanted per item",
        description="Once every item has this many raters, no more participants are admitted. 0 for no limit.",
    )
    raters_most: Raters = Field(
        default=0,
        title="Maximum raters per item",
        description="An item gets more raters than wanted only to fill up a task, and never more than this. 0 for no "
        "limit.",
    )
    kappa_items: int = Field(
        default=20,
        ge=2,
        le=1000,
        title="Shared items for a kappa",
        description="Cohen's kappa is the median over pairs of raters who share at least this many items. With "
        "fewer, it is mostly chance.",
    )


class Helping(InputModel):
    """Setting for the judge or metric that helps to draw items."""

    helper: str = Field(
        default="",
        max_length=100,
        title="Let a judge help",
        description="A judge, metric or imported score with values for the items. It makes the bots’ means more "
        "precise. Each item is drawn with a known probability, so intervals stay valid however bad it is. Not used "
        "below 15 raters. Leave empty for no help.",
    )
    helper_uncertainty: str = Field(
        default="",
        max_length=100,
        title="How uncertain it is",
        description="Values that are larger where the judge is less certain, such as the spread of its repeated "
        "scores. From the 16th rater on, participants get such items more often. Leave empty if unknown: all items are "
        "then equally likely.",
    )


class Choosing(InputModel):
    """Settings for choosing: the question, and the number of choices."""

    choose_question: str = Field(
        default="Which of these matter most for a good reply?",
        min_length=1,
        max_length=300,
        title="Question",
        description="The options are the study's questions, shown with their short names and texts.",
    )
    n_choose: int = Field(
        default=4, ge=1, le=50, title="Number of choices", description="Participants choose exactly this many."
    )


class Dialogues(InputModel):
    """Settings for comparing conversations: source, and pairs per participant."""

    dialogues_of: str = Field(
        default="",
        max_length=60,
        title="Source study",
        description="Key of the study whose completed conversations are compared. Leave empty for this study's own "
        "imported conversations.",
    )
    dialogues_run: int | None = Field(
        default=None,
        ge=1,
        title="Source self-play run",
        description="Number of the self-play run to compare instead of a study. Optional.",
    )
    dialogues_chosen: Annotated[Many[ChatId], Field(max_length=MOST_CHOSEN)] = Field(
        default=(),
        title="Chosen conversations",
        description=f"Ids of conversations of the source, one per line, at most {MOST_CHOSEN}. Leave empty for all.",
    )
    n_dialogues: int = Field(
        default=4,
        ge=1,
        le=50,
        title="Pairs per participant",
        description="Number of pairs that each participant reads, one after another, without repeating a "
        "conversation. If fewer are left, participants get those.",
    )
    raters_each_pair: int = Field(
        default=1,
        ge=1,
        le=1000,
        title="Raters per pair",
        description="Existing pairs are given to this many raters before a new pair is made.",
    )


class Referencing(InputModel):
    """Settings for questions about certain items, and question weights."""

    asked_only_of: dict[Key, Many[str]] = Field(
        default_factory=dict,
        title="Questions for certain kinds of conversation",
        description="For the key of a question, the kinds of conversation (`task` of an item) that it is asked about.",
    )
    weights_study: str = Field(
        default="",
        max_length=60,
        title="Study with importance weights",
        description="Key of a study in which participants chose what matters. Its shares become the weights of the "
        "overall score. Leave empty to weight all questions equally.",
    )

    def not_asked(self, task: str) -> frozenset[str]:
        """Return the keys of questions not asked about this kind of conversation."""
        return frozenset(key for key, tasks in self.asked_only_of.items() if task not in tasks)


MOST_PRACTICE_ATTEMPTS = 2

PracticeText = Annotated[str, Field(min_length=1, max_length=20_000)]
PracticeAnswer = Literal["first", "same", "second"]


class TrainingPair(CheckEntry):
    """A pair of replies whose right answers are known.

    Attributes:
        answers: the right answer to each question that counts, by its key.
        why: explanation after a wrong answer.
    """

    card = CheckCard(
        "practice",
        "practice",
        "first",
        "Practice pair",
        is_step=True,
        new_answer="first",
        by_question="answers",
        of_sides=True,
        long=("first", "second", "why"),
    )
    context: Many[PracticeText] = Field(
        default=(), title="Context", description="One utterance per line, oldest first."
    )
    first: PracticeText = Field(title="First reply")
    second: PracticeText = Field(title="Second reply")
    answers: dict[Key, PracticeAnswer]
    why: PracticeText = Field(title="Explanation")

    @model_validator(mode="after")
    def _has_answers(self) -> TrainingPair:
        if not self.answers:
            raise ValueError("answers must contain at least one question; otherwise no answer could be wrong")
        return self

    @property
    def digest(self) -> str:
        """Digest of the pair.

        It is the same in every version of the study that has the pair.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @classmethod
    def describe(cls, n: int, section: Any) -> str:
        return "practice with a pass mark"

    def missed(self, answers: Mapping[str, float]) -> list[str]:
        """Return the keys of the questions that were answered wrongly."""
        return [key for key, which in self.answers.items() if answers.get(key) != ANSWER_NUMBERS[which]]


class Training(InputModel):
    """Settings of the practice before the first task."""

    training_pairs: Annotated[Many[TrainingPair], Field(max_length=50)] = Field(
        default=(),
        title="Practice pairs",
        description="Practice pairs with known answers. A participant who gets one wrong twice is screened out.",
    )


def text_lines(text: str) -> str:
    """Convert line ends to line feeds.

    Browsers send other line ends, which would make a different text.
    """
    return text.replace("\r\n", "\n")


LongText = Annotated[str, AfterValidator(text_lines)]
"""A text of several lines."""


def _without_ends(text: str) -> str:
    return " ".join(text.split())


ConfidenceLevel = Annotated[
    Number | None,
    Field(
        ge=0.5,
        le=0.999,
        title="Confidence level",
        description="For intervals of means, differences and models. Tests use 1 − level: 0.95 tests at .05. Leave "
        "empty for the levels of earlier versions: 0.90 for intervals, .10 for the order of bots and .05 for models.",
    ),
]
TextLine = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_without_ends)]


def is_of_lines(info: FieldInfo) -> bool:
    """Return True if the value is a text of several lines."""
    return any(getattr(each, "func", None) is text_lines for each in info.metadata)


class Comfort(InputModel):
    """Settings of the content notice and of reporting replies."""

    content_notice: LongText = Field(
        default="",
        max_length=2000,
        title="Content notice",
        description="For example “Chatbots may say hurtful things.” Shown in a separate frame before participants "
        "consent, and part of what they consent to. Leave empty for none.",
    )
    content_notice_ticked: bool = Field(
        default=True,
        title="Require a tick for the notice",
        description="Participants must tick that they have read the content notice before they can start.",
    )
    lets_report: bool = Field(
        default=True,
        title="Participants can report a reply",
        description="Adds “Report” next to every chatbot reply. The page Reports lists them.",
    )

    @property
    def notice_must_be_ticked(self) -> bool:
        """True if participants must tick the content notice to begin."""
        return bool(self.content_notice.strip()) and self.content_notice_ticked


class Safety(InputModel):
    """Settings of the safety net for what participants write."""

    watches_messages: bool = Field(
        default=False,
        title="Watch messages for signs of distress",
        description="For studies about support. A message with a listed phrase shows the helpline text at once, marks "
        "the chat and alerts you without quoting it. It misses most of what people say in other words.",
    )
    helpline_text: LongText = Field(
        default="",
        max_length=2000,
        title="Helpline text",
        description="Where participants find help now: name, number, hours. Needed in every language of the study.",
    )
    distress_phrases: dict[Language, Many[TextLine]] = Field(
        default_factory=dict,
        title="Phrases to watch for",
        description="By language, for example “de: ritze mich”. A language without phrases of yours uses Confab's list "
        "(English, German); other languages are not watched.",
    )
    distress_filter: str = Field(
        default="",
        max_length=50,
        title="Filter that also reads messages",
        description="Name of a reply filter, such as “classifier” with the settings under Reply filters, or of a "
        "plug-in. Leave empty for none.",
    )
    ends_on_distress: bool = Field(
        default=False,
        title="End the chat then, with full pay",
        description="The chat ends after the message, without a rating. The participant gets the code of those who "
        "ended early through no fault of their own.",
    )


class Typing(InputModel):
    """Settings for counting how messages are typed."""

    counts_typing: bool = Field(
        default=False,
        title="Record how messages are typed",
        description="Counts keystrokes, pastes and deletions and measures the time of each message, but never stores "
        "which keys. These figures flag messages that were pasted or that a language model may have written.",
    )
    typing_notice: LongText = Field(
        default=(
            "We count how often you press a key, paste and delete in each message, and how long you write. We never "
            "store which keys."
        ),
        max_length=2000,
        title="Consent point about typing",
        description="Added to the consent points if typing is recorded. If this text is empty, nothing is recorded.",
    )

    counts_focus: bool = Field(
        default=False,
        title="Also record how often the page is left",
        description="Counts how often participants switch to another tab or window between two messages, but not where "
        "they go. It is a signal of the machine score and requires “Record how messages are typed”.",
    )
    focus_notice: LongText = Field(
        default=(
            "We count how often you leave this page during the chat, to find messages that were not written by you. We "
            "never see where you go."
        ),
        max_length=2000,
        title="Consent point about leaving the page",
        description="Added to the consent points if leaving the page is recorded. If this text is empty, it is not "
        "recorded.",
    )

    @property
    def is_agreed_to(self) -> bool:
        """Return True if typing is recorded, which requires a consent point."""
        return self.counts_typing and bool(self.typing_notice.strip())

    @property
    def is_focus_agreed_to(self) -> bool:
        """Return True if leaving the page is recorded, which requires a consent point of its own."""
        return self.is_agreed_to and self.counts_focus and bool(self.focus_notice.strip())

    @property
    def agreed_notice(self) -> str:
        """Consent points about everything that is recorded; empty if nothing is."""
        if not self.is_agreed_to:
            return ""
        return f"{self.typing_notice}\n{self.focus_notice}" if self.is_focus_agreed_to else self.typing_notice


LONGEST_PACED_REPLY_S = 45.0
"""Maximum delay of a word after its message; the rest of the reply is then shown at once."""


class Pacing(InputModel):
    """Settings for the pace of replies."""

    paces_alike: bool = Field(
        default=False,
        title="Same pace for all chatbots",
        description="Every chatbot's replies start after the time below and continue at the speed below. A chatbot "
        "that is slower by itself stays slower. Its own times are stored and exported.",
    )
    first_words_s: Number = Field(
        default=2.0,
        ge=0.1,
        le=20,
        title="Seconds until the first words",
        description="The median: half of the replies start sooner.",
    )
    first_words_spread: Number = Field(
        default=1.4,
        ge=1,
        le=3,
        title="Spread of the time to the first words",
        description="A factor: two in three replies start between the median divided by it and the median times it. "
        "1 gives a constant time.",
    )
    words_per_s: Number = Field(
        default=6.0, ge=0.5, le=100, title="Words per second", description="Speed once a reply has started."
    )

    def draw(self, seed: int, turn: int) -> ReplyPace:
        """Return the pace of one reply.

        It depends on the seed and the turn, not on the bot.

        The time to the first words is log-normal: its logarithm has the median's as its mean, and the spread's as its
        standard deviation.
        """
        share = random.Random(derive_seed(seed, "pace", turn)).uniform(0.001, 0.999)
        first_s = math.exp(
            math.log(self.first_words_s) + math.log(self.first_words_spread) * NormalDist().inv_cdf(share)
        )
        return ReplyPace(first_s, self.words_per_s)


@dataclass(frozen=True, slots=True)
class ReplyPace:
    """Display times of one reply, in seconds after the message.

    Attributes:
        first_s: time to the first word.
        words_per_s: speed of the following words.
    """

    first_s: float
    words_per_s: float


FilterAction = Literal["mark", "withhold"]


def _by_filter(form_value: object) -> object:
    """Parse lines “filter: mark” of a form.

    Values other than text are returned unchanged.
    """
    if not isinstance(form_value, str):
        return form_value
    action_by_filter: dict[str, str] = {}
    for line in form_value.splitlines():
        if line.strip():
            name, _colon, action = line.partition(":")
            action_by_filter[name.strip()] = action.strip()
    return action_by_filter


FilterActions = Annotated[
    dict[str, FilterAction], BeforeValidator(_by_filter), TypeDescription("mark or withhold for each filter's name")
]


class Filtering(InputModel):
    """Settings of the filters that check replies before participants read them."""

    reply_filters: FilterActions = Field(
        default={"names_model": "mark"},
        title="Reply filters",
        description=(
            "Mark: participants read the reply, and you see what the filter matched. Withhold: participants only "
            "read that a reply was withheld, and you see the reply. Replies then appear only once they are complete "
            "and checked."
        ),
    )
    filter_phrases: Many[str] = Field(
        default=(),
        max_length=1000,
        title="Phrases to look for",
        description="Phrases for the filter “Your phrases”, one per line. It matches whole words and ignores case.",
    )
    filter_model: str = Field(
        default="",
        max_length=300,
        title="Classifier",
        description="Text classifier for the filter “Classifier”: a folder on the server with a transformers model, "
        "or the hub id of one that is already downloaded.",
    )
    filter_label: str = Field(
        default="toxic", max_length=100, title="Classifier label", description="Label that the filter looks for."
    )
    filter_from: Number = Field(
        default=0.5,
        ge=0,
        le=1,
        title="Probability threshold",
        description="A reply matches if the classifier gives the label at least this probability.",
    )
