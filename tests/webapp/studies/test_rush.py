"""120 participants, sixty of them at once: no quota is exceeded, no bot given twice, no bot left behind."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tests.builders import FACTORS, make_participant, make_participants, make_study
from webapp.core.errors import Refused
from webapp.studies.assignment.rules.base import rules
from webapp.studies.models import Participant, Slot, Study, Task
from webapp.studies.services import task_complete, task_open

pytestmark = [
    pytest.mark.postgres,  # the test database of SQLite is in memory, where writers do not wait
    pytest.mark.django_db(transaction=True),
]
N_PEOPLE = 120
AT_ONCE = 60  # PostgreSQL has a hundred connections for everybody
BOTS = ["eliza", "parrot", "generic", "retrieval"]


def at_once(act: Callable[[Participant], object], people: Sequence[Participant]) -> Counter[str]:
    """Let everybody act at the same moment. Returns how often what came of it: "given", or a refusal's code."""
    ready = threading.Barrier(AT_ONCE)
    waited = threading.local()

    def one(person: Participant) -> str:
        if not getattr(waited, "once", False):
            waited.once = True
            ready.wait(timeout=30)
        try:
            act(person)
        except Refused as refused:
            return refused.code
        finally:
            connection.close()
        return "given"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(one, people))


def given(study: Study) -> Counter[str]:
    slots = Slot.objects.filter(task__participant__study=study)
    return Counter(slots.values_list("bot_id", flat=True))


def start(person: Participant) -> None:
    task_open(participant=Participant.objects.get(pk=person.pk))


def test_balanced_bots_end_within_one_of_each_other() -> None:
    study = make_study(bots=BOTS[:3])
    assert at_once(start, make_participants(study, N_PEOPLE)) == {"given": N_PEOPLE}
    counts = given(study)
    assert sum(counts.values()) == N_PEOPLE
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("rule", rules.names())
def test_no_quota_is_overfilled_whatever_the_rule(rule: str) -> None:
    study = make_study(bots=BOTS, rule=rule, max_per_bot=30, bot_quotas={"eliza": 7, "parrot": 0})
    came = at_once(start, make_participants(study, N_PEOPLE))
    assert given(study) == {"eliza": 7, "generic": 30, "retrieval": 30}
    assert came == {"given": 67, "full": N_PEOPLE - 67}


@pytest.mark.parametrize("rule", ["balanced", "uniform"])
def test_no_cell_is_overfilled(rule: str) -> None:
    study = make_study(bots=BOTS, rule=rule, factors=FACTORS, n_each_cell=6)
    assert at_once(start, make_participants(study, N_PEOPLE)) == {"given": 96, "full": N_PEOPLE - 96}
    slots = Slot.objects.filter(task__participant__study=study)
    cells = Counter((slot.bot_id, *slot.condition.values()) for slot in slots)
    assert len(cells) == 16
    assert set(cells.values()) == {6}


def test_bots_without_a_quota_share_what_the_others_leave() -> None:
    study = make_study(bots=BOTS, bot_quotas={"eliza": 10})
    assert at_once(start, make_participants(study, N_PEOPLE)) == {"given": N_PEOPLE}
    counts = given(study)
    assert counts.pop("eliza") == 10
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_study_takes_in_exactly_whom_it_wants() -> None:
    study = make_study(bots=BOTS, n_conversations_wanted=50)
    assert at_once(start, make_participants(study, N_PEOPLE)) == {"given": 50, "full": N_PEOPLE - 50}


def test_nobody_gets_a_bot_twice_who_starts_in_several_studies_of_a_group_at_once() -> None:
    studies = [make_study(f"s{n}", bots=BOTS[:3], study_group="spring") for n in range(4)]
    people = [
        make_participant(study, platform="prolific", external_id=f"p{n}")
        for n in range(N_PEOPLE // 4)
        for study in studies
    ]
    random.Random(1).shuffle(people)
    came = at_once(start, people)
    # Three bots for four studies: each person is left without one in the last of theirs.
    assert came == {"given": 90, "all_rated": 30}
    met = Slot.objects.values_list("task__participant__platform_ids__external_id", "bot_id", named=False)
    assert len(set(met)) == 90, "nobody has a bot twice"


def test_people_who_come_again_and_again_meet_every_bot_once() -> None:
    study = make_study(bots=BOTS, rule="uniform")
    people = make_participants(study, 30)  # twice as many act at once

    def take_part(person: Participant) -> None:
        task_complete(task=task_open(participant=Participant.objects.get(pk=person.pk)))

    visits = [person for person in people for _ in BOTS]  # several of one person at the same time
    at_once(take_part, visits)
    for _ in BOTS:
        at_once(take_part, people * 2)
    met = Slot.objects.values_list("task__participant", "bot_id")
    assert len(met) == len(set(met)) == len(people) * len(BOTS)
    assert not Task.objects.filter(state=Task.State.OPEN).exists()
