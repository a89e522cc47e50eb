"""Who opens a chat, who frames it, and in which language it speaks."""

import re
import uuid
from urllib.parse import unquote
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from tests.builders import make_conversation, make_staff, make_study
from tests.webapp.participant.conftest import ANSWERS, begin, chat, csrf, entry_field, policy, post
from webapp.conversations.models import Conversation
from webapp.core.language import LANGUAGES, locale_of
from webapp.core.rights import Right
from webapp.participant.access import frame_ancestors
from webapp.studies.models import Study
from webapp.studies.selectors import participant_token
from webapp.studies.versions import study_edit, values_made

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
        assert "We cannot open this page here" in response.content.decode()


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
        scripts = re.findall(r'<script (?:type="module" )?src=|type="application/json"', page)
        assert page.count("<script") == len(scripts)


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


HTML = re.compile(r'<html lang="([^"]+)" dir="([^"]+)"')


def spoken(response, status: int = 200) -> tuple[str, str]:
    """Return language and direction of a page that is there, or not there as the test says."""
    assert response.status_code == status
    match = HTML.search(response.content.decode())
    assert match, response.content[:300]
    return match[1], match[2]


def test_pages_have_a_catalogue_of_every_language_that_studies_may_speak() -> None:
    assert [locale_of(code) for code in LANGUAGES] == [code for code, _name in settings.LANGUAGES]


def test_every_page_speaks_the_language_of_its_study(browser: Client) -> None:
    make_study("s", language="ar", min_exchanges=1)
    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    assert spoken(browser.get("/s/s/")) == ("ar", "rtl")
    assert spoken(browser.get("/s/s/?PROLIFIC_PID={{%PROLIFIC_PID%}}")) == ("ar", "rtl")
    chat = begin(browser)
    assert spoken(browser.get(f"/chat/{chat.pk}/")) == ("ar", "rtl")
    post(browser, f"/chat/{chat.pk}/withdraw/")
    assert spoken(browser.get(f"/chat/{chat.pk}/done/")) == ("ar", "rtl")
    assert spoken(browser.get("/nowhere/"), 404) == ("de", "ltr"), "of no study"


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.5", ("de", "ltr")),
        ("tlh, ar-EG;q=0.7, en;q=0.5", ("ar", "rtl")),
        ("en-US", ("en-gb", "ltr")),
        ("tlh", ("en-gb", "ltr")),
        ("*;q=nonsense, \u0660", ("en-gb", "ltr")),
        ("", ("en-gb", "ltr")),
    ],
)
def test_where_no_study_is_known_the_browser_says_which_language(
    accepted: str, language: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study("s", language="ar", min_exchanges=1)
    client = Client(HTTP_ACCEPT_LANGUAGE=accepted, raise_request_exception=False)
    pages = {"/": 200, "/nowhere/": 404, "/s/nosuch/": 404, f"/chat/{uuid4()}/": 404}
    pages |= {"/go-on/x/": 410, "/withdraw/x/": 410}
    assert {spoken(client.get(page), status) for page, status in pages.items()} == {language}
    assert spoken(client.get("/dashboard/nowhere/"), 404) == ("en-gb", "ltr"), "researchers' pages"
    assert spoken(client.get("/login/")) == ("en-gb", "ltr")

    def away(*_: object) -> None:
        raise OperationalError("too many clients already")

    monkeypatch.setattr("webapp.participant.access.study_by_key", away)
    answer = client.get("/s/s/")
    assert spoken(answer, 503) == language


def test_a_form_whose_secret_is_missing_is_refused_in_plain_words() -> None:
    make_study("s", language="de")
    client = Client(enforce_csrf_checks=True)
    client.get("/s/s/")  # it has cookies now
    answer = client.post("/s/s/start/", {"consent": "on"})
    assert spoken(answer, 403) == ("de", "ltr")
    assert "CSRF" not in answer.content.decode()


def test_who_is_under_way_goes_on_in_the_language_they_began_in(browser: Client) -> None:
    study = make_study("s", language="de")
    chat = begin(browser)
    study_edit(study=study, language="en")
    assert spoken(browser.get(f"/chat/{chat.pk}/")) == ("de", "ltr")
    assert spoken(Client().get("/s/s/")) == ("en-gb", "ltr")


def test_a_preview_shows_any_language_and_else_that_of_the_study(client: Client) -> None:
    make_study("s", language="de")
    client.force_login(make_staff(Right.READ, Right.PAY))
    for step in ("consent", "chat", "done"):
        assert spoken(client.get(f"/preview/s/{step}/")) == ("de", "ltr"), step
        assert spoken(client.get(f"/preview/s/{step}/?lang=ar")) == ("ar", "rtl"), step
        assert spoken(client.get(f"/preview/s/{step}/?lang=en")) == ("en-gb", "ltr"), step
