"""What is judged is deleted while its page is open; and pages that our server fails to make."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from tests.builders import signed_in
from tests.webapp.participant.conftest import begin as begin_chat
from tests.webapp.participant.conftest import chat, entry_field, post, shown, started
from tests.webapp.participant.test_judge import REASON, make_dialogues
from tests.webapp.participant.test_turns import make_marking
from webapp.core.rights import Right
from webapp.participant.steps import judge as judging
from webapp.pay.submissions import submissions_of
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.studies.models import Breakage, Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def key_on(page: str) -> str:
    """Return what the page calls the thing that it asks about."""
    match = re.search(r'name="_of" value="([^"]+)"', page)
    assert match
    return match[1]


def erase(conversation_id: UUID) -> None:
    """Erase the participant of this conversation, and do nothing of what follows the transaction."""
    participants_erase(participants=Participant.objects.filter(conversations=conversation_id))


@pytest.fixture
def withdraw_of(
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[Any]],
) -> Callable[[UUID], None]:
    """Erase the participant of a conversation, with all that follows."""

    def withdraw(conversation_id: UUID) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            erase(conversation_id)

    return withdraw


def test_half_a_pair_is_never_asked_about(browser: Client, withdraw_of: Callable[[UUID], None]) -> None:
    make_dialogues()
    address = started(browser, "a")
    task = Task.objects.get(participant__study__key="a")
    first, second = requested_ratings(task)
    key = key_on(shown(browser.get(address)))
    withdraw_of(first.slots[1].conversation_id)
    answers = {"preference": "b", "comments": REASON}
    led = post(browser, address, _n="1", _of=key, **answers)
    assert not Rating.objects.filter(first__isnull=False).exists()
    page = shown(browser.get(led.url))
    assert "because the person who wrote it withdrew" in page
    assert "Pair 1 of 1" in page
    assert key_on(page) == second.key
    done = post(browser, address, _n="1", _of=second.key, **answers)
    assert "Your answers arrived" in shown(browser.get(done.url))
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("completed", "rated")


def test_without_anything_left_the_person_is_given_other_work(
    browser: Client, withdraw_of: Callable[[UUID], None]
) -> None:
    make_dialogues()
    address = started(browser, "a")
    task = Task.objects.get(participant__study__key="a")
    first, second = requested_ratings(task)
    withdraw_of(first.slots[0].conversation_id)
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("open", "")
    withdraw_of(second.slots[0].conversation_id)
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("failed", "")
    led = browser.get(address)
    assert led.status_code == 302
    assert browser.get(led.url).status_code == 200


def test_a_page_ends_no_task_and_start_ends_the_one_that_nothing_is_left_of(browser: Client) -> None:
    make_dialogues()
    address = started(browser, "a")
    task = Task.objects.get(participant__study__key="a")
    for one in requested_ratings(task):
        erase(one.slots[0].conversation_id)  # and the process dies before it ends the task
    page = browser.get(address, follow=True)
    task.refresh_from_db()
    assert (task.state, task.ended_at) == ("open", None)
    led = post(browser, "/s/a/start/", consent="on", _entry=entry_field(page))
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("failed", "")
    assert led.status_code == 409  # no two conversations are left to give


def test_marked_replies_that_are_gone_are_left_out_and_what_was_marked_counts(
    browser: Client, withdraw_of: Callable[[UUID], None]
) -> None:
    make_marking(n_chats=2, n_conversations=2)
    address = started(browser, "a")
    task = Task.objects.get(participant__study__key="a")
    judged = requested_ratings(task)
    n_first = sum(one.slots == judged[0].slots for one in judged)
    for n, one in enumerate(judged[:n_first], start=1):
        post(browser, address, _n=str(n), _of=one.key, marks="_none")
    task.refresh_from_db()
    assert Rating.objects.filter(task=task).count() == n_first
    assert n_first < len(judged)
    withdraw_of(judged[-1].slots[0].conversation_id)
    assert "Your answers arrived" in shown(browser.get(address, follow=True))
    task.refresh_from_db()
    assert task.outcome == "rated"


def test_a_server_error_says_what_is_saved_and_pay_knows_whose_fault_it_was(
    browser: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_dialogues(contact="lab@example.org", place_minutes=1)
    address = started(browser, "a")
    task = Task.objects.get(participant__study__key="a")
    first = requested_ratings(task)[0]
    post(browser, address, _n="1", _of=first.key, preference="b", comments=REASON)
    browser.raise_request_exception = False
    with monkeypatch.context() as broken:
        broken.setattr(judging, "judged_shown", lambda *_: 1 / 0)
        page = browser.get(address)
    assert page.status_code == 500
    said = shown(page)
    reference = Breakage.objects.get().reference
    assert "Your answers up to item 1 are saved." in said
    assert reference in said
    assert "mailto:lab@example.org" in said
    logged = next(record for record in caplog.records if reference in record.getMessage())
    assert "ZeroDivisionError" in repr(logged.exc_info)
    again = re.search(r'button-primary" href="([^"]+)"', said)[1]
    assert "Pair 2 of 2" in shown(browser.get(again, follow=True))
    # Whoever goes away after that left through no fault of theirs, and not through a chatbot's.
    Task.objects.filter(pk=task.pk).update(created_at="2020-01-01T00:00Z")
    [visit] = submissions_of(Study.objects.get(key="a")).all
    assert (visit.outcome, visit.fault, visit.is_ours) == ("left", "server", True)
    staff = signed_in(Right.READ, Right.PAY)
    assert f"Server failed ({reference})" in shown(staff.get("/dashboard/studies/a/people/"))
    study_edit(study=Study.objects.get(key="a"), pay_each=1.0)
    listed = shown(staff.get("/dashboard/studies/a/people/"))
    assert "The server failed; the log has each code." in listed
    # Somebody else's browser gets the plain page, which says nothing of the task.
    stranger = Client(raise_request_exception=False)
    assert stranger.get(address).status_code == 404


def test_a_chat_s_error_page_counts_its_messages(
    study: Study, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = begin_chat(browser)
    chat(conversation, 2)
    browser.raise_request_exception = False
    monkeypatch.setattr("webapp.participant.steps.chat.chat_words", lambda _version: 1 / 0)
    broken = browser.get(f"/chat/{conversation.pk}/")
    assert broken.status_code == 500
    assert "Your 2 messages are saved." in shown(broken)
    assert Breakage.objects.get().task == conversation.task
