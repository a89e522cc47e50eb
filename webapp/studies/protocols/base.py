"""Interface of a study protocol: the steps of a participant, and the content of their tasks.

A protocol only returns values: it reads no database, writes nothing and knows no page. Services call it and store
its results; the participant's pages read its steps. The questions for participants are no part of it: they are in
the study's values (`questions` before a task, `after` it), and the steps `questions`, `form` and `judge` ask them.

- `steps`: the way, in order. Every step is shown by the class of its name in `webapp/participant/steps/`, which
  says of a participant whether the step `is_applicable` and whether it `is_completed`. The participant's current
  step is the first one that is applicable and not completed. So
  a protocol lists `questions` even if only some studies ask any. A name may stand in several protocols, and
  once in each. The names there are: consent, instructions, quiz, questions, practice, chat, arena, judge, form, done.
- `gives`: what people are given. A study opens when it has some of it. `judges_items`, `talks_to_bots` and
  `judges_conversations` follow from it.
- `compares_pairs`: whether participants compare two replies, chats or conversations; of stored conversations it is
  `compares_dialogues`. `rates_conversations`: whether they rate whole conversations of their own instead.
- `marks_turns`: whether single replies are labelled, so that ratings are of turns. `marks_own_chats`: those of the
  participant's own chat; `marks_errors`: errors in them; `can_label_steps`: steps of their traces, too.
- `bots_at_once`: number of bots that answer each message; `picks_replies`: whether one of their replies is picked.
  Tasks of such a protocol have its name.
- `order`: the order that participants give to several replies of an item; None if they give none.
- `has_sequences`: whether a task may have several bots one after another, and participants may choose their bot.
- `n_replies`: number of replies of an item that are shown, where that matters; `most_replies`: the most that an item
  may hold, where some of them are drawn.
- `settings`: sections of a study's values (`SECTIONS`) that it reads beside those of every study (`texts`,
  `asking`, `recruitment`, `quotas`). The builder shows them.
- `next_task`: what somebody is given now. `draw` chooses by the study's assignment rule among what is
  available and new to this person; what comes back is stored and frozen.
- `form`: the rubric whose rows are the scales that `form` and `judge` ask.
- `page`: how the step `judge` looks, for protocols that have it: words, the partial template that shows what is
  judged (`webapp/participant/templates/participant/judge/<name>.html`) and the sheet that asks the questions, reads
  the answers and answers them for scripted participants (`webapp/participant/question_forms/`). Progress, missing
  answers, Back and Next, storing and changing answers are the step's own and the same for all.
- `needs_reference`: whether only items with a scored reference are given; `needs_criteria`: with criteria of their own.
- `has_one_item`: whether its studies have one item that stands for the question itself, and need no others.
- `results`: what is made of its ratings beside means and agreement: `grades` (the majority's), `reference` (what was
  said beside the known replies), `approval` (shares of what was chosen), `errors` (errors marked in replies),
  `criteria` (agreement on each criterion).
- `needs_checks`: whether a study must have attention checks before it opens.
- `asks`, `scale`, `n_asked`, `n_more_asked`: the questions that a new study begins with, where those about a chat do
  not fit, the one scale that its sheet has, how many scales there can be, and how many questions its sheet adds.
- `headline`, `instructions`: what a new study calls the task on its first page, and what it tells people to do, where
  the protocol's title and the usual words do not fit.
- `leaves_out`, `not_asked`, `scores`, `more_answers` and `answers_wrong`: whether items differ in what is asked of
  them, questions that are not asked of an item, scales that are computed from the answers, what is answered beside the
  rubric's questions, and rules between answers.
- `read_answers`: the answers to store, from those that were sent. It calls the methods before; a protocol with answers
  of its own form extends it.
- `extra_answers`: the stored answers besides the rubric's questions, each with its column in the table `ratings`.
- `work`: what the first page says about the work; `elicitation`: how the datasheet describes the form of answers.
- `activity`, `activity_place`: its group in the builder's list, by default that of `gives`, and its place there.
- `example`: what a study that shows the protocol needs beside `asks`, as a study's file has it: settings that have no
  useful default, for example. Bots, texts for judging and sample items are added where it does not say them
  (`webapp/studies/study_file.py`). `study_example NAME` prints it, and the contract tests import, open and export it.
- `is_complete`: whether a task has earned its completion code.
- `identity`: name, version and parameters. Raise the version whenever people would be led differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from chatbots.registry import C, Registry
from evaluation.analysis.ordered_choices import OrderedChoices
from webapp.core.errors import Refused
from webapp.studies.assignment.cells import DrawnBot
from webapp.studies.attention_checks import Checking, check_lists
from webapp.studies.models import Item, Rubric, Study, StudyVersion, Task
from webapp.studies.questions import Answers, Question
from webapp.studies.sent_answers import SentAnswers, check_answers, select_numbers
from webapp.studies.settings import StudyValues

Gives = Literal["bots", "conversations", "items"]
Activity = Literal["bots", "arena", "pairs", "items", "conversations", "list"]
"""Groups of protocols in the builder."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a participant's way.

    Attributes:
        name: of the step's class.
        heading: the word for it in the header; steps in a row with one heading are one place there.
    """

    name: str
    heading: str | Promise


def usual_steps(*work: Step) -> tuple[Step, ...]:
    """Return a protocol's steps: those before this work, it, and the end."""
    checks = [kind.card.step for kind in check_lists(Checking).values() if kind.card.is_step]
    before = (Step(name, _("About")) for name in ("consent", "instructions", *checks, "questions"))
    return (*before, *work, Step("done", _("Done")))


