"""Going on on another device by a link: at every step of every protocol, once, and the old device lets go."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.test import Client

from tests.webapp.participant.conftest import begin, entry_field, post
from tests.webapp.participant.test_socket import Page, answer, started
from webapp.conversations import services
from webapp.conversations.models import Conversation
from webapp.core.database import in_database
from webapp.studies.models import Participant, Study
from webapp.studies.recruitment import links
from webapp.studies.recruitment.links import move_link_make, move_use

pytestmark = pytest.mark.django_db


def link_on(page) -> str:
    """Return the path of the link that the page shows."""
    found = re.search(r'id="link"[^>]* value="http://testserver([^"]+)"', page.content.decode())
    assert found, page.content.decode()[-2000:]
    return found[1]


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
    assert (replaced.status_code, "a newer one was made" in replaced.content.decode()) == (410, True)
    assert post(browser, elsewhere, _take_back="1").status_code == 200
    assert other.get(second).status_code == 410
    third = link_on(post(browser, elsewhere))
    with monkeypatch.context() as later:
        later.setattr(links, "MOVE_LINK_LIFETIME", timedelta(seconds=-1))
        late = other.get(third)
        assert (late.status_code, "has expired" in late.content.decode()) == (410, True)
    forged = Client().get(third[:-3] + "x/")
    assert (forged.status_code, "leads nowhere" in forged.content.decode()) == (410, True)
    # A program that only looks at links, as those of messengers do, moves nobody.
    assert Client().get(third).status_code == 200
    assert browser.get(f"/chat/{chat.pk}/").status_code == 200
    assert press(other, third).url == f"/chat/{chat.pk}/"
    assert other.get(f"/chat/{chat.pk}/").status_code == 200
    # Whoever finds the link later, or sends it again, is told that it was used.
    for late in (Client().get(third), post(other, third)):
        assert (late.status_code, "has been used" in late.content.decode()) == (410, True)
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
