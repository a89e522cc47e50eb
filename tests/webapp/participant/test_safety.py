"""The safety net for what participants write: helpline text, mark, alert, end with credit, and erasure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import make_study, signed_in
from tests.webapp.participant.conftest import begin
from tests.webapp.participant.test_chat_requests import answer, message, send, state
from webapp.bots.models import Alert
from webapp.conversations.models import Conversation, DistressMark
from webapp.core.rights import Right
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.checklist import findings_of
from webapp.operating.distress_alerts import distress_alerts_make
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.safety import SHIPPED_PHRASES, distress_source
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db

HELP = "Call 116 123 now, free and at any hour."
WORDS = "I don’t want to live, said the parrot of Aix"


def watched(key: str = "s", **fields: Any) -> Study:
    return make_study(key, **{"min_exchanges": 1, "watches_messages": True, "helpline_text": HELP, **fields})


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def test_off_by_default_and_silent_without_signs(browser: Client) -> None:
    make_study("s", min_exchanges=1)
    chat = begin(browser).pk
    assert types(send(browser, chat, message(WORDS)).json()) == ["turn"]
    assert HELP not in browser.get(f"/chat/{chat}/").content.decode()
    assert not DistressMark.objects.exists()


def test_a_message_shows_the_helpline_marks_the_chat_and_goes_on(browser: Client, settings: Any) -> None:
    settings.CONFAB_ALERT_WEBHOOK = "https://lab.example.org/hook"
    watched()
    chat = begin(browser).pk
    page = browser.get(f"/chat/{chat}/").content.decode()
    assert HELP in page
    assert 'id="helpline" role="alert" hidden' in page
    assert types(send(browser, chat, message("A killer film, I nearly died laughing")).json()) == ["turn"]
    answer(chat)
    assert types(send(browser, chat, message(WORDS)).json()) == ["turn", "helpline"]
    answer(chat)
    # After a reload, and for a page without a socket.
    assert types(state(browser, chat)) == ["history", "helpline"]
    mark = DistressMark.objects.get()
    assert (mark.turn.text, mark.source) == (WORDS, "phrases")
    # An alert has a link and none of the words; it is sent once.
    assert distress_alerts_make() == 1
    assert distress_alerts_make() == 0
    alert = Alert.objects.get()
    assert alert.event == Alert.Event.DISTRESS
    assert alert.said["link"] == f"/dashboard/studies/s/conversations/?chat={chat}"
    assert "parrot" not in json.dumps(alert.said)
    # Nothing is excluded or ended by the mark.
    assert Conversation.objects.get(pk=chat).state == Conversation.State.OPEN
    staff = signed_in(Right.READ, Right.PRIVATE, Right.ADMINISTER)
    people = staff.get("/dashboard/studies/s/people/").content.decode()
    assert "Messages with signs of distress" in people
    assert "Signs of distress: found by a listed phrase" in staff.get(alert.said["link"]).content.decode()
    assert "with signs of distress, not seen yet" in staff.get("/dashboard/").content.decode()
    assert staff.post("/dashboard/studies/s/people/reports/", {"distress": "all"}).status_code == 302
    mark.refresh_from_db()
    assert mark.seen_at is not None
    assert "with signs of distress, not seen yet" not in staff.get("/dashboard/").content.decode()
    # It goes with the person.
    assert participants_erase(participants=Participant.objects.all())["distress"] == 1
    assert not DistressMark.objects.exists()


def test_a_chat_can_end_with_full_pay(browser: Client) -> None:
    watched(ends_on_distress=True, pay_each=2.0)
    chat = begin(browser).pk
    frames = send(browser, chat, message(WORDS)).json()
    assert types(frames) == ["turn", "helpline", "error"]
    assert (frames[-1]["code"], frames[-1]["ended"]) == ("closed", True)
    task = Task.objects.get()
    assert (task.state, task.outcome) == (Task.State.COMPLETED, Outcome.BOT_FAILED)
    conversation = Conversation.objects.get(pk=chat)
    assert (conversation.state, conversation.due_turn) == (Conversation.State.ENDED, None)
    done = browser.get(f"/chat/{chat}/", follow=True).content.decode()
    assert HELP in done
    assert task.completion_code in done
    assert send(browser, chat, message("and on")).json()[0]["code"] == "closed"
    assert DistressMark.objects.count() == 1


def test_rehearsals_raise_no_alert(browser: Client) -> None:
    watched()
    chat = begin(browser).pk
    send(browser, chat, message(WORDS))
    Conversation.objects.update(is_synthetic=True)
    assert distress_alerts_make() == 1
    assert not Alert.objects.exists()


def errors(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        watched("x", state=Study.State.DRAFT, **fields)
    return refused.value.message_dict


def test_it_needs_a_helpline_text_in_each_language() -> None:
    assert errors(helpline_text=" ") == {"helpline_text": ["Enter a helpline text, or do not watch messages."]}
    languages = {"languages": ["en", "de", "ar"], "translations": {"de": {HELP: "Rufen Sie 116 123 an."}}}
    assert "into ar." in errors(**languages)["helpline_text"][0]
    assert "There is no filter “tox”." in errors(distress_filter="tox")["distress_filter"][0]
    study = watched("both", languages=["en", "de"], translations=languages["translations"])
    browser = Client()
    assert "116 123 an." in browser.get(f"/chat/{begin(browser, 'both', '?lang=de').pk}/").content.decode()
    assert distress_source("Ich will sterben", study.values) == "phrases"


def test_languages_without_phrases_are_named_before_opening() -> None:
    study = watched("s", language="ar", languages=["ar"], state=Study.State.DRAFT)
    [finding] = [finding for finding in findings_of(Plan(study)) if finding.lead == "Safety net."]
    assert "Arabic" in finding.rest
    study = study_edit(study=study, distress_phrases={"ar": ["أريد أن أموت"]})
    assert not [finding for finding in findings_of(Plan(study)) if finding.lead == "Safety net."]
    assert distress_source("قلت: أريد أن أموت.", study.values) == "phrases"


def test_each_shipped_phrase_is_found_in_a_sentence_and_not_in_part_of_a_word() -> None:
    values = watched("s", languages=["en", "de"], translations={"de": {HELP: HELP}}).values
    for phrase in (phrase for phrases in SHIPPED_PHRASES.values() for phrase in phrases):
        assert distress_source(f"Well, {phrase.upper()}!", values) == "phrases", phrase
        assert distress_source(f"x{phrase}x", values) == "", phrase


def test_a_filter_that_fails_loses_no_message(browser: Client, caplog: pytest.LogCaptureFixture) -> None:
    watched(distress_filter="names_model", distress_phrases={"en": ["only this"]})
    chat = begin(browser).pk
    assert types(send(browser, chat, message("As an AI language model I say so")).json()) == ["turn", "helpline"]
    assert DistressMark.objects.get().source == "names_model"
    answer(chat)
    study_values = Study.objects.get().values
    broken = study_values.model_copy(
        update={"safety": study_values.safety.model_copy(update={"distress_filter": "classifier"})}
    )
    assert distress_source("hello", broken) == ""
    assert "a message was not checked" in caplog.text
