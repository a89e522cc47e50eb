"""Capacity of a study: load and reservations of bots, conversations and items.

Completed work is read from `TaskCount`, and reservations from the few open tasks, so that the cost of a draw does not
grow with the amount of completed work.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from django.db import connection
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from webapp.bots.models import Spending
from webapp.bots.project_spending import bots_beyond_budget
from webapp.bots.selectors import bots_least_cost, spending_spent
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.assignment.cells import BotLoads, bots_without_room, cells_of
from webapp.studies.conditions import Condition, condition_key
from webapp.studies.models import Outcome, Participant, Slot, Study, Task, TaskCount
from webapp.studies.settings import StudyValues
from webapp.studies.start_refusals import StartRefusal
from webapp.studies.study_agreements import studies_grouped_with


def study_group(study: Study) -> list[int]:
    """Return the ids of all studies in this study's group.

    Within a group no participant gets a bot twice.
    """
    name = study.values.assignment.study_group
    if not name:
        return [study.pk]
    group_studies = Study.objects.filter(studies_grouped_with(study), version__values__assignment__study_group=name)
    return sorted({study.pk, *group_studies.values_list("pk", flat=True)})


def same_person(participant: Participant) -> QuerySet[Participant]:
    """Return the participant and their other records in the study's group.

    They are recognised by their platform id.
    """
    group = study_group(participant.study)
    if len(group) == 1 or not participant.external_id:
        return Participant.objects.filter(pk=participant.pk)
    return Participant.objects.filter(
        study__in=group,
        platform_ids__platform=participant.platform,
        platform_ids__external_id=participant.external_id,
        is_synthetic=participant.is_synthetic,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """A participant's tasks in their study so far.

    Attributes:
        outcomes: state and outcome of each task.
        bots: bots of all tasks, whether rated, failed or left.
        open_task: primary key of the open task; None if no task is open.
        conditions: conditions of the conversations. After a bot's failure, only the levels that are fixed for each
            participant.
        completed_parts: time at which each part of the study was completed, by the part's key.
        started_parts: keys of the parts that were started.
        cell_counts: number of conversations for each bot and condition key, in a study with parts.
        bots_last: bots of the part completed last, in their order.
    """

    outcomes: Sequence[tuple[str, str]]
    bots: Set[str]
    open_task: int | None
    conditions: Sequence[Condition] = ()
    completed_parts: Mapping[str, datetime] = field(default_factory=dict)
    started_parts: Set[str] = frozenset()
    cell_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    bots_last: Sequence[str] = ()


NO_TASKS = TaskHistory(outcomes=(), bots=frozenset(), open_task=None)


def task_history(participant: Participant) -> TaskHistory:
    """Return the participant's earlier tasks, in one query."""
    values = participant.study.values
    factors, has_parts = values.conditions.factors, bool(values.sittings.parts)
    slot_columns = ("slots__condition", "slots__chat__state") if factors or has_parts else ()
    staying = {factor.key for factor in factors if factor.varies == "between"}
    columns = ("pk", "state", "outcome", "sitting", "ended_at", "slots__bot_id", *slot_columns)
    rows = participant.tasks.order_by("pk", "slots__order") if has_parts else participant.tasks.order_by()
    outcomes: dict[int, tuple[str, str]] = {}
    bots, conditions = set(), []
    completed_parts, started_parts = dict[str, datetime](), set()
    cell_counts, bots_of = Counter[tuple[str, str]](), defaultdict[int, list[str]](list)
    for pk, state, outcome, sitting, ended_at, bot_id, *of_slot in rows.values_list(*columns):
        outcomes[pk] = (state, outcome)
        bots.add(bot_id)
        started_parts.add(sitting)
        if sitting and state == Task.State.COMPLETED:
            completed_parts[sitting] = ended_at
        condition, chat = of_slot or ({}, "")
        if condition:
            conditions.append({k: v for k, v in condition.items() if chat != "failed" or k in staying})
        if has_parts and bot_id:
            cell_counts[bot_id, condition_key(condition)] += 1
            if sitting in completed_parts and chat != "failed":
                bots_of[pk].append(bot_id)
    open_keys = (pk for pk, (state, _outcome) in outcomes.items() if state == Task.State.OPEN)
    return TaskHistory(
        outcomes=list(outcomes.values()),
        bots=bots - {"", None},
        open_task=next(open_keys, None),
        conditions=conditions,
        completed_parts=completed_parts,
        started_parts=started_parts,
        cell_counts=cell_counts,
        bots_last=bots_of[max(bots_of)] if bots_of else [],
    )


