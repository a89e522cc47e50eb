"""Rehearsals of every protocol's example in this process, and what is looked for in them.

The pages come by ASGI, the chats by their sockets, and the bots' replies as a host stores them. Each chat's first reply
fails, for a reason that names the bot. What comes through these doors, and whatever the pages lead to, is kept.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import pandas as pd
from asgiref.sync import ThreadSensitiveContext
from bs4 import BeautifulSoup
from channels.testing import WebsocketCommunicator
from django.db.models import Q
from django.urls import reverse

import confab
from evaluation.agreement.metric_agreement import judgements_read
from evaluation.data.formats.tables import FileTable, is_missing, name_of, table_read
from tests.builders import BLUE, signed_in
from webapp.asgi import application, django_application
from webapp.bots.models import BotVersion
from webapp.conversations import services
from webapp.conversations.models import Conversation
from webapp.core.database import in_database
from webapp.core.rights import Right
from webapp.participant.simulated import StudyClient
from webapp.participant.simulated.client import frames_until
from webapp.ratings.attention_results import checks_by_task
from webapp.ratings.models import Rating
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Item, Study, Task
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.study_file import study_example, study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, exporters
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store
from webapp.transfer.writers import write_file

LINES = [["hello there", "hi", "i went to the sea", "was it warm?", "do you like fish", "yes"]]


NO_DATA = re.compile(
    r"No ratings? yet|No judgements yet|No participants yet|No participant has started yet"
    r"|No participant has finished a task yet|No conversations? yet|nothing to report|\b0 rated"
    r"|cannot give participants a chatbot|Participants cannot get a chatbot"
)
"""What a page says that shows no data."""
PAGES = ThreadPoolExecutor(1)
"""Does all pages, so that there is one connection to close at the end."""


def words_of(page_html: str) -> str:
    """Return the words that a page shows in its main part."""
    page = BeautifulSoup(page_html, "html.parser").main
    for one in page.select("script, svg, style"):
        one.decompose()
    return " ".join(page.get_text(" ").split())


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request as the server does, in that thread."""
    async with ThreadSensitiveContext(executor=PAGES):
        await django_application(scope, receive, send)


class InsideSocket:
    """A chat's socket; the first reply to a message fails, is asked for again, and every other comes at once."""

    def __init__(self, conversation_id: str, cookies: str, told: list[str]) -> None:
        self.conversation_id = conversation_id
        self.told = told
        self.has_failed = False
        self.heard: list[str] = []  # before it is asked for
        headers = [(b"cookie", cookies.encode())]
        address = f"/ws/chat/{conversation_id}/"
        self.inner = WebsocketCommunicator(application, address, headers=headers)

    async def __aenter__(self) -> InsideSocket:
        connected, _protocol = await self.inner.connect()
        assert connected
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.inner.disconnect()

    async def send(self, text: str) -> None:
        await self.inner.send_to(text)
        if json.loads(text)["type"] != "message":
            return
        if not self.has_failed:
            self.has_failed = True
            await self._until(self._failed)
            while '"bot_failed"' not in (frame := await self._next()):
                self.heard.append(frame)
            await self.inner.send_to('{"type": "retry"}')
        await self._until(self._answered)

    async def recv(self) -> str:
        return self.heard.pop(0) if self.heard else await self._next()

    async def _next(self) -> str:
        frame = await self.inner.receive_from(timeout=30)
        self.told.append(frame)
        return frame

    async def _until(self, replied: Callable[[uuid.UUID, uuid.UUID], object]) -> None:
        """Do with the due reply what a bot host does, as soon as there is one."""
        chat, lease = uuid.UUID(self.conversation_id), uuid.uuid4()
        claim = in_database(services.reply_claim)
        async with asyncio.timeout(60):
            while not await claim(conversation_id=chat, lease=lease, lease_s=30):
                await asyncio.sleep(0.01)
        assert await in_database(replied)(chat, lease)

    @staticmethod
    def _answered(chat: uuid.UUID, lease: uuid.UUID) -> object:
        return services.turn_add_bot(conversation_id=chat, lease=lease, text="And then?")

    @staticmethod
    def _failed(chat: uuid.UUID, lease: uuid.UUID) -> object:
        bot = Conversation.objects.get(pk=chat).bot
        error = f"{bot.bot_id} ({bot.title}) is broken: {bot.key}, {bot.params}"
        return services.reply_fail(conversation_id=chat, lease=lease, error=error)


