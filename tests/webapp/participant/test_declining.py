"""Not agreeing, coming again when all is done, and withdrawing afterwards: what is told, kept and deleted."""

import re
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import models
from django.test import Client
from django.utils import timezone

from tests.builders import BY_PROLIFIC, exchange, fail_reply, make_conversation, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from tests.webapp.studies.test_erasure import SECRET, exported, make_person
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import task_end_with_chats
from webapp.pay.submissions import submissions_of
from webapp.ratings.models import Rating
from webapp.studies.models import ConsentText, Erasure, Outcome, Participant, Study, Task, TaskCount
from webapp.studies.privacy import erasure_kinds, withdrawal_token
from webapp.studies.selectors import study_refusal
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


PROLIFIC = "?PROLIFIC_PID=p1&STUDY_ID=x&SESSION_ID=s1"


@pytest.fixture
def study(db: None) -> Study:
    return make_study("s", **BY_PROLIFIC)


def decline(browser: Client, query: str = PROLIFIC):
    """Open the link and say no; the response."""
    page = browser.get(f"/s/s/{query}")
    assert "I do not agree" in page.content.decode()
    return post(browser, "/s/s/decline/", _entry=entry_field(page))


def test_only_the_ids_and_the_outcome_are_kept(study: Study, browser: Client) -> None:
    for _twice in range(2):
        page_before = Task.objects.first()
        if page_before is None:
            decline(browser)
    field = entry_field(Client().get("/s/s/?PROLIFIC_PID=p2&SESSION_ID=s9"))
    for _twice in range(2):
        assert post(browser, "/s/s/decline/", _entry=field).status_code == 302
    assert Participant.objects.filter(consented_at=None, consent=None).count() == 2
    tasks = Task.objects.values_list("state", "outcome", "submission", "completion_code")
    assert sorted(tasks) == [("ended", "no_consent", "s1", None), ("ended", "no_consent", "s9", None)]
    assert not Conversation.objects.exists()
    assert not ConsentText.objects.exists()
    study.refresh_from_db()
    assert study.version.frozen_at is None


def test_an_earlier_outcome_stays_what_it_was(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=PROLIFIC)
    field = entry_field(Client().get(f"/s/s/{PROLIFIC}"))
    open_chat = post(browser, "/s/s/decline/", _entry=field)
    assert open_chat.url == f"/chat/{conversation.pk}/", "who has agreed is in the chat"
    chat(conversation, 3)
    make_rating(conversation)
    assert post(browser, "/s/s/decline/", _entry=field).url == f"/chat/{conversation.pk}/done/"
    second = PROLIFIC.replace("s1", "s2")
    decline(browser, second)
    for query, code in ((PROLIFIC, "RATED1"), (second, "REFUSED1")):
        assert f">{code}</p>" in Client().get(f"/s/s/{query}").content.decode()


def test_nobody_declines_for_somebody_else(study: Study, browser: Client) -> None:
    begin(browser, query=PROLIFIC)
    other = Client(enforce_csrf_checks=True)
    response = decline(other, "?PROLIFIC_PID=p1")
    assert response.status_code == 409
    assert Task.objects.get().outcome == ""


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 409, "Your Prolific ID is missing from this link"),
        ("?PROLIFIC_PID={{%25PROLIFIC_PID%25}}", 409, "Your Prolific ID is missing from this link"),
        ("?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h", 200, "Accept the task to start"),
    ],
)
def test_who_only_looks_is_not_kept(study: Study, browser: Client, query: str, status: int, words: str) -> None:
    browser.get(f"/s/s/{PROLIFIC}")
    answer = post(browser, f"/s/s/decline/{query}")
    assert (answer.status_code, words in answer.content.decode()) == (status, True)
    assert not Participant.objects.exists()


