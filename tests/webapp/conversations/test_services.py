"""Turns, leases and ways out of a chat; and vectors of texts, which go with the last turn that says them."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from chatbots.bots.base import REPLY_MAX_CHARS
from chatbots.endpoints.metering import ReplyCost
from chatbots.text import sanitise
from tests.builders import exchange, make_conversation, make_rating, make_study
from webapp.bots.selectors import text_store
from webapp.conversations import erasure, selectors, services
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_withdraw
from webapp.core.errors import Refused
from webapp.core.models import CleanUp
from webapp.studies.models import Participant, Study, Task

pytestmark = pytest.mark.django_db


def say(conversation: Conversation, text: str = "hello", client_id: uuid.UUID | None = None):
    return services.turn_add_human(conversation_id=conversation.pk, client_id=client_id or uuid.uuid4(), text=text)


def test_same_client_id_gives_the_stored_turn() -> None:
    conversation = make_conversation(make_study())
    client_id = uuid.uuid4()
    first = say(conversation, "hello", client_id)
    second = say(conversation, "something else", client_id)
    assert second.turn.pk == first.turn.pk
    assert not second.created
    assert Turn.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "code"), [("", "empty"), (" \n\t ", "empty"), ("\x00", "empty"), ("x" * 501, "too_long")]
)
def test_refused_messages_store_nothing(text: str, code: str) -> None:
    conversation = make_conversation(make_study())
    with pytest.raises(Refused) as refused:
        say(conversation, text)
    assert refused.value.code == code
    assert not Turn.objects.exists()
    conversation.refresh_from_db()
    assert conversation.due_turn is None


def test_second_message_waits_for_the_reply() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    with pytest.raises(Refused) as refused:
        say(conversation, "again")
    assert refused.value.code == "waiting_for_reply"


def test_only_one_host_gets_the_lease_until_it_runs_out() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    first, second = uuid.uuid4(), uuid.uuid4()
    claim = {"conversation_id": conversation.pk, "lease_s": 30}
    assert services.reply_claim(lease=first, **claim)
    assert not services.reply_claim(lease=second, **claim)
    Conversation.objects.update(due_lease_until=timezone.now() - timedelta(seconds=1))
    assert services.reply_claim(lease=second, **claim)
    # The first host comes late: its reply is not stored, the second's is, once.
    add = services.turn_add_bot
    assert add(conversation_id=conversation.pk, lease=first, text="late") is None
    assert add(conversation_id=conversation.pk, lease=second, text="in time") is not None
    assert add(conversation_id=conversation.pk, lease=second, text="twice") is None
    assert list(Turn.objects.values_list("text", flat=True)) == ["hello", "in time"]


def test_sweep_finds_what_lies_waiting_but_not_what_was_just_asked_for() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    assert selectors.replies_waiting(pool=None) == []
    Conversation.objects.update(due_since=timezone.now() - timedelta(seconds=5))
    assert selectors.replies_waiting(pool=None) == [conversation.pk]
    assert selectors.replies_waiting(pool="default") == [conversation.pk]
    assert selectors.replies_waiting(pool="other") == []
    services.reply_claim(conversation_id=conversation.pk, lease=uuid.uuid4(), lease_s=30)
    assert selectors.replies_waiting(pool=None) == []


def test_a_reply_that_a_host_is_at_is_not_overdue() -> None:
    """Loading a bot may take longer than a reply."""
    conversation = make_conversation(make_study())
    say(conversation)
    Conversation.objects.update(due_since=timezone.now() - timedelta(minutes=4))
    services.reply_claim(conversation_id=conversation.pk, lease=uuid.uuid4(), lease_s=30)
    conversation.refresh_from_db()
    assert selectors.failure_of(conversation) is None
    Conversation.objects.update(due_lease_until=timezone.now() - timedelta(seconds=1))
    conversation.refresh_from_db()
    assert selectors.failure_of(conversation).can == ["swap", "finish"]


def failed(conversation: Conversation) -> None:
    say(conversation)
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    assert services.reply_fail(conversation_id=conversation.pk, lease=lease, error="out of memory")
    conversation.refresh_from_db()


def test_failed_reply_waits_for_a_decision_and_can_be_asked_for_again() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    assert conversation.due_error == "out of memory"
    assert selectors.replies_waiting(pool=None) == []
    assert services.reply_retry(conversation_id=conversation.pk) == conversation.bot.bot_id
    assert services.reply_retry(conversation_id=conversation.pk) is None
    assert services.reply_claim(conversation_id=conversation.pk, lease=uuid.uuid4(), lease_s=30)


def test_swap_keeps_the_failed_chat_and_gives_another_bot() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    other = services.conversation_swap(conversation=conversation)
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.FAILED
    assert conversation.turns.count() == 1
    assert other.bot.bot_id != conversation.bot.bot_id
    assert other.participant_id == conversation.participant_id


def test_finish_after_a_failure_gives_credit_once() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    first = services.conversation_finish_failed(conversation=conversation)
    conversation.refresh_from_db()
    second = services.conversation_finish_failed(conversation=conversation)
    assert first.completion_code
    assert first.completion_code == second.completion_code
    assert first.state == Task.State.COMPLETED


def test_votes_on_replies_only_and_within_range() -> None:
    conversation = make_conversation(make_study(), n_exchanges=1)
    vote = {"conversation_id": conversation.pk}
    for value in (1, 0):
        services.vote_set(turn_index=1, value=value, **vote)
        assert selectors.vote_of(conversation.pk, 1) == value
    for index in (0, 7):
        with pytest.raises(Refused):
            services.vote_set(turn_index=index, value=1, **vote)
    with pytest.raises(IntegrityError):
        services.vote_set(turn_index=1, value=2, **vote)


def test_a_swapped_chat_waits_for_nothing() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    services.conversation_swap(conversation=conversation)
    history = selectors.history(conversation.pk)
    assert (history.pending, history.failure) == (None, None)


def claimed(conversation: Conversation) -> uuid.UUID:
    lease = uuid.uuid4()
    assert services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    return lease


def long_ago() -> None:
    """Let every reply have been due for an hour."""
    Conversation.objects.update(due_since=timezone.now() - timedelta(hours=1))


def leases_end() -> None:
    """Let every lease have run out, as when its host was killed."""
    Conversation.objects.update(due_lease_until=timezone.now() - timedelta(seconds=1))


def test_rating_waits_for_a_reply_that_is_under_way() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    say(conversation)
    lease = claimed(conversation)
    assert not selectors.history(conversation.pk).can_rate
    with pytest.raises(Refused) as refused:
        make_rating(conversation)
    assert refused.value.code == "waiting_for_reply"
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.OPEN
    added = services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="in time")
    assert added.can_rate
    make_rating(conversation)


def test_a_rated_conversation_does_not_change_any_more() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    say(conversation)
    lease = claimed(conversation)
    long_ago()  # the participant need not wait for it any longer
    assert selectors.history(conversation.pk).can_rate
    make_rating(conversation)
    assert services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="late") is None
    assert services.reply_fail(conversation_id=conversation.pk, lease=lease, error="late") is None
    assert services.reply_retry(conversation_id=conversation.pk) is None
    with pytest.raises(Refused) as refused:
        services.vote_set(conversation_id=conversation.pk, turn_index=1, value=1)
    assert refused.value.code == "closed"
    conversation.refresh_from_db()
    assert conversation.turns.count() == 7
    assert conversation.n_exchanges == 3
    assert (conversation.due_turn, conversation.due_lease, conversation.due_error) == (None, None, "")
    assert selectors.replies_waiting(pool=None) == []


def test_an_open_lease_alone_adds_nothing_to_a_closed_chat() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    say(conversation)
    lease = claimed(conversation)
    Conversation.objects.update(state=Conversation.State.COMPLETED)
    assert services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="late") is None
    assert conversation.turns.count() == 7


def test_a_failed_reply_does_not_keep_from_rating() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    failed(conversation)
    history = selectors.history(conversation.pk)
    assert history.can_rate
    assert history.failure.can_rate
    make_rating(conversation)
    conversation.refresh_from_db()
    assert (conversation.state, conversation.due_turn) == ("completed", None)


def test_too_few_exchanges_are_not_rated_after_a_failure_either() -> None:
    conversation = make_conversation(make_study(), n_exchanges=2)
    failed(conversation)
    history = selectors.history(conversation.pk)
    assert not history.can_rate
    assert not history.failure.can_rate


@pytest.mark.parametrize("error", ["no \x00 reply", "half \ud83d of a pair", "x" * 10_000_000, ""])
def test_a_failure_is_stored_whatever_its_text(error: str) -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    failure = services.reply_fail(conversation_id=conversation.pk, lease=claimed(conversation), error=error)
    conversation.refresh_from_db()
    assert conversation.due_error == failure.error
    assert failure.error == sanitise(error, 500) or (error == "" and failure.error)
    services.conversation_swap(conversation=conversation)


def test_attempts_are_counted_and_limited_whatever_ends_them() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    for _ in range(Conversation.MAX_ATTEMPTS):
        claimed(conversation)
        assert services.reply_give_up(conversation_id=conversation.pk) is None  # its lease holds
        leases_end()
    claim = {"conversation_id": conversation.pk, "lease_s": 30}
    assert not services.reply_claim(lease=uuid.uuid4(), **claim)
    # The sweep brings it to whoever claims in vain, and they give it up.
    assert selectors.replies_waiting(pool=None) == [conversation.pk]
    failure = services.reply_give_up(conversation_id=conversation.pk)
    assert "3 attempts" in failure.error
    assert failure.can == ["retry", "swap", "finish"]
    assert services.reply_give_up(conversation_id=conversation.pk) is None
    assert selectors.replies_waiting(pool=None) == []


def test_retries_start_a_new_count_and_are_limited_too() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    n_calls = 1
    while services.reply_retry(conversation_id=conversation.pk) is not None:
        services.reply_fail(conversation_id=conversation.pk, lease=claimed(conversation), error="again")
        n_calls += 1
    assert n_calls == 1 + Conversation.MAX_RETRIES
    history = selectors.history(conversation.pk)
    assert history.failure.can == ["swap", "finish"]
    assert services.conversation_finish_failed(conversation=conversation).completion_code


def test_an_answered_message_leaves_a_full_count_to_the_next() -> None:
    conversation = make_conversation(make_study())
    failed(conversation)
    services.reply_retry(conversation_id=conversation.pk)
    services.turn_add_bot(conversation_id=conversation.pk, lease=claimed(conversation), text="at last")
    say(conversation)
    conversation.refresh_from_db()
    assert (conversation.due_attempts, conversation.due_retries) == (0, 0)


@pytest.mark.parametrize("way_on", [services.conversation_swap, services.conversation_finish_failed])
def test_a_long_overdue_reply_lets_people_go_on(way_on) -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    lease = claimed(conversation)
    with pytest.raises(Refused, match="still running"):
        way_on(conversation=conversation)
    long_ago()
    history = selectors.history(conversation.pk)
    assert (history.failure.error, history.failure.can) == ("", ["swap", "finish"])
    with pytest.raises(Refused) as refused:
        say(conversation, "anybody there?")
    assert refused.value.code == "bot_failed"
    way_on(conversation=conversation)
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.FAILED
    assert services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="late") is None
    assert conversation.turns.count() == 1


def test_people_may_send_what_no_database_takes() -> None:
    conversation = make_conversation(make_study())
    assert say(conversation, " half \ud83d\x00 of it ").turn.text == "half \ufffd of it"


def test_a_reply_of_any_size_is_stored_up_to_the_limit() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    reply = "half \ud83d\x00 " + "x" * 10_000_000
    services.turn_add_bot(conversation_id=conversation.pk, lease=claimed(conversation), text=reply)
    text = Turn.objects.get(index=1).text
    assert text == sanitise(reply, REPLY_MAX_CHARS)
    assert len(text) == REPLY_MAX_CHARS


def test_an_endpoints_odd_count_of_tokens_does_not_cost_the_reply() -> None:
    conversation = make_conversation(make_study())
    say(conversation)
    added = services.turn_add_bot(
        conversation_id=conversation.pk, lease=claimed(conversation), text="Here.", cost=ReplyCost(10**12, -1, None)
    )
    added.turn.refresh_from_db()
    assert (added.turn.tokens_in, added.turn.tokens_out) == (2**31 - 1, 0)


ENCODER = "an encoder"


def participant_gone(conversation: Conversation) -> None:
    Participant.objects.filter(pk=conversation.participant_id).delete()


def study_gone(conversation: Conversation) -> None:
    conversation.study.delete()


WAYS: dict[str, Callable[[Conversation], Any]] = {
    "a study": study_gone,
    "a participant": participant_gone,
    "a conversation": Conversation.delete,
    "conversations at once": lambda chat: Conversation.objects.filter(pk=chat.pk).delete(),
    "turns": lambda chat: chat.turns.all().delete(),
    "a withdrawal": lambda chat: conversation_withdraw(conversation=chat),
}


def chat(study: Study, *texts: str) -> Conversation:
    conversation = make_conversation(study)
    for text in texts:
        exchange(conversation, text, f"so {text}")
    return conversation


def encoded(*texts: str) -> None:
    text_store().put(ENCODER, dict.fromkeys(texts, np.ones(3, dtype=np.float32)))


def kept(*texts: str) -> set[str]:
    return set(text_store().get(ENCODER, texts))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_whoever_deletes_turns_forgets_their_texts(way: str, is_many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_many:
        monkeypatch.setattr(erasure, "_MOST_QUERIES", 0)
    gone = chat(make_study("one"), "mine alone", "said by both")
    chat(make_study("two"), "said by both")
    encoded("mine alone", "so mine alone", "said by both", "said by nobody")
    WAYS[way](gone)
    assert kept("mine alone", "so mine alone", "said by both", "said by nobody") == {"said by both", "said by nobody"}


@pytest.mark.django_db(transaction=True)
def test_what_is_not_deleted_after_all_is_kept() -> None:
    conversation = chat(make_study(), "first", "second")
    encoded("first", "second")
    with transaction.atomic():
        with transaction.atomic():
            conversation.turns.all().delete()
            transaction.set_rollback(True)
        conversation.turns.filter(text="second").delete()
    assert kept("first", "second") == {"first"}
    assert Turn.objects.filter(text="first").exists()


@pytest.mark.django_db
def test_one_entry_of_the_transaction_holds_all_texts(
    django_capture_on_commit_callbacks: Any, django_assert_max_num_queries: Any
) -> None:
    study = make_study()
    chat(study, *(f"text {n}" for n in range(5)))
    encoded("text 3")
    with django_capture_on_commit_callbacks() as callbacks:
        study.delete()
    assert [len(each.texts) for each in callbacks if isinstance(each, erasure._EncodedTextsErasure)] == [10]
    with django_assert_max_num_queries(2):  # what turns still say, and the kept promise of clean-up
        for each in callbacks:
            each()
    assert kept("text 3") == set()
    assert not CleanUp.objects.exists()
