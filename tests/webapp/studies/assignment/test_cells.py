"""Cells: balanced with the bots, within and between participants, nested, full, and counted again."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import FACTORS, fail_reply, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.services import conversation_swap, conversation_withdraw
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import bot_loads, bots_refusal, is_collecting
from webapp.studies.assignment.cells import BotLoads, CellDraw
from webapp.studies.conditions import condition_key
from webapp.studies.models import Participant, Slot, Study, Task, TaskCount
from webapp.studies.privacy import participants_erase
from webapp.studies.services import task_complete, task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db

SCENARIO, TOLD = FACTORS


def cell(slot: Slot) -> tuple[str, ...]:
    return (slot.bot_id, *slot.condition.values())


def cells(study: Study) -> Counter[tuple[str, ...]]:
    return Counter(cell(slot) for slot in Slot.objects.filter(task__participant__study=study))


def start(study: Study, person: Participant | None = None) -> list[Slot]:
    task = task_open(participant=person or make_participant(study))
    return list(task.slots.order_by("order"))


def done(study: Study, person: Participant | None = None) -> list[Slot]:
    """Start a task and complete it."""
    slots = start(study, person)
    task_complete(task=slots[0].task)
    return slots


def test_cells_fill_evenly_and_bots_with_them() -> None:
    study = make_study(factors=FACTORS, bots=["eliza", "parrot", "generic"])
    for number in range(24):
        done(study) if number % 2 else start(study)
        n_bots = Counter(Slot.objects.values_list("bot_id", flat=True))
        assert max(n_bots.values()) - min(n_bots[bot] for bot in study.bots) <= 1
        for factor in ("scenario", "told"):
            n_levels = Counter(Slot.objects.values_list(f"condition__{factor}", flat=True))
            assert max(n_levels.values()) - min(n_levels.values(), default=0) <= 2
        # No cell gets a second conversation before each has its first.
        assert max(cells(study).values()) == 1 + number // 12
    assert set(cells(study).values()) == {2}
    assert len(cells(study)) == 12


def test_who_comes_again_stays_between_and_goes_through_the_levels_within() -> None:
    study = make_study(factors=FACTORS, bots=["eliza", "parrot", "generic", "retrieval"])
    for _ in range(4):
        person = make_participant(study)
        had = [done(study, person)[0].condition for _ in range(4)]
        assert len({one["told"] for one in had}) == 1
        assert Counter(one["scenario"] for one in had) == {"trip": 2, "refund": 2}
        assert {had[0]["scenario"], had[1]["scenario"]} == {"trip", "refund"}, "in rounds"
    assert set(cells(study).values()) == {1}


def test_a_pair_of_bots_shares_the_conditions_that_both_have_room_for() -> None:
    conditions = make_study(factors=[FACTORS[0]], n_each_cell=1).values.conditions
    loads = BotLoads(["eliza", "parrot"])
    draw = CellDraw(conditions, loads)
    trip, refund = [option.key for option in draw.options(["eliza"])]
    assert [option.key for option in draw.shared("eliza", "parrot")] == [trip, refund]
    loads.add("parrot", trip, 1)
    assert [(option.bot_id, option.key) for option in draw.shared("eliza", "parrot")] == [("eliza", refund)]
    loads.add("eliza", refund, 1)
    assert draw.shared("eliza", "parrot") == []


def test_bots_in_a_row_go_through_the_levels_within() -> None:
    study = make_study(factors=FACTORS, bots_in_a_row=2)
    places: dict[str, Counter[Any]] = defaultdict(Counter)
    for _ in range(64):
        slots = done(study)
        assert len({slot.condition["told"] for slot in slots}) == 1
        assert {slot.condition["scenario"] for slot in slots} == {"trip", "refund"}
        places["bots"][slots[0].bot_id] += 1
        places["levels"][slots[0].condition["scenario"]] += 1
    assert set(cells(study).values()) == {16}
    assert set(places["bots"].values()) == {32}
    assert min(places["levels"].values()) >= 20


def test_nested_levels_come_with_their_bots_alone() -> None:
    levels = [{"key": "shop", "topic": "Cups", "bots": ["parrot"]}, *SCENARIO["levels"]]
    levels[1:] = [{**level, "bots": ["eliza"]} for level in levels[1:]]
    study = make_study(factors=[{**SCENARIO, "levels": levels}])
    for _ in range(12):
        done(study)
    assert cells(study) == {("parrot", "shop"): 4, ("eliza", "trip"): 4, ("eliza", "refund"): 4}
    person = make_participant(study)
    assert {start(study, person)[0].bot_id} <= {"eliza", "parrot"}


def test_full_cells_are_refused_and_open_ones_still_given() -> None:
    study = make_study(factors=FACTORS, n_each_cell=1)
    assert bots_refusal(study, met=()) is None
    people = [make_participant(study) for _ in range(8)]
    for person in people:
        assert is_collecting(study)
        done(study, person)
    assert set(cells(study).values()) == {1}
    assert not is_collecting(study)
    refusal = bots_refusal(study, met=())
    assert refusal is not None
    assert refusal.code == "full"
    with pytest.raises(Refused) as refused:
        start(study)
    assert refused.value.code == "full"
    study = study_edit(study=study, n_each_cell=2)
    assert start(study, people[0])
    # A script does not fill them, and is let in.
    assert start(study_edit(study=study, n_each_cell=1), make_participant(study, is_synthetic=True))


def test_full_cells_of_the_own_level_are_told_apart() -> None:
    study = make_study(factors=[TOLD], n_each_cell=1)
    people = [make_participant(study) for _ in range(3)]
    levels = [done(study, person)[0].condition["told"] for person in people]
    # The third took the last cell of a level at which one of the others has to stay.
    earlier = people[levels.index(levels[2])]
    with pytest.raises(Refused) as refused:
        start(study, Participant.objects.get(pk=earlier.pk))
    assert refused.value.code == "bots_full"


def test_both_chats_of_a_pair_have_one_condition() -> None:
    study = make_study(factors=FACTORS, protocol="arena", n_comparisons=2, bots=["eliza", "parrot", "generic"])
    for _ in range(12):
        slots = start(study)
        assert len(slots) == 4
        for first, second in ((slots[0], slots[1]), (slots[2], slots[3])):
            assert first.condition == second.condition != {}
        assert {slot.condition["scenario"] for slot in slots} == {"trip", "refund"}
        assert len({slot.condition["told"] for slot in slots}) == 1
    # Four on average; the levels that stay with a person keep single draws from evening all of them out.
    assert set(cells(study).values()) <= {2, 3, 4, 5, 6}
    full = make_study("full", factors=FACTORS, protocol="arena", n_comparisons=1, n_each_cell=1)
    for _ in range(4):
        start(full)
    assert set(cells(full).values()) == {1}
    with pytest.raises(Refused):
        start(full)


def test_a_chosen_bot_gets_a_condition_too() -> None:
    study = make_study(factors=FACTORS, choice="neutral")
    for _ in range(4):
        task_open(participant=make_participant(study), chosen_bot="parrot")
    assert len(cells(study)) == 4
    assert {bot_id for bot_id, *_levels in cells(study)} == {"parrot"}


def test_a_conversation_has_the_condition_and_a_replacement_repeats_the_level() -> None:
    study = make_study(factors=FACTORS, bots=["eliza", "parrot", "generic", "retrieval"])
    chat = make_conversation(study, n_exchanges=1)
    assert chat.condition == chat.slot.condition != {}
    fail_reply(chat)
    after = conversation_swap(conversation=chat)
    assert after.condition["told"] == chat.condition["told"]


@pytest.mark.parametrize("factors", [[], [SCENARIO], FACTORS])
def test_a_condition_costs_no_query(factors: list[dict[str, Any]]) -> None:
    plain, study = make_study("plain"), make_study(factors=factors, n_each_cell=5 if factors else 0)
    n = []
    for each in (plain, study):
        person = Participant.objects.get(pk=make_participant(each).pk)
        assert person.study.version.values is not None
        with CaptureQueriesContext(connection) as queries:
            task_complete(task=task_open(participant=person))
        n.append(len(queries))
    assert n[0] == n[1]


def test_cells_are_counted_when_a_task_is_done_and_again_after_erasure() -> None:
    study = make_study(factors=FACTORS)
    chats = [make_conversation(study, n_exchanges=3, entry_nonce=str(number)) for number in range(10)]
    for chat in chats[:8]:
        make_rating(chat)
    conversation_withdraw(conversation=chats[8])

    def counted() -> Counter[tuple[str, str]]:
        rows = TaskCount.objects.filter(study=study, n_completed__gt=0).exclude(bot_id="")
        return Counter({(row.bot_id, row.cell): row.n_completed for row in rows})

    def expected() -> Counter[tuple[str, str]]:
        slots = Slot.objects.filter(task__participant__study=study, task__outcome="rated")
        return Counter((slot.bot_id, condition_key(slot.condition)) for slot in slots)

    assert counted() == expected()
    assert sum(counted().values()) == 8
    participants_erase(participants=Participant.objects.filter(pk__in=[chat.participant_id for chat in chats[:3]]))
    assert counted() == expected()
    assert sum(counted().values()) == 5
    loads = bot_loads(study, study.bots, synthetic=False)
    assert loads.cells.total() == sum(loads.values()) == 6, "with the one that is open"


def test_levels_differ_from_place_to_place_by_the_seed_alone() -> None:
    drawn = []
    for key in ("a", "b"):
        study = make_study(key, factors=FACTORS, seed=5)
        people = [make_participant(study, entry_nonce=str(n)) for n in range(8)]
        drawn.append([cell(start(study, person)[0]) for person in people])
    assert all(len(set(one)) == 8 for one in drawn)
    assert any(first != second for first, second in pairwise(drawn)), "others for other people"
    assert not Task.objects.exclude(slots__condition__has_key="told").exists()
