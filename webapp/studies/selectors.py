"""Queries of studies: admission, assigned bots and items, and facts about protocols."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core import signing
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.db.models.lookups import Contains

from chatbots.text import quote
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.keys import first_free_key, key_from_name
from webapp.studies.assignment.capacity import (
    TaskHistory,
    bots_met,
    bots_refusal,
    n_tasks_taken,
    task_history,
    with_loads,
)
from webapp.studies.conditions import Condition, Factor
from webapp.studies.models import (
    Item,
    Outcome,
    Participant,
    PlatformIds,
    QuestionAnswers,
    Slot,
    Study,
    StudyVersion,
    Task,
)
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.questions import Question
from webapp.studies.settings import StudyValues
from webapp.studies.sittings import DueSitting, Sitting, sitting_due
from webapp.studies.start_refusals import ALL_ITEMS_RATED, StartRefusal
from webapp.studies.study_agreements import studies_named_by

_PARTICIPANT_SALT = "confab.participant"
_REHEARSAL_SALT = "confab.rehearsal"
_ENDS_FOR_GOOD = (Outcome.SCREENED_OUT, Outcome.FAILED_CHECK, Outcome.LATE)


def study_by_key(key: str) -> Study:
    """Return the study with its newest version and rubric.

    Raises:
        Study.DoesNotExist: no such study; names the key.
    """
    study = study_found(key)
    if study is None:
        raise Study.DoesNotExist(f"there is no study {quote(key)}")
    return study


def smallest_difference_agreed(study: Study) -> float | None:
    """Return the smallest difference of interest fixed before any data.

    It is the value that the first participant agreed to; without participants, the current one. None if there is none:
    a tenth of the scale is used.
    """
    return study.agreed_values.quotas.smallest_difference


def level_agreed(study: Study) -> float | None:
    """Return the confidence level that the first participant agreed to.

    Without participants, the current one.
    """
    first = study.versions.filter(frozen_at__isnull=False).order_by("number").first()
    return (first or study).values.quotas.level


def project_of_study(key: str) -> str | None:
    """Return a study's project, whatever the active project is.

    The key of the project; None if there is no such study.
    """
    return Study.everywhere.filter(key=key).values_list("project_id", flat=True).first()


def study_found(key: str) -> Study | None:
    """Return the study with this key, or None."""
    return Study.objects.filter(key=key).first()


def study_keys() -> list[str]:
    """Return the keys of the project's studies."""
    return list(Study.objects.values_list("key", flat=True))


def is_study_key_used(key: str) -> bool:
    """Return True if a study of any project has this key; callers must not say of which."""
    return Study.everywhere.filter(key=key).exists()


_CONTACTS_READ = 50


def latest_contact() -> dict[str, str]:
    """Return organisation and contact of the project's newest study that names a contact; empty texts without one."""
    for study in Study.objects.filter(is_imported=False).order_by("-pk")[:_CONTACTS_READ]:
        texts = study.values.texts
        if texts.contact:
            return {"organisation": texts.organisation, "contact": texts.contact}
    return {"organisation": "", "contact": ""}


def study_key_free(name: str, reserved: Collection[str] = ()) -> str:
    """Return an unused, unreserved study key similar to the name."""
    key = key_from_name(name, 54) or "study"
    existing_keys = set(Study.everywhere.filter(key__startswith=key).values_list("key", flat=True))
    return first_free_key(key, existing_keys.union(reserved))


def task_for(participant_ids: Collection[UUID], public_id: UUID) -> Task | None:
    """Return a task by its public id if it belongs to these participants."""
    return (
        Task.objects.filter(public_id=public_id, participant__in=list(participant_ids))
        .select_related("participant__study__version", "version__rubric")
        .first()
    )


def labels_steps(study: Study) -> bool:
    """Return True if participants label the steps of replies."""
    can_label = get_protocol(study).can_label_steps
    return can_label and any(version.values.step_marking.label_steps for version in study.versions.all())


