"""The example of every protocol, from its file to its results: opened, played by a scripted participant, exported.

All of it in this process: the pages by ASGI, the chats by their sockets, and the bots' replies as a host stores them.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from types import TracebackType
from typing import Any

import httpx
import pytest
from channels.testing import WebsocketCommunicator
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff
from webapp.asgi import application
from webapp.conversations import services
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.participant import consumers
from webapp.participant.rehearsal import OutsideDoors, Played, ScriptedParticipant
from webapp.ratings.models import Rating
from webapp.studies.examples import study_example
from webapp.studies.importing import study_import
from webapp.studies.models import Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import judges_conversations, rehearsal_token
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.samples import conversations_sample
from webapp.transfer.services import records_store

LINES = [["hello there", "hi", "i went to the sea", "was it warm?", "do you like fish", "yes"]]


class InsideSocket:
    """A chat's socket; a message is answered at once, in turn by a parrot and by somebody who asks."""

    def __init__(self, conversation_id: str, cookies: str) -> None:
        self.conversation_id = conversation_id
        headers = [(b"cookie", cookies.encode())]
        address = f"/ws/chat/{conversation_id}/"
        self.inner = WebsocketCommunicator(application, address, headers=headers)

    async def __aenter__(self) -> InsideSocket:
        connected, _protocol = await self.inner.connect()
        assert connected
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        await self.inner.disconnect()

    async def send(self, text: str) -> None:
        await self.inner.send_to(text)
        if json.loads(text)["type"] == "message":
            while not await in_database(self._answered)():
                await asyncio.sleep(0.01)

    async def recv(self) -> str:
        return await self.inner.receive_from(timeout=30)

    def _answered(self) -> bool:
        """Answer as a bot host does; False while the message is not stored yet."""
        lease = uuid.uuid4()
        if not services.reply_claim(
            conversation_id=uuid.UUID(self.conversation_id), lease=lease, lease_s=30
        ):
            return False
        return bool(
            services.turn_add_bot(
                conversation_id=uuid.UUID(self.conversation_id), lease=lease, text="And then?"
            )
        )


class InsideDoors(OutsideDoors):
    """The doors of this process."""

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(
            base_url="http://testserver",
            transport=httpx.ASGITransport(app=application),
            follow_redirects=True,
            timeout=60,
        )

    def socket(self, conversation_id: str = "") -> Any:
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.http.cookies.jar)
        return InsideSocket(conversation_id or self.conversation_id, cookies)


def opened(name: str) -> Study:
    """Return the protocol's example, brought in from its YAML, with the sample conversations where it gives some."""
    file = study_file_read(study_file_text(study_example(name)))
    study = study_import(file=file, opens=protocols.get(name).gives != "conversations").study
    assert study_file_text(study_file_of(study)) == study_file_text(file)
    if judges_conversations(study):
        records_store(study=study, records=conversations_sample())
        study = study_edit(study=study, state=Study.State.COLLECTING)
    return study


async def played(study: Study, seed: int) -> Played:
    doors = InsideDoors("http://testserver", study.key, {"rehearsal": rehearsal_token(study)})
    try:
        return await ScriptedParticipant(doors, lines=LINES, seed=seed).play()
    finally:
        await doors.close()


def results_shown(study: Study) -> None:
    """Look at what the dashboard makes of the rehearsal."""
    task = Task.objects.get(participant__study=study)
    assert (task.outcome, bool(task.completion_code)) == ("rated", True), study.protocol
    n_rated = Rating.objects.filter(task=task).count()
    n_chats = Rating.objects.filter(conversation__slot__task=task).count()
    assert n_rated or n_chats, study.protocol
    client = Client()
    client.force_login(make_staff(Right.READ, username=study.key))
    for page in ("study", "study_statistics", "study_bots", "study_pairs"):
        shown = client.get(reverse(f"dashboard:{page}", args=[study.key]), {"synthetic": "1"})
        assert shown.status_code == 200, (study.protocol, page)


@pytest.mark.django_db(transaction=True)
async def test_every_example_is_played_to_its_end_by_a_scripted_participant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.02)  # no host tells of its replies here
    for number, name in enumerate(protocols.names()):
        study = await in_database(opened)(name)
        who = await played(study, seed=number)
        assert who.n_pages, name
        await in_database(results_shown)(study)
