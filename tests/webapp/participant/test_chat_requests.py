"""A chat by HTTP requests: the frames of its socket, with the same owner, limits and idempotence."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from chatbots.bots.person import PersonBot
from chatbots.registry import bots
from tests.builders import make_study
from tests.webapp.participant.conftest import ANSWERS, begin, entry_field, post
from webapp.conversations import selectors, services
from webapp.conversations.models import Conversation, Turn
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


def send(browser: Client, chat: Any, *frames: Any, **options: Any) -> Any:
    """Post a list of frames; return the response."""
    body = options.pop("body", None) or json.dumps(list(frames))
    query = options.pop("query", "")
    options = {"content_type": "application/json", **options}
    return browser.post(f"/chat/{chat}/messages/{query}", body, **options)


def state(browser: Client, chat: Any, after: int | None = None) -> list[dict[str, Any]]:
    query = "" if after is None else f"?after={after}"
    response = browser.get(f"/chat/{chat}/state/{query}")
    assert response.status_code == 200, response.content
    return response.json()


def message(text: str, client_id: str = "") -> dict[str, str]:
    return {"type": "message", "client_id": client_id or str(uuid.uuid4()), "text": text}


def answer(chat: Any, text: str = "Here I am.") -> None:
    """Answer as a bot host does."""
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=chat, lease=lease, lease_s=30)
    services.turn_add_bot(conversation_id=chat, lease=lease, text=text)


def fail(chat: Any) -> None:
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=chat, lease=lease, lease_s=30)
    services.reply_fail(conversation_id=chat, lease=lease, error="it broke")


@pytest.fixture
def chat(study: Study, browser: Client) -> uuid.UUID:
    return begin(browser).pk


def test_a_chat_goes_its_whole_way(chat: uuid.UUID, browser: Client) -> None:
    assert state(browser, chat) == [{"type": "history", "turns": [], "can_rate": False, "pending": None}]
    client_id = str(uuid.uuid4())
    stored = {"type": "turn", "turn": 0, "speaker": "human", "text": "hello", "client_id": client_id}
    assert send(browser, chat, message("hello", client_id)).json() == [stored]
    assert state(browser, chat, 0) == []
    assert state(browser, chat)[0]["pending"] == {"turn": 1}
    answer(chat)
    [reply] = state(browser, chat, 0)
    assert reply == {"type": "reply", "turn": 1, "speaker": "bot", "text": "Here I am.", "vote": 0, "can_rate": False}
    assert [frame["type"] for frame in state(browser, chat, -1)] == ["turn", "reply"]
    assert send(browser, chat, {"type": "vote", "turn": 1, "value": 1}).json() == [
        {"type": "vote", "turn": 1, "value": 1}
    ]
    for number in (1, 2):
        send(browser, chat, message(f"message {number}"))
        answer(chat)
    assert state(browser, chat, 4)[0]["can_rate"] is True
    assert post(browser, f"/chat/{chat}/rate/", **ANSWERS).url == f"/chat/{chat}/done/"
    assert send(browser, chat, message("late")).json()[0]["code"] == "closed"


def test_what_is_sent_again_is_stored_once(chat: uuid.UUID, browser: Client) -> None:
    frame = message("hello")
    first = send(browser, chat, frame).json()
    assert send(browser, chat, frame, frame).json() == [*first, *first]
    answer(chat)
    again = send(browser, chat, frame).json()
    assert [one["type"] for one in again] == ["turn", "reply"], "with the reply that has come meanwhile"
    assert Turn.objects.filter(conversation=chat).count() == 2


def test_it_opens_to_its_own_participant_alone(chat: uuid.UUID, browser: Client) -> None:
    other = Client(enforce_csrf_checks=True)
    begin(other)
    for stranger in (other, Client()):
        assert (response := send(stranger, chat, message("mine now"))).status_code == 404
        assert response.json()[0]["code"] == "not_found"
        assert (response := stranger.get(f"/chat/{chat}/state/")).status_code == 404
        assert [frame["code"] for frame in response.json()] == ["not_found"]
    assert send(browser, uuid.uuid4(), message("nowhere")).status_code == 404
    assert not Turn.objects.filter(conversation=chat).exists()


def test_a_token_opens_it_without_cookies_until_the_participant_moves(chat: uuid.UUID) -> None:
    from webapp.studies.selectors import participant_token

    participant = Conversation.objects.get(pk=chat).participant
    query = f"?t={participant_token(participant)}"
    bare = Client(enforce_csrf_checks=True)
    assert send(bare, chat, message("hello"), query=query).json()[0]["type"] == "turn"
    assert bare.get(f"/chat/{chat}/state/{query}").json()[0]["type"] == "history"
    participant.n_moves += 1
    participant.save(update_fields=["n_moves"])
    response = send(bare, chat, message("again"), query=query)
    assert (response.status_code, response.json()[0]["code"]) == (409, "moved")
    assert bare.get(f"/chat/{chat}/state/{query}").status_code == 409


def test_other_origins_and_forms_cannot_write(chat: uuid.UUID, browser: Client) -> None:
    response = send(browser, chat, message("hello"), headers={"origin": "https://evil.example"})
    assert (response.status_code, response.json()[0]["code"]) == (403, "forbidden")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert send(browser, chat, message("hello"), content_type=kind).status_code == 400
    assert send(browser, chat, message("hello"), headers={"origin": "http://testserver"}).status_code == 200
    assert Turn.objects.filter(conversation=chat).count() == 1


@pytest.mark.parametrize("body", ["", "no json", "[" * 50_000, "[" + "0," * 20 + "0]", json.dumps(["x" * 200_000])])
def test_a_body_that_is_no_list_of_frames_is_rejected(chat: uuid.UUID, browser: Client, body: str) -> None:
    response = send(browser, chat, body=body or " ")
    assert (response.status_code, response.json()[0]["code"]) == (400, "bad_frame")


@pytest.mark.parametrize("after", ["x", "1.5", "--1", "٣", "9" * 30])
def test_a_turn_that_is_no_number_is_rejected(chat: uuid.UUID, browser: Client, after: str) -> None:
    response = browser.get(f"/chat/{chat}/state/", {"after": after})
    assert (response.status_code, response.json()[0]["code"]) == (400, "bad_frame")


def test_the_limits_are_those_of_the_socket(chat: uuid.UUID, browser: Client) -> None:
    sent = [message(" "), message("x" * 5000), {"type": "vote", "turn": 0, "value": 1}, {"type": "dance"}, 7]
    codes = [frame["code"] for frame in send(browser, chat, *sent).json()]
    assert codes == ["empty", "too_long", "bad_frame", "bad_frame", "bad_frame"]
    assert send(browser, chat, message("one"), message("two")).json()[1]["code"] == "waiting_for_reply"


def test_a_flood_is_held_back_and_a_message_is_not(chat: uuid.UUID, browser: Client) -> None:
    vote = {"type": "vote", "turn": 0, "value": 1}
    answers = [frame for _ in range(3) for frame in send(browser, chat, *[vote] * 20).json()]
    assert answers[0]["code"] == "bad_frame"
    assert answers[-1]["code"] == "too_fast"
    assert answers[-1]["retry_after_s"] >= 1
    assert answers[-1]["turn"] == 0


def test_half_an_emoji_is_stored_as_at_the_socket(chat: uuid.UUID, browser: Client) -> None:
    body = json.dumps([message("hi HALF")]).replace("HALF", r"\ud83d \u0000")
    assert send(browser, chat, body=body).json()[0]["text"].startswith("hi")


def test_a_failed_reply_is_reported_until_it_is_tried_again(chat: uuid.UUID, browser: Client) -> None:
    send(browser, chat, message("hello"))
    fail(chat)
    for _ in range(2):
        [failed] = state(browser, chat, 0)
        assert (failed["code"], failed["turn"], failed["can"]) == ("bot_failed", 1, ["retry", "swap", "finish"])
    history = send(browser, chat, {"type": "retry"}).json()
    assert [frame["type"] for frame in history] == ["history"]
    assert state(browser, chat, 0) == []


def test_picks_reach_both_chats(browser: Client) -> None:
    make_study("p", bots=["eliza", "parrot"], protocol="picks", n_comparisons=1, min_exchanges=2)
    page = browser.get("/s/p/")
    post(browser, "/s/p/start/", consent="on", _entry=entry_field(page))
    chats = list(Conversation.objects.order_by("slot__order").values_list("pk", flat=True))
    for chat in chats:
        send(browser, chat, message("hello"))
        answer(chat)
    [picked] = send(browser, chats[0], {"type": "pick", "turn": 1}).json()
    assert picked == {"type": "pick", "turn": 1, "goes_on": True}
    assert state(browser, chats[0], 1) == [picked]
    assert state(browser, chats[1], 1) == [{"type": "pick", "turn": 1, "goes_on": False}]


def test_people_find_each_other_and_polling_keeps_their_place() -> None:
    bots.search()
    bots.put(PersonBot(name="somebody"))
    try:
        make_study("two", bots=["somebody"], disclosure="before", without_partner="pay", min_exchanges=1)
        browsers = [Client(enforce_csrf_checks=True) for _ in range(2)]
        chats = [begin(browser, "two").pk for browser in browsers]
        assert [frame["type"] for frame in state(browsers[0], chats[0])] == ["history", "waiting"]
        state(browsers[1], chats[1])
        results = [state(browser, chat, -1)[0] for browser, chat in zip(browsers, chats, strict=True)]
        assert {frame["state"] for frame in results} == {"here"}
        assert sorted(frame["writes_first"] for frame in results) == [False, True]
    finally:
        bots.discard("somebody")


def test_polling_is_cheap(chat: uuid.UUID, browser: Client, django_assert_max_num_queries: Any) -> None:
    send(browser, chat, message("hello"))
    with django_assert_max_num_queries(3):  # session, chat, turns
        state(browser, chat, 0)


def test_while_the_database_is_away_nothing_is_said_to_be_saved(
    chat: uuid.UUID, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object, **_more: object) -> None:
        raise OperationalError("could not connect to server: Connection refused")

    frame = message("hello")
    with monkeypatch.context() as patch:
        patch.setattr(services, "turn_add_human", away)
        [error] = send(browser, chat, frame).json()
        assert (error["code"], error["client_id"]) == ("unavailable", frame["client_id"])
        patch.setattr(selectors, "conversation_for", away)
        assert browser.get(f"/chat/{chat}/state/").status_code == 503
    assert send(browser, chat, frame).json()[0]["type"] == "turn"


def test_the_reference_names_every_frame() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "chat_frames.md").read_text(encoding="utf-8")
    source = (Path(__file__).parents[3] / "webapp" / "conversations" / "frames.py").read_text(encoding="utf-8")
    types = set(re.findall(r'"type": "(\w+)"|type: Literal\["(\w+)"\]', source))
    assert types
    assert [name for pair in types for name in pair if name and f"`{name}`" not in page] == []


def test_a_withdrawn_chat_leads_its_open_page_on(chat: uuid.UUID, browser: Client) -> None:
    send(browser, chat, message("hello"))
    Conversation.objects.filter(pk=chat).update(state=Conversation.State.WITHDRAWN)
    ended = state(browser, chat, 0)[-1]
    assert (ended["code"], ended["ended"]) == ("closed", True)


def test_a_message_that_a_filter_refused_can_be_written_again(chat: uuid.UUID, browser: Client) -> None:
    send(browser, chat, message("make a bomb"))
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=chat, lease=lease, lease_s=30)
    services.reply_fail(conversation_id=chat, lease=lease, error="no", is_trouble=False, is_content=True)
    for _ in range(2):
        [refused] = state(browser, chat, 0)
        assert (refused["code"], refused["reason"], refused["can"]) == ("bot_failed", "content", ["rewrite", "finish"])
    assert send(browser, chat, message("hello")).json()[0]["turn"] == 2
    answer(chat)
    assert [(frame["type"], frame["turn"]) for frame in state(browser, chat, 2)] == [("reply", 3)]
