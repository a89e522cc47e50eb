"""One-time links, and going on on another device by a link: once, and whatever else comes gets a clear page."""

import csv
import json
import re
import uuid
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
from tests.webapp.participant.test_socket import Page, answer, started
from webapp.conversations import services
from webapp.conversations.models import Conversation, Turn
from webapp.core.database import in_database
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.studies.models import OneTimeLink, Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.recruitment import links
from webapp.studies.recruitment.links import link_token, links_make, links_of, move_link_make, move_use

pytestmark = pytest.mark.django_db


def link_on(page) -> str:
    """Return the path of the link that the page shows."""
    match = re.search(r'id="link"[^>]* value="http://testserver([^"]+)"', page.content.decode())
    assert match, page.content.decode()[-2000:]
    return match[1]


def press(device: Client, link: str):
    """Open the link, which alone changes nothing, and press its button."""
    assert "Continue here?" in device.get(link).content.decode()
    return post(device, link)


def test_a_link_moves_once_and_old_ones_nobody(study: Study, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = begin(browser)
    participant = Participant.objects.get()
    elsewhere = f"/task/{chat.task.public_id}/elsewhere/"
    first = link_on(post(browser, elsewhere))
    second = link_on(post(browser, elsewhere))
    other = Client(enforce_csrf_checks=True)
    replaced = other.get(first)
    assert (replaced.status_code, "replaced by a newer one" in replaced.content.decode()) == (410, True)
    assert post(browser, elsewhere, _take_back="1").status_code == 200
    assert other.get(second).status_code == 410
    third = link_on(post(browser, elsewhere))
    with monkeypatch.context() as later:
        later.setattr(links, "MOVE_LINK_LIFETIME", timedelta(seconds=-1))
        late = other.get(third)
        assert (late.status_code, "has expired" in late.content.decode()) == (410, True)
    forged = Client().get(third[:-3] + "x/")
    assert (forged.status_code, "is not valid" in forged.content.decode()) == (410, True)
    # A program that only looks at links, as those of messengers do, moves nobody.
    assert Client().get(third).status_code == 200
    assert browser.get(f"/chat/{chat.pk}/").status_code == 200
    assert press(other, third).url == f"/chat/{chat.pk}/"
    assert other.get(f"/chat/{chat.pk}/").status_code == 200
    # Whoever finds the link later, or sends it again, is told that it was used.
    for late in (Client().get(third), post(other, third)):
        assert (late.status_code, "has already been used" in late.content.decode()) == (410, True)
    assert Participant.objects.get().n_moves == 1
    # The study's own link makes nobody new of the device that was left.
    assert browser.get("/s/s/").status_code == 409
    assert post(browser, "/s/s/start/", consent="on").status_code == 409
    assert Participant.objects.count() == 1
    # And back again, by a link of the new device.
    back = press(browser, link_on(post(other, elsewhere)))
    assert browser.get(back.url).status_code == 200
    assert other.get(back.url).status_code == 409
    participant.delete()
    gone = move_link_make(participant=Participant(pk=uuid.uuid4()))
    assert Client().get(f"/go-on/{gone}/").status_code == 410


def test_without_cookies_the_link_leads_on_by_a_token(study: Study, browser: Client) -> None:
    chat = begin(browser)
    link = link_on(post(browser, f"/task/{chat.task.public_id}/elsewhere/"))
    led = Client(enforce_csrf_checks=True).post(link)  # no cookie came, none is sent
    assert led.url.startswith(f"/chat/{chat.pk}/?t=")
    assert Client().get(led.url).status_code == 200
    assert browser.get(f"/chat/{chat.pk}/").status_code == 409
    # Its token holds no longer than until the next move.
    participant = Participant.objects.get()
    move_use(token=move_link_make(participant=participant))
    assert Client().get(led.url).status_code == 409
    assert Client().get(f"/s/s/?{led.url.split('?')[1]}").status_code == 409


def test_the_platform_leads_back_to_a_device_that_was_left(study: Study, browser: Client) -> None:
    came = "?PROLIFIC_PID=p1&STUDY_ID=s1&SESSION_ID=v1"
    chat = begin(browser, query=came)
    other = Client(enforce_csrf_checks=True)
    press(other, link_on(post(browser, f"/task/{chat.task.public_id}/elsewhere/")))
    assert browser.get(f"/chat/{chat.pk}/").status_code == 409
    page = browser.get(f"/s/s/{came}")
    led = post(browser, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert led.url == f"/chat/{chat.pk}/"
    assert browser.get(led.url).status_code == 200
    assert other.get(f"/chat/{chat.pk}/").status_code == 409


@pytest.mark.django_db(transaction=True)
async def test_the_old_device_s_socket_closes_and_nothing_is_lost() -> None:
    conversation_id, cookies = await in_database(started)()
    old, silent = [await Page(conversation_id, cookies).open() for _ in range(2)]

    def moved() -> str:
        chat = Conversation.objects.get(pk=conversation_id)
        services.turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="said on the old one")
        answer(conversation_id)
        link = move_link_make(participant=chat.participant)
        device = Client(enforce_csrf_checks=True)
        press(device, f"/go-on/{link}/")
        return "; ".join(f"{c.key}={c.value}" for c in device.cookies.values())

    cookies = await in_database(moved)()
    # Before the new device is connected: what the old one says is refused, not stored.
    await silent.says("from nowhere", str(uuid.uuid4()))
    refused = await heard_until(silent, "error")
    assert refused["code"] == "moved"
    assert (await silent.socket.receive_output())["code"] == 4409
    new = await Page(conversation_id, cookies).open()
    assert (await heard_until(old, "error"))["code"] == "moved"
    assert (await old.socket.receive_output())["code"] == 4409
    await new.says("said on the new one", str(uuid.uuid4()))
    assert (await heard_until(new, "turn"))["turn"] == 2
    await new.socket.disconnect()


async def heard_until(page: Page, kind: str) -> dict:
    """Return the next frame of this kind."""
    while (frame := await page.hears())["type"] != kind:
        pass
    return frame


@pytest.fixture
def closed_study(db: None) -> Study:
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


def test_a_link_lets_one_person_in_and_tells_its_end_in_any_browser(closed_study: Study, browser: Client) -> None:
    code = finish(browser, closed_study)
    for client in (browser, Client()):
        assert code in client.get(f"/s/s/{query(closed_study)}").content.decode()
    second = Client(enforce_csrf_checks=True)
    assert finish(second, closed_study, 2) != code
    assert sorted(Participant.objects.values_list("platform_ids__external_id", flat=True)) == ["1", "2"]
    assert links_of(closed_study)[0].n_used == 2
    recruitment = Participant.objects.earliest("created_at").recruitment
    assert recruitment == {"link": "1"}, "the signature is kept nowhere"


def test_a_link_in_use_lets_nobody_else_in_and_leads_back_once_it_is_idle(closed_study: Study, browser: Client) -> None:
    conversation = begin(browser, query=query(closed_study))
    chat(conversation, 1)
    other = Client(enforce_csrf_checks=True)
    page = other.get(f"/s/s/{query(closed_study)}")
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
def test_what_is_no_link_of_the_study_gets_a_clear_page(
    closed_study: Study, browser: Client, asked: str, words: str
) -> None:
    if asked == "unmade":
        asked = query(closed_study, 99)
    if asked == "expired":
        OneTimeLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        asked = query(closed_study)
    if asked == "elsewhere":
        asked = query(make_study("t"))
    html = browser.get(f"/s/s/{asked}").content.decode()
    assert words in html
    assert 'name="consent"' not in html
    refused = Client().post(f"/s/s/start/{asked}", {"consent": "on"})
    assert refused.status_code == 409
    assert not Participant.objects.exists()


def test_who_has_begun_may_end_after_the_link_has_expired(closed_study: Study, browser: Client) -> None:
    conversation = begin(browser, query=query(closed_study))
    OneTimeLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "Continue where you left off" in browser.get("/s/s/").content.decode()
    chat(conversation, 3)
    code = make_rating(conversation).task.completion_code
    assert code in Client().get(f"/s/s/{query(closed_study)}").content.decode()


def test_a_link_of_somebody_who_was_erased_is_used(closed_study: Study, browser: Client) -> None:
    finish(browser, closed_study)
    participants_erase(participants=Participant.objects.all())
    assert "This link has already been used" in Client().get(f"/s/s/{query(closed_study)}").content.decode()


def test_who_does_not_agree_has_used_the_link(closed_study: Study, browser: Client) -> None:
    page = browser.get(f"/s/s/{query(closed_study)}")
    post(browser, "/s/s/decline/", _entry=entry_field(page))
    assert "You did not agree" in Client().get(f"/s/s/{query(closed_study)}").content.decode()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_the_page_makes_lists_and_gives_them_as_csv(closed_study: Study, browser: Client) -> None:
    finish(browser, closed_study)
    staff = Client()
    staff.force_login(make_staff(Right.READ, Right.ADMINISTER))
    path = "/dashboard/studies/s/people/links/"
    assert staff.post(path, {"n": "2", "label": "=1+1", "days": "7"}).status_code == 302
    html = staff.get("/dashboard/studies/s/people/").content.decode()
    assert "class 7" in html
    assert "=1+1" in html
    refused = staff.post(path, {"n": "0"})
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
    assert parse_qs(parts.query)["link"] == [link_token(closed_study, 2)]
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
    closed_study: Study, tmp_path: Path, settings: Any, kept: str | None, port: int | None, address: str
) -> None:
    settings.DATA_DIR, settings.HOST, settings.PORT = tmp_path, "127.0.0.1", port or 8000
    settings.ADDRESS_SET = {"PORT"} if port else set()
    if kept is not None:
        (tmp_path / "server-address.txt").write_text(kept)
    path = tmp_path / "links.csv"
    call_command("make_links", "--study", "s", "--output", str(path), "--number", "1")
    assert rows_of(path.read_text())[0]["link"].startswith(f"{address}/s/s/?link=")


def test_the_command_writes_a_list(closed_study: Study, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "links.csv"
    asked = ("--study", "s", "--output", str(path), "--address", "https://lab.example/confab")
    call_command("make_links", *asked, "--number", "2", "--days", "3", "--json")
    assert json.loads(capsys.readouterr().out) == {"links": 2, "list": 2, "file": str(path)}
    rows = rows_of(path.read_text())
    assert [row["number"] for row in rows] == ["4", "5"]
    assert rows[0]["link"].startswith("https://lab.example/confab/s/s/?link=4")
    with pytest.raises(CommandError, match="choose 1 to 10000"):
        call_command("make_links", *asked, "--number", "0")
    with pytest.raises(CommandError, match="no study 'none'"):
        call_command("make_links", "--study", "none", "--number", "1", "--output", str(path))
    with pytest.raises(Refused, match="cannot be valid for"):
        links_make(study=closed_study, n=1, days=0)
