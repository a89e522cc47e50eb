"""A study in a survey's frame, as somebody sees it who means no good: framing, ids of others, links, erasure."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core import serializers
from django.core.management import call_command
from django.test import Client

from tests.builders import make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, policy, post
from webapp.conversations.models import Conversation
from webapp.participant.access import frame_ancestors
from webapp.studies.models import Outcome, Participant, PlatformIds, Study, Task
from webapp.studies.recruitment.completion import ending_of, tasks_with_endings
from webapp.studies.recruitment.settings import RecruitmentValues, frame_origins
from webapp.studies.validation.sections import validate_frame_origins, validate_links

pytestmark = pytest.mark.django_db
SURVEY = "https://survey.example.org"
RID = "R_2aXbPq8Lm0wYt7K"


@pytest.fixture
def study(db: None) -> Study:
    links = {f"link_{outcome}": SURVEY + "/back?c={conversation}&o={outcome}&k={code}" for outcome in Outcome.values}
    return make_study("s", platform="panel", id_parameter="rid", frame_ancestors=SURVEY, **links)


@pytest.mark.parametrize("name", ["rid", "PROLIFIC_PID", "workerId"])
def test_a_long_id_is_refused_instead_of_cut(study: Study, browser: Client, name: str) -> None:
    longest = "i" * 200
    for text in (longest + "a", longest + "b"):
        page = browser.get("/s/s/", {name: text}).content.decode()
        assert "Your participant ID is too long" in page
        assert 'name="consent"' not in page
        refused = Client().post(f"/s/s/start/?{name}={text}", {"consent": "on"})
        assert refused.status_code == 409
    assert not Participant.objects.exists()
    begin(browser, query=f"?rid={longest}")
    assert Participant.objects.get().external_id == longest


@pytest.mark.parametrize(
    ("origins", "refused"),
    [
        ("https://*", "would let sites of other people show the study"),
        ("https://*.com", "would let sites of other people show the study"),
        ("https://*.*", "would let sites of other people show the study"),
        ("https://*.co.uk", "would let sites of other people show the study"),
        ("https://*.COM.au:443", "would let sites of other people show the study"),
        ("https://a*b.example.org", "would let sites of other people show the study"),
        ("survey.example.org", "is not an origin"),
        ("https://survey.example.org/path", "is not an origin"),
        ("javascript:alert(1)", "is not an origin"),
        ("'self'", "is not an origin"),
        ("https://*.lab.co.uk https://co.uk https://*.co.example.org https://*.example.co", ""),
        ("https://*.example.org https://survey.example.org:8443 http://localhost:8000", ""),
    ],
)
def test_origins_that_admit_strangers_are_rejected_with_the_reason(origins: str, refused: str) -> None:
    errors = validate_frame_origins(RecruitmentValues(frame_ancestors=origins))
    assert refused in str(errors.get("frame_ancestors", ""))
    assert bool(refused) == bool(errors)


def test_a_stored_wide_origin_frames_nothing() -> None:
    assert frame_origins("https://* https://ok.example.org")[0] == ["https://ok.example.org"]


@pytest.mark.parametrize("link", ["https://example.org{more}", "https://{more}.example.org/", "https://a.org:{more}/x"])
def test_a_participants_link_cannot_choose_the_host_to_return_to(link: str) -> None:
    values = RecruitmentValues(platform="panel", more_parameters="more")
    errors = validate_links(values.model_copy(update={"link_rated": link}))
    assert "The host must not contain a placeholder" in errors["link_rated"]


def test_values_of_a_link_stay_inside_their_parameter(
    study: Study, browser: Client, django_assert_num_queries: Any
) -> None:
    conversation = begin(browser, query="?rid=x%26o%3Dbad%2F..%2F%2Fevil.example")
    chat(conversation, 3)
    make_rating(conversation)
    page = browser.get(f"/chat/{conversation.pk}/done/").content.decode()
    assert f'href="{SURVEY}/back?c={conversation.pk}&amp;o=rated&amp;k=' in page
    with django_assert_num_queries(1):  # lists of codes need no links
        assert [ending.code for task in tasks_with_endings(Task.objects.all()) if (ending := ending_of(task))]


def test_every_page_of_a_framed_study_names_its_sites_and_no_other(study: Study, browser: Client) -> None:
    pages = [browser.get("/s/s/"), browser.get(f"/s/s/?rid={RID}")]
    conversation = begin(browser, query=f"?rid={RID}")
    task = Task.objects.get()
    here = f"/chat/{conversation.pk}/"
    pages += [browser.get(here), browser.get(f"/task/{task.public_id}/elsewhere/")]
    chat(conversation, 3)
    pages += [browser.get(f"{here}rate/"), post(browser, f"{here}rate/"), browser.get("/s/s/messages/")]
    make_rating(conversation)
    pages += [browser.get(f"{here}done/"), browser.get(f"/s/s/?rid={RID}"), Client().get(f"/s/s/?rid={RID}")]
    for page in pages:
        assert page.status_code in (200, 302, 400), page.status_code
        assert policy(page)["frame-ancestors"] == [SURVEY], page.request["PATH_INFO"]
        assert "X-Frame-Options" not in page
    make_study("other")
    for address in ("/s/other/", "/", here):
        page = Client().get(address)
        assert page.status_code == (404 if address == here else 200)
        assert policy(page)["frame-ancestors"] == ["'none'"]
        assert page["X-Frame-Options"] == "DENY"
    assert frame_ancestors(study) == [SURVEY]


@pytest.mark.parametrize("rid", ["7", "000123", "482913"])
def test_a_running_number_opens_nobodys_chat_or_end(study: Study, browser: Client, rid: str) -> None:
    conversation = begin(browser, query=f"?rid={rid}")
    chat(conversation, 1)
    thief = Client(enforce_csrf_checks=True)
    page = thief.get(f"/s/s/?rid={rid}")
    assert "message 0" not in page.content.decode()
    started = post(thief, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert started.status_code == 409, "their chat is in use elsewhere"
    assert thief.get(f"/chat/{conversation.pk}/").status_code == 404
    chat(conversation, 2)
    code = make_rating(conversation).task.completion_code
    text = thief.get(f"/s/s/?rid={rid}").content.decode()
    assert code not in text
    assert str(conversation.pk) not in text
    assert code in browser.get(f"/s/s/?rid={rid}").content.decode(), "its own browser is led to its end"
    assert Conversation.objects.count() == 1


@pytest.mark.parametrize(("visit", "is_open"), [("12", False), ("v_8Lm0wYt7K2aXbPq", True)])
def test_an_id_of_a_visit_that_cannot_be_guessed_opens_the_chat(browser: Client, visit: str, is_open: bool) -> None:
    links = {f"link_{outcome}": f"{SURVEY}/back" for outcome in Outcome.values}
    parameters = {"id_parameter": "rid", "session_parameter": "v"}
    make_study("s", platform="panel", frame_ancestors=SURVEY, **parameters, **links)
    query = f"?rid=7&v={visit}"
    conversation = begin(browser, query=query)
    chat(conversation, 1)
    other = Client(enforce_csrf_checks=True)
    started = post(other, "/s/s/start/", consent="on", _entry=entry_field(other.get(f"/s/s/{query}")))
    assert started.status_code == (302 if is_open else 409)


def test_an_id_that_cannot_be_guessed_leads_back_without_cookies(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=f"?rid={RID}")
    chat(conversation, 1)
    frame = Client(enforce_csrf_checks=True)
    page = frame.get(f"/s/s/?rid={RID}")
    frame.cookies.clear()
    field = page.content.decode().split('name="_entry" value="')[1].split('"')[0]
    started = frame.post("/s/s/start/", {"consent": "on", "_entry": field})
    assert started.url.startswith(f"/chat/{conversation.pk}/?t=")


def test_response_ids_are_erased_like_platform_ids(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=f"?rid={RID}")
    chat(conversation, 3)
    make_rating(conversation)
    browser.get(f"/chat/{conversation.pk}/done/")
    assert PlatformIds.objects.get().external_id == RID
    call_command("erase", study="s", external_id=RID, stdout=StringIO(), stderr=StringIO())
    models = [Participant, Task, PlatformIds, Conversation]
    stored = json.dumps([serializers.serialize("json", model.objects.all()) for model in models])
    assert RID not in stored
    assert "Thank you" not in Client().get(f"/s/s/?rid={RID}").content.decode()