def study_refusal(study: Study, participant: Participant | None, *, is_rehearsal: bool = False) -> Refused | None:
    """Return the reason why a participant cannot start a task.

    Without a participant, the reason why nobody can. None if they can start.

    Args:
        is_rehearsal: as `entry_refusal`.
    """
    synthetic = is_rehearsal or (participant is not None and participant.is_synthetic)
    history = task_history(participant) if participant is not None else None
    if history is not None and history.open_task is not None:
        return None  # a participant with an open task can finish in any state of the study
    refusal = entry_refusal(study, participant, is_rehearsal=is_rehearsal, history=history)
    if refusal is not None:
        return refusal
    if get_protocol(study).judges_items:
        if participant is None:
            return None
        unseen = items_unseen(study, participant)
        if not unseen.exists():
            return StartRefusal.ALL_RATED.refused(ALL_ITEMS_RATED)
        if not participant.is_synthetic and not items_lacking(study, unseen).exists():
            return StartRefusal.FULL.refused()
        return None
    if get_protocol(study).judges_conversations:
        if participant is None or conversations_unseen(study, participant).exists():
            return None
        return StartRefusal.ALL_RATED.refused(ALL_ITEMS_RATED)
    n = bots_in_turn(study)
    met = bots_met(participant, history, n) if participant is not None else ()
    if history is not None and history.completed_parts:  # bots are repeated, and places of participants are reserved
        met, synthetic = (), True
    return bots_refusal(study, met=met, synthetic=synthetic, n=n)


def bots_in_turn(study: Study) -> int:
    """Return the number of bots that each participant meets."""
    return study.values.assignment.bots_in_a_row if get_protocol(study).has_sequences else 1


def entry_refusal(
    study: Study, participant: Participant | None, *, is_rehearsal: bool = False, history: TaskHistory | None = None
) -> Refused | None:
    """Return the reason why a participant without an open task cannot start.

    Without a participant, the reason why nobody can; None if they can start.

    The draw checks that something is left to assign; pages that draw nothing call `study_refusal`. A rehearsal tests a
    study before it opens and does not count towards quotas.

    Args:
        is_rehearsal: True for a new participant with a rehearsal link; not needed for scripted participants.
        history: the participant's tasks, if they have been read already.
    """
    synthetic = is_rehearsal or (participant is not None and participant.is_synthetic)
    refusal = None if synthetic else state_refusal(study)
    if refusal is not None:
        return refusal
    ends_at = study.values.closing.ends_at
    if ends_at is not None and not synthetic and database_now() >= ends_at:  # no process has closed it yet
        return StartRefusal.ENDED.refused()
    if participant is not None and participant.withdrawn_at is not None:
        return StartRefusal.WITHDREW.refused()
    if participant is not None:
        history = history or task_history(participant)
        if any(outcome in _ENDS_FOR_GOOD for _state, outcome in history.outcomes):
            return StartRefusal.NOT_AGAIN.refused()
        limit = study.values.quotas.max_conversations_per_participant
        n_done = sum(state == Task.State.COMPLETED for state, _outcome in history.outcomes)
        if study.values.sittings.parts:
            refusal = _sitting_refusal(study, participant, history)
        elif limit and n_done >= limit:
            refusal = StartRefusal.LIMIT.refused()
        if refusal is not None or history.completed_parts:
            return refusal
    n_wanted = study.values.quotas.n_conversations_wanted
    if n_wanted and not synthetic and n_tasks_taken(study) >= n_wanted:
        return StartRefusal.FULL.refused()
    return None


def sitting_next(study: Study, participant: Participant, history: TaskHistory | None = None) -> DueSitting | None:
    """Return the participant's next part.

    None without parts or after the last one.
    """
    if not study.values.sittings.parts:
        return None
    history = history or task_history(participant)
    return sitting_due(
        study.values.sittings, history.completed_parts, history.started_parts, has_gaps=not participant.is_synthetic
    )