@dataclass(frozen=True, slots=True)
class HeaderStep:
    """Place in the header: number from 1, heading, and steps."""

    number: int
    heading: str | Promise
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgePage:
    """Layout of the pages of the step `judge`.

    Attributes:
        heading: the page's request ("Which reply is better?").
        count: text of the progress, with `%(n)s` and `%(of)s` ("Comparison %(n)s of %(of)s").
        sheet: name of the sheet with the questions.
        template: name of the partial that renders the thing judged, and includes the sheet's questions.
        hint: a sentence below the heading; empty for none.
        is_wide: two things stand side by side, where there is room.
    """

    heading: str | Promise
    count: str | Promise
    sheet: str = "scales"
    template: str = "replies"
    hint: str | Promise = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Plan of a task's slot; exactly one of the first three is set.

    Attributes:
        bot: the drawn bot with which a conversation is made.
        conversation: id of a stored conversation.
        item: id of an item (context, responses, reference).
        side: side on which it is shown ("A", "B"); empty for a single one.
        is_flipped: True to show the replies of an item in the opposite order.
    """

    bot: DrawnBot | None = None
    conversation: str = ""
    item: str = ""
    side: str = ""
    is_flipped: bool = False


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Plan of a task.

    Attributes:
        kind: the activity with the slots ("chat"); `next_task` may return several kinds one after another.
        slots: in the order in which they are looked at.
        payload: everything else that was drawn, as JSON values.
    """

    kind: str
    slots: tuple[SlotPlan, ...]
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Progress of a task: its slots, and those that have been rated."""

    n_slots: int
    n_rated: int


@dataclass(frozen=True, slots=True)
class ReplyOrder:
    """Order that participants give to several replies of an item.

    Attributes:
        answers: names of the stored answers in the order of the columns of `choices`; each is the number of a reply in
            its item, from 0.
        choices: kind of the choices, which implies judgements of pairs and has results.
    """

    answers: tuple[str, ...]
    choices: type[OrderedChoices]


@dataclass(frozen=True, slots=True)
class ExtraAnswer:
    """Additional stored answer, and its column in the table `ratings`.

    Attributes:
        labels: labels by value.
    """

    name: str
    type: Literal["integer", "number", "json"]
    description: str
    labels: tuple[tuple[Any, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkDescription:
    """Description of a participant's work.

    Attributes:
        lead: a sentence or two.
        amount: amount of work, with its unit; unit: explanation of the unit, in small print.
        field: name of the setting for the amount.
    """

    lead: str
    amount: str
    unit: str
    field: str


class Draw(Protocol):
    """Source of what one participant can be given now."""

    @property
    def values(self) -> StudyValues:
        """Values of the study, which include its settings."""
        ...

    def bots(self, n: int = 1) -> Sequence[DrawnBot]:
        """Return `n` different available bots that are new to the participant.

        They are drawn by the study's rule.

        Raises:
            Refused: `no_bot` if there are fewer.
        """
        ...

    def pairs(self, n: int = 1) -> Sequence[tuple[DrawnBot, DrawnBot]]:
        """Return `n` different pairs of bots that are new to the participant.

        They are drawn by the study's rule; the first bot of each is A.

        If fewer are left, those are returned.

        Raises:
            Refused: `no_bot` or `all_rated` if there is none.
        """
        ...

    def in_turn(self) -> tuple[Sequence[DrawnBot], str]:
        """Return the participant's bots in order, and the key of the order.

        The order is counterbalanced.

        The key is empty if orders are not counted: for one bot, or random orders.

        Raises:
            Refused: as `bots`.
        """
        ...

    def dialogues(self, n: int = 1) -> Sequence[tuple[str, str]]:
        """Return `n` different pairs of conversations of two bots.

        They are drawn by the study's rule; the first of each is A.

        No participant gets a conversation twice. If fewer pairs are left, those are returned.

        Raises:
            Refused: `all_rated` if there is none.
        """
        ...

    def conversations(self, n: int = 1) -> Sequence[str]:
        """Return ids of `n` different completed conversations that are unseen.

        They are drawn by the study's rule.

        Raises:
            Refused: `all_rated` if there are fewer.
        """
        ...

    def items(self, n: int = 1, *, least: int | None = None) -> Sequence[str]:
        """Return ids of `n` different items that are unseen.

        They are drawn by the study's rule.

        Args:
            least: minimum number, if no more are left.

        Raises:
            Refused: `all_rated` if there are fewer; `full` if the remaining ones have enough raters.
        """
        ...

    def sides(self, items: Sequence[str]) -> Mapping[str, bool]:
        """Return for each item whether its replies are swapped.

        Over its raters, each reply is on each side equally often.
        """
        ...

    def shown(self, items: Sequence[str], n: int) -> Mapping[str, Sequence[int]]:
        """Return the numbers of `n` replies of each item, in display order.

        Over an item's raters, each reply is shown equally often, with all others, and at each position.
        """
        ...

    def replies(self, conversations: Sequence[str]) -> Mapping[str, Sequence[int]]:
        """Return the numbers of the replies to label in each conversation.

        The study sets how many.
        """
        ...

    def with_checks(self, items: Sequence[str]) -> Sequence[str]:
        """Insert attention checks, gold items and repeated items among the items.

        Their positions are random.
        """
        ...


class StudyProtocol(Protocol):
    """Steps and tasks of a study.

    The module's docstring explains each attribute and method.

    A protocol that is a subclass inherits the usual defaults.
    """

    name: str
    title: str
    description: str
    gives: Gives
    settings: tuple[str, ...]
    steps: tuple[Step, ...]
    page: JudgePage | None = None
    compares_pairs: bool = False
    compares_dialogues: bool = False
    marks_turns: bool = False
    marks_own_chats: bool = False
    marks_errors: bool = False
    can_label_steps: bool = False
    bots_at_once: int = 1
    picks_replies: bool = False
    has_sequences: bool = False
    needs_checks: bool = False
    needs_reference: bool = False
    needs_criteria: bool = False
    has_one_item: bool = False
    order: ReplyOrder | None = None
    extra_answers: tuple[ExtraAnswer, ...] = ()
    activity: Activity | None = None
    activity_place: int = 9
    results: tuple[str, ...] = ()
    asks: tuple[Question, ...] = ()
    """Default questions after a task in a new study; empty: the questions about a chat."""
    scale: tuple[int, int] | None = None
    """The only scale of its sheet, for all questions of a researcher; None: any scale."""
    n_asked: int | None = None
    """Greatest number of scales on its page after the task; None: any number."""
    n_more_asked: int = 0
    """Number of questions that its page asks about each text besides those of the study."""
    headline: str = ""
    """What a new study calls the task on its first page; empty: the protocol's title."""
    instructions: str = ""
    """Default instructions of a new study, a point a line; empty: those for chatting or for judging replies."""
    n_replies: int | None = None
    """How many replies an item must hold at least; None: any number."""
    most_replies: int | None = None
    """How many it may hold; None: `n_replies`."""

    @property
    def identity(self) -> Identity: ...

    @property
    def judges_items(self) -> bool:
        """True if participants rate the study's items."""
        return self.gives == "items"

    @property
    def talks_to_bots(self) -> bool:
        """True if participants chat with the study's bots."""
        return self.gives == "bots"

    @property
    def judges_conversations(self) -> bool:
        """True if participants judge stored conversations, or replies in them."""
        return self.gives == "conversations"

    @property
    def rates_conversations(self) -> bool:
        """True if participants rate whole conversations of their own.

        A hybrid metric can be fitted to such ratings.
        """
        return self.talks_to_bots and not self.compares_pairs

    @property
    def elicitation(self) -> str:
        """Form of response elicitation, as the datasheet describes it."""
        if self.compares_pairs:
            return "Relative quality estimation: which of two is better."
        if self.marks_turns:
            return "Output labelling: raters tick what is true of a reply."
        return "Direct quality estimation."

    def next_task(self, draw: Draw) -> TaskPlan:
        """Return the plan of the participant's next task.

        Raises:
            Refused: as raised by `draw`, if there is nothing to give.
        """
        ...

    def form(self, version: StudyVersion) -> Rubric:
        """Return the version's questions after a task."""
        return version.rubric

    def scores(self, values: StudyValues) -> tuple[Question, ...]:
        """Return the scales that are computed from the answers.

        They come first in the rubric and are not asked.
        """
        return ()

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        """Return the numeric answers besides the rubric's questions.

        They have the smallest and largest value by name.

        They may be missing; `answers_wrong` reports those that are required.
        """
        return {}

    def leaves_out(self, version: StudyVersion) -> bool:
        """Return True if some questions are not asked of some items."""
        return False

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        """Return the keys of the questions that are not asked about this item."""
        return frozenset()

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        """Return errors of answers whose numbers are on their scales.

        Errors are sentences by name.

        The text's name is `comments`.
        """
        return {}

    def read_answers(self, sent: SentAnswers) -> tuple[Answers, dict[str, str]]:
        """Return the answers to store, and errors by name.

        If there are errors, nothing is stored.
        """
        hidden_keys = {*sent.hidden_keys, *(self.not_asked(sent.version, sent.item) if sent.item is not None else ())}
        accepted, errors = check_answers(
            version=sent.version,
            answers=sent.answers,
            extra_ranges=self.more_answers(sent.version),
            hidden_keys=hidden_keys,
        )
        return accepted, errors or self.answers_wrong(sent.version, select_numbers(accepted), sent.comment)

    def get_extra_answers(self, versions: Iterable[StudyVersion]) -> tuple[ExtraAnswer, ...]:
        """Return the extra answers that these versions of a study can have."""
        return self.extra_answers

    def taken_keys(self, values: StudyValues) -> tuple[str, ...]:
        """Return the keys that the study's questions cannot have."""
        return tuple(extra.name for extra in self.extra_answers)

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        """Return the description of the work for the first page.

        Args:
            n_asked: smallest and greatest number of questions after a chat, or about one item.
        """
        n = values.judging.n_items
        return WorkDescription(
            judging_lead(*n_asked), ngettext("%(n)s text", "%(n)s texts", n) % {"n": n}, gettext("to judge"), "n_items"
        )

    def example(self) -> dict[str, Any]:
        """Return the values that a study of this protocol needs besides `asks`.

        They are those of a study's file.
        """
        return {}

    def is_complete(self, progress: TaskProgress) -> bool:
        """Return True if the task is done."""
        return progress.n_rated >= progress.n_slots


