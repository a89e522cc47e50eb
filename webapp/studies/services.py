"""Writes of studies, rubrics, participants and tasks."""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from chatbots import derive_seed
from chatbots.text import quote
from evaluation.analysis.levels import NEW_STUDIES
from webapp.bots.selectors import bot_available_ids
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import TaskHistory, study_group, task_history
from webapp.studies.assignment.cells import DrawnBot
from webapp.studies.assignment.counterbalance import slots_grouped, task_counted
from webapp.studies.assignment.draw import StudyDraw
from webapp.studies.assignment.rules.base import rules
from webapp.studies.bot_columns import BotColumns, columns_write
from webapp.studies.items import items_copy
from webapp.studies.languages import values_in
from webapp.studies.models import (
    ConsentText,
    Item,
    OrderState,
    Outcome,
    Participant,
    PlatformIds,
    QuestionAnswers,
    Rubric,
    Slot,
    Study,
    StudyVersion,
    Task,
)
from webapp.studies.privacy import consent_texts, consent_version
from webapp.studies.protocols.base import TaskPlan, protocols
from webapp.studies.recruitment.completion import shown_completion_of, store_shown_completion
from webapp.studies.recruitment.links import LINK_PLATFORM, link_use
from webapp.studies.selectors import entry_refusal, sitting_next
from webapp.studies.settings import NAMES, StudyValues
from webapp.studies.versions import questions_first, study_store, values_made, version_freeze

_CODE_LETTERS = string.ascii_uppercase + string.digits


def study_create(
    *, key: str, name: str, bots: Sequence[str], rubric: Rubric | None = None, author: str = "", **fields: Any
) -> Study:
    """Create a study with its first version.

    Args:
        rubric: the questions if there is no `after`; without both: the protocol's default questions, or for chats
            the five questions of Ghandeharioun et al. (2019).
        fields: fields of the model (`state`, `rule`, …) and of `StudyValues`, by their names without a section.

    Raises:
        ValidationError: with a sentence for each invalid field.
    """
    flat = {field: fields.pop(field) for field in list(fields) if field in NAMES}
    flat.setdefault("level", NEW_STUDIES)
    study = Study(key=key, name=name, **fields)
    if rubric is None:
        flat.setdefault("after", questions_first(study.protocol, flat.get("language", "en")))
    values = values_made({"bots": list(bots)}, flat)
    return study_store(study=study, values=values, rubric=rubric, author=author)


def study_copy(*, study: Study, author: str = "") -> Study:
    """Copy the study to a draft, with its items.

    Participants and the platform's codes and links are not copied.

    Raises:
        ValidationError: if the study has settings that are no longer valid.
    """
    of_platform = [f"{kind}_{outcome}" for kind in ("code", "link") for outcome in Outcome.values]
    flat = {name: value for name, value in study.values.flat().items() if name not in of_platform}
    existing_keys = set(Study.objects.values_list("key", flat=True))
    number = next(n for n in count(2) if _numbered(study.key, n) not in existing_keys)
    with transaction.atomic():
        draft = study_create(
            key=_numbered(study.key, number),
            name=f"{study.name[:190]} ({number})",
            rubric=study.rubric,
            protocol=study.protocol,
            rule=study.rule,
            seed=study.seed,
            bot_columns=study.bot_columns,
            author=author,
            **flat,
        )
        items_copy(items=study.items.exclude(purpose=Item.Purpose.REPEAT), study=draft)
    return draft


def _numbered(key: str, number: int) -> str:
    return f"{key[: 59 - len(str(number))]}-{number}"


def bot_columns_store(*, study: Study, columns: BotColumns) -> None:
    """Store the researcher's table of bots.

    An empty table deletes the earlier one. Marked controls stay.
    """
    marked = BotColumns.from_json(study.bot_columns).marked
    columns_write(study, replace(columns, marked=marked))


def participant_enter(
    *,
    study: Study,
    platform: str = "",
    external_id: str = "",
    recruitment: dict[str, str] | None = None,
    entry_nonce: str = "",
    is_synthetic: bool = False,
) -> Participant:
    """Return the participant of a recruitment id or entry form.

    A new participant is stored if there is none.

    Args:
        entry_nonce: nonce of the submitted form; a repeated submission leads to the same participant.
    """
    known_by: dict[str, str] = {}
    if external_id:
        known_by = {"platform_ids__platform": platform, "platform_ids__external_id": external_id}
    elif entry_nonce:
        known_by = {"entry_nonce": entry_nonce}
    known = Participant.objects.filter(study=study, **known_by).select_related("platform_ids")
    participant = known.first() if known_by else None
    if participant is None:
        try:
            with transaction.atomic():
                return participant_create(
                    study=study,
                    platform=platform,
                    external_id=external_id,
                    recruitment=recruitment,
                    entry_nonce=entry_nonce,
                    is_synthetic=is_synthetic,
                )
        except IntegrityError:
            participant = known.get()  # another request of the same person was faster
    if recruitment and participant.recruitment != recruitment:
        # The same worker came from another assignment: its parameters now pay them.
        PlatformIds.objects.filter(participant=participant).update(parameters=recruitment)
        participant.refresh_from_db()
    return participant


