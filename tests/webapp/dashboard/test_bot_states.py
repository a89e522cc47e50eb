"""Failing bots on their own page, the list of bots, the study's overview and under Needs attention."""

import re
import uuid
from collections.abc import Iterator

import pytest
from django.test import AsyncClient, Client

from chatbots.bots.base import BotError
from chatbots.registry import bots
from tests.builders import make_conversation, make_staff, make_study
from tests.fakes import FakeStreamBot
from tests.markup import flat
from webapp.bots.services import bot_answered, bot_failed
from webapp.conversations import events
from webapp.conversations.models import Turn
from webapp.conversations.services.replies import heartbeat_store
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shaky() -> Iterator[None]:
    bots.add(FakeStreamBot(name="shaky", title="Shaky"))
    yield
    bots.discard("shaky")


def fail(n: int, bot_id: str = "shaky") -> None:
    for i in range(n):
        bot_failed(bot_id=bot_id, reason="<b>no GPU</b>", chat=str(i))


def text(client: Client, address: str) -> str:
    answer = client.get(address, follow=True)
    assert answer.status_code == 200
    html = flat(answer.content.decode())
    assert "<b>no GPU" not in html
    return html


PAGES = ["/dashboard/", "/dashboard/bots/", "/dashboard/bots/shaky/", "/dashboard/studies/s/"]


@pytest.mark.parametrize("address", PAGES)
def test_a_failing_bot_is_named_with_the_reason_and_since_when(staff: Client, address: str) -> None:
    make_study("s", bots=["shaky", "eliza"])
    assert "no GPU" not in text(staff, address)
    fail(1)
    assert "failed at its last reply, " in text(staff, address)
    fail(1)
    assert "failed at its last 2 replies, first " in text(staff, address)
    assert "&lt;b&gt;no GPU&lt;/b&gt;" in text(staff, address)
    bot_answered(bot_id="shaky")
    assert "no GPU" not in text(staff, address)


def test_a_failing_bot_is_not_among_those_that_can_be_used(staff: Client) -> None:
    def n_usable() -> int:
        match = re.search(r"(\d+) of \d+ bots responded", text(staff, "/dashboard/bots/"))
        return int(match[1])

    bot_answered(bot_id="shaky", seconds=1.25)
    before = n_usable()
    assert "1.2 s, " in text(staff, "/dashboard/bots/")
    fail(1)
    assert n_usable() == before - 1
    bot_answered(bot_id="shaky")
    assert n_usable() == before


def test_a_bot_that_was_set_aside_says_so_everywhere(staff: Client) -> None:
    make_study("s", bots=["shaky", "eliza"])
    fail(3)
    assert "Disabled" in text(staff, "/dashboard/bots/")
    page = text(staff, "/dashboard/bots/shaky/")
    assert "This bot is disabled." in page
    assert "Confab tests it again at" in page
    assert "Try now" in page
    overview = text(staff, "/dashboard/studies/s/")
    assert "is not assigned to participants: failed at its last 3 replies" in overview
    assert "Participants cannot get a chatbot." not in overview
    needs = text(staff, "/dashboard/")
    assert "failed at its last 3 replies" in needs
    assert "new participants do not get it until it replies successfully." in needs


def test_a_study_without_a_bot_to_offer_shouts(staff: Client) -> None:
    make_study("s", name="The study", bots=["shaky"])
    fail(3)
    assert "Participants cannot get a chatbot." in text(staff, "/dashboard/studies/s/")
    assert "none of its bots is available" in text(staff, "/dashboard/")


def test_a_study_that_does_not_collect_shouts_nothing(staff: Client) -> None:
    make_study("s", bots=["shaky"], state="paused")
    fail(3)
    assert "Participants cannot get a chatbot" not in text(staff, "/dashboard/studies/s/")
    assert "no GPU" not in text(staff, "/dashboard/")


@pytest.mark.django_db(transaction=True)
async def test_try_now_asks_the_bot_and_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    from webapp.core.database import in_database

    client = AsyncClient()
    await client.aforce_login(await in_database(make_staff)(*Right))
    asked = []

    async def tryout_reply(bot_id: str, turns: list, seed: int = 0) -> str:
        asked.append((bot_id, turns))
        if len(asked) == 2:
            raise BotError("still no GPU")
        return "I am well."

    monkeypatch.setattr(events, "tryout_reply", tryout_reply)
    nobody = await client.post("/dashboard/bots/shaky/try/", follow=True)
    assert "The bot did not reply: no bot host is running" in nobody.content.decode()
    assert not asked
    await in_database(heartbeat_store)(host_id=uuid.uuid4(), pool="default", bots={})
    for said in ("The bot replied “I am well.”.", "The bot did not reply: still no GPU"):
        answer = await client.post("/dashboard/bots/shaky/try/", follow=True)
        assert said in answer.content.decode()
    assert asked[0] == ("shaky", [{"speaker": "human", "text": "Hello! How are you?"}])


def test_the_reader_and_the_overview_tell_who_answered_in_the_bots_place(staff: Client) -> None:
    study = make_study("s")
    conversation = make_conversation(study, n_exchanges=2)
    overview, reader = "/dashboard/studies/s/", f"/dashboard/conversations/{conversation.pk}/"
    assert "given by" not in text(staff, reader)
    Turn.objects.filter(conversation=conversation, speaker="bot").update(answered_by="shaky")
    assert text(staff, reader).count("reply from shaky") == 2
    assert "1 conversation has replies from its second address" in text(staff, overview)
