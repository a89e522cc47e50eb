"""Several bots for each person, one after another: balanced orders, one way through them, one end."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import exchange, fail_reply, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import chat_turn
from webapp.conversations.services import conversation_finish_failed, conversation_swap, conversation_withdraw
from webapp.conversations.task_start import task_start
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import bot_loads
from webapp.studies.assignment.counterbalance import study_count_anew, williams
from webapp.studies.models import SequenceCount, Study, Task
from webapp.studies.selectors import participant_token
from webapp.studies.services import task_complete, task_open

BOTS = ["eliza", "parrot", "generic", "retrieval"]


def make_in_turn(n: int = 3, **fields: object) -> Study:
    return make_study(**{"bots": BOTS[:3], "bots_in_a_row": n, **fields})


@pytest.mark.parametrize("k", range(2, 9))
def test_in_a_balanced_square_every_place_and_every_neighbour_comes_equally_often(k: int) -> None:
    bots = [f"b{number}" for number in range(k)]
    orders = williams(bots)
    assert len(orders) == (2 * k if k % 2 else k) or k == 2
    assert all(sorted(order) == sorted(bots) for order in orders)
    for place in range(k):
        assert len(set(Counter(order[place] for order in orders).values())) == 1
    neighbours = Counter(pair for order in orders for pair in pairwise(order))
    assert len(neighbours) == k * (k - 1)
    assert len(set(neighbours.values())) == 1


@pytest.mark.django_db
def test_orders_are_given_equally_often_and_counted_anew() -> None:
    study = make_in_turn()
    given = Counter()
    for _ in range(24):
        task = task_open(participant=make_participant(study))
        given[tuple(task.bot_ids)] += 1
        task_complete(task=task)
    assert set(given) == set(williams(sorted(BOTS[:3])))
    assert set(given.values()) == {4}
    counts = set(SequenceCount.objects.values_list("sequence", "n_completed"))
    assert {n for _key, n in counts} == {4}
    study_count_anew(study_id=study.pk)
    assert set(SequenceCount.objects.values_list("sequence", "n_completed")) == counts


@pytest.mark.django_db
def test_people_under_way_count_and_who_left_does_not() -> None:
    study = make_in_turn(2, bots=BOTS[:2])
    first, second = (task_open(participant=make_participant(study)) for _ in range(2))
    assert first.bot_ids == second.bot_ids[::-1]
    Task.objects.filter(pk=second.pk).update(state=Task.State.EXPIRED)
    third = task_open(participant=make_participant(study))
    assert third.bot_ids == second.bot_ids


@pytest.mark.django_db
def test_orders_may_be_random_and_some_bots_of_many() -> None:
    study = make_in_turn(2, bots=BOTS, bot_order="random")
    tasks = [task_open(participant=make_participant(study)) for _ in range(30)]
    assert len({tuple(task.bot_ids) for task in tasks}) > 6
    loads = bot_loads(study, BOTS, synthetic=False)
    assert set(loads.values()) == {15}
    assert not any(task.payload for task in tasks)


def go_through(study: Study, **fields: str) -> list[Conversation]:
    """Chat and rate until there is no more. Returns the chats."""
    chat = make_conversation(study, n_exchanges=3, **fields)
    seen = [chat]
    while True:
        outcome = make_rating(seen[-1])
        if outcome.task.state != Task.State.OPEN:
            return seen
        now = Conversation.objects.get(slot__task=outcome.task, state=Conversation.State.OPEN)
        for number in range(3):
            exchange(now, f"message {number}", f"reply {number}")
        now.refresh_from_db()
        seen.append(now)


@pytest.mark.django_db
def test_one_chat_after_another_and_one_code_at_the_end() -> None:
    study = make_in_turn()
    chat = make_conversation(study, n_exchanges=3)
    assert Conversation.objects.count() == 1, "the next is opened when this one is over"
    assert str(chat_turn(chat)) == "ChatTurn(number=1, n_chats=3)"
    chats = go_through(study, entry_nonce="n")
    assert [chat.bot.bot_id for chat in chats] == chats[0].task.bot_ids
    assert [chat_turn(chat).number for chat in chats] == [1, 2, 3]
    task = chats[0].task
    task.refresh_from_db()
    assert (task.outcome, bool(task.completion_code)) == ("rated", True)
    assert bot_loads(study, study.bots, synthetic=False) == dict.fromkeys(BOTS[:3], 2)
    with pytest.raises(Refused, match="every chatbot"):
        task_open(participant=chats[0].participant)


@pytest.mark.django_db
def test_the_pages_lead_from_chat_to_form_to_the_next_chat(client: Client) -> None:
    study = make_in_turn(2)
    chat = make_conversation(study, n_exchanges=3)
    token = participant_token(chat.participant)
    answers = dict.fromkeys(["quality", "fluency", "diversity", "contingency", "empathy"], "4")

    def page(address: str) -> str:
        return client.get(address, follow=True).content.decode()

    assert "Chat 1 of 2" in page(f"/chat/{chat.pk}/?t={token}")
    form = page(f"/chat/{chat.pk}/rate/?t={token}")
    assert "How was chat 1 of 2?" in form
    assert "Save and continue to the next chat" in form
    saved = client.post(f"/chat/{chat.pk}/rate/?t={token}", {**answers, "_t": token}, follow=True)
    second = Conversation.objects.get(state=Conversation.State.OPEN)
    assert saved.redirect_chain[-1][0].startswith(f"/chat/{second.pk}/?")
    assert "Chat 2 of 2" in saved.content.decode()
    # Start, sent again, leads on where they are.
    assert "Chat 2 of 2" in page(f"/chat/{chat.pk}/?t={token}")
    for number in range(3):
        exchange(second, f"message {number}", f"reply {number}")
    assert "Save and finish" in page(f"/chat/{second.pk}/rate/?t={token}")
    done = client.post(f"/chat/{second.pk}/rate/?t={token}", {**answers, "_t": token}, follow=True)
    code = Task.objects.get().completion_code
    assert code in done.content.decode()
    assert "Your chats and ratings arrived at" in done.content.decode()
    assert code in page(f"/chat/{chat.pk}/done/?t={token}")


@pytest.mark.django_db
def test_a_bot_that_fails_is_replaced_at_the_end_or_left_out() -> None:
    study = make_in_turn(2)
    chat = make_conversation(study)
    fail_reply(chat)
    second = conversation_swap(conversation=chat)
    task = second.task
    assert task == chat.task, "the task goes on"
    assert second.bot.bot_id == task.bot_ids[1]
    assert len(set(task.bot_ids)) == 3
    fail_reply(second)
    third = conversation_swap(conversation=second)
    assert third.bot.bot_id == task.slots.get(order=2).bot_id
    for number in range(3):
        exchange(third, f"message {number}", f"reply {number}")
    third.refresh_from_db()
    assert chat_turn(third) is None, "it is the only one left"
    outcome = make_rating(third)
    assert outcome.task.outcome == "rated"
    assert bot_loads(study, study.bots, synthetic=False)[third.bot.bot_id] == 1
    assert sum(bot_loads(study, study.bots, synthetic=False).values()) == 1


@pytest.mark.django_db
def test_who_ends_early_after_a_failure_keeps_what_was_rated() -> None:
    study = make_in_turn(2, bots=BOTS[:2])
    first = make_conversation(study, n_exchanges=3)
    make_rating(first)
    second = Conversation.objects.get(state=Conversation.State.OPEN)
    fail_reply(second)
    with pytest.raises(Refused):
        conversation_swap(conversation=second)
    second.refresh_from_db()
    assert second.state == Conversation.State.OPEN, "nothing has changed"
    task = conversation_finish_failed(conversation=second)
    assert (task.outcome, bool(task.completion_code)) == ("bot_failed", True)
    loads = bot_loads(study, study.bots, synthetic=False)
    assert loads == {first.bot.bot_id: 1, second.bot.bot_id: 0}
    assert not SequenceCount.objects.filter(n_completed__gt=0).exists()


@pytest.mark.django_db
def test_withdrawing_in_the_second_chat_withdraws_the_first_one_too() -> None:
    study = make_in_turn(2)
    first = make_conversation(study, n_exchanges=3)
    make_rating(first)
    second = Conversation.objects.get(state=Conversation.State.OPEN)
    conversation_withdraw(conversation=second)
    assert set(Conversation.objects.values_list("state", flat=True)) == {"withdrawn"}
    assert Task.objects.get().outcome == "withdrawn"


@pytest.mark.django_db
def test_a_bot_that_is_gone_by_then_ends_the_way_early_and_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_in_turn(2)
    first = make_conversation(study, n_exchanges=3)
    first.task.slots.filter(order=1).update(bot_id="taken-out-of-bots-yaml")
    outcome = make_rating(first)
    assert outcome.rating.answers["quality"] == 4
    assert outcome.task.outcome == "bot_failed"
    assert outcome.task.completion_code


@pytest.mark.django_db
def test_too_few_bots_for_the_row_are_told_to_the_researcher_and_to_people() -> None:
    with pytest.raises(ValidationError) as wrong:
        make_in_turn(4)
    assert (
        "The study has 3 chatbots, so participants cannot chat with 4" in wrong.value.message_dict["bots_in_a_row"][0]
    )
    study = make_in_turn(2, max_per_bot=1)
    task_start(participant=make_participant(study))
    with pytest.raises(Refused) as refused:
        task_open(participant=make_participant(study))
    assert refused.value.code == "full"


@pytest.mark.django_db
def test_quotas_and_balance_hold_over_whole_rows() -> None:
    study = make_in_turn(2, bots=BOTS, max_per_bot=5)
    rng, people = random.Random(1), []
    for _ in range(10):
        people.append(task_open(participant=make_participant(study)))
        if rng.random() < 0.5:
            task_complete(task=people[-1])
    with pytest.raises(Refused) as refused:
        task_open(participant=make_participant(study))
    assert refused.value.code == "full"
    assert bot_loads(study, BOTS, synthetic=False) == dict.fromkeys(BOTS, 5)
