"""What needs a person in one study, as its overview says it: pay, flags, reports, bots, what is still to come."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatbots.registry import bots
from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from tests.fakes import FakeStreamBot
from tests.webapp.dashboard.test_reports import reported
from webapp.bots.services import bot_answered, bot_failed
from webapp.core.rights import Right
from webapp.pay.models import Decision
from webapp.pay.services import visits_approve
from webapp.pay.submissions import SubmissionKey
from webapp.ratings.flag_store.models import TaskFlag
from webapp.studies.models import Study, Task

pytestmark = pytest.mark.django_db
Make = Callable[..., SubmissionKey]


@pytest.fixture
def payer(db: None) -> Client:
    return signed_in(Right.READ, Right.PAY, username="payer")


def told(client: Client, study: Study) -> list[str]:
    """Return the lines of the card."""
    html = client.get(f"/dashboard/studies/{study.key}/").content.decode()
    card = html.partition("<h2>Needs you</h2>")[2].partition("</section>")[0]
    lines = re.findall(r"<li.*?</li>", card, re.S)
    return [" ".join(re.sub(r"<[^>]*>", " ", line).split()) for line in lines]


def test_flags_faults_and_decisions_that_wait_are_told_to_who_pays(
    payer: Client, paid: Study, visit: Make, client: Client
) -> None:
    assert told(payer, paid) == []
    flagged, old = visit("rated", "flagged"), visit("rated", "old")
    visit("bot_failed", "lost")
    for bot in paid.bots:
        bot_answered(bot_id=bot)
    task = Task.objects.get(participant=flagged.participant)
    TaskFlag.objects.create(task=task, participant_id=flagged.participant, name="fast")
    long_ago = timezone.now() - timedelta(days=4)
    Task.objects.filter(participant=old.participant).update(ended_at=long_ago)
    assert told(payer, paid) == [
        "1 person lost a chat to a bot failure and should be paid. Decide about pay",
        "1 person has flags and waits for pay. Look at them",
        "1 person finished more than 3 days ago, and waits for a decision about pay. Decide about pay",
    ]
    client.force_login(make_staff(Right.READ))
    assert [line.rpartition(". ")[2] for line in told(client, paid)] == ["Review"]
    visits_approve(study=paid, keys=[flagged, old])
    assert len(told(payer, paid)) == 1
    Decision.objects.filter(participant=old.participant).update(state="failed", error="away")
    assert told(payer, paid)[1] == "1 decision about pay could not be sent. See why"


def test_bots_reports_and_what_is_still_to_come_of_this_study_alone(payer: Client) -> None:
    bots.add(FakeStreamBot(name="shaky", title="Shaky"))
    study = make_study("s", bots=["eliza", "shaky"], n_conversations_wanted=20)
    bots.discard("shaky")
    make_study("other", bots=["eliza"], n_conversations_wanted=20)
    assert told(payer, study) == [
        "shaky is not offered to participants: no bot of this name is here. They get the others meanwhile. See the bot",
        "20 chats are still to come. See people",
    ]
    for _ in range(6):
        chat = make_conversation(study, n_exchanges=3)
        chat.bot = type(chat.bot).objects.get_or_create(
            key="key-eliza", defaults={"bot_id": "eliza", "title": "ELIZA", "version": "1"}
        )[0]
        chat.save()
        make_rating(chat)
    reported(study)
    bot_failed(bot_id="eliza", reason="no GPU", chat="x")
    first, second, *_others, last = told(payer, study)
    assert first == "1 reply reported by people, and not looked at yet. See reports"
    assert second.startswith("ELIZA")
    assert "no GPU" in second
    assert re.fullmatch(r"\d+ chats are still to come. \S+ is \d behind. See people", last)


def test_a_rehearsal_is_one_button_until_there_was_one(client: Client) -> None:
    study = make_study("s")
    client.force_login(make_staff(Right.READ, Right.RUN))
    assert told(client, study)[-1].startswith("New here? Rehearse the study with scripted participants.")
    answer = client.post("/dashboard/studies/s/rehearse/", {"people": "12"})
    assert answer.status_code == 302
    make_conversation(study, is_synthetic=True)
    assert told(client, study) == []
    assert "All clear: no overdue payments" in client.get("/dashboard/studies/s/").content.decode()


def test_more_people_ask_no_more_of_the_database(payer: Client, paid: Study, visit: Make) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            told(payer, paid)
        return len(queries)

    for number in range(8):
        if number == 4:
            asked()
            before = asked()
        visit("rated", f"rated-{number}")
        visit("bot_failed", f"lost-{number}")
    assert asked() == before