class InsideDoors(StudyClient):
    """The doors of this process; `told` is all that came through them: addresses, headers, pages, frames.

    What a page leads to is opened, too: reports, ways out, other devices.
    """

    follows_links = True

    def __post_init__(self) -> None:
        self.told: list[str] = []
        self.chats: set[str] = set()
        self.seen: set[str] = set()
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

    async def _ask(self, method: str, address: str, **request: Any) -> httpx.Response:
        page = await super()._ask(method, address, **request)
        if not self.follows_links:
            return page
        named = set(re.findall(r'(?:href|src)="(?:http://testserver)?(/(?!static/)[^"#]*)"', page.text))
        for one in sorted(named):
            path = one.partition("?")[0]  # one report of a page's replies is enough
            if path not in self.seen:
                self.seen.add(path)
                await self.http.get(html.unescape(one))
        return page

    async def look_back(self) -> None:
        """Open the link and every chat once more, as somebody does who comes back, and report a reply."""
        await self._ask("GET", f"/s/{self.study_key}/")
        for chat in sorted(self.chats):
            await self._ask("GET", f"/chat/{chat}/report/?turn=1")
            async with self.socket(chat) as socket:
                await frames_until(socket, "history", "error")

    async def withdraw(self) -> None:
        """Have everything deleted, by the link on the last page."""
        [link] = {one for one in self.seen if one.startswith("/withdraw/")}
        await self.open(link)
        await self.send(self.form("/"), {"confirm": "on"})

    def socket(self, conversation_id: str = "") -> Any:
        self.chats.add(conversation_id or self.conversation_id)
        cookies = "; ".join(f"{c.name}={c.value}" for c in self.http.cookies.jar)
        return InsideSocket(conversation_id or self.conversation_id, cookies, self.told)


IN_CHAT = {"after": 1, "question": "Please write the word yes.", "expected": ["yes"]}
ASKED_AFTER = [
    {"key": "why", "title": "Why?", "kind": "text"},
    {"key": "rating", "title": "How often do you chat?", "kind": "choice", "options": ["No", "=1"]},
    {"key": "uses", "title": "For what?", "kind": "choices", "options": ["Fun", "Work, too"]},
]
"""Every kind of question but scales, which examples ask; one has the name of a column of the table of ratings."""
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
    results: dict[str, Any] = {"after": [*study.values.after, BLUE, *ASKED_AFTER]}
    if protocol.gives == "bots":
        results["chat_checks"] = [IN_CHAT]
    if protocol.needs_reference:
        results["attention_checks"] = [BESIDE_KNOWN]
    if study.protocol == "pairwise":
        results["attention_checks"] = [BETWEEN_TWO]
    return results


def opened(name: str) -> Study:
    """Return the protocol's example, brought in from its YAML, with checks, and the sample conversations it gives."""
    file = study_file_read(study_file_text(study_example(name)))
    study = study_import(file=file, opens=protocols.get(name).gives != "conversations").study
    assert study_file_text(study_file_of(study)) == study_file_text(file)
    if get_protocol(study).judges_conversations:
        records_store(study=study, records=conversations_sample())
    return study_edit(study=study, state=Study.State.COLLECTING, **checks_of(study))


def secrets_of(study: Study) -> set[str]:
    """Return what would tell a participant which bot or item they have: ids, titles, versions' keys, models, names."""
    chats = BotVersion.objects.filter(conversations__study=study)
    known = BotVersion.objects.filter(Q(bot_id__in=study.bots) | Q(pk__in=chats.values("pk")))
    bots = set(study.bots)
    for bot_id, title, key, params in known.values_list("bot_id", "title", "key", "params"):
        bots |= {bot_id, title, key, str(params.get("model") or key)}
    if protocols.get(study.protocol).has_one_item:  # a question of the study's own
        return bots
    for key, responses in Item.objects.filter(study=study).values_list("key", "responses"):
        bots |= {key, *(response.get("model") or key for response in responses)}
    return bots


def item_models_tell(study: Study) -> None:
    """Call the models of the example's items what no page says anyway."""
    for item in Item.objects.filter(study=study):
        for number, response in enumerate(item.responses):
            response["model"] = f"model-seven-{number}"
        item.save(update_fields=["responses"])


