"""Import of a package's participants, conversations, turns and ratings, in batches.

Importing twice changes nothing: participants, conversations and ratings are known by their names in the package.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Model, Q

from chatbots.text import quote
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.models import ConsentText, Outcome, Participant, QuestionAnswers, Slot, Study, StudyVersion, Task
from webapp.studies.models.participants import PlatformIds
from webapp.studies.rubrics import rubric_freeze
from webapp.studies.services import participants_named

PLATFORM = "import"
_TASKS = uuid.UUID("5b1f0d8e-6f3c-4c0e-9a55-0f9b8a1d7c42")


@dataclass(frozen=True, slots=True)
class ReadPerson:
    """Participant of a package, by the pseudonym that the package gives them."""

    name: str
    is_synthetic: bool
    entered_at: datetime | None
    consented_at: datetime | None
    consent: str
    answers: Mapping[str, Any]
    language: str = ""


@dataclass(frozen=True, slots=True)
class ReadConversation:
    """A conversation without its turns."""

    name: str
    bot_version: str
    person: str
    state: str
    seed: int
    n_exchanges: int
    is_synthetic: bool
    created_at: datetime | None
    ended_at: datetime | None
    language: str = ""
    condition: Mapping[str, str] = field(default_factory=dict)
    sitting: str = ""


@dataclass(frozen=True, slots=True)
class ReadTurn:
    """One utterance; `values` are those of the row beside where it stands, and when it was stored."""

    conversation: str
    index: int
    created_at: datetime | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadRating:
    """A rating, with the names of what it is about.

    Attributes:
        number: what the package calls it.
        target: conversation, turn, item or pair.
        about: names of one or two conversations or items.
        task: what the package calls the task that it was given in; empty for none.
        is_set_apart: the person missed an attention check.
    """

    number: str
    target: str
    about: tuple[str, ...]
    turn: int | None
    rater: str
    task: str
    version: int | None
    answers: Mapping[str, float]
    other_answers: Mapping[str, Any]
    comment: str
    submitted_at: datetime
    is_set_apart: bool = False


@dataclass(slots=True)
class PackageBatch:
    """Number of rows of a batch that were new, and the ratings that could not be placed, with the reason."""

    n_new: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)


def rows_without_owner(read: ReadPerson | ReadConversation | ReadTurn | ReadRating) -> list[Model]:
    """Return the rows that a row of a package becomes, without the rows that they point to, to check their values."""
    if isinstance(read, ReadPerson):
        person = Participant(consented_at=read.consented_at, consent_version=read.consent, language=read.language)
        return [
            _made_at(person, read.entered_at),
            PlatformIds(external_id=read.name),
            QuestionAnswers(answers=dict(read.answers)),
        ]
    if isinstance(read, ReadConversation):
        chat = Conversation(
            state=read.state,
            external_id=read.name,
            seed=read.seed,
            n_exchanges=read.n_exchanges,
            ended_at=read.ended_at,
            language=read.language,
            condition=dict(read.condition),
            sitting=read.sitting,
        )
        return [_made_at(chat, read.created_at), PlatformIds(external_id=read.person)]
    if isinstance(read, ReadTurn):
        turn = Turn(index=read.index, **read.values)
        return [_made_at(turn, read.created_at), Conversation(external_id=read.conversation)]
    rating = Rating(
        rater=read.rater,
        external_id=_name(read),
        answers=dict(read.answers),
        other_answers=dict(read.other_answers),
        comment=read.comment,
        submitted_at=read.submitted_at,
        at_turn=read.turn,
    )
    return [rating, PlatformIds(external_id=read.rater)]


def _made_at(row: Model, at: datetime | None) -> Model:
    setattr(row, "created_at", at)  # noqa: B010 - the stubs know no row that is not stored yet
    return row


def people_store(
    *,
    study: Study,
    people: Sequence[ReadPerson],
    consents: Mapping[str, ConsentText],
    versions: Mapping[int, StudyVersion],
) -> int:
    """Store new participants, with their consent and first answers; return the number there are now."""
    with transaction.atomic():
        ids = participants_named(study=study, platform=PLATFORM, names={person.name for person in people})
        rows, answers = [], []
        for person in people:
            consent = consents.get(person.consent)
            row = Participant(
                pk=ids[person.name],
                is_synthetic=person.is_synthetic,
                consented_at=person.consented_at,
                consent_version=person.consent,
                consent=consent,
                language=person.language,
            )
            if person.entered_at is not None:
                row.created_at = person.entered_at
            rows.append(row)
            if person.answers:
                version = _asking(versions, person.answers)
                answers.append(QuestionAnswers(participant_id=row.pk, version=version, answers=dict(person.answers)))
        given = ["is_synthetic", "consented_at", "consent_version", "consent", "language"]
        Participant.objects.bulk_update(rows, given, batch_size=200)
        entered = [row for row in rows if row.created_at is not None]
        Participant.objects.bulk_update(entered, ["created_at"], batch_size=200)
        QuestionAnswers.objects.bulk_create(answers, ignore_conflicts=True)
    return len(ids)


def _asking(versions: Mapping[int, StudyVersion], answers: Mapping[str, Any]) -> StudyVersion:
    """Return the newest version that asks all that was answered, or else the newest."""
    newest = sorted(versions, reverse=True)
    for number in newest:
        asked = {question.key for question in versions[number].values.questions}
        if answers.keys() <= asked:
            return versions[number]
    return versions[newest[0]]


def conversations_store(*, study: Study, batch: Sequence[ReadConversation], bots: Mapping[str, BotVersion]) -> int:
    """Store conversations that are not here yet; how many are new."""
    with transaction.atomic():
        there = conversations_named(study, {one.name for one in batch})
        new = [one for one in batch if one.name not in there]
        names = {one.person for one in new if one.person}
        people = participants_named(study=study, platform=PLATFORM, names=names) if names else {}
        rows = [
            Conversation(
                source=Conversation.Source.IMPORT,
                state=one.state,
                bot=bots[one.bot_version],
                study=study,
                participant_id=people.get(one.person),
                external_id=one.name,
                seed=one.seed,
                n_exchanges=one.n_exchanges,
                is_synthetic=one.is_synthetic,
                ended_at=one.ended_at,
                language=one.language,
                condition=dict(one.condition),
                sitting=one.sitting,
            )
            for one in new
        ]
        Conversation.objects.bulk_create(rows, batch_size=500)
        for row, one in zip(rows, new, strict=True):
            row.created_at = one.created_at or row.created_at
        Conversation.objects.bulk_update(rows, ["created_at"], batch_size=200)
    return len(rows)


def turns_store(*, study: Study, batch: Sequence[ReadTurn]) -> PackageBatch:
    """Store turns that are not here yet."""
    stored = PackageBatch()
    with transaction.atomic():
        chats = conversations_named(study, {one.conversation for one in batch})
        there = set(Turn.objects.filter(conversation__in=list(chats.values())).values_list("conversation", "index"))
        rows: dict[tuple[uuid.UUID, int], tuple[Turn, datetime | None]] = {}
        for one in batch:
            chat = chats.get(one.conversation)
            if chat is None:
                told = f"turn {one.index} is of conversation {quote(one.conversation)}, which is not there"
                stored.left_out.append((one.conversation, told))
            elif (chat, one.index) not in there and (chat, one.index) not in rows:
                turn = Turn(conversation_id=chat, index=one.index, **one.values)
                rows[chat, one.index] = (turn, one.created_at)
        turns = [turn for turn, _at in rows.values()]
        Turn.objects.bulk_create(turns, batch_size=500)
        for turn, at in rows.values():
            turn.created_at = at or turn.created_at
        Turn.objects.bulk_update(turns, ["created_at"], batch_size=200)
        stored.n_new = len(turns)
    return stored


def ratings_store(*, study: Study, batch: Sequence[ReadRating], versions: Mapping[int, StudyVersion]) -> PackageBatch:
    """Store ratings that are not here yet, each in the task that it was given in."""
    with transaction.atomic():
        placing = _Placing(study, batch, versions)
        rows = placing.rows()
        Slot.objects.bulk_create(placing.slots, batch_size=500)
        Rating.objects.bulk_create(rows, batch_size=500)
        for rubric in {row.rubric_id for row in rows}:
            rubric_freeze(rubric_id=rubric)
    return PackageBatch(len(rows), placing.left_out)


class _Placing:
    """Finds what each rating of a batch is about, and makes the tasks that it needs.

    Attributes:
        slots: to be stored before the ratings.
    """

    def __init__(self, study: Study, batch: Sequence[ReadRating], versions: Mapping[int, StudyVersion]) -> None:
        self.study = study
        self.versions = versions
        self.left_out: list[tuple[str, str]] = []
        self.slots: list[Slot] = []
        self.batch = self._new(batch)
        about = {name for one in self.batch for name in one.about}
        self.chats = conversations_named(study, about)
        self.items = dict(study.items.filter(key__in=about).values_list("key", "pk"))
        self.turns = self._turns()
        names = {one.rater for one in self.batch if one.rater}
        self.people = participants_named(study=study, platform=PLATFORM, names=names) if names else {}
        self.tasks = self._tasks()
        self.n_slots = dict(
            Slot.objects.filter(task__in=[task.pk for task in self.tasks.values()])
            .order_by()
            .values_list("task")
            .annotate(n=Count("pk"))
        )
        self.rated = set(
            Rating.objects.filter(conversation__in=list(self.chats.values()), participant__isnull=False).values_list(
                "conversation", "participant"
            )
        )

    def rows(self) -> list[Rating]:
        """Return the ratings as rows that are not stored yet; their tasks are."""
        found = []
        for one in self.batch:
            why = self._why_not(one)
            if why:
                self.left_out.append((one.number, why))
                continue
            found.append(self._row(one))
        return found

    def _new(self, batch: Sequence[ReadRating]) -> list[ReadRating]:
        study = self.study
        mine = Q(conversation__study=study) | Q(item__study=study) | Q(task__participant__study=study)
        there = set(
            Rating.objects.filter(mine, external_id__in=[_name(one) for one in batch]).values_list(
                "external_id", flat=True
            )
        )
        return [one for one in batch if _name(one) not in there]

    def _turns(self) -> dict[tuple[uuid.UUID, int], int]:
        of = [self.chats[one.about[0]] for one in self.batch if one.turn is not None and one.about[0] in self.chats]
        rows = Turn.objects.filter(conversation__in=set(of)) if of else Turn.objects.none()
        return {(chat, index): pk for pk, chat, index in rows.values_list("pk", "conversation", "index")}

    def _tasks(self) -> dict[str, Task]:
        """Return the batch's tasks by what the package calls them; those missing are made."""
        wanted = {one.task: one for one in self.batch if one.task and one.rater}
        ids = {name: task_id(self.study, name) for name in wanted}
        rows = [
            task_made(
                study=self.study,
                public_id=ids[name],
                person=self.people[one.rater],
                version=self._version(one),
                outcome=Outcome.FAILED_CHECK if one.is_set_apart else Outcome.RATED,
                ended_at=one.submitted_at,
            )
            for name, one in wanted.items()
        ]
        Task.objects.bulk_create(rows, ignore_conflicts=True)
        there = {task.public_id: task for task in Task.objects.filter(public_id__in=ids.values())}
        return {name: there[public_id] for name, public_id in ids.items()}

    def _version(self, one: ReadRating) -> StudyVersion:
        newest = max(self.versions)
        asked = one.version if one.version in self.versions else None
        return self.versions[newest if asked is None else asked]

    def _why_not(self, one: ReadRating) -> str:
        """Explain why a rating cannot be placed; empty if it can."""
        for name in one.about:
            where = self.items if one.target == "item" else {**self.items, **self.chats}
            if one.target in ("conversation", "turn"):
                where = self.chats  # type: ignore[assignment]
            if name not in where:
                return f"it is about {quote(name)}, which is not in the package"
        if one.target == "turn" and (self.chats[one.about[0]], one.turn) not in self.turns:
            return f"it is about turn {one.turn} of {quote(one.about[0])}, which is not in the package"
        if one.target in ("turn", "pair") and one.task not in self.tasks:
            return f"a rating of a {one.target} must name its task and its rater"
        return ""

    def _row(self, one: ReadRating) -> Rating:
        person = self.people.get(one.rater)
        task = self.tasks.get(one.task)
        row = Rating(
            rater="",
            external_id=_name(one),
            rubric_id=self._version(one).rubric_id,
            answers=dict(one.answers),
            other_answers=dict(one.other_answers),
            comment=one.comment,
            submitted_at=one.submitted_at,
            participant_id=person,
        )
        if one.target == "conversation":
            row.conversation_id = chat = self.chats[one.about[0]]
            if person is not None and (chat, person) in self.rated:
                row.participant_id, row.rater = None, one.rater  # the further rating of a rater
            elif person is not None:
                self.rated.add((chat, person))
                row.task = task
            return row
        row.task = task
        if one.target == "turn":
            assert one.turn is not None, "looked at before"
            row.turn_id = self.turns[self.chats[one.about[0]], one.turn]
        elif one.target == "item":
            row.item_id = self.items[one.about[0]]
            if task is not None:
                self._slot(task, one.about[0])
        else:
            assert task is not None, "looked at before"
            row.at_turn = one.turn
            row.first, row.second = (self._slot(task, name, side) for name, side in zip(one.about, "ab", strict=True))
        return row

    def _slot(self, task: Task, name: str, side: str = "") -> Slot:
        order = self.n_slots.get(task.pk, 0)
        self.n_slots[task.pk] = order + 1
        slot = Slot(
            task=task,
            order=order,
            side=side,
            item_id=self.items.get(name) if name not in self.chats else None,
            conversation_id=self.chats.get(name),
        )
        self.slots.append(slot)
        return slot


def task_id(study: Study, name: str) -> uuid.UUID:
    """Return the id of the task that a package calls by this name; empty names are tasks of no participant."""
    return uuid.uuid5(_TASKS, f"{study.pk}/{name}")


def task_made(
    *,
    study: Study,
    public_id: uuid.UUID,
    person: uuid.UUID,
    version: StudyVersion,
    outcome: Outcome,
    ended_at: datetime,
) -> Task:
    """Return a task that is over, as a row that is not stored yet."""
    is_done = outcome in (Outcome.RATED, Outcome.BOT_FAILED)
    return Task(
        public_id=public_id,
        participant_id=person,
        version=version,
        kind=study.protocol,
        state=Task.State.COMPLETED if is_done else Task.State.ENDED,
        outcome=outcome,
        completion_code=f"i{public_id.hex[:19]}" if is_done else None,
        ended_at=ended_at,
    )


def _name(one: ReadRating) -> str:
    return f"package/{one.number}"


def conversations_named(study: Study, names: set[str]) -> dict[str, uuid.UUID]:
    """Return the ids of a study's imported conversations by what their package calls them."""
    found = Conversation.objects.filter(study=study, source=Conversation.Source.IMPORT, external_id__in=names)
    return dict(found.values_list("external_id", "pk"))
