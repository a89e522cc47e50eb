"""Who opens a chat: the session, or a signed token where cookies do not arrive. Who frames it."""

from __future__ import annotations

import re
import uuid
from urllib.parse import unquote

import pytest
from django.test import Client

from tests.builders import make_conversation, make_study
from tests.webapp.participant.conftest import ANSWERS, begin, chat, csrf, entry_field, policy, post
from webapp.conversations.models import Conversation
from webapp.participant.access import frame_ancestors
from webapp.studies.models import Study
from webapp.studies.selectors import participant_token
from webapp.studies.versions import values_made

pytestmark = pytest.mark.django_db
PAGES = ["", "rate/", "done/"]
POSTS = ["rate/", "swap/", "finish/", "withdraw/"]


@pytest.mark.parametrize("page", PAGES)
def test_a_stranger_finds_nothing(study: Study, browser: Client, page: str) -> None:
    theirs = make_conversation(study, n_exchanges=3)
    begin(browser)
    for pk in (theirs.pk, uuid.uuid4()):
        response = browser.get(f"/chat/{pk}/{page}")
        assert response.status_code == 404
        assert "We cannot open this chat here" in response.content.decode()


@pytest.mark.parametrize("page", POSTS)
def test_a_stranger_changes_nothing(study: Study, browser: Client, page: str) -> None:
    theirs = make_conversation(study, n_exchanges=3)
    begin(browser)
    assert post(browser, f"/chat/{theirs.pk}/{page}", **ANSWERS).status_code == 404
    theirs.refresh_from_db()
    assert theirs.state == Conversation.State.OPEN
    assert theirs.turns.count() == 6


@pytest.mark.parametrize("page", POSTS)
def test_posts_need_the_form_check(study: Study, browser: Client, page: str) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    assert browser.post(f"/chat/{conversation.pk}/{page}", ANSWERS).status_code == 403
    token = participant_token(conversation.participant)
    response = browser.post(f"/chat/{conversation.pk}/{page}", {**ANSWERS, "_t": token})
    assert response.status_code == 403, "with cookies the token is no way around the check"
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.OPEN


