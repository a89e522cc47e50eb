"""Journey (a): a participant's message, through the outside doors, whatever dies on the way."""

import asyncio
import contextlib
import json
import re
import uuid

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import ConfabServer
from tests.plugin_bots import SLOW_WORDS
from webapp.participant.simulated import StudyClient, frames_until, say

pytestmark = pytest.mark.slow

SLOW_REPLY = "Reply 1: " + " ".join(SLOW_WORDS)


@contextlib.asynccontextmanager
async def visitor(server: ConfabServer, study: str):
    doors = StudyClient(server.url, study)
    try:
        await doors.start()
        yield doors
    finally:
        await doors.close()


async def history(doors: StudyClient) -> dict:
    async with doors.socket() as socket:
        return (await frames_until(socket, "history"))[-1]


async def wait_for_reply(doors: StudyClient, turn: int, timeout_s: float = 600) -> dict:
    """Connect again as a browser does until the reply numbered `turn` is there."""

    async def try_again() -> dict:
        while True:
            with contextlib.suppress(OSError, ConnectionClosed, InvalidStatus, EOFError):
                async with doors.socket() as socket:
                    while True:
                        frame = json.loads(await socket.recv())
                        if frame["type"] == "history":
                            for stored in frame["turns"]:
                                if stored["turn"] == turn:
                                    return stored
                        if frame["type"] == "reply" and frame["turn"] == turn:
                            return frame
            await asyncio.sleep(0.3)

    return await asyncio.wait_for(try_again(), timeout_s)


async def send(socket, text: str, client_id: str | None = None) -> str:
    client_id = client_id or str(uuid.uuid4())
    await socket.send(json.dumps({"type": "message", "client_id": client_id, "text": text}))
    return client_id


async def test_the_whole_way(confab_server: ConfabServer) -> None:
    async with visitor(confab_server, "demo") as doors:
        async with doors.socket() as socket:
            first = await frames_until(socket, "history")
            assert first[-1]["turns"] == []
            for number in range(3):
                received = await say(socket, f"I like walking, message {number}.")
                reply = received[-1]
                tokens = [f for f in received if f["type"] == "token"]
                text = ""
                for token in tokens:
                    assert token["offset"] == len(text)
                    text += token["text"]
                assert text == reply["text"]
                assert reply["can_rate"] is (number == 2)
            await socket.send(json.dumps({"type": "vote", "turn": 1, "value": 1}))
            assert (await frames_until(socket, "vote"))[-1]["value"] == 1
        restored = await history(doors)
        assert [t["turn"] for t in restored["turns"]] == list(range(6))
        assert restored["turns"][1]["vote"] == 1
        page = await doors.rate(lambda _name, choices: choices[4])
        code = re.search(r"\b[A-Z0-9]{3}-[A-Z0-9]{3}\b", page)
        assert code
        again = await doors.http.get(f"/chat/{doors.conversation_id}/done/")
        assert code.group() in again.text
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            assert (await say(socket, "more"))[-1]["code"] == "closed"


async def test_bot_host_dies_in_mid_reply(own_bots_server: ConfabServer) -> None:
    server = own_bots_server
    server.add_study("slow", ["test-slow"])
    async with visitor(server, "slow") as doors:
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            await send(socket, "hello")
            await frames_until(socket, "token")
            server.kill_bot_host()
        await asyncio.to_thread(server.restart_bot_host)
        reply = await wait_for_reply(doors, 1)
        assert reply["text"] == SLOW_REPLY
        assert [t["text"] for t in (await history(doors))["turns"]] == ["hello", SLOW_REPLY]


async def test_web_process_dies_after_the_message_is_acknowledged(own_bots_server: ConfabServer) -> None:
    server = own_bots_server
    server.add_study("slow", ["test-slow"])
    async with visitor(server, "slow") as doors:
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            client_id = await send(socket, "hello")
            await frames_until(socket, "turn")
            server.kill("web")
        await asyncio.to_thread(server.start_web)
        # The browser does not know whether its message arrived: it sends it again.
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            await send(socket, "hello", client_id)
            assert (await frames_until(socket, "turn"))[-1]["turn"] == 0
        assert (await wait_for_reply(doors, 1))["text"] == SLOW_REPLY
        assert [t["text"] for t in (await history(doors))["turns"]] == ["hello", SLOW_REPLY]


async def test_web_process_that_paired_two_participants_dies(own_bots_server: ConfabServer) -> None:
    server = own_bots_server
    (server.data_dir / "bots.yaml").write_text("- {id: somebody, kind: person, name: Somebody}\n")
    server.add_study("people", ["somebody"], disclosure="before")
    async with visitor(server, "people") as one, visitor(server, "people") as other:
        async with one.socket() as waits, other.socket() as comes:
            here = (await frames_until(comes, "waiting"))[-1]
            while here["state"] == "waiting":  # the page looks again
                here = (await frames_until(comes, "waiting"))[-1]
            first, second, socket = (other, one, comes) if here["writes_first"] else (one, other, waits)
            await send(socket, "hello")
            await frames_until(socket, "turn")
            server.kill("web")
        await asyncio.to_thread(server.start_web)
        assert (await wait_for_reply(second, 0))["text"] == "hello"
        async with second.socket() as socket:
            assert (await frames_until(socket, "waiting"))[-1] == {**here, "writes_first": False}
            await send(socket, "hello yourself")
            await frames_until(socket, "turn")
        assert (await wait_for_reply(first, 1))["text"] == "hello yourself"
        for person, speakers in ((first, ["human", "bot"]), (second, ["bot", "human"])):
            stored = (await history(person))["turns"]
            assert [turn["text"] for turn in stored] == ["hello", "hello yourself"]
            assert [turn["speaker"] for turn in stored] == speakers


