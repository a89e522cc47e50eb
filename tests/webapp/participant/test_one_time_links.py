"""One-time links: each lets one person in; whatever else comes by one gets a clear page."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone

from tests.builders import make_rating, make_staff, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.conversations.models import Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.studies.models import OneTimeLink, Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.recruitment.links import link_token, links_make, links_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    study = make_study("s", platform="links")
    links_make(study=study, n=3, label="class 7")
    return study


def query(study: Study, number: int = 1) -> str:
    return f"?link={link_token(study, number)}"


def finish(browser: Client, study: Study, number: int = 1) -> str:
    """Chat and rate by the link. Returns the code."""
    conversation = begin(browser, query=query(study, number))
    chat(conversation, 3)
    return make_rating(conversation).task.completion_code


def test_a_link_lets_one_person_in_and_tells_its_end_in_any_browser(study: Study, browser: Client) -> None:
    code = finish(browser, study)
    for client in (browser, Client()):
        assert code in client.get(f"/s/s/{query(study)}").content.decode()
    second = Client(enforce_csrf_checks=True)
    assert finish(second, study, 2) != code
    assert sorted(Participant.objects.values_list("platform_ids__external_id", flat=True)) == ["1", "2"]
    assert links_of(study)[0].n_used == 2
    kept = Participant.objects.earliest("created_at").recruitment
    assert kept == {"link": "1"}, "the signature is kept nowhere"


def test_a_link_in_use_lets_nobody_else_in_and_leads_back_once_it_is_idle(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=query(study))
    chat(conversation, 1)
    other = Client(enforce_csrf_checks=True)
    page = other.get(f"/s/s/{query(study)}")
    response = post(other, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 409
    assert "in another window" in response.content.decode()
    before = timezone.now() - timedelta(hours=1)
    Turn.objects.update(created_at=before)
    Task.objects.update(updated_at=before)
    response = post(other, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert response.url == f"/chat/{conversation.pk}/", "on another device"
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("", "personal link to open this study"),
        ("?link=1", "We do not recognise this link"),
        ("?link=1:forged", "We do not recognise this link"),
        ("unmade", "We do not recognise this link"),
        ("expired", "This link has expired"),
        ("elsewhere", "We do not recognise this link"),
    ],
)
def test_what_is_no_link_of_the_study_gets_a_clear_page(study: Study, browser: Client, asked: str, words: str) -> None:
    if asked == "unmade":
        asked = query(study, 99)
    if asked == "expired":
        OneTimeLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        asked = query(study)
    if asked == "elsewhere":
        asked = query(make_study("t"))
    html = browser.get(f"/s/s/{asked}").content.decode()
    assert words in html
    assert 'name="consent"' not in html
    refused = Client().post(f"/s/s/start/{asked}", {"consent": "on"})
    assert refused.status_code == 409
    assert not Participant.objects.exists()


def test_who_has_begun_may_end_after_the_link_has_expired(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=query(study))
    OneTimeLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "Continue it" in browser.get("/s/s/").content.decode()
    chat(conversation, 3)
    code = make_rating(conversation).task.completion_code
    assert code in Client().get(f"/s/s/{query(study)}").content.decode()


def test_a_link_of_somebody_who_was_erased_is_used(study: Study, browser: Client) -> None:
    finish(browser, study)
    participants_erase(participants=Participant.objects.all())
    assert "This link has been used" in Client().get(f"/s/s/{query(study)}").content.decode()


def test_who_does_not_agree_has_used_the_link(study: Study, browser: Client) -> None:
    page = browser.get(f"/s/s/{query(study)}")
    post(browser, "/s/s/decline/", _entry=entry_field(page))
    assert "You did not agree" in Client().get(f"/s/s/{query(study)}").content.decode()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_the_page_makes_lists_and_gives_them_as_csv(study: Study, browser: Client) -> None:
    finish(browser, study)
    staff = Client()
    staff.force_login(make_staff(Right.READ, Right.ADMINISTER))
    where = "/dashboard/studies/s/people/links/"
    assert staff.post(where, {"n": "2", "label": "=1+1", "days": "7"}).status_code == 302
    html = staff.get("/dashboard/studies/s/people/").content.decode()
    assert "class 7" in html
    assert "=1+1" in html
    refused = staff.post(where, {"n": "0"})
    assert (refused.status_code, refused.context["links_form"].errors.keys()) == (400, {"n"})
    file = staff.get("/dashboard/studies/s/people/links.csv?list=2")
    assert file["Content-Disposition"] == 'attachment; filename="s.links-2.csv"'
    two = rows_of(b"".join(file.streaming_content).decode())
    assert [(row["number"], row["label"], row["state"]) for row in two] == [
        ("4", "'=1+1", "unused"),
        ("5", "'=1+1", "unused"),
    ]
    every = rows_of(b"".join(staff.get("/dashboard/studies/s/people/links.csv").streaming_content).decode())
    assert [row["state"] for row in every] == ["rated", *["unused"] * 4]
    parts = urlsplit(every[1]["link"])
    assert (parts.netloc, parts.path) == ("testserver", "/s/s/")
    assert parse_qs(parts.query)["link"] == [link_token(study, 2)]
    assert 'name="consent"' in Client().get(f"/s/s/?{parts.query}").content.decode()


@pytest.mark.parametrize(
    ("kept", "port", "address"),
    [
        ("http://127.0.0.1:8555/lab", None, "http://127.0.0.1:8555"),
        ("http://[::1]:8555", None, "http://[::1]:8555"),
        ("http://127.0.0.1:8555", 8666, "http://127.0.0.1:8666"),
        (None, None, "http://127.0.0.1:8000"),
        ("", None, "http://127.0.0.1:8000"),
    ],
)
def test_links_have_the_running_server_s_address(
    study: Study, tmp_path: Path, settings: Any, kept: str | None, port: int | None, address: str
) -> None:
    settings.DATA_DIR, settings.HOST, settings.PORT = tmp_path, "127.0.0.1", port or 8000
    settings.ADDRESS_SET = {"PORT"} if port else set()
    if kept is not None:
        (tmp_path / "server-address.txt").write_text(kept)
    path = tmp_path / "links.csv"
    call_command("make_links", "--study", "s", "--output", str(path), "--number", "1")
    assert rows_of(path.read_text())[0]["link"].startswith(f"{address}/s/s/?link=")


def test_the_command_writes_a_list(study: Study, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "links.csv"
    asked = ("--study", "s", "--output", str(path), "--address", "https://lab.example/confab")
    call_command("make_links", *asked, "--number", "2", "--days", "3", "--json")
    assert json.loads(capsys.readouterr().out) == {"links": 2, "list": 2, "file": str(path)}
    rows = rows_of(path.read_text())
    assert [row["number"] for row in rows] == ["4", "5"]
    assert rows[0]["link"].startswith("https://lab.example/confab/s/s/?link=4")
    with pytest.raises(CommandError, match="1 to 10000 can"):
        call_command("make_links", *asked, "--number", "0")
    with pytest.raises(CommandError, match="no study 'none'"):
        call_command("make_links", "--study", "none", "--number", "1", "--output", str(path))
    with pytest.raises(Refused, match="no time for a link"):
        links_make(study=study, n=1, days=0)