def participant_create(
    *,
    study: Study,
    platform: str = "",
    external_id: str = "",
    recruitment: dict[str, str] | None = None,
    entry_nonce: str = "",
    is_synthetic: bool = False,
    **consent: Any,
) -> Participant:
    """Store a new participant.

    Args:
        consent: fields of `consent_given`, if they agreed.

    Raises:
        IntegrityError: if another request stored the participant of this id or form.
    """
    origin: dict[str, Any] = {"study": study, "platform": platform}
    participant = Participant.objects.create(**origin, entry_nonce=entry_nonce, is_synthetic=is_synthetic, **consent)
    if external_id or recruitment:
        ids = {"external_id": external_id, "parameters": recruitment or {}}
        PlatformIds.objects.create(participant=participant, **origin, **ids)
    else:
        Participant.platform_ids.related.set_cached_value(participant, None)  # a new participant has none
    if platform == LINK_PLATFORM:
        link_use(study=study, number=external_id)
    return participant


def participants_named(*, study: Study, platform: str, names: Collection[str]) -> dict[str, uuid.UUID]:
    """Return the participants with these names on a platform or in a file.

    Missing participants are created.
    """
    rows = PlatformIds.objects.filter(study=study, platform=platform, external_id__in=names)
    known: dict[str, uuid.UUID] = dict(rows.values_list("external_id", "participant"))
    missing = sorted(set(names) - set(known))
    if not missing:
        return known
    with transaction.atomic():
        people = [Participant(study=study, platform=platform) for _name in missing]
        Participant.objects.bulk_create(people)
        PlatformIds.objects.bulk_create(
            [
                PlatformIds(participant=participant, study=study, platform=platform, external_id=name)
                for participant, name in zip(people, missing, strict=True)
            ],
            ignore_conflicts=True,
        )
        participant_ids = dict(rows.all().values_list("external_id", "participant"))
        # A participant of the same name from a concurrent import stays.
        if twice := {participant.pk for participant in people} - set(participant_ids.values()):
            Participant.objects.filter(pk__in=twice).delete()
    return participant_ids


def consent_record(*, participant: Participant) -> Participant:
    """Store the participant's consent: the texts, and the time.

    The first consent stays. A person's consent freezes the study's version; a rehearsal does not, because it only tests
    the version.
    """
    version = participant.study.version
    if not participant.is_synthetic:
        version = participant.study.version = version_freeze(version=version)
    if participant.consented_at is None:
        consent_fields = consent_given(version, participant.language)
        if Participant.objects.filter(pk=participant.pk, consented_at=None).update(**consent_fields):
            for name, value in consent_fields.items():  # other stored facts about them stay
                setattr(participant, name, value)
        else:
            participant.refresh_from_db()
    return participant


def consent_given(version: StudyVersion, language: str = "") -> dict[str, Any]:
    """Return the fields that store consent to the current version.

    The language is one that the version offers. Its texts are stored on first use.
    """
    values = values_in(version.values, language)
    digest, agreed = consent_version(values), consent_texts(values)
    texts, _is_new = ConsentText.objects.only("digest").get_or_create(digest=digest, defaults={"texts": agreed})
    spoken_language = values.texts.language
    return {"consented_at": database_now(), "consent_version": digest, "consent": texts, "language": spoken_language}


