"""Writes of ratings, comparisons and flags.

All flags of a study are computed at once and replace those stored before. The option `--without` of commands that
exclude participants is here, too.
"""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatbots.identity import canonical_json
from chatbots.text import sanitise, sanitise_input
from webapp.conversations.attention_checks import chat_check_due
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import early_reason, reply_is_coming
from webapp.conversations.services import conversation_complete, pair_close
from webapp.conversations.services.replies import NOTHING_DUE
from webapp.conversations.task_start import task_goes_on
from webapp.core.audit_trail import ORIGIN_MARK, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.ratings.attention_results import task_passes
from webapp.ratings.error_spans import steps_of
from webapp.ratings.flag_selectors import flags_data, flags_state, without_read
from webapp.ratings.flag_store.models import FlagState, OriginMark, TaskFlag
from webapp.ratings.flags.answers import durations_of
from webapp.ratings.flags.base import FlagFindings, StudyWork, compute_statistics, flag_kinds
from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.rating_tasks import Target, checks_not_asked, slots_rated, target_fields, task_progress
from webapp.studies.models import Item, Outcome, Participant, Slot, Study, StudyVersion, Task
from webapp.studies.protocols.base import has_picks, protocols
from webapp.studies.protocols.chat import BOTH_BAD
from webapp.studies.questions import Answers
from webapp.studies.refusals import (
    ANSWERS_MISSING,
    CHAT_FINISHED,
    CHAT_NOT_FOUND,
    CHECK_DUE,
    CHOICE_MISSING,
    TASK_FINISHED,
)
from webapp.studies.rubrics import questions_not_asked, rubric_freeze
from webapp.studies.sent_answers import LabelledReply, SentAnswers, check_answers, select_numbers
from webapp.studies.services import task_complete, task_end

COMMENT_MAX_CHARS = 5000
WAITS_FOR_REPLY = gettext_lazy("The chatbot is still answering. Save again in a moment; your answers are still here.")
_DRAFT_MAX_CHARS = 20_000
_DRAFT_MOST_OPTIONS = 200


@dataclass(frozen=True, slots=True)
class RatingOutcome:
    """Stored rating and its task with the code.

    `created` is False if it was stored before.
    """

    rating: Rating
    task: Task
    created: bool


def rating_submit(
    *, conversation: Conversation, participant: Participant, answers: Mapping[str, Any], comment: str = ""
) -> RatingOutcome:
    """Store the rating, close the conversation and assign the code.

    All in one transaction.

    A repeated submission returns the first rating and its code unchanged.

    Raises:
        Refused: `not_found`, `too_early`, `too_soon`, `waiting_for_reply`, `closed`, or `bad_answers` with `errors`
            per question.
    """
    with transaction.atomic():
        # Other data read here never change.
        rows = Conversation.objects.select_for_update(of=("self",))
        conversation.refresh_from_db(fields=["state", "n_exchanges", *NOTHING_DUE], from_queryset=rows)
        study, task, version = conversation.study, conversation.task, conversation.version
        if conversation.participant_id != participant.pk or study is None or task is None or version is None:
            raise CHAT_NOT_FOUND.refused()
        task.participant = participant
        if conversation.state != Conversation.State.OPEN:  # the rating closes the chat
            existing = Rating.objects.filter(conversation=conversation, participant=participant).first()
            if existing is not None:
                return RatingOutcome(existing, task, created=False)
        chat_end_check(conversation, version)
        protocol = protocols.get(study.protocol)
        hidden = questions_not_asked(version, conversation.condition)
        accepted, errors = check_answers(version=version, answers=answers, hidden_keys=hidden)
        if errors:
            raise ANSWERS_MISSING.refused(errors=errors)
        rating = rating_store(task, participant, accepted, comment, target_fields(conversation))
        conversation_complete(conversation=conversation)
        if protocol.is_complete(task_progress(task)):
            task = task_judged(task)
        elif not task_goes_on(task=task):
            # The next bot is unavailable, which is our fault: the completed work earns the early ending.
            task = task_complete(task=task, outcome=Outcome.BOT_FAILED)
    return RatingOutcome(rating, task, created=True)


