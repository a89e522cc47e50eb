"""Messages to the researchers: sent from participants' pages, answered on the person's page, gone with the person."""

import html
import re
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.test import Client

from tests.builders import make_study, signed_in
from tests.webapp.participant.conftest import ANSWERS, begin, chat, post
from tests.webapp.studies.test_erasure import exported, make_person
from webapp.core.rights import Right
from webapp.studies.messages import MOST_WAITING, message_answer, message_send
from webapp.studies.models import Participant, ParticipantMessage, Study
from webapp.studies.privacy import participants_erase
from webapp.studies.privacy.retention import texts_erase

pytestmark = pytest.mark.django_db
PAGE = "/s/s/messages/"
LINK = f'href="{PAGE}"'


def text_of(browser: Client, address: str, status: int = 200) -> str:
    response = browser.get(address)
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def sent() -> list[str]:
    return list(ParticipantMessage.objects.values_list("text", flat=True))


def test_every_page_of_a_known_participant_has_the_link(study: Study, browser: Client) -> None:
    assert LINK not in text_of(browser, "/s/s/")
    conversation = begin(browser)
    chat(conversation, 3)
    for page in ("/s/s/", f"/chat/{conversation.pk}/", f"/chat/{conversation.pk}/rate/"):
        assert LINK in text_of(browser, page)
    assert post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS).status_code == 302
    for page in (f"/chat/{conversation.pk}/done/", "/s/s/"):
        assert LINK in text_of(browser, page)


def test_who_has_finished_can_write_from_any_browser_and_reads_nothing_there(study: Study, browser: Client) -> None:
    ids = "?PROLIFIC_PID=p1&STUDY_ID=x&SESSION_ID=visit1"
    conversation = begin(browser, query=ids)
    chat(conversation, 3)
    post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS)
    post(browser, PAGE, text="My name is Ada.")
    fresh = Client(enforce_csrf_checks=True)
    page = fresh.get(f"/s/s/{ids}").content.decode()
    address = html.unescape(re.search(rf'<form method="post" action="({PAGE}[^"]+)"', page)[1])
    entry = re.search(r'name="_entry" value="([^"]+)"', page)[1]
    for response in (fresh.get(address), post(fresh, address, text="Did my code arrive?", _entry=entry)):
        assert response.status_code == 200
        assert "Ada" not in response.content.decode()
    assert "Sent. You will see" in response.content.decode()
    assert sent() == ["My name is Ada.", "Did my code arrive?"]
    assert not fresh.session.keys(), "a platform's id in a link opens nothing else"
    assert fresh.get(f"{PAGE}?_entry={entry[:-2]}xx").status_code == 404
    other = fresh.get("/s/s/?PROLIFIC_PID=p1&STUDY_ID=x&SESSION_ID=other").content.decode()
    assert PAGE not in other, "another visit's id has not ended"


def test_a_message_is_stored_answered_and_read(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    response = post(browser, PAGE, text=" Is this <b>recorded</b>? ")
    assert (response.status_code, response.url) == (302, f"{PAGE}?note=sent")
    assert sent() == ["Is this <b>recorded</b>?"]
    page = text_of(browser, response.url)
    assert "Sent. You will see the answer here" in page
    assert "Is this &lt;b&gt;recorded&lt;/b&gt;?" in page
    assert "Not answered yet." in page

    staff, person = signed_in(*Right), f"/dashboard/studies/s/people/{conversation.participant_id}/"
    assert "1 message</strong> from participants of s not answered yet." in text_of(staff, "/dashboard/")
    assert "Message waiting" in text_of(staff, "/dashboard/studies/s/people/?show=wrote")
    assert "Is this &lt;b&gt;recorded&lt;/b&gt;?" in text_of(staff, person)
    fields = {"message": str(ParticipantMessage.objects.get().pk), "text": "Only here."}
    answered = staff.post(f"{person}answer/", fields)
    assert (answered.status_code, answered.url) == (302, person)
    assert "Answered by r," in text_of(staff, person)
    again = staff.post(f"{person}answer/", {**fields, "text": "Another."}, follow=True)
    assert again.status_code == 200
    assert "has already been answered" in again.content.decode()
    assert "not answered yet" not in text_of(staff, "/dashboard/")

    text = "The researchers have answered your message."
    assert text in text_of(browser, f"/chat/{conversation.pk}/")
    thread = text_of(browser, PAGE)
    assert "Only here." in thread
    assert text not in thread
    assert text not in text_of(browser, f"/chat/{conversation.pk}/")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "This field is required."),
        ("\u200b \n", "This field is required."),
        ("x" * 2001, "Ensure this value has at most 2000 characters (it has 2001)."),
    ],
)
def test_bad_texts_are_refused_with_the_reason(study: Study, browser: Client, text: str, error: str) -> None:
    begin(browser)
    page = post(browser, PAGE, text=text)
    assert page.status_code == 400
    assert error in page.content.decode()
    assert post(browser, PAGE, text="a\x00b").status_code == 400  # the middleware says why
    assert not sent()