def bots_met(participant: Participant, history: TaskHistory | None = None, n: int = 1) -> Set[str]:
    """Return the bots that the participant has already met.

    Other studies of the group count. In a study with parts, bots are assigned repeatedly; bots used more often than the
    `n` least-used ones are excluded.

    Args:
        history: the participant's tasks here, if already loaded.
        n: number of different bots needed.
    """
    if participant.study.values.sittings.parts:
        times = Counter(bot_id for bot_id, _key in (history or task_history(participant)).cell_counts.elements())
        fewest = sorted(times[bot_id] for bot_id in participant.study.bots)[:n]
        return {bot_id for bot_id, often in times.items() if fewest and often > fewest[-1]}
    if history is not None and not participant.study.values.assignment.study_group:
        return history.bots
    slots = Slot.objects.filter(task__participant__in=same_person(participant)).exclude(bot_id="")
    return set(slots.values_list("bot_id", flat=True))


def bots_beyond_cap(study: Study) -> dict[str, str]:
    """Return the bots that a cost limit of study or project excludes, with reasons.

    The limit is too close for another reply.
    """
    cap = study.values.quotas.max_cost
    if cap is None and study.project.monthly_cost_limit is None:
        return {}
    least_costs = bots_least_cost(study.bots)
    beyond = bots_beyond_budget(study.project, least_costs)
    if cap is None:
        return beyond
    spent = spending_spent(Spending.Of.STUDY, str(study.pk))
    reason = _("the study's cost limit of {cap} is reached ({spent} spent)").format(
        cap=f"{cap:g}", spent=f"{spent:.6g}"
    )
    return beyond | {bot_id: reason for bot_id, least in least_costs.items() if spent + least > cap}


def bots_full(study: Study, loads: BotLoads) -> set[str]:
    """Return the bots whose quotas or cells are all full.

    Conversations and reservations count.

    Args:
        loads: loads by participants, as `bot_loads` returns them.
    """
    quotas = {bot_id: study.values.assignment.quota_of(bot_id) for bot_id in loads}
    full = {bot_id for bot_id, quota in quotas.items() if quota is not None and loads[bot_id] >= quota}
    return full | bots_without_room(study.values.conditions, loads)


def bots_refusal(
    study: Study, *, met: Collection[str], loads: BotLoads | None = None, synthetic: bool = False, n: int = 1
) -> Refused | None:
    """Return the reason why no bot is left for a participant.

    None if one is left. A temporarily unavailable bot counts as left.

    Args:
        met: bots that the participant has already had.
        loads: number of participants by bot, if already counted.
        synthetic: True for a scripted participant, who does not count towards quotas.
        n: number of different bots needed.
    """
    remaining = [bot_id for bot_id in study.bots if bot_id not in met]
    if not study.bots:
        return None
    if len(remaining) < n:
        return StartRefusal.ALL_RATED.refused()
    has_quotas = study.values.assignment.has_quotas or study.values.conditions.has_quota
    if has_quotas and not synthetic:
        if loads is None:
            loads = bot_loads(study, study.bots, synthetic=False)
        full = bots_full(study, loads)
        if len(set(study.bots) - full) < n:
            return StartRefusal.FULL.refused()
        if len(set(remaining) - full) < n:
            return StartRefusal.BOTS_FULL.refused()
        remaining = [bot_id for bot_id in remaining if bot_id not in full]
    if len(set(remaining) - bots_beyond_cap(study).keys()) < n:
        return StartRefusal.SPENT.refused()
    return None


_LOADS = """
SELECT bot_id, cell, n_completed FROM studies_taskcount
WHERE study_id = %s AND is_synthetic = %s AND conversation_id IS NULL AND item_id IS NULL
UNION ALL
SELECT slot.bot_id, CAST(slot.condition AS text), COUNT(*) FROM studies_task task
JOIN studies_slot slot ON slot.task_id = task.id
LEFT JOIN conversations_conversation chat ON chat.slot_id = slot.id
WHERE task.state = %s AND task.created_at >= %s AND (chat.state IS NULL OR chat.state <> 'failed')
AND (SELECT person.study_id FROM studies_participant person
     WHERE person.id = task.participant_id AND person.is_synthetic = %s LIMIT 1) = %s
GROUP BY slot.bot_id, slot.condition
"""
"""Counts of `TaskCount` and `slots_held` in raw SQL: every draw needs them, and the ORM takes 14 times as long."""


def bot_loads(study: Study, bot_ids: Collection[str], *, synthetic: bool) -> BotLoads:
    """Count rated tasks and reservations of each bot and cell.

    This takes one query.

    Args:
        synthetic: True for scripted participants only, who are balanced separately; else real ones only.
    """
    since = connection.ops.adapt_datetimefield_value(_places_since(study))
    of_study: list[Any] = [study.pk, synthetic, Task.State.OPEN.value, since, synthetic, study.pk]
    loads = BotLoads(bot_ids)
    with connection.cursor() as cursor:
        cursor.execute(_LOADS, of_study)
        for bot_id, cell, n in cursor.fetchall():  # the cell's key of completed tasks, the condition of open ones
            loads.add(bot_id, condition_key(json.loads(cell)) if cell.startswith("{") else cell, n)
    return loads


