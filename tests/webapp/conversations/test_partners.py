"""Chats between people: pairing, messages handed over, endings on either side, waiting in vain, erasure."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from chatbots.bots.person import PersonBot
from chatbots.registry import bots
from tests.builders import make_conversation, make_rating, make_study
from webapp.conversations import selectors, services
from webapp.conversations.models import NO_PARTNER, Conversation, PartnerSeat, Turn
from webapp.conversations.reply_pipeline import reply_begin
from webapp.core.errors import Refused
from webapp.studies.models import Study, Task
from webapp.studies.privacy import participants_erase

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _person() -> Iterator[None]:
    bots.search()
    for by in ("participant", "staff"):
        bots.put(PersonBot(name=f"by-{by}", by=by))
    yield
    for by in ("participant", "staff"):
        bots.discard(f"by-{by}")


def people(key: str = "s", **fields: object) -> Study:
    """Open a study in which participants chat with one another."""
    return make_study(key, **{"bots": ["by-participant"], "disclosure": "before", "min_exchanges": 2, **fields})


def look(chat: Conversation) -> services.PartnerLook:
    result = services.partner_look(conversation_id=chat.pk)
    assert result is not None
    return result


def pair(study: Study) -> tuple[Conversation, Conversation]:
    """Pair two participants; the first is the one who writes first."""
    chats = [make_conversation(study) for _ in range(2)]
    assert look(chats[0]).state == "waiting"
    assert look(chats[1]).state == "here"
    return tuple(sorted(chats, key=lambda chat: look(chat).writes_second))  # type: ignore[return-value]


def say(chat: Conversation, text: str) -> services.HumanTurn:
    return services.turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text=text)


def hear(chat: Conversation) -> str:
    """Store the reply that the partner has written, as a bot host does."""
    lease = uuid.uuid4()
    due = reply_begin(chat.pk, lease)
    assert due is not None
    assert due.partner_text is not None
    assert services.turn_add_bot(conversation_id=chat.pk, lease=lease, text=due.partner_text) is not None
    return due.partner_text


def texts(chat: Conversation) -> list[tuple[str, str]]:
    return list(Turn.objects.filter(conversation=chat).order_by("index").values_list("speaker", "text"))


def later(chat: Conversation, **fields: timedelta) -> None:
    """Let time pass: move these times of the chat's seat into the past."""
    PartnerSeat.objects.filter(pk=chat.pk).update(**{name: timezone.now() - by for name, by in fields.items()})


def test_each_message_is_the_reply_in_the_other_chat() -> None:
    first, second = pair(people())
    assert say(first, "Hello, who are you?").reply_in == second.pk
    assert hear(second) == "Hello, who are you?"
    assert say(second, "A person.").reply_in == first.pk
    assert hear(first) == "A person."
    assert texts(first) == [("human", "Hello, who are you?"), ("bot", "A person.")]
    assert texts(second) == [("bot", "Hello, who are you?"), ("human", "A person.")]
    for chat in (first, second):
        chat.refresh_from_db()
    assert (first.n_exchanges, second.n_exchanges) == (1, 1)
    assert not PartnerSeat.objects.exclude(given_text="").exists()


def test_nothing_is_asked_of_a_host_before_the_partner_has_written() -> None:
    first, second = pair(people())
    lease = uuid.uuid4()
    for _ in range(Conversation.MAX_ATTEMPTS + 1):
        assert reply_begin(second.pk, lease) is None
    later_due = timezone.now() - timedelta(seconds=5)
    Conversation.objects.filter(pk=second.pk).update(due_since=later_due)
    assert selectors.replies_waiting(pool=None) == []
    assert not selectors.reply_state(second.pk, 0).is_free
    say(first, "Hello")
    assert selectors.replies_waiting(pool=None) == [second.pk]
    assert selectors.reply_state(second.pk, 0).is_free
    second.refresh_from_db()
    assert second.due_attempts == 0


def test_who_waits_can_write_nothing_yet() -> None:
    chat = make_conversation(people())
    look(chat)
    with pytest.raises(Refused) as refused:
        say(chat, "Hello?")
    assert refused.value.code == "waiting_for_reply"
    assert not Turn.objects.exists()


@pytest.mark.parametrize("without", ["bot", "pay"])
def test_the_wait_ends_after_its_seconds(without: str) -> None:
    study = people(bots=["by-participant", "eliza"], wait_seconds=30, without_partner=without)
    chats = [make_conversation(study) for _ in range(2)]
    chat = next(chat for chat in chats if chat.bot.bot_id == "by-participant")
    assert 25 <= look(chat).seconds_left <= 30
    later(chat, wait_until=timedelta(seconds=1))
    result = look(chat)
    assert result.state == "failed"
    assert result.failure is not None
    assert not result.failure.can_rate
    assert result.failure.can == (["swap", "finish"] if without == "bot" else ["finish"])
    assert services.reply_retry(conversation_id=chat.pk) is None, "nobody can be asked again"
    assert look(chat).state == "failed"
    if without == "bot":
        assert services.conversation_swap(conversation=chat).bot.bot_id == "eliza"
    else:
        with pytest.raises(Refused) as refused:
            services.conversation_swap(conversation=chat)
        assert refused.value.code == "not_failed"
        assert services.conversation_finish_failed(conversation=chat).outcome == "bot_failed"
    assert PartnerSeat.objects.get(pk=chat.pk).state == "over"