def judging_lead(n_least: int, n_most: int) -> str:
    """Return the sentences about work with this many questions per text."""
    if n_least == n_most:
        lead = ngettext(
            "You read and answer %(n)s question about each text. There are no right or wrong answers.",
            "You read and answer %(n)s questions about each text. There are no right or wrong answers.",
            n_most,
        )
    else:
        lead = ngettext(
            "You read and answer %(least)s to %(n)s question about each text. There are no right or wrong answers.",
            "You read and answer %(least)s to %(n)s questions about each text. There are no right or wrong answers.",
            n_most,
        )
    return lead % {"least": n_least, "n": n_most}


def header_steps(steps: Sequence[Step]) -> list[HeaderStep]:
    """Return the places of the header.

    Consecutive steps with the same heading share one.
    """
    grouped = [(heading, list(group)) for heading, group in groupby(steps, lambda s: s.heading)]
    return [
        HeaderStep(number, heading, tuple(step.name for step in group))
        for number, (heading, group) in enumerate(grouped, start=1)
    ]


protocols: Registry[StudyProtocol] = Registry("study protocol", "webapp.studies.protocols")


class MissingProtocol(StudyProtocol):
    """Stand-in for a protocol that is not installed.

    Its study can be read, but assigns no tasks.
    """

    name = title = description = ""
    gives: Gives = "bots"
    settings = ()
    steps = ()
    identity = Identity("", "")

    def next_task(self, draw: Draw) -> TaskPlan:
        raise Refused("no_bot", "The study's protocol is not installed.")


_MISSING = MissingProtocol()


def get_protocol(study: Study) -> StudyProtocol:
    """Return the study's protocol.

    A stand-in with the usual attributes if it is not installed.
    """
    return protocols.get(study.protocol) if study.protocol in protocols else _MISSING


def has_picks(task: Task) -> bool:
    """Return True if the participant picks a reply at every turn.

    This needs no query.
    """
    return task.kind in picking_kinds()


def picking_kinds() -> list[str]:
    """Return the kinds of tasks in which participants pick replies.

    They are the names of their protocols.
    """
    return [protocol.name for protocol in protocols if protocol.picks_replies]


def protocol_asks(name: str) -> tuple[Question, ...]:
    """Return the protocol's default questions after a task.

    Empty if it is not installed.
    """
    return protocols.get(name).asks if name in protocols else ()


def asks_questions(name: str) -> bool:
    """Return True if this protocol asks questions before its task."""
    return any(step.name == "questions" for step in protocols.get(name).steps)


def register_protocol(cls: C) -> C:
    """Make one protocol of the decorated class and list it."""
    protocols.register(cls)
    return cls