def test_without_platform_the_session_remembers(browser: Client) -> None:
    make_study("s")
    response = decline(browser, "")
    html = browser.get(response.url).content.decode()
    assert "We store only that a person declined." in html
    assert 'id="code"' not in html
    assert "You did not agree" in browser.get("/s/s/").content.decode()
    assert 'name="consent"' in browser.get("/s/s/?again=1").content.decode()
    assert 'name="consent"' in Client().get("/s/s/").content.decode()


MTURK = "?workerId=w1&assignmentId=a1&hitId=h&turkSubmitTo=https://workersandbox.mturk.com"


def rate(browser: Client, query: str = "") -> Conversation:
    conversation = begin(browser, query=query)
    chat(conversation, 3)
    make_rating(conversation)
    return conversation


def end_early(browser: Client, query: str = "") -> Conversation:
    conversation = begin(browser, query=query)
    fail_reply(conversation)
    assert post(browser, f"/chat/{conversation.pk}/finish/").status_code == 302
    return conversation


def end_with(outcome: str):
    def end(browser: Client, query: str = "") -> Conversation:
        conversation = begin(browser, query=query)
        task_end_with_chats(task=conversation.task, outcome=outcome)
        conversation.refresh_from_db()
        assert browser.get(f"/chat/{conversation.pk}/").url.startswith(f"/chat/{conversation.pk}/done")
        return conversation

    return end


@pytest.mark.parametrize("query", [PROLIFIC, MTURK])
def test_the_first_of_several_visits_keeps_its_outcome(study: Study, browser: Client, query: str) -> None:
    first = rate(browser, query)
    code = first.task.completion_code if query == MTURK else "RATED1"
    again = query.replace("s1", "s2").replace("a1", "a2")
    end_early(browser, again)
    page = Client().get(f"/s/s/{query}").content.decode()
    assert f">{code}</p>" in page
    assert "finished early" not in page
    if query == MTURK:
        assert 'name="assignmentId" value="a1"' in page, "never the task of another visit"


def test_another_visit_of_the_same_id_sees_nobodys_code(study: Study, browser: Client) -> None:
    rate(browser, PROLIFIC)
    for query, shown in (
        ("?PROLIFIC_PID=p1", 'name="consent"'),
        (PROLIFIC.replace("s1", "s2"), 'name="consent"'),
        ("?SESSION_ID=s1", "Your Prolific ID is missing from this link"),
    ):
        page = Client().get(f"/s/s/{query}").content.decode()
        assert "RATED1" not in page, query
        assert shown in page, query


def test_a_visit_that_ended_starts_no_second_chat(study: Study) -> None:
    browser = Client()
    field = entry_field(browser.get(f"/s/s/{PROLIFIC}"))
    rate(browser, PROLIFIC)
    for client in (browser, Client()):
        response = client.post("/s/s/start/", {"consent": "on", "_entry": field})
        assert "RATED1" in response.content.decode()
    assert Conversation.objects.count() == 1


def test_without_platform_the_next_chat_starts_from_here(browser: Client) -> None:
    study = make_study("s")
    first = rate(browser)
    page = browser.get("/s/s/").content.decode()
    assert first.task.completion_code in page
    assert "Talk to another chatbot" in page
    second = begin(browser)
    assert second.pk != first.pk
    assert "Continue where you left off" in browser.get("/s/s/").content.decode(), "an open chat comes first"
    chat(second, 3)
    make_rating(second)
    page = browser.get("/s/s/").content.decode()
    assert second.task.completion_code in page
    assert first.task.completion_code in page, "earlier codes stay readable"
    assert "another chatbot" not in page
    study.state = Study.State.ENDED
    study.save()
    assert second.task.completion_code in browser.get("/s/s/").content.decode()


def test_a_way_back_without_a_code_shows_none(browser: Client) -> None:
    make_study("s", link_rated="https://panel.example/back")
    conversation = rate(browser)
    page = browser.get("/s/s/").content.decode()
    assert 'href="https://panel.example/back"' in page
    assert 'id="code"' not in page
    assert conversation.task.completion_code not in page


