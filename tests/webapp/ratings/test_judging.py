"""A protocol of another kind: two stored conversations side by side, and an item, judged and paid for."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from chatbots import Identity
from tests.builders import exchange, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_withdraw
from webapp.conversations.task_start import task_chats
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.selectors import ratings_by, study_ratings
from webapp.ratings.services import rating_add
from webapp.studies.items import item_add
from webapp.studies.models import Participant, Slot, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.protocols.base import Draw, JudgePage, SlotPlan, Step, StudyProtocol, TaskPlan, protocols
from webapp.studies.services import task_open
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
ANSWERS: dict[str, float] = dict.fromkeys(("quality", "fluency", "diversity", "contingency", "empathy"), 5)


class Pairs(StudyProtocol):
    """Judges two stored conversations against each other, then the replies of an item."""

    name = "pairs"
    title = "Pairs"
    description = "Each person judges two conversations side by side, and an item."
    gives = "conversations"
    settings = ("judging",)
    identity = Identity("pairs", "1")
    steps = (Step("consent", "About"), Step("judge", "Judge"), Step("done", "Done"))
    page = JudgePage("Which is better?", "%(n)s of %(of)s", is_wide=True)

    def next_task(self, draw: Draw) -> TaskPlan:
        left, right = draw.conversations(2)
        [item] = draw.items()
        slots = (SlotPlan(conversation=left, side="A"), SlotPlan(conversation=right, side="B"), SlotPlan(item=item))
        return TaskPlan("judge", slots, {"asks": "which is better"})


class Duel(Pairs):
    """Chats with two bots side by side."""

    name = "duel"
    identity = Identity("duel", "1")

    def next_task(self, draw: Draw) -> TaskPlan:
        left, right = draw.bots(2)
        return TaskPlan("chat", (SlotPlan(bot=left, side="A"), SlotPlan(bot=right, side="B")))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    made = [protocols.add(Pairs()), protocols.add(Duel())]
    yield
    for protocol in made:
        protocols.discard(protocol.name)


@pytest.fixture
def study() -> Study:
    """Make a study of three rated chats and two items; from now on pairs are judged."""
    study = make_study()
    for number in range(3):
        make_rating(make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}"))
    for number in range(2):
        reply = {"model": "m", "text": f"reply {number}"}
        item_add(study=study, key=f"i{number}", context=["hi"], responses=[reply])
    Study.objects.filter(pk=study.pk).update(protocol="pairs")
    study.refresh_from_db()
    return study


def slots_of(task: Task) -> list[Slot]:
    return list(task.slots.order_by("order"))


def test_a_pair_and_an_item_are_judged_and_earn_a_code(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    assert (task.kind, task.payload) == ("judge", {"asks": "which is better"})
    assert task.drawn_by["protocol"]["name"] == "pairs"
    left, right, alone = slots_of(task)
    assert [left.side, right.side, alone.side] == ["A", "B", ""]
    assert left.conversation_id != right.conversation_id
    assert task_open(participant=task.participant) == task, "what was drawn stays"

    pair = rating_add(task=task, target=(left, right), answers=ANSWERS, comment=" A, by far ")
    assert pair.created
    assert (pair.rating.first, pair.rating.second, pair.rating.comment) == (left, right, "A, by far")
    assert pair.task.state == Task.State.OPEN
    assert not rating_add(task=task, target=(left, right), answers=ANSWERS).created

    done = rating_add(task=task, target=alone.item, answers=ANSWERS)
    assert (done.task.state, done.task.outcome) == ("completed", "rated")
    assert len(done.task.completion_code) == 7
    again = rating_add(task=task, target=alone.item, answers=ANSWERS)
    assert (again.created, again.task.completion_code) == (False, done.task.completion_code)
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=(right, left), answers=ANSWERS)
    assert refused.value.code == "closed"


def test_only_what_is_in_the_task_is_rated_and_by_the_rubric(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    other = task_open(participant=make_participant(study))
    [_left, right, alone] = slots_of(task)
    conversation_ids = [slot.conversation_id for slot in slots_of(task)]
    [unseen] = Conversation.objects.exclude(pk__in=[pk for pk in conversation_ids if pk])
    [elsewhere] = study.items.exclude(pk=alone.item_id)
    strange: list[Any] = [unseen, unseen.turns.all()[0], elsewhere, (right, slots_of(other)[0])]
    for target in [*strange, (right, right)]:
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=target, answers=ANSWERS)
        assert refused.value.code == "not_found"
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=alone.item, answers={"quality": 9})
    assert set(refused.value.details["errors"]) == set(ANSWERS)
    assert not Rating.objects.filter(task=task).exists()


def test_a_stored_conversation_and_its_turns_can_be_rated_by_themselves(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    left, right, alone = slots_of(task)
    turn = Turn.objects.filter(conversation=left.conversation_id, speaker="bot")[0]
    rating_add(task=task, target=turn, answers=ANSWERS)
    rating_add(task=task, target=right.conversation, answers=ANSWERS)
    done = rating_add(task=task, target=alone.item, answers=ANSWERS)
    assert done.task.completion_code


def test_what_people_judge_is_spread_by_the_rule_and_then_used_up(study: Study) -> None:
    people = [make_participant(study) for _ in range(3)]
    counts = Counter(
        slot.conversation_id or slot.item_id for person in people for slot in slots_of(task_open(participant=person))
    )
    assert sorted(counts.values()) == [1, 2, 2, 2, 2]
    task = task_open(participant=people[0])
    left, right, alone = slots_of(task)
    rating_add(task=task, target=(left, right), answers=ANSWERS)
    rating_add(task=task, target=alone.item, answers=ANSWERS)
    with pytest.raises(Refused) as refused:
        task_open(participant=people[0])
    assert refused.value.code == "all_rated"


def test_two_chats_of_one_task_are_both_rated_before_there_is_a_code() -> None:
    study = make_study(protocol="duel", bots=["eliza", "parrot", "generic"])
    task = task_open(participant=make_participant(study))
    left, right = task_chats(task=task)
    assert [chat.bot.bot_id for chat in (left, right)] == task.bot_ids
    assert len(set(task.bot_ids)) == 2
    assert task_chats(task=task) == [left, right], "made once"
    for chat in (left, right):
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=chat, answers=ANSWERS)
        assert refused.value.code == "too_early"
        for number in range(3):
            exchange(chat, f"message {number}", f"reply {number}")
    assert make_rating(left).task.completion_code is None
    done = rating_add(task=task, target=right, answers=ANSWERS).task
    assert (done.outcome, done.bot_ids) == ("rated", task.bot_ids)
    assert Rating.objects.filter(task=task).count() == 2


def test_tables_of_rated_chats_do_not_count_pairs_and_items(study: Study) -> None:
    before = len(study_ratings(study))
    task = task_open(participant=make_participant(study))
    left, right, alone = slots_of(task)
    rating_add(task=task, target=(left, right), answers=ANSWERS)
    rating_add(task=task, target=alone.item, answers=ANSWERS)
    assert len(study_ratings(study)) == before == 3


def test_who_is_erased_takes_what_was_said_of_their_chats_along(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    left, right, alone = slots_of(task)
    rating_add(task=task, target=(left, right), answers=ANSWERS)
    rating_add(task=task, target=alone.item, answers=ANSWERS)
    author = Participant.objects.filter(conversations=left.conversation_id)
    assert ratings_by(author).count() == 2  # their own, and that of the pair
    assert participants_erase(participants=author)["ratings"] == 2
    judge = Participant.objects.filter(pk=task.participant_id)
    assert participants_erase(participants=judge)["ratings"] == 1


def test_the_database_takes_one_target_a_rating_and_one_rating_a_target(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    left, right, alone = slots_of(task)
    turn = Turn.objects.filter(speaker="bot")[0]
    values = {"task": task, "participant": task.participant, "rubric": study.rubric, "submitted_at": timezone.now()}

    def refused(**fields: Any) -> bool:
        try:
            with transaction.atomic():
                Rating.objects.create(**{**values, **fields})
        except IntegrityError:
            return True
        return False

    assert refused()
    assert refused(turn=turn, item=alone.item)
    assert refused(first=left)
    assert refused(first=left, second=left)
    assert refused(item=alone.item, participant=None)
    for target in ({"turn": turn}, {"item": alone.item}, {"first": left, "second": right}):
        assert not refused(**target)
        assert refused(**target)


def test_pairs_and_turns_are_exported_with_what_they_are_about(study: Study) -> None:
    task = task_open(participant=make_participant(study))
    left, right, alone = slots_of(task)
    turn = Turn.objects.filter(conversation=left.conversation_id, speaker="bot")[0]
    rating_add(task=task, target=turn, answers=ANSWERS)
    rating_add(task=task, target=(left, right), answers=ANSWERS)
    rating_add(task=task, target=alone.item, answers=ANSWERS)
    exporter, options = exporter_get("ratings"), ExportOptions(include_private=True)
    names = [column.name for column in exporter.columns(study, options)]
    rows = [dict(zip(names, row, strict=True)) for row in exporter.rows(study, options)]
    of = {row["target"]: row for row in rows}
    assert [row["target"] for row in rows] == ["conversation"] * 3 + ["turn", "pair", "item"]
    assert (of["turn"]["conversation"], of["turn"]["turn"]) == (str(left.conversation_id), turn.index)
    assert (of["pair"]["first"], of["pair"]["second"]) == (str(left.conversation_id), str(right.conversation_id))
    assert of["pair"]["first_bot"] == left.conversation.bot.bot_id
    assert (of["pair"]["conversation"], of["pair"]["bot"]) == (None, None)
    assert (of["item"]["item"], of["item"]["bot"]) == (alone.item.key, "m")
    task.refresh_from_db()
    assert {of[what]["completion_code"] for what in ("turn", "pair", "item")} == {task.completion_code}


def test_who_withdraws_in_one_of_two_chats_withdraws_the_task() -> None:
    study = make_study(protocol="duel", bots=["eliza", "parrot", "generic"])
    task = task_open(participant=make_participant(study))
    left, right = task_chats(task=task)
    for number in range(3):
        exchange(left, f"message {number}", f"reply {number}")
    make_rating(left)
    left.refresh_from_db()
    exchange(right, "a word", "a reply")
    with pytest.raises(Refused, match="cannot be withdrawn"):
        conversation_withdraw(conversation=left)
    conversation_withdraw(conversation=right)
    task.refresh_from_db()
    assert (task.state, task.outcome, task.completion_code) == ("withdrawn", "withdrawn", None)
    for chat in (left, right):
        chat.refresh_from_db()
        assert (chat.state, chat.turns.count()) == ("withdrawn", 0)
    assert not Rating.objects.filter(task=task).exists()
    assert len(study_ratings(study)) == 0