def _sitting_refusal(study: Study, participant: Participant, history: TaskHistory) -> Refused | None:
    """Return the reason why the next part cannot start now.

    None if it can.
    """
    due, now = sitting_next(study, participant, history), database_now()
    if due is None:
        return StartRefusal.ALL_SITTINGS.refused()
    if due.is_early(now):
        return StartRefusal.SITTING_EARLY.refused(due=due)
    if due.is_late(now):
        return StartRefusal.SITTING_LATE.refused(due=due)
    return None


def earlier_studies_refusal(study: Study, platform: str, external_id: str) -> Refused | None:
    """Return the reason why earlier studies exclude this recruitment id, or None."""
    recruitment = study.values.recruitment
    only, never = recruitment.only_after_studies.split(), recruitment.never_after_studies.split()
    if not (only or never):
        return None
    participations = PlatformIds.objects.filter(
        platform=platform,
        external_id=external_id,
        study__in=Study.everywhere.filter(studies_named_by(study.project_id), key__in=[*only, *never]),
        participant__consented_at__isnull=False,
        participant__is_synthetic=False,
    )
    took_part = set(participations.values_list("study__key", flat=True)) if external_id else set()
    if only and took_part.isdisjoint(only):
        return StartRefusal.NOT_INVITED.refused()
    if not took_part.isdisjoint(never):
        return StartRefusal.TOOK_PART.refused()
    return None


def state_refusal(study: Study) -> Refused | None:
    """Return the reason why a study that is not open admits nobody.

    None if it is open.
    """
    if study.state == Study.State.PAUSED:
        return StartRefusal.PAUSED.refused()
    if study.state == Study.State.DRAFT:
        return StartRefusal.DRAFT.refused()
    if study.state != Study.State.COLLECTING:
        return StartRefusal.ENDED.refused()
    return None


def questions_answered(participant: Participant, version: StudyVersion) -> bool:
    """Return True if the participant has answered the version's questions.

    Answers to equal questions of another version count.
    """
    answer_rows = QuestionAnswers.objects.filter(participant=participant).select_related("version")
    questions = version.values.questions
    return any(row.version_id == version.pk or row.version.values.questions == questions for row in answer_rows)


def questions_of_study(study: Study) -> list[Question]:
    """Return all questions before tasks of all versions.

    One per key, in the newest wording.
    """
    versions = study.versions.order_by("number")
    questions = {question.key: question for version in versions for question in version.values.questions}
    return list(questions.values())


def participant_backgrounds(study: Study) -> dict[str, dict[str, str]]:
    """Return each participant's answer, by question before tasks with answers to choose.

    Participants are named by their id, as in ratings.
    """
    backgrounds: dict[str, dict[str, str]] = {q.key: {} for q in questions_of_study(study) if q.is_background}
    if backgrounds:
        rows = QuestionAnswers.objects.filter(participant__study=study).order_by("pk")
        for participant, answers in rows.values_list("participant", "answers").iterator(chunk_size=2000):
            for key in backgrounds.keys() & answers.keys():
                backgrounds[key][str(participant)] = str(answers[key])
    return backgrounds


def other_questions_of_study(study: Study) -> list[Question]:
    """Return all questions after tasks other than scales, like `questions_of_study`."""
    versions = study.versions.order_by("number")
    questions = {question.key: question for version in versions for question in version.values.after}
    return [question for question in questions.values() if not question.is_rated]


def factors_of_study(study: Study) -> list[Factor]:
    """Return the factors of all versions, with all their levels.

    One factor per key.
    """
    factors: dict[str, Factor] = {}
    for version in study.versions.order_by("number"):
        for factor in version.values.conditions.factors:
            earlier = factors[factor.key].levels if factor.key in factors else ()
            levels = {level.key: level for level in (*earlier, *factor.levels)}
            factors[factor.key] = factor.model_copy(update={"levels": tuple(levels.values())})
    return list(factors.values())


def condition_names(study: Study) -> list[str]:
    """Return all levels as named in searches and fits: `scenario=trip`."""
    return [f"{factor.key}={level.key}" for factor in factors_of_study(study) for level in factor.levels]


