"""Studies and tasks: what is made once, and what the database itself refuses."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from chatbots.bots.endpoint import EndpointBot
from chatbots.registry import bots
from tests.builders import make_conversation, make_participant, make_participants, make_study
from tests.fakes import FakeStepBot
from webapp.conversations.bot_host import bots_of_running_studies
from webapp.studies import lifecycle as studies_demo
from webapp.studies.items import item_add
from webapp.studies.lifecycle import demo_paper_study_ensure, demo_study_ensure
from webapp.studies.models import Item, Participant, Slot, Study, Task
from webapp.studies.selectors import (
    participant_from_token,
    participant_token,
    rehearsal_token,
    rehearsal_token_valid,
    study_by_key,
)
from webapp.studies.services import consent_record, participant_enter, task_complete, task_open, task_withdraw

pytestmark = pytest.mark.django_db


BOTS = ["eliza", "parrot", "generic"]


def test_balanced_gives_each_bot_the_same_number() -> None:
    study = make_study(bots=BOTS)
    counts = Counter(task_open(participant=participant).bot_ids[0] for participant in make_participants(study, 30))
    assert counts == dict.fromkeys(BOTS, 10)


def test_scripted_participants_balance_among_themselves() -> None:
    study = make_study(bots=BOTS)
    for _ in range(5):
        task_open(participant=make_participant(study))

    def give(*, is_synthetic: bool) -> str:
        participant = make_participant(study, is_synthetic=is_synthetic)
        return task_open(participant=participant).bot_ids[0]

    assert Counter(give(is_synthetic=True) for _ in range(12)) == dict.fromkeys(BOTS, 4)
    # People are not moved by them: five and four more are three each.
    counts = Counter(Slot.objects.filter(task__participant__is_synthetic=False).values_list("bot_id", flat=True))
    counts.update(give(is_synthetic=False) for _ in range(4))
    assert counts == dict.fromkeys(BOTS, 3)


def test_people_who_left_do_not_hold_places_for_ever() -> None:
    study = make_study(bots=["eliza", "parrot"])
    for _ in range(4):
        task_open(participant=make_participant(study))
    Task.objects.filter(slots__bot_id="eliza").update(created_at=timezone.now() - timedelta(hours=3))
    counts = Counter(task_open(participant=participant).bot_ids[0] for participant in make_participants(study, 2))
    assert counts == {"eliza": 2}


def test_one_open_task_each() -> None:
    participant = make_participant(make_study())
    assert task_open(participant=participant) == task_open(participant=participant)


def test_completion_is_idempotent_and_unique() -> None:
    study = make_study(bots=BOTS)
    tasks = [task_open(participant=participant) for participant in make_participants(study, 20)]
    codes = [task_complete(task=a).completion_code for a in tasks]
    again = [task_complete(task=a).completion_code for a in tasks]
    assert codes == again
    assert len(set(codes)) == 20


def test_recruited_people_are_known_again() -> None:
    study = make_study()
    enter = {"study": study, "platform": "prolific", "external_id": "p1"}
    first = participant_enter(**enter, recruitment={"SESSION_ID": "a"})
    second = participant_enter(**enter, recruitment={"SESSION_ID": "b"})
    assert first == second
    assert second.recruitment == {"SESSION_ID": "b"}
    assert Participant.objects.count() == 1


def test_first_consent_stays() -> None:
    participant = make_participant(make_study())
    agreed_at = participant.consented_at
    assert agreed_at
    assert participant.consent_version
    assert consent_record(participant=participant).consented_at == agreed_at


def test_tokens_are_signed() -> None:
    study = make_study()
    participant = make_participant(study)
    token = participant_token(participant)
    assert participant_from_token(token) == participant
    assert participant_from_token(token[:-1] + "!") is None
    assert rehearsal_token_valid(study, rehearsal_token(study))
    assert not rehearsal_token_valid(study, token)


def test_the_demo_study_has_the_pretrained_talker_where_it_is_at_hand_when_the_study_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere = ["eliza", "retrieval", "parrot", "generic"]
    monkeypatch.setattr(studies_demo, "bot_available_ids", lambda ids: [])
    first = demo_study_ensure()
    assert first.bots == everywhere
    monkeypatch.setattr(studies_demo, "bot_available_ids", lambda ids: list(ids))
    assert demo_study_ensure().bots == everywhere
    first.delete()
    assert demo_study_ensure().bots == [*everywhere, "smollm2"]


def test_the_papers_demo_study_waits_for_its_bots_and_then_collects() -> None:
    study = demo_paper_study_ensure()
    assert study.bots == [
        "hred-demo", "hred-ei-demo", "vhred-demo", "vhred-ei-demo", "vhcr-demo", "vhcr-ei-demo",
    ]  # fmt: skip
    there = [name for name in study.bots if name in bots]
    taken = [bots.get(name) for name in there]
    for name in there:
        bots.discard(name)
    try:
        Study.objects.update(state="draft")
        assert demo_paper_study_ensure().state == "draft"
        bots.add(FakeStepBot(name="vhred-demo"))
        assert demo_paper_study_ensure().state == "collecting"
        assert task_open(participant=make_participant(study_by_key("demo-paper"))).bot_ids == ["vhred-demo"]
        assert bots_of_running_studies(None) == []  # it does not hold up the start
        make_conversation(study_by_key("demo-paper"))
        assert bots_of_running_studies(None) == ["vhred-demo"]  # before the first message
        Study.objects.update(state="paused")
        assert demo_paper_study_ensure().state == "paused"
        assert Study.objects.count() == 1
    finally:
        bots.discard("vhred-demo")
        for bot in taken:
            bots.add(bot)


def test_a_cap_wants_prices_and_says_which() -> None:
    bots.add(EndpointBot(name="free", model="m"))
    try:
        with pytest.raises(ValidationError, match=r"The price of free is unknown.*Add price_in"):
            make_study(bots=["eliza", "free"], max_cost=5)
        make_study(bots=["eliza", "free"])
    finally:
        bots.discard("free")


@pytest.fixture
def task() -> Task:
    """Open a task whose one slot is a chat."""
    return task_open(participant=make_participant(make_study()))


def refused(make: Any) -> bool:
    """Tell whether the database refuses it, and nothing else does."""
    try:
        with transaction.atomic():
            make()
    except IntegrityError:
        return True
    return False


def test_a_slot_has_exactly_one_target_and_its_own_place(task: Task) -> None:
    study = task.participant.study
    item = item_add(study=study, key="i", context=["hi"], responses=[{"model": "m", "text": "yo"}])
    chat = make_conversation(study)

    def slot(**fields: Any) -> Any:
        return lambda: Slot.objects.create(task=task, **{"order": 5, **fields})

    assert refused(slot())
    assert refused(slot(bot_id="eliza", item=item))
    assert refused(slot(conversation=chat, item=item))
    assert refused(slot(order=0, item=item)), "the place is taken"
    assert not refused(slot(order=1, item=item, side="A"))
    assert not refused(slot(order=2, conversation=chat, side="B"))
    assert not refused(slot(order=3, item=item, side="A")), "sides come again in the next pair"


def test_an_item_has_a_name_of_its_own_and_something_to_judge(task: Task) -> None:
    study, reply = task.participant.study, {"model": "m", "text": "yo"}
    item_add(study=study, key="i", context=[], responses=[reply], reference="good day")
    for key, responses in (("i", [reply]), ("j", []), ("j", [{"model": "m", "text": ""}])):
        with pytest.raises(ValidationError):
            item_add(study=study, key=key, context=[], responses=responses)
    assert refused(lambda: Item.objects.create(study=study, key="i", responses=[reply]))


def test_a_task_is_open_without_or_completed_with_code_and_outcome(task: Task) -> None:
    mine = Task.objects.filter(pk=task.pk)
    assert refused(lambda: mine.update(state="completed"))
    assert refused(lambda: mine.update(state="completed", completion_code="X"))
    assert refused(lambda: mine.update(state="completed", outcome="rated"))
    assert refused(lambda: mine.update(outcome="withdrawn"))
    assert refused(lambda: mine.update(completion_code="X"))
    assert refused(lambda: Task.objects.create(participant=task.participant, kind="chat", version=task.version))


def test_what_has_ended_in_something_stays_so(task: Task) -> None:
    done = task_complete(task=task)
    assert task_withdraw(task=done).outcome == "rated"
    assert task_complete(task=done, outcome="bot_failed").outcome == "rated"