def chat_end_check(conversation: Conversation, version: StudyVersion) -> None:
    """Check that the participant can end the chat now.

    Raises:
        Refused: `closed`, `too_early`, `too_soon`, `check_due` or `waiting_for_reply`.
    """
    if conversation.state != Conversation.State.OPEN:
        raise CHAT_FINISHED.refused()
    if early := early_reason(conversation):
        messages = {
            "too_early": _("Write a little more before you rate the chat."),
            "too_soon": _("Chat a little longer before you rate it."),
        }
        raise Refused(early, messages[early])
    if chat_check_due(conversation, version):
        raise CHECK_DUE.refused()
    if reply_is_coming(conversation):
        raise Refused("waiting_for_reply", str(WAITS_FOR_REPLY))


def rating_add(
    *, task: Task, target: Target, answers: Mapping[str, Any], comment: str = "", hidden_keys: Collection[str] = ()
) -> RatingOutcome:
    """Store a rating of the task, which the last one completes.

    Different answers submitted while the task is open replace the first ones, which are kept as a revision.

    Args:
        target: rated object; two slots of the task form a comparison.
        hidden_keys: keys of questions that are not asked here.

    Raises:
        Refused: `not_found`, `closed`, or `bad_answers` with `errors` per question.
    """
    if isinstance(target, Conversation) and target.task == task:  # chats have their own rules
        return rating_submit(conversation=target, participant=task.participant, answers=answers, comment=comment)
    with transaction.atomic():
        task = (
            Task.objects.select_for_update(of=("self",))
            .select_related("participant__study", "version__rubric")
            .get(pk=task.pk)
        )
        existing = Rating.objects.filter(task=task, **target_fields(target)).first()
        if task.state != Task.State.OPEN:
            if existing is not None:
                return RatingOutcome(existing, task, created=False)
            raise TASK_FINISHED.refused()
        if existing is None and not slots_rated(task, target):
            raise Refused("not_found", _("This is not part of the task."))
        participant = task.participant
        protocol = protocols.get(participant.study.protocol)
        accepted, errors = protocol.read_answers(
            SentAnswers(
                task.version,
                answers,
                comment,
                {*hidden_keys, *checks_not_asked(task, target)},
                item=target if isinstance(target, Item) else None,
                reply=LabelledReply(target.text, len(steps_of(task, target))) if isinstance(target, Turn) else None,
            )
        )
        if errors:
            raise ANSWERS_MISSING.refused(errors=errors)
        if existing is not None:
            _rating_revise(existing, accepted, comment)
            return RatingOutcome(existing, task, created=False)
        rating = rating_store(task, participant, accepted, comment, target_fields(target))
        task.save(update_fields=["updated_at"])  # the participant is using it
        # Labels during an open chat complete no task: the end of the chat defines the remaining replies.
        goes_on = isinstance(target, Turn) and "turns" not in task.payload
        if not goes_on and protocol.is_complete(task_progress(task)):
            task = task_judged(task)
    return RatingOutcome(rating, task, created=True)


def task_judged(task: Task) -> Task:
    """Complete a rated task.

    End it if too many checks were missed.

    Chats of a task ended this way count as ended early.
    """
    if task_passes(task):
        return task_complete(task=task)
    chats = Conversation.objects.filter(slot__task=task, state=Conversation.State.COMPLETED)
    chats.update(state=Conversation.State.ENDED)
    return task_end(task=task, outcome=Outcome.FAILED_CHECK)


def _rating_revise(rating: Rating, answers: Answers, comment: str) -> None:
    """Replace stored answers, keeping the old ones as a revision.

    Equal answers change nothing.
    """
    new, other_answers = select_numbers(answers), _select_other_answers(answers)
    text = sanitise_input(comment, COMMENT_MAX_CHARS)
    if (rating.answers, rating.other_answers, rating.comment) == (new, other_answers, text):
        return
    RatingRevision.objects.create(
        rating=rating,
        answers=rating.answers,
        other_answers=rating.other_answers,
        comment=rating.comment,
        submitted_at=rating.submitted_at,
    )
    rating.answers, rating.other_answers, rating.comment = new, other_answers, text
    rating.submitted_at = database_now()
    rating.save(update_fields=["answers", "other_answers", "comment", "submitted_at", "updated_at"])


