"""Scripted people who do not give up: they come back, send again, and note what they are told."""

import asyncio
import json
import random
import uuid
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from tests.chaos.ledger import Ledger
from webapp.participant.simulated import StepRefused, StudyClient

PATIENCE_S = 90.0
"""Longer than a killed process takes to come back and a reply to be failed for good."""
AWAY = (OSError, EOFError, WebSocketException, httpx.TransportError, TimeoutError)


class Person:
    """One browser whose person wants to be paid."""

    def __init__(self, url: str, study: str, ledger: Ledger, seed: int) -> None:
        self.doors = StudyClient(url, study)
        self.doors.http.event_hooks["response"].append(ledger.note_status)
        self.ledger = ledger
        self.rng = random.Random(seed)

    async def arrive(self) -> bool:
        """Be let in, however long the server is away meanwhile. False: gave up."""

        async def come() -> None:
            while True:
                try:
                    await self.doors.start()
                    break
                except (*AWAY, StepRefused):
                    await asyncio.sleep(0.5)

        if not await self._patiently(come(), "to be let in"):
            return False
        self.ledger.people[self.doors.study_key] += 1
        return True

    async def press_twice(self, n_times: int = 5) -> None:
        """Press the button of one form several times at once; one of them counts."""
        page = await self.doors.http.get(f"/s/{self.doors.study_key}/")
        form = self.doors._form(page, "/start/")
        answers = await asyncio.gather(*(self.doors._post(form, {"consent": "on"}, page) for _ in range(n_times)))
        assert any("/chat/" in answer.url.path for answer in answers)
        self.ledger.people[self.doors.study_key] += 1

    async def chat(self, n_messages: int) -> None:
        """Write, vote and rate; send again what was not confirmed."""
        for number in range(n_messages):
            client_id = str(uuid.uuid4())
            exchange = self._exchange(client_id, f"Message {number} of {client_id}")
            if not await self._patiently(exchange, f"message {number} to be answered"):
                return
        await self._patiently(self._rate(), "the rating to be taken")

    async def meet(self) -> None:
        """Write one message to a bot that is no good: a reply or its failure counts as an answer."""
        client_id = str(uuid.uuid4())
        exchange = self._exchange(client_id, f"Message of {client_id}", may_fail=True)
        await self._patiently(exchange, f"an answer of {self.doors.study_key}")

    async def flood(self, n_frames: int) -> None:
        """Send without waiting: messages, each of them twice, votes on anything, and rubbish."""
        conversation = self.doors.conversation_id
        sent: dict[str, str] = {}
        try:
            async with asyncio.timeout(PATIENCE_S), self.doors.socket() as socket:
                listening = asyncio.ensure_future(self._hear_all(socket, conversation, sent))
                for number in range(n_frames):
                    client_id = str(uuid.uuid4())
                    sent[client_id] = f"Flood {number} of {client_id}"
                    message = {"type": "message", "client_id": client_id, "text": sent[client_id]}
                    vote = {"type": "vote", "turn": number, "value": 1}
                    for frame in (message, message, vote, "{", [], {"type": "retry"}):
                        await socket.send(frame if frame == "{" else json.dumps(frame))
                await asyncio.sleep(3)  # what is on its way
                listening.cancel()
        except AWAY:
            pass  # a flood may be cut off; what was confirmed counts all the same

    async def leave(self) -> None:
        await self.doors.close()

    async def _patiently(self, doing: Any, what: str) -> bool:
        try:
            await asyncio.wait_for(doing, PATIENCE_S)
        except TimeoutError:
            self.ledger.gave_up.append(f"{self.doors.conversation_id or 'somebody'}: {what}")
            return False
        return True

    async def _exchange(self, client_id: str, text: str, *, may_fail: bool = False) -> None:
        while True:
            try:
                async with self.doors.socket() as socket:
                    await socket.send(json.dumps({"type": "message", "client_id": client_id, "text": text}))
                    if await self._answered(socket, client_id, text, may_fail):
                        return
            except AWAY:
                pass
            await asyncio.sleep(self.rng.uniform(0.2, 0.6))

    async def _answered(self, socket: Any, client_id: str, text: str, may_fail: bool) -> bool:
        """Listen until the message has its reply. False: it has to be sent again."""
        conversation = self.doors.conversation_id
        due: int | None = None
        while True:
            frame = json.loads(await socket.recv())
            kind = frame["type"]
            if kind == "history":
                self.ledger.note_history(conversation, frame["turns"])
            elif kind == "turn" and frame.get("client_id") == client_id:
                self.ledger.messages[client_id] = (conversation, frame["turn"], text)
                due = frame["turn"] + 1
            elif kind == "reply":
                self.ledger.note_reply(conversation, frame["turn"], frame["text"])
                if frame["turn"] == due:
                    await self._vote(socket, due)
                    return True
            elif kind == "error":
                if frame["code"] == "bot_failed":
                    if may_fail:
                        return True
                    await socket.send(json.dumps({"type": "retry"}))
                    await asyncio.sleep(0.5)
                elif frame["code"] in ("unavailable", "too_fast"):
                    await asyncio.sleep(frame.get("retry_after_s", 1))
                    return False
                elif frame["code"] in ("closed", "not_found"):
                    return True

    async def _vote(self, socket: Any, turn: int) -> None:
        if self.rng.random() < 0.5:
            return
        value = self.rng.choice([-1, 1])
        await socket.send(json.dumps({"type": "vote", "turn": turn, "value": value}))
        frame: dict[str, Any] = {}
        while frame.get("type") != "vote" or frame.get("turn") != turn:
            frame = json.loads(await asyncio.wait_for(socket.recv(), 10))
        self.ledger.votes[self.doors.conversation_id, turn] = value

    async def _rate(self) -> None:
        while True:
            try:
                await self.doors.rate(lambda _name, choices: self.rng.choice(choices))
                break
            except AWAY:
                pass
            except StepRefused:
                done = await self.doors.http.get(f"/chat/{self.doors.conversation_id}/done/")
                if done.url.path.endswith("/done/") and done.status_code == 200:
                    break
            await asyncio.sleep(0.5)
        self.ledger.ratings.append(self.doors.conversation_id)

    async def _hear_all(self, socket: Any, conversation: str, sent: dict[str, str]) -> None:
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "history":
                self.ledger.note_history(conversation, frame["turns"])
            elif frame["type"] == "turn" and (own := sent.get(frame.get("client_id") or "")):
                self.ledger.messages[frame["client_id"]] = (conversation, frame["turn"], own)
            elif frame["type"] == "reply":
                self.ledger.note_reply(conversation, frame["turn"], frame["text"])
            elif frame["type"] == "vote":
                self.ledger.votes[conversation, frame["turn"]] = frame["value"]
