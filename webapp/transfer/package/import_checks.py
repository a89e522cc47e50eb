"""Import of a package's attention checks, reports of replies and filter labels.

Importing twice changes nothing: constraints and names identify existing rows.
"""

from __future__ import annotations

import functools
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Model

from chatbots.text import quote
from evaluation.data.package import Package
from webapp.conversations.models import ChatCheckAnswer, Conversation, ReplyMark, ReplyReport, Turn
from webapp.core.clock import database_now
from webapp.core.column_bounds import check_rows
from webapp.ratings.check_kinds import CHECK_KINDS
from webapp.ratings.models import Rating
from webapp.studies.attention_checks import quiz_digest
from webapp.studies.models import Outcome, QuestionAnswers, QuizAttempt, Slot, Study, StudyVersion, Task
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.services import participants_named
from webapp.transfer.package.import_rows import PackageBatch, conversations_named, task_id, task_made
from webapp.transfer.package.row_checks import BATCH, store_rows

Row = Mapping[str, str]


def beside_read(*, study: Study, package: Package, versions: Mapping[int, StudyVersion]) -> Iterator[PackageBatch]:
    """Store new checks, reports and labels; tables may be missing.

    Yields the result of each batch.
    """
    tables = set(package.tables())
    for table, store in (("reports", _reports), ("reply_marks", _marks)):
        if table in tables:
            rows, number = package.rows(table), 1
            while batch := list(itertools.islice(rows, BATCH)):
                yield store_rows(table, number, batch, functools.partial(store, study))
                number += len(batch)
    if "checks" in tables:
        yield from _checks(study, package.rows("checks"), versions)


def _reports(study: Study, rows: Sequence[Row]) -> PackageBatch:
    stored, timed_reports = PackageBatch(), []
    people = _people(study, [row["participant"] for row in rows])
    turns = _turns(study, [row for row in rows if row["conversation"]])
    items = dict(study.items.filter(key__in={row["item"] for row in rows}).values_list("key", "pk"))
    for row in rows:
        report = ReplyReport(
            participant_id=people[row["participant"]],
            reason=row["reason"],
            words=row["words"][: ReplyReport.MOST_CHARS],
            seen_at=time_of(row["seen_at"]),
        )
        if row["reason"] not in ReplyReport.Reason.values:
            raise ValueError(f"reason {quote(row['reason'])} is unknown")
        if row["conversation"]:
            turn = turns.get((row["conversation"], row["turn"]))
            location = f"turn {row['turn']} of {quote(row['conversation'])}"
            report.turn = turn
            is_there = turn is not None
        else:
            location = f"item {quote(row['item'])}"
            report.item_id = items.get(row["item"])
            report.response = int(row["response"] or 0)
            is_there = report.item_id is not None
        if is_there:
            timed_reports.append((report, time_of(row["created_at"])))
        else:
            stored.left_out.append((location, "a report refers to it, but it is not in the package"))
    of_turns = ReplyReport.objects.filter(participant__in=people.values())
    stored_keys = set(of_turns.values_list("participant", "turn", "item", "response"))
    new = [
        pair
        for pair in timed_reports
        if (pair[0].participant_id, pair[0].turn_id, pair[0].item_id, pair[0].response) not in stored_keys
    ]
    stored.n_new = _create(ReplyReport, new)
    return stored


def _marks(study: Study, rows: Sequence[Row]) -> PackageBatch:
    stored, new, withheld = PackageBatch(), [], []
    turns = _turns(study, rows)
    stored_keys = set(ReplyMark.objects.filter(turn__in=turns.values()).values_list("turn", "filter"))
    for row in rows:
        turn = turns.get((row["conversation"], row["turn"]))
        if turn is None:
            location = f"turn {row['turn']} of {quote(row['conversation'])}"
            stored.left_out.append((location, "a filter label refers to it, but it is not in the package"))
        elif (turn.pk, row["filter"]) not in stored_keys:
            mark = ReplyMark(
                turn=turn,
                filter=row["filter"],
                identity=_json(row["identity"]),
                found=_json(row["found"]) or [],
                reason=row["reason"],
                is_withheld=row["withheld"] == "true",
            )
            new.append((mark, time_of(row["created_at"])))
            if row["withheld_text"] and not turn.withheld_text:
                turn.withheld_text = row["withheld_text"]
                withheld.append(turn)
    stored.n_new = _create(ReplyMark, new)
    Turn.objects.bulk_update(withheld, ["withheld_text"], batch_size=200)
    return stored


