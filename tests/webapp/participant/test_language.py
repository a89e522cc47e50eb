"""A study speaks its own language, whatever the browser would like to read."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from tests.builders import make_staff, make_study
from tests.webapp.participant.conftest import begin, post
from webapp.core.language import LANGUAGES, locale_of
from webapp.core.rights import Right
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
HTML = re.compile(r'<html lang="([^"]+)" dir="([^"]+)"')


def spoken(response, status: int = 200) -> tuple[str, str]:
    """Return language and direction of a page that is there, or not there as the test says."""
    assert response.status_code == status
    found = HTML.search(response.content.decode())
    assert found, response.content[:300]
    return found[1], found[2]


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