def in_condition(levels: Mapping[str, str]) -> Q:
    """Return the condition on conversations with these levels of factors."""
    text = Cast("condition", TextField())
    # Compare as text, which both databases print alike: numeric keys would be list indices.
    return Q(*(Contains(text, f'"{factor}": "{level}"') for factor, level in levels.items()))


def parts_of_study(study: Study) -> list[Sitting]:
    """Return all parts of all versions.

    One per key, in the newest wording.
    """
    versions = study.versions.order_by("number")
    return list({part.key: part for version in versions for part in version.values.sittings.parts}.values())


def condition_said(study: Study | None, condition: Condition) -> list[tuple[str, str]]:
    """Return the titles of a conversation's factors and levels.

    Keys, if they no longer exist.
    """
    factors = {} if study is None else {factor.key: factor for factor in study.values.conditions.factors}
    labels = []
    for key, name in condition.items():
        factor = factors.get(key)
        level = factor.level(name) if factor is not None else None
        labels.append((factor.title if factor is not None else key, level.title if level is not None else name))
    return labels


def conversations_given(
    study: Study, values: StudyValues | None = None, *, is_rehearsal: bool = False
) -> QuerySet[Any]:
    """Return the completed conversations that the study can assign.

    They are its own, or those of the source named in its values.

    If the study names single conversations, it gives only these.

    Args:
        values: values that the study will have; None: its current ones.
        is_rehearsal: True for scripted participants, who can also get chats from rehearsals of the source.
    """
    values = values or study.values
    source_key, run = values.marking.conversations_of, values.marking.conversations_run
    chosen = values.marking.conversations_chosen
    if get_protocol(study).compares_dialogues:
        source_key, run = values.dialogues.dialogues_of, values.dialogues.dialogues_run
        chosen = values.dialogues.dialogues_chosen
    available = {"state": "completed", **({"pk__in": chosen} if chosen else {})}
    if run is not None:
        of_runs = apps.get_model("conversations", "Conversation").objects
        return of_runs.filter(**available, selfplay__run=run)
    if not source_key:
        return study.conversations.filter(**available)
    source_study = Study.objects.filter(key=source_key).first()
    source = source_study or study
    conversations = source.conversations.filter(**available)
    return conversations if is_rehearsal else conversations.filter(is_synthetic=False)


def replies_of(study: Study, conversations: Sequence[str], *, is_rehearsal: bool = False) -> dict[str, list[int]]:
    """Return the turns of the assignable bot replies, by conversation.

    A condition's opening line belongs to the study and is no reply; a partner's first message is the partner's own.
    """
    replies_by_chat: dict[str, list[int]] = {str(pk): [] for pk in conversations}
    is_reply = Q(turns__index__gt=0) | Q(condition={}) | Q(partner_seat__isnull=False)
    source_conversations = conversations_given(study, is_rehearsal=is_rehearsal)
    rows = source_conversations.filter(is_reply, pk__in=conversations, turns__speaker="bot")
    for chat, index in rows.order_by("turns__index").values_list("pk", "turns__index"):
        replies_by_chat[str(chat)].append(index)
    return replies_by_chat


def conversations_unseen(study: Study, participant: Participant) -> QuerySet[Any]:
    """Return the completed conversations that this participant has not seen.

    Conversations with the participant are left out.
    """
    seen = Slot.objects.filter(task__participant=participant, conversation__isnull=False)
    source_conversations = conversations_given(study, is_rehearsal=participant.is_synthetic)
    conversations = source_conversations.exclude(participant=participant)
    return conversations.exclude(pk__in=seen.values("conversation")).order_by("created_at", "pk")


def items_judged(study: Study) -> QuerySet[Item]:
    """Return the study's items without its attention checks."""
    return study.items.filter(purpose=Item.Purpose.JUDGED)


def steps_asked(study: Study) -> list[str]:
    """Return the protocol's steps that participants of this study reach."""
    values = study.values
    empty = {checks.kind.card.step: not checks.entries for checks in values.check_lists if checks.kind.card.is_step}
    empty["questions"] = not values.questions
    return [step.name for step in protocols.get(study.protocol).steps if not empty.get(step.name, False)]