def rating_store(
    task: Task, participant: Participant, answers: Answers, comment: str, target: Mapping[str, Any]
) -> Rating:
    """Store a rating and freeze its rubric, except for scripted participants.

    `target` has the fields that identify the rated object.
    """
    rubric = protocols.get(participant.study.protocol).form(task.version)
    if not participant.is_synthetic and rubric.frozen_at is None:
        # A rehearsal freezes nothing, so that the study can still be changed.
        rubric_freeze(rubric_id=rubric.pk)
    return Rating.objects.create(
        task=task,
        participant=participant,
        rubric=rubric,
        answers=select_numbers(answers),
        other_answers=_select_other_answers(answers),
        comment=sanitise_input(comment, COMMENT_MAX_CHARS),
        submitted_at=database_now(),
        **target,
    )


def _select_other_answers(answers: Answers) -> dict[str, Any]:
    return {key: value for key, value in answers.items() if not isinstance(value, int)}


def rating_draft_store(*, conversation: Conversation, values: Mapping[str, str | list[str]]) -> None:
    """Store an invalid rating form as sent, while the chat is open."""
    draft = {sanitise(key): _sanitise_draft(submitted) for key, submitted in values.items()}
    Conversation.objects.filter(pk=conversation.pk, state=Conversation.State.OPEN).update(rating_draft=draft)


def _sanitise_draft(submitted: str | list[str]) -> str | list[str]:
    if isinstance(submitted, str):
        return sanitise(submitted, _DRAFT_MAX_CHARS)
    return [sanitise(option, _DRAFT_MAX_CHARS) for option in submitted[:_DRAFT_MOST_OPTIONS]]


COMPARISON_CHOICES: dict[str, tuple[int, int]] = {"a": (1, 0), "equal": (0, 0), "bad": (0, 1), "b": (-1, 0)}
"""Choices with their stored values: which is better (1 the first, -1 the second), and whether both are bad."""


def comparison_submit(
    *, task: Task, slots: tuple[Slot, Slot], choice: str, besides: Mapping[str, Any] = MappingProxyType({})
) -> RatingOutcome:
    """Store a choice, close both chats and continue, in one transaction.

    The next pair is opened, or the task completed. In studies with picks at every turn only the additional answers are
    stored.

    A coming pair with a bot disabled in the meantime is replaced.

    A repeated submission keeps the first choice.

    Args:
        choice: a name in `COMPARISON_CHOICES`; ignored in studies with picks at every turn.
        besides: answers to the study's additional questions, by key.

    Raises:
        Refused: `bad_answers` for another choice or wrong answers, and as in `pair_close` and `rating_add`.
    """
    is_picked = has_picks(task)
    if choice not in COMPARISON_CHOICES and not is_picked:
        raise CHOICE_MISSING.refused()
    with transaction.atomic():
        existing = Rating.objects.filter(task=task, **target_fields(slots)).first()
        if existing is not None:
            return RatingOutcome(existing, task, created=False)
        pair_close(slots=slots)
        [question] = task.version.rubric.dimensions.all()
        answers, hidden_keys = dict(besides), {question.key}
        if not is_picked:
            answers[question.key], answers[BOTH_BAD] = COMPARISON_CHOICES[choice]
            hidden_keys = set()
        outcome = rating_add(task=task, target=slots, answers=answers, hidden_keys=hidden_keys)
        if outcome.task.state == Task.State.OPEN and not task_goes_on(task=outcome.task):
            # No bot is left for the next pairs, which is our fault: the completed work earns the early ending.
            ended = task_complete(task=outcome.task, outcome=Outcome.BOT_FAILED)
            return RatingOutcome(outcome.rating, ended, outcome.created)
    return outcome


