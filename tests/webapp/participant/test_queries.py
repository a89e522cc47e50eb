"""Numbers of queries of a chat's pages, messages and replies: a crowd of participants asks for thousands of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.webapp.participant.conftest import ANSWERS, begin, csrf, entry_field, post
from webapp.conversations import selectors, services
from webapp.conversations.models import Conversation
from webapp.conversations.reply_pipeline import reply_begin
from webapp.studies.models import Study

MOST = {
    "entry": 7,
    "start": 24,
    "locked": 7,
    "chat": 7,
    "history": 2,
    "message": 6,
    "claim": 3,
    "reply": 6,
    "form": 6,
    "rating": 20,
    "done": 8,
}
"""With the transactions' own statements; `locked`: of a start, those while it holds the study's lock."""


def statements_locked(statements: list[str]) -> int:
    """Count the statements after the study's lock, up to the stored chat."""
    [locked] = (at for at, sql in enumerate(statements) if 'WHERE "studies_study"."id" =' in sql)
    [stored] = (at for at, sql in enumerate(statements) if 'INTO "conversations_conversation"' in sql)
    return stored - locked


def test_a_chat_asks_no_more_of_the_database_than_this(study: Study) -> None:
    for _first in study.bots:  # the day's first visit and each bot's first chat ask more
        begin(Client(enforce_csrf_checks=True))
    params, browser = {}, Client(enforce_csrf_checks=True)

    def counted(name: str, act: Callable[[], Any]) -> Any:
        with CaptureQueriesContext(connection) as queries:
            result = act()
        params[name] = len(queries)
        if name == "start":
            params["locked"] = statements_locked([query["sql"] for query in queries.captured_queries])
        return result

    page = counted("entry", lambda: browser.get("/s/s/"))
    fields = {"consent": "on", "_entry": entry_field(page), "csrfmiddlewaretoken": csrf(browser)}
    begun = counted("start", lambda: browser.post("/s/s/start/", fields))
    assert (page.status_code, begun.status_code) == (200, 302)
    chat = Conversation.objects.get(pk=begun.url.split("/")[2])
    assert counted("chat", lambda: browser.get(f"/chat/{chat.pk}/")).status_code == 200
    counted("history", lambda: selectors.history(chat.pk))
    for _exchange in range(3):
        said = {"conversation_id": chat.pk, "client_id": uuid.uuid4(), "text": "hello"}
        assert counted("message", lambda said=said: services.turn_add_human(**said)).created
        lease = uuid.uuid4()
        assert counted("claim", lambda lease=lease: reply_begin(chat.pk, lease)) is not None
        made = {"conversation_id": chat.pk, "lease": lease, "text": "hello"}
        assert counted("reply", lambda made=made: services.turn_add_bot(**made)) is not None
    assert counted("form", lambda: browser.get(f"/chat/{chat.pk}/rate/")).status_code == 200
    rated = counted("rating", lambda: post(browser, f"/chat/{chat.pk}/rate/", **ANSWERS))
    assert rated.url == f"/chat/{chat.pk}/done/"
    assert counted("done", lambda: browser.get(rated.url)).status_code == 200
    assert {name: n for name, n in params.items() if n > MOST[name]} == {}