def test_a_double_click_stores_once(study: Study, browser: Client) -> None:
    begin(browser)
    for _click in range(2):
        assert post(browser, PAGE, text="Hello").url == f"{PAGE}?note=sent"
    assert sent() == ["Hello"]


def test_many_messages_wait_for_answers(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    for n in range(MOST_WAITING):
        message_send(participant=conversation.participant, text=f"message {n}")
    refused = post(browser, PAGE, text="one more")
    assert refused.status_code == 400
    assert "Your earlier messages have not been answered yet." in refused.content.decode()
    message_answer(message=ParticipantMessage.objects.first(), text="Yes.", username="r")
    assert post(browser, PAGE, text="one more").status_code == 302
    assert len(sent()) == MOST_WAITING + 1


def test_strangers_and_forged_forms_write_nothing(study: Study, browser: Client) -> None:
    begin(browser)
    other = Client(enforce_csrf_checks=True)
    make_study("t")
    begin(other, "t")
    assert other.get(PAGE).status_code == 404
    assert post(other, PAGE, text="hi").status_code == 404
    assert browser.post(PAGE, {"text": "hi"}).status_code == 403
    assert not sent()


def test_only_administrators_answer_and_only_messages_of_the_person(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    message = message_send(participant=conversation.participant, text="Hello")
    make_study("t")
    fields = {"message": str(message.pk), "text": "No."}
    person = f"people/{conversation.participant_id}/answer/"
    assert (
        signed_in(Right.READ, Right.PAY, username="p").post(f"/dashboard/studies/s/{person}", fields).status_code == 403
    )
    staff = signed_in(*Right)
    assert staff.post(f"/dashboard/studies/t/{person}", fields).status_code == 404
    for number in ("", "x", "9" * 30, "0"):
        assert staff.post(f"/dashboard/studies/s/{person}", {**fields, "message": number}).status_code == 404
    message.refresh_from_db()
    assert message.answered_at is None


def test_messages_go_with_the_person_and_with_the_texts(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    message_answer(message=message_send(participant=conversation.participant, text="Hello"), text="Yes.", username="r")
    texts_erase(study=study)
    message = ParticipantMessage.objects.get()
    assert (message.text, message.answer) == ("", "")
    removed = participants_erase(participants=Participant.objects.all())
    assert removed["messages"] == 1
    assert not ParticipantMessage.objects.exists()


def test_no_export_has_messages(study: Study) -> None:
    person = make_person(study)
    message_answer(message=person.messages.get(), text="Answered.", username="r")
    assert "XSECRETX says" in exported(study)
    assert not any(word in exported(study) for word in ("XSECRETX asks", "Answered."))


@pytest.mark.postgres  # writers on SQLite in memory do not wait for each other
@pytest.mark.django_db(transaction=True)
def test_clicks_at_once_store_one_message() -> None:
    make_study()
    participant = begin(Client(enforce_csrf_checks=True)).participant
    barrier = Barrier(4)

    def click() -> None:
        barrier.wait()
        message_send(participant=participant, text="Hello")
        connection.close()

    threads = [Thread(target=click) for _n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sent() == ["Hello"]
