"""What needs a person: in a study as its overview says it, reported and marked replies, and of the whole system."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatbots import Turn as Said
from chatbots.registry import bots
from tests.builders import (
    make_annotated,
    make_conversation,
    make_participant,
    make_rating,
    make_staff,
    make_study,
    signed_in,
)
from tests.fakes import FakeStreamBot
from tests.markup import flat
from webapp.bots.models import Alert
from webapp.bots.services import bot_answered, bot_failed
from webapp.conversations.filtering import FilterLabel, marks_store
from webapp.conversations.models import Conversation, ReplyReport, Turn
from webapp.conversations.services import reply_report
from webapp.core.models import Process
from webapp.core.processes import Signs
from webapp.core.rights import Right
from webapp.insights.action_items import action_items
from webapp.insights.data_quality import marks_of_bots
from webapp.jobs.models import Job, State
from webapp.pay.models import Decision
from webapp.pay.services import visits_approve
from webapp.pay.submissions import SubmissionKey
from webapp.ratings.flag_store.models import TaskFlag
from webapp.studies.models import Item, Study, Task
from webapp.studies.services import task_open
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db


Make = Callable[..., SubmissionKey]


@pytest.fixture
def payer(db: None) -> Client:
    return signed_in(Right.READ, Right.PAY, username="payer")


def told(client: Client, study: Study) -> list[str]:
    """Return the lines of the card."""
    html = client.get(f"/dashboard/studies/{study.key}/").content.decode()
    card = html.partition("<h2>Needs attention</h2>")[2].partition("</section>")[0]
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
        "1 person has flags and is waiting for pay. Review",
        "1 person finished more than 3 days ago and waits for a decision on pay. Decide about pay",
    ]
    client.force_login(make_staff(Right.READ))
    assert [line.rpartition(". ")[2] for line in told(client, paid)] == ["Review"]
    visits_approve(study=paid, keys=[flagged, old])
    assert len(told(payer, paid)) == 1
    Decision.objects.filter(participant=old.participant).update(state="failed", error="away")
    assert told(payer, paid)[1] == "1 decision on pay could not be sent. See why"


def test_bots_reports_and_what_is_still_to_come_of_this_study_alone(payer: Client) -> None:
    bots.add(FakeStreamBot(name="shaky", title="Shaky"))
    study = make_study("s", bots=["eliza", "shaky"], n_conversations_wanted=20)
    bots.discard("shaky")
    make_study("other", bots=["eliza"], n_conversations_wanted=20)
    assert told(payer, study) == [
        (
            "shaky is not assigned to participants: no bot of this name is registered. They get the other bots in the "
            "meantime. See the bot"
        ),
        "20 chats are still needed. See people",
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
    assert first == "1 reply reported by participants but not reviewed yet. See reports"
    assert second.startswith("ELIZA")
    assert "no GPU" in second
    assert re.fullmatch(r"\d+ chats are still needed. \S+ is \d behind. See people", last)


def test_a_rehearsal_is_one_button_until_there_was_one(client: Client) -> None:
    study = make_study("s")
    client.force_login(make_staff(Right.READ, Right.RUN))
    assert told(client, study)[-1].startswith("New here? Scripted participants can test the study.")
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


def reported(study: Study, n: int = 1) -> Conversation:
    """Make a chat whose replies are reported, the first with words."""
    chat = make_conversation(study, n_exchanges=n)
    for turn in Turn.objects.filter(conversation=chat, speaker="bot"):
        reply_report(participant=chat.participant, turn=turn, reason="other", words="<i>odd</i>")
    return chat


def marked(chat: Conversation, *, withheld: Sequence[int] = ()) -> None:
    turns = list(Turn.objects.filter(conversation=chat, speaker="bot"))
    for turn in turns:
        if turn.index in withheld:
            Turn.objects.filter(pk=turn.pk).update(withheld_text="I am GPT-4.")
    marks_store(
        turns,
        [
            [FilterLabel("names_model", {"name": "x"}, "It says so.", ("GPT-4",), turn.index in withheld)]
            for turn in turns
        ],
    )


def test_a_report_is_seen_on_the_page_in_the_reader_and_among_the_needs(staff: Client) -> None:
    study = make_study("s")
    chat = reported(study)
    marked(chat, withheld=[1])
    address = f"/dashboard/studies/{study.key}/people/reports/"
    people = f"/dashboard/studies/{study.key}/people/"
    make_conversation(study)
    listed = flat(staff.get(people, {"show": "reported"}).content.decode())
    assert "1 new report by participants." in listed
    assert "1 of 1" in listed, "replies that a filter found"
    assert listed.count("/people/" + str(chat.participant_id)) == listed.count('class="person-id"') == 1
    page = staff.get(f"{people}{chat.participant_id}/").content.decode()
    assert "Something else" in page
    assert "&lt;i&gt;odd&lt;/i&gt;" in page
    assert "I am GPT-4." in page  # staff read what was withheld
    assert f"/dashboard/conversations/{chat.pk}/?turn=1" in page
    assert any("reported by participants" in action_item.rest for action_item in action_items())
    reader = staff.get(f"/dashboard/conversations/{chat.pk}/", follow=True).content.decode()
    assert "Reported: Something else. “&lt;i&gt;odd&lt;/i&gt;”" in reader
    assert "Names its model: It says so. “GPT-4”" in reader
    assert "Blocked; the bot’s reply" in reader
    [report] = ReplyReport.objects.all()
    assert staff.post(address, {"seen": "nonsense"}).status_code == 302
    assert not ReplyReport.objects.exclude(seen_at=None).exists()
    back = staff.post(address, {"seen": str(report.pk), "person": chat.participant_id.hex})
    assert back["Location"] == f"{people}{chat.participant_id}/"
    report.refresh_from_db()
    assert report.seen_by
    assert not any("reported by participants" in action_item.rest for action_item in action_items())
    assert "Mark all as seen" not in staff.get(people).content.decode()


def test_reports_of_items_name_the_item_and_its_model(staff: Client) -> None:
    study = make_annotated("a")
    item = Item.objects.filter(study=study).first()
    person = task_open(participant=make_participant(study)).participant
    reply_report(participant=person, item=item, response=0, reason="sexual", words="")
    page = staff.get(f"/dashboard/studies/{study.key}/people/{person.pk}/").content.decode()
    assert f"Item {item.key}" in page
    [row] = exporter_get("reports").rows(study, ExportOptions())
    assert row[3:9] == ["", None, item.key, 0, item.responses[0]["model"], "sexual"]


def test_the_pages_ask_no_more_with_more_reports(staff: Client) -> None:
    study = make_study("s")
    counts = []
    for _time in range(3):
        marked(reported(study, n=3))
        with CaptureQueriesContext(connection) as queries:
            staff.get(f"/dashboard/studies/{study.key}/people/?show=reported")
        counts.append(len(queries))
    assert counts[1] == counts[2]


def test_bots_show_how_often_they_name_their_model(staff: Client) -> None:
    chat = reported(make_study("s", bots=["eliza"]), n=2)
    turn = Turn.objects.filter(conversation=chat, index=1)
    marks_store(list(turn), [[FilterLabel("names_model", {}, "It says so.", ("ELIZA",))]])
    result = marks_of_bots(["eliza", "parrot"])
    assert {(key, one.marked, one.replies) for key, one in result.items()} == {("eliza", 1, 2)}
    for address in ("/dashboard/bots/", "/dashboard/bots/eliza/"):
        assert "1 of 2 replies name the model" in flat(staff.get(address).content.decode())
    [row] = exporter_get("reply_marks").rows(chat.study, ExportOptions())
    assert row[4:8] == [1, "names_model", {}, ["ELIZA"]]


def test_self_play_is_marked_and_withholds_nothing() -> None:
    from evaluation.simulation.selfplay import SelfPlayed
    from webapp.bots.selectors import bot_find
    from webapp.bots.services import bot_version_record
    from webapp.jobs.services.selfplay import run_create, selfplay_store

    run = run_create(bots=["eliza"], n_conversations=1, n_turns=2)
    said = (Said("human", "I am GPT-4"), Said("bot", "As an AI language model, I am ELIZA."))
    from chatbots import Conversation as Dialogue

    played = SelfPlayed(Dialogue(id="d", turns=said, seed=1))
    version = bot_version_record(bot=bot_find("eliza"))
    selfplay_store(run=run, version=version, ordinals=[0], played=[played])
    turn = Turn.objects.get(speaker="bot")
    assert turn.text.startswith("As an AI")
    assert turn.marks.get().found == ["As an AI language model", "I am ELIZA"]
    assert json.dumps(turn.marks.get().identity)


def browser(*rights: Right) -> Client:
    return signed_in(*rights, username="-".join(rights))


def signs_of(role: str, settings: Any, **details: Any) -> Process:
    settings.CONFAB_SIGN_EVERY_S = 10.0
    signs = Signs()
    signs.begin(role, in_thread=False, **details)
    signs.give()
    return Process.objects.get(pk=signs.id)


def test_an_installation_that_tells_nothing_says_so() -> None:
    text = browser(Right.READ).get("/dashboard/settings/system/").content.decode()
    assert "No process has reported yet." in text
    assert "No problem found." in text

    text = browser(Right.READ, Right.RUN).get("/dashboard/settings/alerts/").content.decode()
    assert "No alert has been sent yet." in text
    assert "Send a test alert" not in text  # for administrators alone


def test_where_jobs_wait_for_minutes_it_is_not_said_that_nothing_is_wrong() -> None:
    waits = Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    client = browser(Right.READ)
    assert "No problem found" in client.get("/dashboard/settings/system/").content.decode()
    Job.objects.filter(pk=waits.pk).update(created_at=timezone.now() - timedelta(minutes=4))
    text = client.get("/dashboard/settings/system/").content.decode()
    assert "Analyses: 1 waits, the oldest for 4 min." in text
    assert "No problem found" not in text
    assert [action_item.rest for action_item in action_items()] == ["Analyses: 1 waits, the oldest for 4 min."]


def test_processes_queues_and_what_is_wrong_stand_there(settings: Any) -> None:
    replaced = signs_of("web", settings)
    Process.objects.filter(pk=replaced.pk).update(heard_at=timezone.now() - timedelta(minutes=4))
    web = signs_of("web", settings)
    web.load["hangs"] = {"threads": 120.0}
    web.save()
    gone = signs_of("bot_host", settings, pool="gpu2")
    Process.objects.filter(pk=gone.pk).update(heard_at=timezone.now() - timedelta(minutes=4))
    waits = Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    Job.objects.filter(pk=waits.pk).update(created_at=timezone.now() - timedelta(hours=1))
    client = browser(Right.READ)
    for address in ("/dashboard/settings/system/", "/dashboard/settings/system/live/"):
        text = client.get(address).content.decode()
        assert f"Bot host on {gone.host} is silent" in text
        assert "bots of pool gpu2" in text
        assert f"Web on {web.host} hangs" in text
        assert f"kill -9 {web.pid}" in text
        assert text.count("Silent</span>") == 1, "who was replaced is missed by nobody"
        assert "All its page threads have been busy" in text
        assert f"Hangs since {web.heard_at - timedelta(minutes=2):%H:%M}" in text
        assert "The queue analysis is stuck" in text
        assert "1 job is waiting, and no worker has made progress" in text
        assert "No bot host is reporting" in text
        assert "No problem found" not in text
    leads = [action_item.lead for action_item in action_items()]
    assert leads == [f"Bot host on {gone.host} is silent.", f"Web on {web.host} hangs.", "The queue analysis is stuck."]


def test_retention_says_what_is_erased_when() -> None:
    study = make_study("kept", ids_kept_days=10, texts_kept_days=1)
    Study.objects.filter(pk=study.pk).update(ended_at=datetime(2026, 3, 1, tzinfo=UTC))
    make_study("open", ids_kept_days=1)
    answer = browser(Right.READ).get("/dashboard/settings/retention/")
    assert answer.status_code == 200
    words = " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())
    assert "1 Mar 2026 erased on 11 Mar 2026 erased on 2 Mar 2026" in words
    assert "not yet 1 day after the end kept" in words


def test_a_state_that_cannot_be_read_is_told_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("webapp.dashboard.views.system.system_now", away)
    answer = browser(Right.READ).get("/dashboard/settings/system/")
    assert answer.status_code == 200
    assert "The status could not be read." in answer.content.decode()
    assert 'data-live="/dashboard/settings/system/live/"' in answer.content.decode()


def test_the_button_sends_a_test_where_a_way_is_set_up(settings: Any) -> None:
    client = browser(Right.READ, Right.ADMINISTER)
    answer = client.post("/dashboard/settings/alerts/test/", follow=True)
    assert "neither CONFAB_ALERT_WEBHOOK nor CONFAB_ALERT_EMAILS is set" in answer.content.decode()
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    text = client.post("/dashboard/settings/alerts/test/", follow=True).content.decode()
    assert "A test alert was sent." in text
    assert "Confab: a test" in text
    assert "Sending" in text
    Alert.objects.update(error="<b>the server</b> is away")
    text = client.get("/dashboard/settings/alerts/live/").content.decode()
    assert "&lt;b&gt;the server" in text
    assert Job.objects.filter(kind="alert").count() == 1


def test_settings_lead_to_a_page_that_the_user_may_open_and_old_addresses_to_the_new() -> None:
    client = browser(Right.READ)
    answer = client.get("/dashboard/settings/", follow=True)
    assert answer.status_code == 200
    assert answer.redirect_chain[0][0].startswith("/dashboard/settings/")
    for old, new in (("system", "settings/system"), ("tokens", "settings/tokens")):
        assert client.get(f"/dashboard/{old}/")["Location"] == f"/dashboard/{new}/"