def item_chats(study: Study, keys: Iterable[str]) -> dict[str, UUID]:
    """Return the conversations that items of a study were drawn from, by the items' keys."""
    drawn_items = Item.objects.filter(study=study, key__in=list(keys), conversation__isnull=False)
    return dict(drawn_items.values_list("key", "conversation"))


def items_given(study: Study) -> QuerySet[Item]:
    """Return the items that the protocol can use.

    Some protocols need a scored reference, or criteria.
    """
    items = items_judged(study)
    if study.protocol not in protocols:
        return items
    protocol = protocols.get(study.protocol)
    if protocol.has_one_item:
        return study.items.filter(purpose=Item.Purpose.QUESTION)
    return items.exclude(criteria=[]) if protocol.needs_criteria else _with_reference(study, items)


def gold_given(study: Study) -> QuerySet[Item]:
    """Return the gold items that the protocol can assign."""
    return _with_reference(study, study.items.filter(purpose=Item.Purpose.GOLD))


def _with_reference(study: Study, items: QuerySet[Item]) -> QuerySet[Item]:
    if protocols.get(study.protocol).needs_reference:
        return items.exclude(reference=None).exclude(reference_score=None)
    return items


def items_unseen(study: Study, participant: Participant) -> QuerySet[Item]:
    """Return the study's items that this participant was not shown."""
    seen = Slot.objects.filter(task__participant=participant, item__isnull=False)
    return items_given(study).exclude(pk__in=seen.values("item")).order_by("pk")


def items_lacking(study: Study, items: QuerySet[Item]) -> QuerySet[Item]:
    """Return the items that still need raters.

    All items, if no number of raters is wanted.
    """
    raters_wanted = study.values.judging.raters_wanted
    if not raters_wanted:
        return items
    return with_loads(items, "item", study, synthetic=False).filter(n_tasks__lt=raters_wanted)


def get_participant(study: Study, participant_id: UUID) -> Participant | None:
    """Return the study's participant with this id; None if there is none."""
    return study.participants.filter(pk=participant_id).first()


def participant_token(participant: Participant) -> str:
    """Return a signed token of the participant for use without cookies.

    It is valid on their current device.
    """
    return signing.dumps(known_as(participant), salt=_PARTICIPANT_SALT)


def known_as(participant: Participant) -> str:
    """Return the text that identifies a participant in sessions and tokens.

    It contains their id and number of moves.
    """
    return f"{participant.pk.hex}.{participant.n_moves}" if participant.n_moves else participant.pk.hex


def known_read(text: str) -> tuple[UUID, int]:
    """Parse the participant's id and number of moves.

    The inverse of `known_as`.

    Raises:
        ValueError: for another text.
    """
    person, _dot, n_moves = text.partition(".")
    return UUID(hex=person), int(n_moves or 0)


def token_read(token: str) -> tuple[UUID, int] | None:
    """Return a token's participant and number of moves.

    None for an invalid token.
    """
    try:
        return known_read(signing.loads(token, salt=_PARTICIPANT_SALT, max_age=60 * 60 * 24 * 460))
    except (signing.BadSignature, ValueError):
        return None


def participant_from_token(token: str) -> Participant | None:
    """Return the token's participant.

    Also if they continued on another device. None for an invalid token.
    """
    token_pair = token_read(token)
    if token_pair is None:
        return None
    return Participant.objects.filter(pk=token_pair[0]).select_related("study__version__rubric").first()


def rehearsal_token(study: Study) -> str:
    """Return a token that admits scripted participants for an hour.

    Participants who enter with it are marked as scripted.
    """
    return signing.dumps(study.key, salt=_REHEARSAL_SALT)


def rehearsal_token_valid(study: Study, token: str) -> bool:
    """Return True if `token` was created for this study within the last hour."""
    try:
        return signing.loads(token, salt=_REHEARSAL_SALT, max_age=3600) == study.key
    except signing.BadSignature:
        return False
