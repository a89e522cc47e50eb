"""Entry and start: nothing is made by looking, consent is needed, a second click changes nothing."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tests.builders import BY_PROLIFIC, exchange, force_bots, make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.task_start import chat_elsewhere_close
from webapp.participant.recruitment_links import recruitment_unsign
from webapp.participant.steps.base import next_step, standing_of
from webapp.studies.models import ConsentText, Participant, Study, Task
from webapp.studies.recruitment.links import link_rows, links_make
from webapp.studies.selectors import rehearsal_token
from webapp.studies.services import task_complete
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def test_the_box_is_not_ticked_and_texts_are_the_studys_own(browser: Client) -> None:
    make_study(
        "own",
        consent_points="First point\nSecond <b>point</b>",
        consent_text="# Full form\n\nWith **weight** and <script>alert(1)</script>",
        instructions_text="Be nice. It helps.",
        payment="£2",
    )
    page = browser.get("/s/own/").content.decode()
    assert "checked" not in page
    assert "Second &lt;b&gt;point&lt;/b&gt;" in page
    assert "<strong>weight</strong>" in page
    assert "<script>alert" not in page
    assert "£2" in page
    assert "It helps." in page


FORM = "# Full form\n\nOf the ethics board."


@pytest.mark.parametrize(
    ("layout", "form", "is_open", "has_points"),
    [
        ("folded", FORM, False, True),
        ("open", FORM, True, True),
        ("form", FORM, True, False),
        ("form", " ", False, True),  # nothing to agree to but the points
    ],
)
def test_a_study_may_show_its_boards_form_alone(
    browser: Client, layout: str, form: str, is_open: bool, has_points: bool
) -> None:
    study = make_study("s", consent_layout=layout, consent_text=form, disclosure="before", bots=["parrot"])
    page = browser.get("/s/s/").content.decode()
    assert ("Of the ethics board." in page) == bool(form.strip())
    assert ("<details" in page) == (bool(form.strip()) and not is_open)
    assert ("You can stop at any time." in page) == has_points
    assert ("you can have your data deleted" in page) == has_points
    # What the researcher switched on stays.
    notice = study.values.people.people_notice.splitlines()[0]
    assert notice in page
    begin(browser)
    agreed = ConsentText.objects.get().texts
    assert ("You can stop at any time." in agreed["consent_points"]) == has_points
    assert notice in agreed["consent_points"]


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, "Unpaid"),
        ({"pay_each": 0}, "Unpaid"),
        ({"pay_each": 1.6, "currency": "GBP"}, "£1.60"),
        ({"pay_each": 1.6, "payment": " £1.60 and a bonus "}, "£1.60 and a bonus"),
    ],
)
def test_people_read_what_they_are_paid_and_it_is_kept(db: None, browser: Client, fields: dict, read: str) -> None:
    make_study("s", **fields)
    assert f">{read}</strong>" in browser.get("/s/s/").content.decode()
    begin(browser)
    agreed = ConsentText.objects.get().texts["payment"]
    assert agreed == ("" if read == "Unpaid" else read)


def test_unknown_study_is_not_found(db: None, browser: Client) -> None:
    assert browser.get("/s/nothing/").status_code == 404
    assert browser.get("/").status_code == 200


def test_without_consent_the_message_stands_beside_the_box(study: Study, browser: Client) -> None:
    page = browser.get("/s/s/?workerId=w1")
    field = entry_field(page)
    response = post(browser, "/s/s/start/", _entry=field)
    assert response.status_code == 200
    assert "Tick the box if you agree to take part." in response.content.decode()
    assert 'aria-invalid="true"' in response.content.decode()
    kept = recruitment_unsign(study, entry_field(response))
    assert kept == recruitment_unsign(study, field), "the recruitment parameters stay"
    assert kept.fields == {"workerId": "w1"}
    assert not Participant.objects.exists()


def test_start_needs_the_form_check(study: Study, browser: Client) -> None:
    browser.get("/s/s/")
    assert browser.post("/s/s/start/", {"consent": "on"}).status_code == 403
    assert browser.get("/s/s/start/").status_code == 405
    assert not Participant.objects.exists()


@pytest.mark.parametrize("query", ["?workerId=w1", "?workerId=w1&assignmentId=a2"])
def test_a_platform_id_alone_opens_nobodys_chat(study: Study, query: str) -> None:
    mine = begin(Client(), query="?workerId=w1&assignmentId=a1")
    stranger = Client()
    page = stranger.get(f"/s/s/{query}")
    response = post(stranger, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 409
    assert "another window" in response.content.decode()
    assert stranger.get(f"/chat/{mine.pk}/").status_code == 404


def test_an_idle_chat_makes_way_for_the_same_workers_next_task(study: Study) -> None:
    first = begin(Client(), query="?workerId=w1&assignmentId=a1")
    Task.objects.update(updated_at=timezone.now() - timedelta(minutes=11))
    second = begin(Client(), query="?workerId=w1&assignmentId=a2")
    assert first != second
    assert first.participant_id == second.participant_id
    assert Participant.objects.get().recruitment["assignmentId"] == "a2", "what pays them now"


def test_codes_are_shown_to_the_same_visit_or_session_alone() -> None:
    study = make_study("one", bots=["eliza"])
    mine = Client()
    conversation = begin(mine, "one", "?workerId=w1&assignmentId=a1")
    chat(conversation, 3)
    code = make_rating(conversation).task.completion_code
    assert study
    for browser, query, sees in (
        (mine, "?workerId=w1", True),
        (Client(), "?workerId=w1&assignmentId=a1", True),
        (Client(), "?workerId=w1", False),
        (Client(), "?workerId=w1&assignmentId=a2", False),
    ):
        assert (code in browser.get(f"/s/one/{query}").content.decode()) is sees, query


def test_two_workers_at_one_computer_have_a_chat_each(study: Study, browser: Client) -> None:
    first = begin(browser, query="?workerId=w1")
    second = begin(browser, query="?workerId=w2")
    assert first != second
    assert first.participant_id != second.participant_id


def test_a_changed_hidden_field_is_refused(study: Study, browser: Client) -> None:
    field = entry_field(browser.get("/s/s/?workerId=w1"))
    response = post(browser, "/s/s/start/", consent="on", _entry=field[:-2] + "xx")
    assert "altered before it reached you" in response.content.decode()
    other = make_study("other")
    browser.get("/s/other/")
    response = post(browser, f"/s/{other.key}/start/", consent="on", _entry=field)
    assert "altered before it reached you" in response.content.decode()
    assert not Participant.objects.exists()


def test_preview_on_mechanical_turk_cannot_start(study: Study, browser: Client) -> None:
    page = browser.get("/s/s/?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h1")
    assert "Accept the task to start" in page.content.decode()
    assert "Start chatting" not in page.content.decode()
    response = post(browser, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 200
    assert not Participant.objects.exists()


def test_rehearsal_marks_the_participant_and_takes_no_place(browser: Client) -> None:
    study = make_study("full", n_conversations_wanted=1)
    person = begin(Client(), "full")
    chat(person, 3)
    make_rating(person)
    assert "all the participants it needs" in browser.get("/s/full/").content.decode()
    conversation = begin(browser, "full", f"?rehearsal={rehearsal_token(study)}")
    assert conversation.is_synthetic
    assert "Rehearsal" in browser.get(f"/chat/{conversation.pk}/").content.decode()
    page = Client().get("/s/full/?rehearsal=forged")
    assert "all the participants it needs" in page.content.decode()


@pytest.mark.parametrize(
    ("state", "words"), [("paused", "is paused"), ("ended", "has ended"), ("draft", "not open yet")]
)
def test_refusals_come_before_consent(study: Study, browser: Client, state: str, words: str) -> None:
    browser.get("/s/s/")
    study.state = state
    study.save()
    page = browser.get("/s/s/?PROLIFIC_PID=p1").content.decode()
    assert words in page
    assert 'name="consent"' not in page
    assert "mailto:lab@example.org" in page
    response = post(browser, "/s/s/start/", consent="on")
    assert response.status_code == 409
    assert words in response.content.decode()
    assert not Participant.objects.exists()


def test_who_rated_every_chatbot_sees_the_codes(study: Study, browser: Client) -> None:
    codes = []
    for session in "ab":
        conversation = begin(browser, query=f"?PROLIFIC_PID=p1&SESSION_ID={session}")
        for _ in range(3):
            exchange(conversation, "hello", "hi")
        codes.append(make_rating(conversation).task.completion_code)
    for client, sees in ((browser, True), (Client(), False)):
        page = client.get("/s/s/?PROLIFIC_PID=p1&SESSION_ID=c").content.decode()
        assert "already rated every chatbot" in page
        assert all((code in page) is sees for code in codes)
        assert "Go to Prolific" in page


def test_no_available_bot_is_our_fault(browser: Client) -> None:
    study = make_study("none")
    page = browser.get("/s/none/")
    force_bots(study, ["taken-out-of-bots-yaml"])
    before_consent = browser.get("/s/none/").content.decode()
    assert "No chatbot is available" in before_consent
    assert 'name="consent"' not in before_consent
    response = post(browser, "/s/none/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 409
    assert "No chatbot is available" in response.content.decode()


@pytest.mark.parametrize(
    "query",
    [
        "?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}",
        "?PROLIFIC_PID=%7B%7B%25PROLIFIC_PID%25%7D%7D",
        "?PROLIFIC_PID=p1&SESSION_ID={{%SESSION_ID%}}",
        "?workerId=${workerId}&assignmentId=a1",
    ],
)
def test_placeholders_that_were_not_filled_in_are_explained_and_store_nothing(
    study: Study, browser: Client, query: str
) -> None:
    name = "Mechanical Turk" if "workerId" in query else "Prolific"
    browser.get("/s/s/")
    for response, status in (
        (browser.get(f"/s/s/{query}"), 200),
        (post(browser, f"/s/s/start/{query}", consent="on"), 409),
    ):
        page = response.content.decode()
        assert response.status_code == status
        assert f"Your {name} ID is missing from this link" in page
        assert f"Open the study from {name} again." in page
        assert 'name="consent"' not in page
        assert "{{" not in page
        assert "${" not in page
    for model in (Participant, Task, Conversation, Session):
        assert not model.objects.exists(), model


def _ids(page: str) -> list[str]:
    return re.findall(r'\sid="([^"]+)"', page)


def test_no_heading_of_the_consent_form_takes_an_id_of_the_page(browser: Client) -> None:
    study = make_study("ids", consent_text="# First\n\n## Second", contact="lab@example.org")
    ids = _ids(browser.get("/s/ids/").content.decode())
    assert {"consent", "consent-error", "start", "title", "help"} <= set(ids)
    text = "\n\n".join(f"{'#' * (1 + n % 3)} {text}" for n, text in enumerate(ids))
    study_edit(study=study, consent_text=text)
    page = browser.get("/s/ids/").content.decode()
    assert _ids(page) == ids, "the same ids, each once, in the same order"
    assert len(set(ids)) == len(ids)
    # Headings stand below the page's own two levels, whatever the form begins with.
    prose = page.split('class="prose" dir="auto">')[1].split("</div>")[0]
    assert set(re.findall(r"<(h\d)", prose)) == {"h3", "h4", "h5"}
    assert f"<h3>{ids[0]}</h3>" in prose


def _taken_in(client: Client, study: Study, link: str) -> Participant:
    """Agree on the page of this link. Returns who has come."""
    page = client.get(link).content.decode()
    entry = re.search(r'name="_entry" value="([^"]+)"', page)
    assert entry is not None, page
    answer = client.post(f"/s/{study.key}/start/", {"consent": "on", "_entry": entry[1]})
    assert answer.status_code == 302
    return Participant.objects.latest("created_at")


@pytest.mark.parametrize("state", ["draft", "paused", "ended"])
def test_a_rehearsal_goes_through_a_study_that_is_closed_to_people(client: Client, state: str) -> None:
    study = make_study(state=state)
    assert 'name="consent"' not in client.get("/s/s/").content.decode()
    link = f"/s/s/?rehearsal={rehearsal_token(study)}"
    first = _taken_in(client, study, link)
    assert first.is_synthetic
    assert study.version.frozen_at is None
    # Under way the link leads back; after the end it begins anew.
    assert "/chat/" in client.get(link).content.decode()
    task_complete(task=first.tasks.get())
    again = _taken_in(client, study, link)
    assert again != first
    assert Task.objects.filter(participant__is_synthetic=False).count() == 0
    # Whoever is no rehearsal is not let in by what a researcher's browser did.
    assert 'name="consent"' not in Client().get("/s/s/").content.decode()
    assert 'name="consent"' not in Client().get("/s/s/?rehearsal=forged").content.decode()


def test_a_content_notice_is_read_and_ticked_before_anybody_begins(browser: Client) -> None:
    make_study("n", content_notice="Chatbots may say <b>hurtful</b> things.\nYou can stop.")
    page = browser.get("/s/n/")
    html = page.content.decode()
    assert "Chatbots may say &lt;b&gt;hurtful&lt;/b&gt; things." in html
    assert html.index('name="notice"') < html.index('name="consent"')
    field = entry_field(page)
    refused = post(browser, "/s/n/start/", consent="on", _entry=field).content.decode()
    assert "Tick the box once you have read the notice." in refused
    assert not Participant.objects.exists()
    assert post(browser, "/s/n/start/", consent="on", notice="on", _entry=field).status_code == 302
    agreed = Participant.objects.get().consent.texts
    assert agreed["content_notice"] == "Chatbots may say <b>hurtful</b> things.\nYou can stop."
    assert agreed["content_notice_ticked"] is True


def test_a_notice_without_a_box_of_its_own_is_only_shown(browser: Client) -> None:
    make_study("n", content_notice="Careful.", content_notice_ticked=False)
    html = browser.get("/s/n/").content.decode()
    assert "Careful." in html
    assert 'name="notice"' not in html
    begin(browser, "n")


SPELLINGS = json.loads((Path(__file__).parents[2] / "cases" / "pid_with_blanks.json").read_text(encoding="utf-8"))[
    "same_person"
]


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({**BY_PROLIFIC}, ("PROLIFIC_PID", "SESSION_ID")),
        ({"platform": "mturk"}, ("workerId", "assignmentId")),
        ({**BY_PROLIFIC, "platform": "panel", "session_parameter": "visit"}, ("id", "visit")),
    ],
)
def test_an_id_with_blanks_and_unseen_characters_is_the_same_person(
    settings: dict[str, Any], parameters: tuple[str, str]
) -> None:
    study = make_study("s", **settings)
    of_person, of_visit = parameters
    chats = {
        begin(
            Client(enforce_csrf_checks=True),
            query="?" + urlencode({of_person: spelling, of_visit: spelling.replace("p", "v")}),
        ).pk
        for spelling in SPELLINGS
    }
    assert len(chats) == 1
    [person] = Participant.objects.filter(study=study)
    assert (person.external_id, person.submission) == ("p1", "v1")
    assert set(person.recruitment.values()) == {"p1", "v1"}
    assert person.tasks.get().submission == "v1"
    chat(Conversation.objects.get(), 3)
    make_rating(Conversation.objects.get())
    code = settings.get("code_rated") or person.tasks.get().completion_code
    again = Client().get("/s/s/", {of_person: " p1\n", of_visit: "\u200bv1"})
    assert f">{code}</p>" in again.content.decode()


def test_an_id_of_unseen_characters_is_none(browser: Client) -> None:
    make_study("s", **BY_PROLIFIC)
    page = browser.get("/s/s/", {"PROLIFIC_PID": "\u200b \ufeff"}).content.decode()
    assert "Your Prolific ID is missing from this link" in page


def test_a_one_time_link_is_pasted_with_blanks() -> None:
    study = make_study("s", platform="links")
    links_make(study=study, n=1)
    [row] = link_rows(study, "http://testserver/s/s/")
    for client, end in ((Client(enforce_csrf_checks=True), "%20%0A"), (Client(), "%E2%80%8B")):
        assert client.get(row.address.removeprefix("http://testserver") + end).status_code == 200
    begin(Client(enforce_csrf_checks=True), query="?" + row.address.partition("?")[2] + "%20")
    assert Participant.objects.get().external_id == "1"


def step_of(conversation: Conversation) -> str | None:
    step = next_step(standing_of(Conversation.objects.get(pk=conversation.pk)))
    return step.name if step else None


def test_who_lost_the_place_to_another_visit_goes_on_with_the_chat(study: Study, browser: Client) -> None:
    left = begin(browser, query="?workerId=w1&assignmentId=a1")
    chat(left, 1)
    long_ago = timezone.now() - timedelta(hours=1)
    Turn.objects.filter(conversation=left).update(created_at=long_ago)
    Task.objects.filter(pk=left.task.pk).update(updated_at=long_ago)
    chat_elsewhere_close(participant=left.participant, submission="a2")
    assert step_of(left) == "chat"
    assert browser.get(f"/chat/{left.pk}/").status_code == 200
