"""The example of every protocol, from its file to its results: opened, played by a scripted participant, exported.

All of it in this process: the pages by ASGI, the chats by their sockets, and the bots' replies as a host stores them.
What comes through these doors is kept and searched: nobody who takes part is told which bot or item it is.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import httpx
import pytest
from asgiref.sync import ThreadSensitiveContext
from channels.testing import WebsocketCommunicator
from django.db import connections
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff
from webapp.asgi import application, django_application
from webapp.bots.models import BotVersion
from webapp.conversations import services
from webapp.conversations.models import Conversation
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.participant import consumers
from webapp.participant.rehearsal import OutsideDoors, Played, ScriptedParticipant, ways
from webapp.ratings.checks import checks_by_task
from webapp.ratings.models import Rating
from webapp.studies.examples import study_example
from webapp.studies.importing import study_import
from webapp.studies.models import Item, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import judges_conversations, rehearsal_token
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.samples import conversations_sample
from webapp.transfer.services import records_store

LINES = [["hello there", "hi", "i went to the sea", "was it warm?", "do you like fish", "yes"]]


PAGES = ThreadPoolExecutor(1)
"""Does all pages, so that there is one connection to close at the end."""


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request as the server does, in that thread."""
    async with ThreadSensitiveContext(executor=PAGES):
        await django_application(scope, receive, send)


class InsideSocket:
    """A chat's socket; a message is answered at once, in turn by a parrot and by somebody who asks."""

    def __init__(self, conversation_id: str, cookies: str, told: list[str]) -> None:
        self.conversation_id = conversation_id
        self.told = told
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
        frame = await self.inner.receive_from(timeout=30)
        self.told.append(frame)
        return frame

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
    """The doors of this process; `told` is all that came through them: addresses, headers, pages, frames."""

    def __post_init__(self) -> None:
        self.told: list[str] = []
        self.http = httpx.AsyncClient(
            base_url="http://testserver",
            transport=httpx.ASGITransport(app=pages),
            follow_redirects=True,
            timeout=60,
            event_hooks={"response": [self._keep]},
        )

    async def _keep(self, response: httpx.Response) -> None:
        await response.aread()
        self.told.append(f"{response.url}\n{response.headers}\n{response.text}")

    def socket(self, conversation_id: str = "") -> Any:
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.http.cookies.jar)
        return InsideSocket(conversation_id or self.conversation_id, cookies, self.told)


IN_CHAT = {"after": 1, "question": "Please write the word yes.", "expected": ["yes"]}
IN_FORM = {
    "key": "colour",
    "title": "Please choose blue.",
    "kind": "choice",
    "options": ["Red", "Blue"],
    "expected": ["Blue"],
}
BESIDE_KNOWN = {
    "context": ["hi"],
    "response": "Hello. To show that you read this, please choose 2 here.",
    "reference": "Hello you.",
    "reference_score": 4,
    "expected": {"relevance": [2]},
}

BETWEEN_TWO = {
    "context": ["hi"],
    "response": "Hello.",
    "second_response": "Hello. To show that you read this, please say that this one is better.",
    "expected": {"quality": [-1]},
}


def checks_of(study: Study) -> dict[str, Any]:
    """Return every kind of check that the protocol takes and its example does not have."""
    protocol = protocols.get(study.protocol)
    found: dict[str, Any] = {"after": [*study.values.after, IN_FORM]}
    if protocol.gives == "bots":
        found["chat_checks"] = [IN_CHAT]
    if protocol.needs_reference:
        found["attention_checks"] = [BESIDE_KNOWN]
    if study.protocol == "pairwise":
        found["attention_checks"] = [BETWEEN_TWO]
    return found


def opened(name: str) -> Study:
    """Return the protocol's example, brought in from its YAML, with checks, and the sample conversations it gives."""
    file = study_file_read(study_file_text(study_example(name)))
    study = study_import(file=file, opens=protocols.get(name).gives != "conversations").study
    assert study_file_text(study_file_of(study)) == study_file_text(file)
    if judges_conversations(study):
        records_store(study=study, records=conversations_sample())
    return study_edit(study=study, state=Study.State.COLLECTING, **checks_of(study))


def secrets_of(study: Study) -> set[str]:
    """Return what would tell a participant which bot or item they have: ids, titles, versions' keys, models, names."""
    chats = BotVersion.objects.filter(conversations__study=study)
    known = BotVersion.objects.filter(Q(bot_id__in=study.bots) | Q(pk__in=chats.values("pk")))
    found = set(study.bots)
    for bot_id, title, key, params in known.values_list("bot_id", "title", "key", "params"):
        found |= {bot_id, title, key, str(params.get("model") or key)}
    if protocols.get(study.protocol).has_one_item:  # a question of the study's own
        return found
    for key, responses in Item.objects.filter(study=study).values_list("key", "responses"):
        found |= {key, *(one.get("model") or key for one in responses)}
    return found


def item_models_tell(study: Study) -> None:
    """Call the models of the example's items what no page says anyway."""
    for item in Item.objects.filter(study=study):
        for number, one in enumerate(item.responses):
            one["model"] = f"model-seven-{number}"
        item.save(update_fields=["responses"])


def names_nothing(told: list[str], secrets: set[str], protocol: str) -> None:
    """Check that none of the secrets stands in what somebody was told, in whatever case, as a word or part of an id."""
    text = "\n".join(told).casefold()
    for secret in filter(None, secrets):
        found = re.search(rf"(?<![a-z]){re.escape(secret.casefold())}(?![a-z])", text)
        around = text[max(0, found.start() - 80) : found.end() + 80] if found else ""
        assert not found, f"{protocol}: {secret!r} stands in “{around}”"


async def played(study: Study, seed: int) -> tuple[Played, list[str]]:
    doors = InsideDoors("http://testserver", study.key, {"rehearsal": rehearsal_token(study)})
    try:
        who = await ScriptedParticipant(doors, lines=LINES, seed=seed).play()
        return who, doors.told
    finally:
        await doors.close()


def results_shown(study: Study) -> None:
    """Look at what the dashboard makes of the rehearsal."""
    task = Task.objects.get(participant__study=study)
    assert (task.outcome, bool(task.completion_code)) == ("rated", True), study.protocol
    n_rated = Rating.objects.filter(task=task).count()
    n_chats = Rating.objects.filter(conversation__slot__task=task).count()
    assert n_rated or n_chats, study.protocol
    chats = Conversation.objects.filter(slot__task=task)
    asked = {
        (one.kind, one.name) for one in checks_by_task(Task.objects.filter(pk=task.pk))[task.pk]
    }
    assert ("after", "colour") in asked, study.protocol
    assert (("chat", IN_CHAT["question"]) in asked) == chats.exists(), study.protocol
    settings = study.values.attention
    assert any(kind == "item" for kind, _name in asked) == bool(settings.attention_checks)
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
    monkeypatch.setattr(ways, "_ATTENTIVE", 1.0)  # else one in twenty misses a check
    for number, name in enumerate(protocols.names()):
        study = await in_database(opened)(name)
        await in_database(item_models_tell)(study)
        who, told = await played(study, seed=number)
        assert who.n_pages, name
        assert bool(who.n_exchanges) == (protocols.get(name).gives == "bots"), name
        assert len(told) > who.n_pages, name
        names_nothing(told, await in_database(secrets_of)(study), name)
        await in_database(results_shown)(study)
    PAGES.submit(connections.close_all).result()