def task_open(
    *,
    participant: Participant,
    exclude: Collection[str] = (),
    version: StudyVersion | None = None,
    chosen_bot: str = "",
    history: TaskHistory | None = None,
) -> Task:
    """Return the participant's open task, or draw a new one.

    Args:
        exclude: bots not to assign now, besides those met before.
        version: the study's version that the participant agreed to; None: the newest.
        chosen_bot: bot chosen by the participant, if the study allows it; empty: the rule draws.
        history: their tasks, if no other request can open one, as for a participant stored in this transaction.

    Raises:
        Refused: `paused`, `ended`, `limit`, `all_rated`, `full`, `bots_full`, `spent`, `no_bot` or `choice_gone`.
    """
    bots = version.values.bots if version else participant.study.bots
    bot_ids = bot_available_ids(list(bots))
    with transaction.atomic():
        study = _study_locked(participant)
        history = history or task_history(participant)
        if history.open_task is not None:
            return participant.tasks.get(pk=history.open_task)
        if (refusal := entry_refusal(study, participant, history=history)) is not None:
            raise refusal
        protocol = protocols.get(study.protocol)
        values = version.values if version else study.values
        rule = rules.get(study.rule)
        order = OrderState.objects.filter(study=study).first() if rule.reads_needs else None
        draw = StudyDraw(
            study, participant, values, bot_ids, exclude, _needs_by_bot(values, order), chosen_bot, history
        )
        plan = protocol.next_task(draw)
        due = sitting_next(study, participant, history)
        task = Task.objects.create(
            participant=participant,
            version=version or study.version,
            kind=plan.kind,
            sitting=due.sitting.key if due else "",
            payload=dict(plan.payload),
            drawn_by={
                "protocol": protocol.identity.as_dict(),
                "rule": rule.identity.as_dict(),
                **({"order": order.identity} if order is not None else {}),
                **({"chosen": values.assignment.choice} if chosen_bot else {}),
                **({"helper": draw.helpers[0].identity} if draw.helpers else {}),
            },
            submission=participant.submission,
        )
        task.drawn_slots = slots_add(task=task, plan=plan, draw=draw)
    return task


def _needs_by_bot(values: StudyValues, order: OrderState | None) -> dict[str, float]:
    needs = order.needs if order is not None else {}
    # A bot without ratings is in no comparison and needs ratings most.
    greatest = max(needs.values(), default=0) or 1
    return {bot_id: needs.get(bot_id, greatest) for bot_id in values.bots} if needs else {}


def task_bot_add(*, task: Task, exclude: Collection[str] = ()) -> Slot:
    """Replace a failed bot by one more bot at the end of the task.

    Raises:
        Refused: as in `task_open`, if there is none.
    """
    values = task.version.values
    available = bot_available_ids(list(values.bots))
    with transaction.atomic():
        study = _study_locked(task.participant)
        order = OrderState.objects.filter(study=study).first()
        needs = _needs_by_bot(values, order)
        [bot] = StudyDraw(study, task.participant, values, available, exclude, needs).bots()
        last = task.slots.order_by("-order").values_list("order", flat=True)[0]
        return Slot.objects.create(task=task, order=last + 1, **_slot_fields(bot))


def _study_locked(participant: Participant) -> Study:
    """Return the participant's study, locked with the others of its group.

    Participants are admitted one by one, so each is counted before the next. SQLite has one writer anyway; with
    `no_key` PostgreSQL's foreign key checks need not wait.
    """
    rows = Study.objects.select_for_update(of=("self",), no_key=True)
    group = study_group(participant.study)
    if len(group) > 1 and participant.external_id:
        # The same order everywhere avoids deadlocks.
        list(rows.select_related(None).filter(pk__in=group).order_by("pk").only("pk"))
    known = participant.study.version
    if known.frozen_at is None:
        return rows.get(pk=participant.study_id)
    study = rows.select_related(None).get(pk=participant.study_id)
    if study.version_id == known.pk:
        study.version = known  # the version cannot have changed, so it need not be loaded and parsed again
    return study


def slots_add(*, task: Task, plan: TaskPlan, draw: StudyDraw | None = None) -> list[Slot]:
    """Store the content of a new task, as its protocol planned it, with the known probabilities of its draw."""
    return Slot.objects.bulk_create(
        Slot(
            task=task,
            order=order,
            side=slot.side,
            conversation_id=slot.conversation or None,
            item_id=slot.item or None,
            is_flipped=slot.is_flipped,
            **_slot_fields(slot.bot),
            **_probability_fields(draw, slot.item),
        )
        for order, slot in enumerate(plan.slots)
    )


def _probability_fields(draw: StudyDraw | None, item: str) -> dict[str, Any]:
    """Return the fields of a slot whose item was drawn with a known probability."""
    drawn_item = draw.known_draws.get(item) if draw is not None else None
    if draw is None or drawn_item is None:
        return {}
    helper = next(iter(draw.helpers), None)
    return {"probability": drawn_item.probability, "weight": drawn_item.weight, "helper": helper}


def _slot_fields(bot: DrawnBot | None) -> dict[str, Any]:
    """Return the fields of a slot that a drawn bot fills."""
    return {} if bot is None else {"bot_id": bot.bot_id, "condition": dict(bot.condition)}