def test_a_page_that_was_closed_is_paired_with_nobody() -> None:
    study = people()
    gone, here = make_conversation(study), make_conversation(study)
    look(gone)
    later(gone, seen_at=timedelta(minutes=1))
    assert look(here).state == "waiting"
    assert look(gone).state == "here"  # back in time
    assert look(here).state == "here"


@pytest.mark.parametrize("leaving", ["withdraws", "closes the page", "is erased", "fails"])
def test_a_partner_who_leaves_is_a_failed_bot_with_pay(leaving: str) -> None:
    first, second = pair(people())
    say(first, "Hello")
    hear(second)
    say(second, "Hello yourself")
    hear(first)
    say(first, "Something private")
    hear(second)
    say(second, "Are you there?")  # is the reply that `first` reads next
    hear(first)
    assert look(second).state == "here"
    if leaving == "withdraws":
        services.conversation_withdraw(conversation=first)
    elif leaving == "is erased":
        participants_erase(participants=type(first.participant).objects.filter(pk=first.participant_id))
    elif leaving == "fails":
        reason = f"{NO_PARTNER}the other participant has left"
        Conversation.objects.filter(pk=first.pk).update(due_turn=4, due_error=reason)
    else:
        later(first, seen_at=timedelta(minutes=5))
    result = look(second)
    assert result.state == "failed"
    assert result.failure is not None
    assert result.failure.can_rate  # it has the two exchanges that a rating needs
    task = services.conversation_finish_failed(conversation=second)
    assert task.outcome == "bot_failed"
    said = [text for speaker, text in texts(second) if speaker == "bot"]
    assert said == (["", ""] if leaving in ("withdraws", "is erased") else ["Hello", "Something private"])


def test_who_finishes_lets_the_other_rate() -> None:
    first, second = pair(people())
    for _ in range(2):
        say(first, "Hello")
        hear(second)
        say(second, "Hello yourself")
        hear(first)
    second.refresh_from_db()
    assert not selectors.can_rate(second)  # a message of the partner may be under way
    make_rating(first)
    assert look(second).state == "ended"
    second.refresh_from_db()
    assert selectors.can_rate(second)
    with pytest.raises(Refused) as refused:
        say(second, "One more?")
    assert refused.value.code == "closed"
    make_rating(second)
    assert Task.objects.filter(outcome="rated").count() == 2


def test_both_chats_end_at_the_most_messages() -> None:
    first, second = pair(people(max_exchanges=2))
    for number in range(2):
        say(first, f"message {number}")
        hear(second)
        assert say(second, f"reply {number}").is_last == (number == 1)
        hear(first)
    for chat in (first, second):
        chat.refresh_from_db()
        assert (chat.n_exchanges, chat.due_turn) == (2, None)
        assert selectors.can_rate(chat)
        with pytest.raises(Refused) as refused:
            say(chat, "more")
        assert refused.value.code == "closed"


def test_only_those_of_one_condition_are_paired() -> None:
    levels = [{"key": "a", "topic": "Cats"}, {"key": "b", "topic": "Dogs"}]
    study = people(factors=[{"key": "topic", "levels": levels}])
    chats = [make_conversation(study) for _ in range(6)]
    for chat in chats:
        look(chat)
    seats = PartnerSeat.objects.select_related("conversation", "partner__conversation").exclude(partner=None)
    assert seats.count() >= 4
    for seat in seats:
        assert seat.partner is not None
        assert seat.partner.partner_id == seat.pk
        assert seat.conversation.condition == seat.partner.conversation.condition


def test_scripted_and_real_participants_are_not_paired() -> None:
    study = people()
    real, scripted = make_conversation(study), make_conversation(study, is_synthetic=True)
    assert look(real).state == look(scripted).state == "waiting"


def test_a_silent_partner_can_be_left_after_minutes() -> None:
    _first, second = pair(people())
    Conversation.objects.filter(pk=second.pk).update(due_since=timezone.now() - timedelta(minutes=6))
    second.refresh_from_db()
    failure = selectors.failure_of(second)
    assert failure is not None
    assert failure.error == ""


def _at_once(n: int, act: Callable[[int], None]) -> None:
    """Call the function in as many threads at once."""
    barrier, failed = threading.Barrier(n), []

    def run(number: int) -> None:
        try:
            barrier.wait(60)
            act(number)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.django_db(transaction=True)
def test_a_crowd_that_comes_at_once_is_paired() -> None:
    """On PostgreSQL 80, by 20 connections; the test database of SQLite is in memory, where writers do not wait."""
    n, n_threads = (80, 20) if connection.vendor == "postgresql" else (40, 1)
    study = people()
    chats = [make_conversation(study) for _ in range(n)]

    def arrive(number: int) -> None:
        for chat in chats[number::n_threads]:
            look(chat)

    _at_once(n_threads, arrive)
    _at_once(n_threads, arrive)  # their pages look again a second later
    seats = list(PartnerSeat.objects.all())
    assert len(seats) == n
    partner_of = {seat.pk: seat.partner_id for seat in seats}
    assert all(partner is not None and partner_of[partner] == one for one, partner in partner_of.items())
    assert sum(seat.writes_second for seat in seats) == n // 2
    waiting_for_a_message = Conversation.objects.filter(due_turn=0, partner_seat__writes_second=True)
    assert waiting_for_a_message.count() == n // 2