def test_full_pay_is_promised_where_the_study_says_so(study: Study, browser: Client) -> None:
    study_edit(study=study, pays_in_full=True, pay_each=2)
    conversation = end_early(browser, PROLIFIC)
    for path in (f"/chat/{conversation.pk}/done/", f"/s/s/{PROLIFIC}"):
        assert "<strong>you are paid in full.</strong>" in browser.get(path).content.decode()


def test_who_was_screened_out_does_not_begin_again(study: Study, browser: Client) -> None:
    end_with(Outcome.SCREENED_OUT)(browser, PROLIFIC)
    page = browser.get(f"/s/s/{PROLIFIC.replace('s1', 's2')}").content.decode()
    assert "Your part in this study is over" in page
    assert 'name="consent"' not in page


@pytest.mark.parametrize("end", [rate, end_early])
def test_who_has_earned_pay_is_never_told_to_return_their_place(study: Study, browser: Client, end) -> None:
    end(browser, PROLIFIC)
    study.state = Study.State.ENDED
    study.save()
    for client in (browser, Client()):
        for query in (PROLIFIC, PROLIFIC.replace("s1", "s2"), "?PROLIFIC_PID=p1"):
            assert "Return your place" not in client.get(f"/s/s/{query}").content.decode()
    assert "Return your place" in Client().get("/s/s/?PROLIFIC_PID=p2").content.decode()


def test_a_code_is_pasted_into_mechanical_turks_task_where_it_shows_no_frame(browser: Client) -> None:
    make_study("s", platform="mturk", pay_each=2)
    conversation = rate(browser)
    page = browser.get(f"/chat/{conversation.pk}/done/").content.decode()
    assert "Paste this code into the task on Mechanical Turk to be paid." in page
    assert f">{conversation.task.completion_code}</p>" in page
    assert "externalSubmit" not in page


CAME = "?PROLIFIC_PID=p1&STUDY_ID=s1&SESSION_ID=v1"
IDS = {"PlatformIds", "PlatformVisit", "HookEvent", "Task", "Decision"}
"""What holds platforms' ids, for pay."""


def tables_with(*marks: str) -> set[str]:
    """Return the names of all tables in whose texts or JSON one of the marks stands."""
    result = set()
    for model in apps.get_models():
        if not model._meta.managed:
            continue
        columns = [
            field.attname
            for field in model._meta.concrete_fields
            if isinstance(field, (models.CharField, models.TextField, models.JSONField))
        ]
        for row in model._base_manager.values_list(*columns) if columns else ():
            if any(mark in repr(row) for mark in marks):
                result.add(model.__name__)
    return result


def finished(browser: Client) -> Task:
    """Go through a study of Prolific's to the end."""
    conversation = begin(browser, query=CAME)
    for n in range(3):
        exchange(conversation, f"{SECRET} {n}", f"to {SECRET} {n}")
    conversation.refresh_from_db()
    make_rating(conversation)
    Rating.objects.update(comment=f"{SECRET} thinks")
    return Task.objects.get()