def with_loads(
    candidates: QuerySet[Any], kind: Literal["conversation", "item"], study: Study, *, synthetic: bool
) -> QuerySet[Any]:
    """Annotate conversations or items with their number of tasks, `n_tasks`.

    Tasks are counted as in `bot_loads`.
    """
    row_filter = {kind: OuterRef("pk")}
    done = TaskCount.objects.filter(study=study, is_synthetic=synthetic, **row_filter)
    under_way = slots_held(study, synthetic=synthetic).filter(**row_filter)
    n_under_way = under_way.order_by().values(kind).annotate(n=Count("pk"))
    return candidates.annotate(
        n_tasks=Coalesce(Subquery(done.values("n_completed")[:1]), 0) + Coalesce(Subquery(n_under_way.values("n")), 0)
    )


def n_tasks_taken(study: Study) -> int:
    """Return the number of participants' tasks that are rated or reserved.

    In a study with parts, everyone who has started counts for all parts, because their places are reserved.
    """
    if n_parts := len(study.values.sittings.parts):
        is_counted = Q(state=Task.State.OPEN, created_at__gte=_places_since(study)) | Q(outcome=Outcome.RATED)
        people = Task.objects.filter(is_counted, participant__study=study, participant__is_synthetic=False)
        return n_parts * people.aggregate(n=Count("participant", distinct=True))["n"]
    total = TaskCount.objects.filter(study=study, is_synthetic=False, bot_id="", conversation=None, item=None)
    n_done = total.values_list("n_completed", flat=True).first() or 0
    return n_done + open_tasks(study, synthetic=False).count()


def is_collecting(study: Study) -> bool:
    """Return True if results are interim.

    Ratings planned for the study are still to come.
    """
    return study.state in (Study.State.COLLECTING, Study.State.PAUSED) and not has_planned_number(study)


def keeps_always_valid(study: Study) -> bool:
    """Return True if the study's bots are compared with the anytime-valid test.

    This is decided when the study opens, so that closing changes no verdict, unless the study has reached the number of
    participants that it was opened with. Imported studies were never open.
    """
    if not (study.is_sequential or study.state in (Study.State.COLLECTING, Study.State.PAUSED)):
        return False
    is_as_planned = _planned_numbers(study.agreed_values) == _planned_numbers(study.values)
    return not (is_as_planned and has_planned_number(study))


def _planned_numbers(values: StudyValues) -> tuple[Any, ...]:
    quotas = [values.assignment.quota_of(bot_id) for bot_id in values.bots]
    return values.quotas.n_conversations_wanted, quotas, values.conditions.n_each_cell


def has_planned_number(study: Study, counts: Iterable[TaskCount] | None = None) -> bool:
    """Return True if all planned conversations are completed; False without a planned number.

    Args:
        counts: the study's counts of participants by bot and cell, if already loaded.
    """
    if counts is None:
        counts = TaskCount.objects.filter(study=study, is_synthetic=False, conversation=None, item=None)
    done, in_cells = Counter[str](), Counter[tuple[str, str]]()
    for count in counts:
        done[count.bot_id] += count.n_completed
        in_cells[count.bot_id, count.cell] += count.n_completed
    n_planned, conditions = study.values.quotas.n_conversations_wanted, study.values.conditions
    if n_planned and done[""] >= n_planned:
        return True
    if conditions.has_quota and all(
        in_cells[cell.bot_id, cell.key] >= conditions.n_each_cell for cell in cells_of(conditions, study.bots)
    ):
        return True
    quotas = [study.values.assignment.quota_of(bot_id) for bot_id in study.bots]
    return bool(quotas) and all(
        quota is not None and done[bot_id] >= quota for bot_id, quota in zip(study.bots, quotas, strict=True)
    )


def open_tasks(study: Study, *, synthetic: bool) -> QuerySet[Task]:
    """Return the open tasks whose reservation has not expired.

    The participant of each of these few tasks is looked up by key. With a join, PostgreSQL would scan all participants
    of a study for each task until its statistics include the study.
    """
    people = Participant.objects.filter(pk=OuterRef("participant"), is_synthetic=synthetic)
    return Task.objects.alias(of_study=Subquery(people.values("study")[:1])).filter(
        state=Task.State.OPEN, created_at__gte=_places_since(study), of_study=study.pk
    )


def _places_since(study: Study) -> datetime:
    """Return the earliest start of a task whose reservation is still valid."""
    return database_now() - study.values.assignment.place_held_for


def slots_held(study: Study, *, synthetic: bool) -> QuerySet[Slot]:
    """Return the slots of open tasks with a reservation.

    A chat whose bot failed has none.
    """
    slots = Slot.objects.filter(task__in=open_tasks(study, synthetic=synthetic))
    return slots.exclude(chat__state="failed")