def _checks(study: Study, rows: Iterable[Row], versions: Mapping[int, StudyVersion]) -> Iterator[PackageBatch]:
    """Store the checks.

    Answers to checks among questions are stored already; for those before tasks only the time is new.
    """
    newest = versions[max(versions)]
    stores: dict[str, Callable[[Sequence[Any]], PackageBatch]] = {
        "quiz": lambda attempts: _quizzes(study, attempts, versions),
        "questions": lambda some: _answered_at(study, some),
        "item": lambda some: _of_items(study, some, newest),
        "chat": lambda some: _in_chats(study, some, newest),
    }
    number = 1
    for kind, kind_rows in itertools.groupby(rows, lambda row: row["kind"]):
        stored_as = CHECK_KINDS[kind].stored_as if kind in CHECK_KINDS else ""
        units: Iterator[Any] = (_attempts if stored_as == "quiz" else iter)(kind_rows)
        while batch := list(itertools.islice(units, BATCH)):
            if stored_as in stores:
                yield store_rows("checks", number, batch, stores[stored_as])
            number += sum(len(unit) if isinstance(unit, list) else 1 for unit in batch)


def _attempts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    for _attempt_key, answers in itertools.groupby(rows, lambda row: (row["rater"], row["attempt"])):
        yield list(answers)


def _answered_at(study: Study, rows: Sequence[Row]) -> PackageBatch:
    """Set the answer times of questions before tasks, from their checks."""
    people = _people(study, [row["rater"] for row in rows])
    times = {people[row["rater"]]: time_of(row["submitted_at"]) for row in rows}
    answers = list(QuestionAnswers.objects.filter(participant__in=people.values()))
    for answer in answers:
        answer.created_at = times[answer.participant_id] or answer.created_at
    check_rows(answers)
    QuestionAnswers.objects.bulk_update(answers, ["created_at"], batch_size=200)
    return PackageBatch()


def _quizzes(study: Study, attempts: Sequence[Sequence[Row]], versions: Mapping[int, StudyVersion]) -> PackageBatch:
    known = {}
    for version in versions.values():
        questions = version.values.checking.quiz_questions
        known[tuple(question.question for question in questions)] = quiz_digest(questions)
    people = _people(study, [rows[0]["rater"] for rows in attempts])
    stored_keys = set(
        QuizAttempt.objects.filter(participant__in=people.values()).values_list("participant", "quiz", "attempt")
    )
    new, first = [], {rows[0]["rater"]: rows[0] for rows in attempts}
    for rows in attempts:
        answers = [
            {"question": row["check"], "answer": _json(row["answers"]), "is_right": row["passed"] == "true"}
            for row in rows
        ]
        quiz = known.get(tuple(row["check"] for row in rows), "package")
        person, attempt = people[rows[0]["rater"]], int(float(rows[0]["attempt"]))
        if (person, quiz, attempt) not in stored_keys:
            row = QuizAttempt(
                participant_id=person,
                quiz=quiz,
                attempt=attempt,
                answers=answers,
                is_right=all(answer["is_right"] for answer in answers),
            )
            new.append((row, time_of(rows[0]["submitted_at"])))
    _tasks(study, {f"quiz/{rater}": row for rater, row in first.items()}, people, versions[max(versions)])
    return PackageBatch(_create(QuizAttempt, new))


def _of_items(study: Study, rows: Sequence[Row], version: StudyVersion) -> PackageBatch:
    stored = PackageBatch()
    people = _people(study, [row["rater"] for row in rows])
    tasks = _tasks(study, {row["task"]: row for row in rows}, people, version)
    items = dict(study.items.filter(key__in={row["check"] for row in rows}).values_list("key", "pk"))
    names = {f"package/check/{row['task']}/{row['check']}": row for row in rows}
    stored_ratings = Rating.objects.filter(external_id__in=names, task__participant__study=study)
    old = set(stored_ratings.values_list("external_id", flat=True))
    n_slots = _n_slots(tasks)
    new, slots = [], []
    for name, row in names.items():
        item = items.get(row["check"])
        if name in old:
            continue
        if item is None:
            stored.left_out.append((row["check"], "a check refers to it, but it is not in the package"))
            continue
        task = tasks[row["task"]]
        slots.append(Slot(task=task, order=n_slots[task.pk], item_id=item))
        n_slots[task.pk] += 1
        new.append(
            Rating(
                external_id=name,
                rater="",
                task=task,
                item_id=item,
                participant_id=people[row["rater"]],
                rubric_id=task.version.rubric_id,
                answers=_json(row["answers"]),
                submitted_at=time_of(row["submitted_at"]) or database_now(),
            )
        )
    check_rows([*slots, *new])
    Slot.objects.bulk_create(slots, batch_size=500)
    Rating.objects.bulk_create(new, batch_size=500)
    stored.n_new = len(new)
    return stored


