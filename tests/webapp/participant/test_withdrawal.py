"""Withdrawing after the end: by the person's link and by the platform's, what goes, what stays, until when."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import models
from django.test import Client
from django.utils import timezone

from tests.builders import BY_PROLIFIC, exchange, make_conversation, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, post
from tests.webapp.studies.test_erasure import SECRET, exported, make_person
from webapp.conversations.models import Conversation, Turn
from webapp.pay.submissions import submissions_of
from webapp.ratings.models import Rating
from webapp.studies.models import Erasure, Outcome, Participant, Task, TaskCount
from webapp.studies.privacy import erasure_kinds, withdrawal_token
from webapp.studies.selectors import study_refusal

pytestmark = pytest.mark.django_db
CAME = "?PROLIFIC_PID=p1&STUDY_ID=s1&SESSION_ID=v1"
IDS = {"PlatformIds", "PlatformVisit", "HookEvent", "Task", "Decision"}
"""What holds platforms' ids, for pay."""


def tables_with(*marks: str) -> set[str]:
    """Return the names of all tables in whose texts or JSON one of the marks stands."""
    found = set()
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
                found.add(model.__name__)
    return found


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
    said = elsewhere.get(link).content.decode()
    assert "All your data have been deleted." in said
    assert "RATED1" in said
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