def pairs_replace(*, task: Task, excluded: Collection[str], n_given_up: int = 1) -> None:
    """Replace a task's pair in which a bot failed.

    Later pairs with that bot are replaced too.

    Args:
        excluded: bots not to assign; their pairs that have no chats yet are removed.
        n_given_up: number of abandoned pairs; 0 if only later pairs are replaced.

    Raises:
        Refused: as in `StudyDraw.pairs`, if no other pair is left; nothing has changed then.
    """
    participant = task.participant
    with transaction.atomic():
        study = _study_locked(participant)
        coming = slots_grouped(task.slots.filter(chat=None).order_by("order"))
        dropped = [pair for pair in coming if {slot.bot_id for slot in pair} & {*excluded}]
        available = bot_available_ids(list(task.version.values.bots))
        draw = StudyDraw(study, participant, task.version.values, available, excluded)
        try:
            pairs = draw.pairs(n_given_up + len(dropped))
        except Refused:
            if len(dropped) == len(coming):
                raise
            pairs = []  # another pair is left
        Slot.objects.filter(pk__in=[slot.pk for pair in dropped for slot in pair]).delete()
        first = (task.slots.aggregate(last=Max("order"))["last"] or 0) + 1
        sides = [(bot, side) for pair in pairs for bot, side in zip(pair, "AB", strict=True)]
        Slot.objects.bulk_create(
            Slot(task=task, order=order, side=side, **_slot_fields(bot))
            for order, (bot, side) in enumerate(sides, start=first)
        )


def task_complete(*, task: Task, outcome: str = Outcome.RATED) -> Task:
    """Complete the task with a code.

    A repeated call keeps the first code and outcome.
    """
    for _attempt in range(10):
        try:
            with transaction.atomic():
                if _task_ended(task, Q(completion_code=None), Task.State.COMPLETED, outcome):
                    task_counted(task=task)
            break
        except IntegrityError:
            continue  # the code is already used
    return task


def _task_ended(task: Task, still: Q, state: str, outcome: str) -> bool:
    """End the task with a new code, if its state is still as required.

    Otherwise it is loaded again. The code and link that the participant sees are stored.
    """
    end = {"state": state, "outcome": outcome, "completion_code": _completion_code(), "ended_at": database_now()}
    for name, value in end.items():
        setattr(task, name, value)
    completion = shown_completion_of(task)
    code_and_link = {"code": completion.code, "link": completion.link}
    is_new = bool(Task.objects.filter(still, pk=task.pk).update(**end, told=code_and_link))
    if is_new:
        task.told = code_and_link
    else:
        task.refresh_from_db()
    return is_new


def task_end(*, task: Task, outcome: str) -> Task:
    """End an open task that will not be completed.

    The participant was screened out, failed a check or came too late. The task counts towards no quota. A repeated
    call, or one after the task has ended, changes nothing. Chats of the task are closed by
    `webapp.conversations.services.task_end_with_chats`.

    Raises:
        ValueError: for another outcome, which has its own service.
    """
    if outcome not in (Outcome.SCREENED_OUT, Outcome.FAILED_CHECK, Outcome.LATE):
        raise ValueError(f"task_end cannot end a task as {quote(outcome)}")
    for _attempt in range(10):
        try:
            with transaction.atomic():
                _task_ended(task, Q(state=Task.State.OPEN), Task.State.ENDED, outcome)
            break
        except IntegrityError:
            continue  # the code is already used
    return task


def task_close(*, task: Task, state: str) -> Task:
    """Close an open task without a code.

    Either a bot failed or the participant left.
    """
    Task.objects.filter(pk=task.pk, state=Task.State.OPEN).update(state=state, ended_at=database_now())
    task.refresh_from_db()
    return task


def task_withdraw(*, task: Task) -> Task:
    """Store that the participant withdrew their work in this study.

    A participant who had left can withdraw too. Their answers before the task are deleted.
    """
    with transaction.atomic():
        task_close(task=task, state=Task.State.WITHDRAWN)
        Task.objects.filter(pk=task.pk, outcome="").update(outcome=Outcome.WITHDRAWN, ended_at=database_now())
        _completion_shown(task)
        # Wait for answers that are being stored; they are deleted too.
        Participant.objects.select_for_update(of=("self",), no_key=True).get(pk=task.participant_id)
        QuestionAnswers.objects.filter(participant=task.participant_id).delete()
    task.refresh_from_db()
    return task


def _completion_shown(task: Task) -> None:
    store_shown_completion(task=Task.objects.select_related("participant__study__version").get(pk=task.pk))


def _completion_code() -> str:
    letters = [secrets.choice(_CODE_LETTERS) for _ in range(6)]
    return f"{''.join(letters[:3])}-{''.join(letters[3:])}"


def conversation_seed(*, study: Study) -> int:
    """Draw an unpredictable seed for a new chat.

    Nobody must be able to foresee its replies.
    """
    return derive_seed(study.seed, "conversation", uuid.uuid4().hex)
