"""A study, and browsers with and without cookies."""

import pytest
from django.test import Client

from tests.builders import exchange, make_study
from webapp.conversations.models import Conversation
from webapp.studies.models import Study

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


def post(browser: Client, path: str, **data: str):
    """Post a form with the check's token."""
    return browser.post(path, {**data, "csrfmiddlewaretoken": csrf(browser)})


def entry_field(page) -> str:
    """Return the signed hidden field of the entry form."""
    return page.content.decode().split('name="_entry" value="')[1].split('"')[0]


def begin(browser: Client, key: str = "s", query: str = "") -> Conversation:
    """Open the link, agree, start; the conversation the browser is led to."""
    page = browser.get(f"/s/{key}/{query}")
    response = post(browser, f"/s/{key}/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 302, response.content[:500]
    return Conversation.objects.get(pk=response.url.split("/")[2])


def chat(conversation: Conversation, n: int) -> None:
    """Let this many exchanges happen."""
    for number in range(n):
        exchange(conversation, f"message {number}", f"reply {number}")
    conversation.refresh_from_db()


def policy(response) -> dict[str, list[str]]:
    """Return the Content-Security-Policy by directive."""
    parts = [part.split() for part in response["Content-Security-Policy"].split(";")]
    return {part[0]: part[1:] for part in parts if part}
