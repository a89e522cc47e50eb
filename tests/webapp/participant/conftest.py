"""A study, and browsers with and without cookies."""

from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client

from tests.builders import exchange, make_participants, make_study
from webapp.conversations.models import Conversation
from webapp.studies.models import Study, Task
from webapp.studies.selectors import participant_token
from webapp.studies.services import task_open

KEYS = ["quality", "fluency", "diversity", "contingency", "empathy"]
ANSWERS = {**dict.fromkeys(KEYS, "5"), "comments": "Nice."}


@pytest.fixture
def study(db: None) -> Study:
    """Make a study of two bots, three exchanges needed, five at most."""
    return make_study("s", contact="lab@example.org")


@pytest.fixture
def browser() -> Client:
    """Return a browser that obeys the form check, as real ones must."""
    return Client(enforce_csrf_checks=True)


def csrf(browser: Client) -> str:
    """Return the form check's token, as the browser's cookie holds it."""
    return browser.cookies["csrftoken"].value


def post(browser: Client, path: str, **data: str) -> Any:
    """Post a form with the check's token."""
    return browser.post(path, {**data, "csrfmiddlewaretoken": csrf(browser)})


def entry_field(page) -> str:
    """Return the signed hidden field of the entry form."""
    return page.content.decode().split('name="_entry" value="')[1].split('"')[0]


def started(browser: Client, key: str, query: str = "") -> str:
    """Open the link, agree, start; return the address that this leads to."""
    page = browser.get(f"/s/{key}/{query}")
    response = post(browser, f"/s/{key}/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 302, response.content[:500]
    return response.url


def begin(browser: Client, key: str = "s", query: str = "") -> Conversation:
    """Start as `started` does; return the conversation the browser is led to."""
    return Conversation.objects.get(pk=started(browser, key, query).split("/")[2])


def shown(page: Any) -> str:
    """Return a page's markup with single blanks."""
    return " ".join(page.content.decode().split())


def chat(conversation: Conversation, n: int) -> None:
    """Let this many exchanges happen."""
    for number in range(n):
        exchange(conversation, f"message {number}", f"reply {number}")
    conversation.refresh_from_db()


def policy(response) -> dict[str, list[str]]:
    """Return the Content-Security-Policy by directive."""
    parts = [part.split() for part in response["Content-Security-Policy"].split(";")]
    return {part[0]: part[1:] for part in parts if part}


def opens_to_its_own_alone(browser: Client, study: Study, step: str, sent: dict[str, Any]) -> Task:
    """Open a task's step by tokens of its participant and of others, and answer it in a frame; return the task."""
    mine, theirs = (task_open(participant=participant) for participant in make_participants(study, 2))
    token = participant_token(mine.participant)
    for task, query, status in (
        (mine, f"?t={token}", 200),
        (theirs, f"?t={token}", 404),
        (mine, f"?t={token[:-1]}", 404),
        (mine, "", 404),
    ):
        assert browser.get(f"/task/{task.public_id}/{step}/{query}").status_code == status
    frame, answers = Client(enforce_csrf_checks=True), {"_t": token, **sent}
    assert frame.post(f"/task/{theirs.public_id}/{step}/", answers).status_code == 404
    assert f"t={token}" in unquote(frame.post(f"/task/{mine.public_id}/{step}/", answers).url)
    return mine