def names_nothing(told: list[str], secrets: set[str], protocol: str) -> None:
    """Check that none of the secrets stands in what somebody was told, in whatever case, as a word or part of an id."""
    text = "\n".join(told).casefold()
    for secret in filter(None, secrets):
        match = re.search(rf"(?<![a-z]){re.escape(secret.casefold())}(?![a-z])", text)
        around = text[max(0, match.start() - 80) : match.end() + 80] if match else ""
        assert not match, f"{protocol}: {secret!r} stands in “{around}”"


def results_shown(study: Study) -> None:
    """Look at what the dashboard makes of the rehearsal."""
    task = Task.objects.get(participant__study=study)
    assert (task.outcome, bool(task.completion_code)) == ("rated", True), study.protocol
    n_rated = Rating.objects.filter(task=task).count()
    n_chats = Rating.objects.filter(conversation__slot__task=task).count()
    assert n_rated or n_chats, study.protocol
    chats = Conversation.objects.filter(slot__task=task)
    asked = {(one.kind, one.name) for one in checks_by_task(Task.objects.filter(pk=task.pk))[task.pk]}
    assert ("after", "colour") in asked, study.protocol
    assert (("chat", IN_CHAT["question"]) in asked) == chats.exists(), study.protocol
    settings = study.values.attention
    assert any(kind == "item" for kind, _name in asked) == bool(settings.attention_checks)
    client = signed_in(Right.READ, username=study.key)
    for page in ("study", "study_results", "study_why"):
        response = client.get(reverse(f"dashboard:{page}", args=[study.key]), {"synthetic": "1"})
        assert response.status_code == 200, (study.protocol, page)


def cell_read(table: FileTable, row: int, column: ExportColumn) -> Any:
    """Return a cell as its column's type has it, None where it is missing."""
    cell = table.rows[row - 1].get(column.name)
    if column.type in ("integer", "number"):
        return table.number(row, column.name)
    if column.type == "text":
        return name_of(cell) or None
    if is_missing(cell):
        return None
    if column.type == "time":
        return pd.Timestamp(cell).to_pydatetime()
    return cell if table.name.endswith(".jsonl") or isinstance(cell, bool) else json.loads(cell)


def tables_read_back(study: Study, folder: Path, endings: Sequence[str]) -> None:
    """Export every table in these forms, and read it: cell by cell, and as `confab.read` does."""
    options = ExportOptions(include_synthetic=True, include_private=True)
    given = Rating.objects.filter(
        Q(task__participant__study=study) | Q(conversation__slot__task__participant__study=study)
    )
    for ending in endings:
        files = {}
        for exporter in exporters:
            columns = exporter.columns(study, options)
            rows = list(exporter.rows(study, options))
            files[exporter.name] = path = folder / f"{study.key}-{exporter.name}.{ending}"
            write_file(path, ending, columns, rows)
            table = table_read(path)
            assert len(table.rows) == len(rows), path.name
            if rows or ending != "jsonl":
                assert table.columns == tuple(column.name for column in columns), path.name
            for number, row in enumerate(rows, start=1):
                for column, cell in zip(columns, row, strict=True):
                    expected = None if cell == "" else cell
                    assert cell_read(table, number, column) == expected, (path.name, column.name)
        n_read = 0
        for told, target in (("messages", "conversation"), ("items", "item")):
            if not table_read(files[told]).rows:
                continue
            text = confab.read(files[told], files["ratings"])
            assert text.skipped == (), (study.protocol, ending, text.skipped)
            several = {item.key for item in Item.objects.filter(study=study) if len(item.responses) > 1}
            expected = given.filter(**{f"{target}__isnull": False}).exclude(item__key__in=several)
            expected = expected.exclude(item__purpose__in=Item.UNCOUNTED)
            assert len(text.ratings) == expected.count(), (study.protocol, ending, told)
            n_read += len(text.ratings)
            dimensions = set(study.rubric.dimensions.values_list("key", flat=True))
            assert set(text.dimensions) <= dimensions, (study.protocol, ending)
        if table_read(files["conversations"]).rows:
            whole = confab.read(files["conversations"])
            assert (len(whole), whole.skipped) == (len(table_read(files["conversations"]).rows), ())
        if ending == "jsonl" and table_read(files["judged"]).rows:
            judged = judgements_read(files["judged"])
            assert (len(judged.items), judged.lines) == (len(table_read(files["judged"]).rows), ())
