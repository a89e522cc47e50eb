"""Import of a package's participants, conversations, turns and ratings, in batches.

Importing twice changes nothing: participants, conversations and ratings are identified by their package names.
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
from webapp.studies.models.participants import IMPORT_PLATFORM, PlatformIds
from webapp.studies.rubrics import rubric_freeze
from webapp.studies.services import participants_named

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
    """Conversation of a package, without its turns."""

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
    """One utterance.

    `values` are the row's fields other than its position and time.
    """

    conversation: str
    index: int
    created_at: datetime | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadRating:
    """Rating of a package, with the names of its target.

    Attributes:
        number: its name in the package.
        target: conversation, turn, item or pair.
        about: names of one or two conversations or items.
        task: package name of its task; empty for none.
        is_set_apart: True if the participant missed an attention check.
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
    """Numbers of new rows, and ratings without a target, with reasons."""

    n_new: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)


def rows_without_owner(read: ReadPerson | ReadConversation | ReadTurn | ReadRating) -> list[Model]:
    """Return a package row's model rows without relations, for validation."""
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


def _made_at(row: Model, created_at: datetime | None) -> Model:
    setattr(row, "created_at", created_at)  # noqa: B010 - the type stubs do not know unsaved rows
    return row


def people_store(
    *,
    study: Study,
    people: Sequence[ReadPerson],
    consents: Mapping[str, ConsentText],
    versions: Mapping[int, StudyVersion],
) -> int:
    """Store new participants with consent and first answers; return the total."""
    with transaction.atomic():
        ids = participants_named(study=study, platform=IMPORT_PLATFORM, names={person.name for person in people})
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
        field_names = ["is_synthetic", "consented_at", "consent_version", "consent", "language"]
        Participant.objects.bulk_update(rows, field_names, batch_size=200)
        entered = [row for row in rows if row.created_at is not None]
        Participant.objects.bulk_update(entered, ["created_at"], batch_size=200)
        QuestionAnswers.objects.bulk_create(answers, ignore_conflicts=True)
    return len(ids)


def _asking(versions: Mapping[int, StudyVersion], answers: Mapping[str, Any]) -> StudyVersion:
    """Return the newest version that asks all answered questions, else the newest."""
    newest = sorted(versions, reverse=True)
    for number in newest:
        question_keys = {question.key for question in versions[number].values.questions}
        if answers.keys() <= question_keys:
            return versions[number]
    return versions[newest[0]]


def conversations_store(*, study: Study, batch: Sequence[ReadConversation], bots: Mapping[str, BotVersion]) -> int:
    """Store missing conversations; return the number."""
    with transaction.atomic():
        stored_ids = conversations_named(study, {chat.name for chat in batch})
        new = [chat for chat in batch if chat.name not in stored_ids]
        names = {chat.person for chat in new if chat.person}
        people = participants_named(study=study, platform=IMPORT_PLATFORM, names=names) if names else {}
        rows = [
            Conversation(
                source=Conversation.Source.IMPORT,
                state=chat.state,
                bot=bots[chat.bot_version],
                study=study,
                participant_id=people.get(chat.person),
                external_id=chat.name,
                seed=chat.seed,
                n_exchanges=chat.n_exchanges,
                is_synthetic=chat.is_synthetic,
                ended_at=chat.ended_at,
                language=chat.language,
                condition=dict(chat.condition),
                sitting=chat.sitting,
            )
            for chat in new
        ]
        Conversation.objects.bulk_create(rows, batch_size=500)
        for row, chat in zip(rows, new, strict=True):
            row.created_at = chat.created_at or row.created_at
        Conversation.objects.bulk_update(rows, ["created_at"], batch_size=200)
    return len(rows)


def turns_store(*, study: Study, batch: Sequence[ReadTurn]) -> PackageBatch:
    """Store missing turns."""
    stored = PackageBatch()
    with transaction.atomic():
        chats = conversations_named(study, {read_turn.conversation for read_turn in batch})
        stored_keys = set(
            Turn.objects.filter(conversation__in=list(chats.values())).values_list("conversation", "index")
        )
        rows: dict[tuple[uuid.UUID, int], tuple[Turn, datetime | None]] = {}
        for read_turn in batch:
            chat = chats.get(read_turn.conversation)
            if chat is None:
                reason = (
                    f"turn {read_turn.index} belongs to conversation {quote(read_turn.conversation)}, which is not "
                    "in the package"
                )
                stored.left_out.append((read_turn.conversation, reason))
            elif (chat, read_turn.index) not in stored_keys and (chat, read_turn.index) not in rows:
                turn = Turn(conversation_id=chat, index=read_turn.index, **read_turn.values)
                rows[chat, read_turn.index] = (turn, read_turn.created_at)
        turns = [turn for turn, _created_at in rows.values()]
        Turn.objects.bulk_create(turns, batch_size=500)
        for turn, created_at in rows.values():
            turn.created_at = created_at or turn.created_at
        Turn.objects.bulk_update(turns, ["created_at"], batch_size=200)
        stored.n_new = len(turns)
    return stored


def ratings_store(*, study: Study, batch: Sequence[ReadRating], versions: Mapping[int, StudyVersion]) -> PackageBatch:
    """Store missing ratings, each in its task."""
    with transaction.atomic():
        placing = _Placing(study, batch, versions)
        rows = placing.rows()
        Slot.objects.bulk_create(placing.slots, batch_size=500)
        Rating.objects.bulk_create(rows, batch_size=500)
        for rubric in {row.rubric_id for row in rows}:
            rubric_freeze(rubric_id=rubric)
    return PackageBatch(len(rows), placing.left_out)