def test_whoever_finished_has_everything_deleted_and_is_paid() -> None:
    make_study(**BY_PROLIFIC, contact="lab@example.org")
    browser = Client(enforce_csrf_checks=True)
    task = finished(browser)
    done = browser.get(f"/chat/{Conversation.objects.get().pk}/done/").content.decode()
    link = re.search(r'id="withdraw-link"[^>]* value="http://testserver([^"]+)"', done)[1]
    # The link alone lasts and works anywhere; coming back by the platform's link shows it, too.
    elsewhere = Client(enforce_csrf_checks=True)
    back = elsewhere.get(f"/s/s/{CAME}").content.decode()
    assert "RATED1" in back
    assert link in back
    page = elsewhere.get(link).content.decode()
    assert "Messages and replies: 6" in page
    assert "Ratings, with their comments: 1" in page
    assert "90 days" in page
    unsure = post(elsewhere, link).content.decode()
    assert "Tick the box" in unsure
    assert Turn.objects.count() == 6
    assert post(elsewhere, link, confirm="on").status_code == 302
    text = elsewhere.get(link).content.decode()
    assert "All your data have been deleted." in text
    assert "RATED1" in text
    assert not tables_with(SECRET)
    task.refresh_from_db()
    assert (task.state, task.outcome, task.payload) == ("withdrawn", "rated", {})
    assert not TaskCount.objects.filter(n_completed__gt=0).exists()
    # Twice is once; the link of the platform says so with the code, and nobody begins again by it.
    assert post(elsewhere, link, confirm="on").status_code == 302
    assert Erasure.objects.get().kind == Erasure.Kind.WITHDRAWN
    again = Client().get(f"/s/s/{CAME}").content.decode()
    assert "All your data have been deleted." in again
    assert "RATED1" in again
    participant = Participant.objects.select_related("study").get()
    assert study_refusal(participant.study, participant).code == "withdrew"
    [visit] = submissions_of(participant.study).all
    assert (visit.outcome, visit.external_id) == ("rated", "p1")


def test_exports_and_results_know_nothing_more_of_them() -> None:
    study = make_study(questions=[{"key": "home", "title": "Where do you live?", "kind": "text"}])
    person, _other = make_person(study), make_person(study, "YOTHERY")
    link = f"/withdraw/{withdrawal_token(person)}/"
    assert Client().post(link, {"confirm": "on"}).status_code == 302
    assert SECRET in exported(study), "pay still lists the visit by the platform's id"
    assert tables_with(SECRET) == IDS
    rows = exported(study)
    assert f"{SECRET} says" not in rows
    assert f"{SECRET} thinks" not in rows
    assert Rating.objects.count() == 1


def test_until_when_is_what_the_version_said_that_they_agreed_to() -> None:
    study = make_study(withdrawal_days=10)
    chat_ = make_conversation(study, n_exchanges=3)
    make_rating(chat_)
    person = chat_.participant
    link = f"/withdraw/{withdrawal_token(person)}/"
    assert "Withdraw and delete" in Client().get(link).content.decode()
    Task.objects.update(ended_at=timezone.now() - timedelta(days=11))
    late = Client().get(link).content.decode()
    assert "The time to withdraw is over" in late
    Client().post(link, {"confirm": "on"})
    person.refresh_from_db()
    assert person.withdrawn_at is None
    assert Turn.objects.count() == 6
    for wrong in (f"{link[:-2]}x/", "/withdraw/nonsense/"):
        assert Client().get(wrong).status_code == 410
    never = make_study("never", withdrawal_days=0)
    chat_ = make_conversation(never, n_exchanges=3)
    make_rating(chat_)
    page = Client().get(f"/withdraw/{withdrawal_token(chat_.participant)}/").content.decode()
    assert "The time to withdraw is over" in page


def test_in_the_middle_of_a_task_it_ends_as_withdrawn() -> None:
    make_study(**BY_PROLIFIC)
    browser = Client(enforce_csrf_checks=True)
    conversation = begin(browser, query=CAME)
    chat(conversation, 2)
    led = browser.get(f"/task/{conversation.task.public_id}/withdraw/")
    browser.get(led.url)
    assert post(browser, led.url, confirm="on").status_code == 302
    task = Task.objects.get()
    assert (task.state, task.outcome, task.told["code"]) == ("withdrawn", Outcome.WITHDRAWN, "GONE1")
    assert "GONE1" in browser.get(led.url).content.decode()


def test_whatever_hangs_on_a_person_or_a_task_goes_or_is_for_pay() -> None:
    """A table that comes later must say which of the two it is, or withdrawing would leave it."""
    people = Participant.objects.none()
    known = {kind.rows(people).model for kind in erasure_kinds().values()}
    emptied = {"Slot"}  # by withdrawing itself
    for owner in (Participant, Task):
        for relation in owner._meta.related_objects:
            model = relation.related_model
            assert model in known or model.__name__ in emptied, model