_BATCH = 1000


def flags_make(*, study: Study) -> FlagState:
    """Compute and store the flags of a study's tasks.

    Of two concurrent calls, the later result is kept.
    """
    try:
        return _store_flags(study)
    except IntegrityError:  # a participant was erased while their flags were stored
        return _store_flags(study)


def flags_ensure(*, study: Study) -> FlagState:
    """Return a study's current flags, computing them if data have changed."""
    state = flags_state(study)
    if state is not None and state.data == flags_data(study):
        return state
    return flags_make(study=study)


def _store_flags(study: Study) -> FlagState:
    data = flags_data(study)
    work = StudyWork(study)
    findings_by_kind = {kind.name: kind.find(work) for kind in flag_kinds}
    statistics = compute_statistics(study)
    person = {task.pk: task.participant for task in work.done}
    rows = [
        TaskFlag(task_id=task, participant_id=person[task], name=name, figures=dict(figures))
        for name, findings in findings_by_kind.items()
        for task, figures in findings.tasks.items()
    ]
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        # A participant may have been erased since the work was loaded.
        still = set(Task.objects.filter(participant__study=study).values_list("pk", flat=True))
        TaskFlag.objects.filter(participant__study=study).delete()
        TaskFlag.objects.bulk_create([row for row in rows if row.task_id in still], batch_size=_BATCH)
        state, _is_new = FlagState.objects.update_or_create(
            study=study,
            defaults={
                "data": data,
                "n_tasks": len(work.done),
                "n_people": len(set(person.values())),
                "found": {
                    "kinds": {name: _serialise_findings(findings) for name, findings in findings_by_kind.items()},
                    "durations": durations_of(work),
                    **statistics,
                },
                "made_at": database_now(),
            },
        )
    return state


def flags_forget(studies: Collection[int]) -> None:
    """Invalidate these studies' flags after a participant's erasure.

    The other participants' shares have changed.
    """
    FlagState.objects.filter(study__in=studies).delete()


ORIGIN_VERDICTS = ("human", "machine", "none")
"""Decisions about a participant's origin; `none` revokes one."""


def mark_origin(*, participant: Participant, verdict: str, username: str) -> None:
    """Store a decision whether a participant is a person, and record it in the audit log.

    It excludes nobody. False alarms of the machine score are counted among those decided to be people.

    Raises:
        Refused: `bad_verdict`.
    """
    if verdict not in ORIGIN_VERDICTS:
        raise Refused("bad_verdict", "Choose “A person”, “A program” or “Undecided”.")
    with transaction.atomic():
        if verdict == "none":
            OriginMark.objects.filter(participant=participant).delete()
        else:
            values = {"is_human": verdict == "human", "made_by": username[:150], "made_at": database_now()}
            OriginMark.objects.update_or_create(participant=participant, defaults=values)
        record(ORIGIN_MARK, participant.study, verdict=verdict)


def _serialise_findings(findings: FlagFindings) -> dict[str, Any]:
    """Return the stored values of a kind.

    The digest changes with the flagged tasks.
    """
    flagged_tasks = canonical_json(sorted(findings.tasks))
    return {
        "n": len(findings.tasks),
        "of": findings.of,
        "why_none": findings.why_none,
        "about": dict(findings.about),
        "digest": hashlib.sha256(flagged_tasks.encode()).hexdigest()[:16],
    }


def without_argument(parser: ArgumentParser) -> None:
    """Add the option that excludes participants."""
    parser.add_argument(
        "--without",
        default="",
        metavar="a,b",
        help=f"exclude participants with one of these flags, with all of their work: {', '.join(flag_kinds.names())}",
    )


def without_option(studies: Iterable[Study], text: str) -> tuple[str, ...]:
    """Return a command's flags, after refreshing the studies' flags.

    Raises:
        UnknownName: for an unknown flag, with similar names.
    """
    flag_names = without_read(text)
    if flag_names:
        for study in studies:
            flags_ensure(study=study)
    return flag_names