class Frame:
    """A recruitment frame: a browser that keeps no cookie at all."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def get(self, path: str):
        return self._note(Client(enforce_csrf_checks=True).get(path))

    def post(self, path: str, data: dict[str, str]):
        return self._note(Client(enforce_csrf_checks=True).post(path, data))

    def _note(self, response):
        self.seen += [name for name in response.cookies if name != "csrftoken"]
        return response


def test_the_whole_way_without_cookies(study: Study) -> None:
    frame = Frame()
    page = frame.get("/s/s/?workerId=w1&assignmentId=a1&turkSubmitTo=https://www.mturk.com")
    started = frame.post("/s/s/start/", {"consent": "on", "_entry": entry_field(page)})
    assert started.status_code == 302
    assert "?t=" in started.url
    conversation = Conversation.objects.get()
    token = started.url.split("?t=")[1]

    page = frame.get(started.url).content.decode()
    assert 'data-token="' in page
    assert f"/chat/{conversation.pk}/rate/?t=" in page
    assert 'name="_t"' in page
    assert frame.get(f"/chat/{conversation.pk}/").status_code == 404

    chat(conversation, 3)
    assert 'name="_t"' in frame.get(f"/chat/{conversation.pk}/rate/?t={token}").content.decode()
    refused = frame.post(f"/chat/{conversation.pk}/rate/", ANSWERS)
    assert refused.status_code == 404
    rated = frame.post(f"/chat/{conversation.pk}/rate/", {**ANSWERS, "_t": unquote(token)})
    assert rated.status_code == 302
    assert "?t=" in rated.url
    done = frame.get(rated.url)
    conversation.task.refresh_from_db()
    assert conversation.task.completion_code in done.content.decode()
    assert not frame.seen, "no session is given to a request without cookies"


def test_with_cookies_the_token_stays_out_of_links(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    page = browser.get(f"/chat/{conversation.pk}/").content.decode()
    assert "?t=" not in page
    assert "data-token" not in page


def test_without_cookies_and_without_signed_field_nothing_starts(study: Study) -> None:
    response = Frame().post("/s/s/start/", {"consent": "on"})
    assert response.status_code == 403
    response = Frame().post("/s/s/start/", {"consent": "on", "_entry": "made:up"})
    assert response.status_code == 403


def test_a_token_opens_its_own_chat_alone(study: Study, browser: Client) -> None:
    mine, theirs = make_conversation(study), make_conversation(study)
    token = participant_token(mine.participant)
    assert browser.get(f"/chat/{mine.pk}/?t={token}").status_code == 200
    assert browser.get(f"/chat/{theirs.pk}/?t={token}").status_code == 404
    assert browser.get(f"/chat/{mine.pk}/?t={token[:-1]}").status_code == 404


def test_a_token_of_another_study_does_not_enter(study: Study, browser: Client) -> None:
    elsewhere = make_conversation(make_study("elsewhere"))
    token = participant_token(elsewhere.participant)
    page = browser.get(f"/s/s/?t={token}")
    response = browser.post(
        "/s/s/start/", {"consent": "on", "_t": token, "_entry": entry_field(page), "csrfmiddlewaretoken": csrf(browser)}
    )
    conversation = Conversation.objects.get(study=study)
    assert response.url == f"/chat/{conversation.pk}/"
    assert conversation.participant_id != elsewhere.participant_id


def test_nobody_frames_a_study_that_names_no_one(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    for path in ("/s/s/", f"/chat/{conversation.pk}/"):
        directives = policy(browser.get(path))
        assert directives["frame-ancestors"] == ["'none'"]
        assert directives["default-src"] == ["'none'"]
        assert directives["script-src"] == ["'self'"]
        assert directives["style-src"] == ["'self'"]


def test_named_platforms_may_frame(browser: Client) -> None:
    study = make_study("framed", frame_ancestors="https://www.mturk.com https://workersandbox.mturk.com")
    conversation = begin(browser, "framed")
    for path in (f"/s/{study.key}/", f"/chat/{conversation.pk}/"):
        response = browser.get(path)
        assert policy(response)["frame-ancestors"] == ["https://www.mturk.com", "https://workersandbox.mturk.com"]
        assert "X-Frame-Options" not in response


def test_what_is_no_origin_is_left_out(study: Study) -> None:
    values = study.values.flat()
    values["frame_ancestors"] = "https://a.example; script-src *, http://b.example:8080 'self' data:"
    study.version.values = values_made({}, values)
    assert frame_ancestors(study) == ["https://a.example", "http://b.example:8080"]


def test_pages_carry_no_inline_code_and_send_no_path_as_referrer(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    paths = ["/", "/s/s/", f"/chat/{conversation.pk}/", f"/chat/{conversation.pk}/rate/"]
    for path in paths:
        response = browser.get(path)
        page = response.content.decode()
        assert response["Referrer-Policy"] == "strict-origin"
        assert "style=" not in page
        assert "<style" not in page
        assert not re.search(r"<[^>]*\son[a-z]+=", page)
        assert page.count("<script") == page.count('<script type="module" src=') + page.count('type="application/json"')


MTURK = [
    "https://worker.mturk.com",
    "https://workersandbox.mturk.com",
    "https://requester.mturk.com",
    "https://requestersandbox.mturk.com",
    "https://www.mturk.com",
]


def test_mechanical_turk_may_frame_its_own_visits_without_any_setting(study: Study) -> None:
    ids = "?workerId=w1&assignmentId=a1&hitId=h1&turkSubmitTo=https://www.mturk.com"
    preview = Client().get("/s/s/?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h1")
    frame = Frame()
    page = frame.get(f"/s/s/{ids}")
    unticked = frame.post("/s/s/start/", {"_entry": entry_field(page)})
    started = frame.post("/s/s/start/", {"consent": "on", "_entry": entry_field(page)})
    conversation = Conversation.objects.get()
    chat(conversation, 3)
    token = unquote(started.url.split("?t=")[1])
    answers = frame.post(f"/chat/{conversation.pk}/rate/", {**ANSWERS, "_t": token})
    shown = [preview, page, unticked, frame.get(started.url), frame.get(answers.url)]
    shown.append(frame.get(f"/s/s/{ids}"))
    for response in shown:
        assert policy(response)["frame-ancestors"] == MTURK
        assert "X-Frame-Options" not in response
    elsewhere = Client().get("/s/s/?PROLIFIC_PID=p1&SESSION_ID=s")
    assert policy(elsewhere)["frame-ancestors"] == ["'none'"]