class _Placing:
    """Resolver of ratings' targets, which creates missing tasks.

    Attributes:
        slots: to be stored before the ratings.
    """

    def __init__(self, study: Study, batch: Sequence[ReadRating], versions: Mapping[int, StudyVersion]) -> None:
        self.study = study
        self.versions = versions
        self.left_out: list[tuple[str, str]] = []
        self.slots: list[Slot] = []
        self.batch = self._new(batch)
        about = {name for rating in self.batch for name in rating.about}
        self.chats = conversations_named(study, about)
        self.items = dict(study.items.filter(key__in=about).values_list("key", "pk"))
        self.turns = self._turns()
        names = {rating.rater for rating in self.batch if rating.rater}
        self.people = participants_named(study=study, platform=IMPORT_PLATFORM, names=names) if names else {}
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
        """Return the ratings as unsaved rows; their tasks are saved."""
        placed_rows = []
        for rating in self.batch:
            problem = self._describe_problem(rating)
            if problem:
                self.left_out.append((rating.number, problem))
                continue
            placed_rows.append(self._row(rating))
        return placed_rows

    def _new(self, batch: Sequence[ReadRating]) -> list[ReadRating]:
        study = self.study
        is_of_study = Q(conversation__study=study) | Q(item__study=study) | Q(task__participant__study=study)
        stored_names = set(
            Rating.objects.filter(is_of_study, external_id__in=[_name(rating) for rating in batch]).values_list(
                "external_id", flat=True
            )
        )
        return [rating for rating in batch if _name(rating) not in stored_names]

    def _turns(self) -> dict[tuple[uuid.UUID, int], int]:
        chat_ids = [
            self.chats[rating.about[0]]
            for rating in self.batch
            if rating.turn is not None and rating.about[0] in self.chats
        ]
        rows = Turn.objects.filter(conversation__in=set(chat_ids)) if chat_ids else Turn.objects.none()
        return {(chat, index): pk for pk, chat, index in rows.values_list("pk", "conversation", "index")}

    def _tasks(self) -> dict[str, Task]:
        """Return the batch's tasks by package name, creating missing ones."""
        ratings_by_task = {rating.task: rating for rating in self.batch if rating.task and rating.rater}
        ids = {name: task_id(self.study, name) for name in ratings_by_task}
        rows = [
            task_made(
                study=self.study,
                public_id=ids[name],
                person=self.people[rating.rater],
                version=self._version(rating),
                outcome=Outcome.FAILED_CHECK if rating.is_set_apart else Outcome.RATED,
                ended_at=rating.submitted_at,
            )
            for name, rating in ratings_by_task.items()
        ]
        Task.objects.bulk_create(rows, ignore_conflicts=True)
        tasks_by_id = {task.public_id: task for task in Task.objects.filter(public_id__in=ids.values())}
        return {name: tasks_by_id[public_id] for name, public_id in ids.items()}

    def _version(self, rating: ReadRating) -> StudyVersion:
        newest = max(self.versions)
        number = rating.version if rating.version in self.versions else None
        return self.versions[newest if number is None else number]

    def _describe_problem(self, rating: ReadRating) -> str:
        """Explain why a rating cannot be placed; empty if it can."""
        for name in rating.about:
            known_names = self.items if rating.target == "item" else {**self.items, **self.chats}
            if rating.target in ("conversation", "turn"):
                known_names = self.chats  # type: ignore[assignment]
            if name not in known_names:
                return f"it refers to {quote(name)}, which is not in the package"
        if rating.target == "turn" and (self.chats[rating.about[0]], rating.turn) not in self.turns:
            return f"it refers to turn {rating.turn} of {quote(rating.about[0])}, which is not in the package"
        if rating.target in ("turn", "pair") and rating.task not in self.tasks:
            return f"a rating of a {rating.target} must name its task and its rater"
        return ""

    def _row(self, rating: ReadRating) -> Rating:
        person = self.people.get(rating.rater)
        task = self.tasks.get(rating.task)
        row = Rating(
            rater="",
            external_id=_name(rating),
            rubric_id=self._version(rating).rubric_id,
            answers=dict(rating.answers),
            other_answers=dict(rating.other_answers),
            comment=rating.comment,
            submitted_at=rating.submitted_at,
            participant_id=person,
        )
        if rating.target == "conversation":
            row.conversation_id = chat = self.chats[rating.about[0]]
            if person is not None and (chat, person) in self.rated:
                row.participant_id, row.rater = None, rating.rater  # the further rating of a rater
            elif person is not None:
                self.rated.add((chat, person))
                row.task = task
            return row
        row.task = task
        if rating.target == "turn":
            assert rating.turn is not None, "validated before"
            row.turn_id = self.turns[self.chats[rating.about[0]], rating.turn]
        elif rating.target == "item":
            row.item_id = self.items[rating.about[0]]
            if task is not None:
                self._slot(task, rating.about[0])
        else:
            assert task is not None, "validated before"
            row.at_turn = rating.turn
            row.first, row.second = (
                self._slot(task, name, side) for name, side in zip(rating.about, "ab", strict=True)
            )
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
    """Return a task's id by package name; empty names have no participant."""
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
    """Return a finished task as an unsaved row."""
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


def _name(rating: ReadRating) -> str:
    return f"package/{rating.number}"


def conversations_named(study: Study, names: set[str]) -> dict[str, uuid.UUID]:
    """Return the ids of imported conversations by package name."""
    conversations = Conversation.objects.filter(study=study, source=Conversation.Source.IMPORT, external_id__in=names)
    return dict(conversations.values_list("external_id", "pk"))