def _in_chats(study: Study, rows: Sequence[Row], version: StudyVersion) -> PackageBatch:
    stored, new = PackageBatch(), []
    people = _people(study, [row["rater"] for row in rows])
    tasks = _tasks(study, {row["task"]: row for row in rows}, people, version)
    ids = conversations_named(study, {row["conversation"] for row in rows})
    conversations = Conversation.objects.filter(pk__in=ids.values()).select_related("bot")
    chats = {conversation.external_id: conversation for conversation in conversations}
    n_slots = _n_slots(tasks)
    stored_keys = set(
        ChatCheckAnswer.objects.filter(conversation__in=ids.values()).values_list("conversation", "check_digest")
    )
    digests = {
        check.question: check.digest
        for number in study.versions.order_by("number")
        for check in number.values.checking.chat_checks
    }
    for row in rows:
        chat = chats.get(row["conversation"])
        if chat is None:
            reason = "a check was answered in it, but it is not in the package"
            stored.left_out.append((f"conversation {quote(row['conversation'])}", reason))
            continue
        if chat.slot_id is None:
            task = tasks[row["task"]]
            slot = Slot(task=task, order=n_slots[task.pk], bot_id=chat.bot.bot_id)
            slot.save()
            n_slots[task.pk] += 1
            chat.slot = slot
            Conversation.objects.filter(pk=chat.pk).update(slot=slot)
        digest = digests.get(row["check"]) or uuid.uuid5(uuid.NAMESPACE_OID, row["check"]).hex
        if (chat.pk, digest) not in stored_keys:
            stored_keys.add((chat.pk, digest))
            answer = ChatCheckAnswer(
                conversation=chat,
                check_digest=digest,
                question=row["check"],
                expected=_json(row["expected"]),
                answer=_json(row["answers"]),
                is_right=row["passed"] == "true",
            )
            new.append((answer, time_of(row["submitted_at"])))
    stored.n_new = _create(ChatCheckAnswer, new)
    return stored


def _tasks(
    study: Study, rows: Mapping[str, Row], people: Mapping[str, uuid.UUID], version: StudyVersion
) -> dict[str, Task]:
    """Return tasks by package name, creating missing ones.

    A check defines the outcome of a created task.

    A name starting with `quiz/` means any task of the participant.
    """
    with_task = set(Task.objects.filter(participant__in=people.values()).values_list("participant", flat=True))
    ids = {
        name: task_id(study, name)
        for name, row in rows.items()
        if not (name.startswith("quiz/") and people[row["rater"]] in with_task)
    }
    new = [
        task_made(
            study=study,
            public_id=ids[name],
            person=people[rows[name]["rater"]],
            version=version,
            outcome=Outcome(rows[name]["outcome"] or Outcome.RATED),
            ended_at=time_of(rows[name]["submitted_at"]) or database_now(),
        )
        for name in ids
    ]
    check_rows(new)
    Task.objects.bulk_create(new, ignore_conflicts=True)
    tasks = Task.objects.filter(public_id__in=ids.values()).select_related("version")
    tasks_by_id = {task.public_id: task for task in tasks}
    return {name: tasks_by_id[public_id] for name, public_id in ids.items()}


def _n_slots(tasks: Mapping[str, Task]) -> dict[int, int]:
    slots = Slot.objects.filter(task__in=[task.pk for task in tasks.values()]).order_by()
    return dict.fromkeys((task.pk for task in tasks.values()), 0) | dict(
        slots.values_list("task").annotate(n=Count("pk"))
    )


def _people(study: Study, names: Iterable[str]) -> dict[str, uuid.UUID]:
    return participants_named(study=study, platform=IMPORT_PLATFORM, names=set(names))


def _turns(study: Study, rows: Iterable[Row]) -> dict[tuple[str, str], Turn]:
    """Return turns by the package's conversation name and turn number."""
    ids = conversations_named(study, {row["conversation"] for row in rows})
    names = {pk: name for name, pk in ids.items()}
    turns = Turn.objects.filter(conversation__in=list(names))
    return {(names[turn.conversation_id], str(turn.index)): turn for turn in turns}


def _create(model: type[Model], new: Sequence[tuple[Any, datetime | None]]) -> int:
    """Store rows with their original creation times."""
    rows = [row for row, _created_at in new]
    for row, created_at in new:
        row.created_at = created_at
    check_rows(rows)
    model._default_manager.bulk_create(rows, batch_size=500)
    for row, created_at in new:
        row.created_at = created_at or row.created_at
    model._default_manager.bulk_update(rows, ["created_at"], batch_size=200)
    return len(rows)


def _json(cell: str) -> Any:
    try:
        return json.loads(cell) if cell else None
    except ValueError:
        raise ValueError(f"{quote(cell)} is not JSON") from None


def time_of(cell: str) -> datetime | None:
    """Parse a cell's time; None if empty."""
    if not cell:
        return None
    timestamp = datetime.fromisoformat(cell)
    return timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
