"""The console of staff who are the partners in chats: taking a chat up, replying, and who may."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatbots.bots.person import PersonBot
from chatbots.registry import bots
from tests.builders import make_conversation, make_study, signed_in
from webapp.conversations import services
from webapp.conversations.models import Conversation, PartnerSeat, Turn
from webapp.conversations.reply_pipeline import reply_begin
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db
CONSOLE = "/dashboard/studies/s/console/"


@pytest.fixture(autouse=True)
def _wizard() -> Iterator[None]:
    bots.search()
    bots.put(PersonBot(name="wizard", by="staff", canned=["Tell me <more>."], suggest_by="eliza"))
    yield
    bots.discard("wizard")


@pytest.fixture
def chat() -> Conversation:
    """Make a chat whose participant has written, and waits for staff."""
    chat = make_conversation(make_study(bots=["wizard"], disclosure="before", without_partner="pay"))
    services.turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="Is anybody there?")
    assert services.partner_look(conversation_id=chat.pk) is not None  # its page is open
    return chat


@pytest.fixture
def staff() -> Client:
    return signed_in(Right.READ, Right.ADMINISTER, Right.RUN, username="ann")


def act(client: Client, chat: Conversation, **fields: str) -> Any:
    response = client.post(f"{CONSOLE}{chat.pk}/", fields, follow=True)
    assert response.status_code == 200
    return response


def test_staff_take_a_chat_up_and_reply(staff: Client, chat: Conversation) -> None:
    page = staff.get(CONSOLE).content.decode()
    assert "Join" in page
    assert 'pill-warn">waiting since ' in page
    page = act(staff, chat, action="take").content.decode()
    assert "Is anybody there?" in page
    assert 'data-canned="Tell me &lt;more&gt;."' in page
    assert "Suggestion by eliza" in page
    lease = uuid.uuid4()
    assert reply_begin(chat.pk, lease) is None
    act(staff, chat, text="Yes, I am.")
    due = reply_begin(chat.pk, lease)
    assert due is not None
    assert due.partner_text == "Yes, I am."
    assert services.turn_add_bot(conversation_id=chat.pk, lease=lease, text=due.partner_text) is not None
    chat.refresh_from_db()
    assert chat.n_exchanges == 1
    assert list(Turn.objects.order_by("index").values_list("speaker", "text"))[-1] == ("bot", "Yes, I am.")
    assert "not waiting" in staff.get(f"{CONSOLE}now/?chat={chat.pk}").content.decode()


def test_a_chat_whose_page_was_closed_is_left_out(staff: Client, chat: Conversation) -> None:
    PartnerSeat.objects.update(seen_at=timezone.now() - timedelta(minutes=11))
    assert "No open chats" in staff.get(CONSOLE).content.decode()


def test_nobody_else_types_in_a_chat_that_is_taken(staff: Client, chat: Conversation) -> None:
    act(staff, chat, action="take")
    other = signed_in(Right.READ, Right.ADMINISTER, username="ben")
    page = act(other, chat, action="take").content.decode()
    assert "Another staff member is writing in this chat." in page
    assert 'name="text"' not in page
    assert "Another staff member is writing in this chat." in act(other, chat, text="Me too").content.decode()
    assert not PartnerSeat.objects.exclude(given_text="").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "Write something first."), (" \n", "Write something first."), ("x" * 5001, "the maximum is 5000")],
)
def test_a_reply_that_cannot_be_sent_is_refused(staff: Client, chat: Conversation, text: str, words: str) -> None:
    act(staff, chat, action="take")
    assert words in act(staff, chat, text=text).content.decode()
    assert not PartnerSeat.objects.exclude(given_text="").exists()


def test_a_second_click_sends_nothing(staff: Client, chat: Conversation) -> None:
    act(staff, chat, action="take")
    act(staff, chat, text="Once")
    assert "is not waiting for a reply" in act(staff, chat, text="Twice").content.decode()
    assert PartnerSeat.objects.get().given_text == "Once"


def test_without_staff_the_wait_ends(staff: Client, chat: Conversation) -> None:
    look = services.partner_look(conversation_id=chat.pk)
    assert look is not None
    assert look.state == "here"
    Conversation.objects.update(due_since=timezone.now() - timedelta(seconds=61))
    look = services.partner_look(conversation_id=chat.pk)
    assert look is not None
    assert look.failure is not None
    assert look.failure.can == ["finish"]  # the study has no chatbot that could continue
    assert "This chat is over." in act(staff, chat, action="take").content.decode()


def test_a_chat_that_staff_have_taken_up_waits_longer(staff: Client, chat: Conversation) -> None:
    act(staff, chat, action="take")
    Conversation.objects.update(due_since=timezone.now() - timedelta(seconds=61))
    look = services.partner_look(conversation_id=chat.pk)
    assert look is not None
    assert look.state == "here"


def test_the_console_is_a_page_of_studies_with_staff(staff: Client, chat: Conversation) -> None:
    assert CONSOLE in staff.get("/dashboard/studies/s/people/").content.decode()
    make_study("plain")
    assert "/console/" not in staff.get("/dashboard/studies/plain/people/").content.decode()
    response = staff.get("/dashboard/studies/plain/console/")
    assert response.status_code == 200
    assert "No open chats" in response.content.decode()
    elsewhere = staff.post(f"/dashboard/studies/plain/console/{chat.pk}/", {"action": "take"}, follow=True)
    assert "This chat is over." in elsewhere.content.decode()


def test_readers_have_no_console(chat: Conversation) -> None:
    reader = signed_in(Right.READ, username="reader")
    assert reader.get(CONSOLE).status_code == 403
    assert reader.post(f"{CONSOLE}{chat.pk}/", {"action": "take"}).status_code == 403
    assert CONSOLE not in reader.get("/dashboard/studies/s/people/").content.decode()