async def test_socket_drops_in_mid_reply(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    server.add_study("slow", ["test-slow"])
    async with visitor(server, "slow") as doors:
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            client_id = await send(socket, "hello")
            await frames_until(socket, "token")
        async with doors.socket() as socket, doors.socket() as second_tab:
            pending = (await frames_until(socket, "history"))[-1]
            assert pending["pending"] == {"turn": 1}
            assert len(pending["turns"]) == 1
            await frames_until(second_tab, "history")
            for tab in (socket, second_tab):
                assert (await frames_until(tab, "reply"))[-1]["text"] == SLOW_REPLY
            await send(socket, "hello", client_id)
            assert (await frames_until(socket, "reply"))[-1]["text"] == SLOW_REPLY
        assert len((await history(doors))["turns"]) == 2


async def test_a_failing_bot_leaves_a_way_on(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    server.add_study("failing", ["test-failing"])
    async with visitor(server, "failing") as doors:
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            failure = (await say(socket, "hello"))[-1]
            assert (failure["code"], failure["turn"]) == ("bot_failed", 1)
            assert failure["can"] == ["retry", "swap", "finish"]
        async with doors.socket() as socket:
            # After a reload the page learns of the failure again.
            assert (await frames_until(socket, "error"))[-1]["code"] == "bot_failed"
            (server.data_dir / "mended").touch()
            await socket.send(json.dumps({"type": "retry"}))
            assert (await frames_until(socket, "reply"))[-1]["text"] == "Here I am again."
        assert len((await history(doors))["turns"]) == 2


async def test_hanging_bot_times_out_and_holds_nobody_up(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    server.add_study("hanging", ["test-hanging"])
    server.add_study("lively", ["test-quick"])
    async with (
        visitor(server, "hanging") as stuck,
        visitor(server, "lively") as other,
        stuck.socket() as stuck_socket,
        other.socket() as socket,
    ):
        await frames_until(stuck_socket, "history")
        await frames_until(socket, "history")
        await send(stuck_socket, "hello")
        for number in range(5):
            reply = (await say(socket, f"message {number}"))[-1]
            assert reply["text"] == f"Reply {2 * number + 1} to: message {number}"
        assert (await frames_until(stuck_socket, "error"))[-1]["code"] == "bot_failed"


async def test_bad_frames_get_an_error_with_its_code(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    server.add_study("frames", ["test-quick"])
    async with visitor(server, "frames") as doors, visitor(server, "frames") as stranger:
        async with doors.socket() as socket:
            await frames_until(socket, "history")

            async def code_of(text: str) -> dict:
                await socket.send(text)
                return (await frames_until(socket, "error"))[-1]

            assert (await code_of("{"))["code"] == "bad_frame"
            assert (await code_of('{"type": "vote", "turn": 0, "value": 9}'))["code"] == "bad_frame"
            assert (await say(socket, "   "))[-1]["code"] == "empty"
            too_long = (await say(socket, "x" * 501))[-1]
            assert (too_long["code"], too_long["limit"]) == ("too_long", 500)
            assert uuid.UUID(too_long["client_id"])
            for _ in range(60):
                await socket.send("{")
            codes = [(await frames_until(socket, "error"))[-1] for _ in range(60)]
            assert codes[-1]["code"] == "too_fast"
            assert codes[-1]["retry_after_s"] >= 1
        mine = stranger.conversation_id
        for other_id in (doors.conversation_id, str(uuid.uuid4())):
            stranger.conversation_id = other_id
            async with stranger.socket() as socket:
                assert (await frames_until(socket, "error"))[-1]["code"] == "not_found"
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
        stranger.conversation_id = mine
        url = f"{server.ws_url}/ws/chat/{mine}/"
        with pytest.raises(InvalidStatus):
            await connect(url, origin="https://evil.example", proxy=None)


async def test_forty_people_of_one_address_answer_at_once(test_bots_server: ConfabServer) -> None:
    server = test_bots_server
    server.add_study("forty", ["test-quick"])

    async def person(number: int) -> None:
        async with visitor(server, "forty") as doors, doors.socket() as socket:
            await frames_until(socket, "history")
            for message in range(6):
                last = (await say(socket, f"{number}: {message}"))[-1]
                assert last["type"] == "reply", last
                assert last["text"].endswith(f"to: {number}: {message}")

    await asyncio.wait_for(asyncio.gather(*(person(n) for n in range(40))), 600)


async def test_links_open_nothing_and_chats_are_private(test_bots_server: ConfabServer) -> None:
    test_bots_server.add_study("links", ["test-quick"])
    async with httpx.AsyncClient(base_url=test_bots_server.url) as client:
        assert (await client.get("/s/links/")).status_code == 200
        count = (
            "from webapp.studies.models import Participant;"
            "print(Participant.objects.filter(study__key='links').count())"
        )
        assert test_bots_server.shell(count).strip() == "0"
        async with visitor(test_bots_server, "links") as doors:
            for page in ("", "rate/", "done/"):
                answer = await client.get(f"/chat/{doors.conversation_id}/{page}")
                assert answer.status_code == 404
