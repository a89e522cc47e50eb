"""Every outcome on Prolific and Mechanical Turk, by the addresses of both sides, with and without cookies."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.builders import BY_PROLIFIC, exchange, fail_reply, make_study
from tests.platforms import FakeMTurk, FakeProlific
from tests.webapp.participant.conftest import ANSWERS, policy
from webapp.conversations.models import Conversation
from webapp.conversations.services import task_end_with_chats
from webapp.studies.models import Outcome, Participant, Task
from webapp.studies.recruitment.settings import external_question, recruiting_link

pytestmark = pytest.mark.django_db
STUDY = "http://testserver/s/s/"
ACTIONS = {
    "RATED1": "AWAITING REVIEW",
    "FAILED1": "AWAITING REVIEW",
    "SCREEN1": "SCREENED OUT",
    "CHECK1": "AWAITING REVIEW",
    "REFUSED1": "RETURNED",
    "GONE1": "RETURNED",
}
CODES = {outcome: BY_PROLIFIC[f"code_{outcome}"] for outcome in Outcome.values}


class Page(HTMLParser):
    """The forms and links of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self.links: list[str] = []
        self._fields: dict[str, str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if tag == "form":
            self._fields = self.forms.setdefault(values.get("action", ""), {})
        elif tag == "input" and values.get("type") == "hidden" and self._fields is not None:
            self._fields[values["name"]] = values["value"]
        elif tag == "a":
            self.links.append(values.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._fields = None

    def form_to(self, ending: str) -> tuple[str, dict[str, str]]:
        """Return the address and the hidden fields of the form that is sent there."""
        return next(
            (address, fields)
            for address, fields in self.forms.items()
            if (address.endswith(ending) if ending else not address)
        )


class Person:
    """Somebody's browser, in a frame that takes no cookies or outside."""

    def __init__(self, *, cookies: bool) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.cookies = cookies
        self.html = ""
        self.path = ""

    def open(self, address: str) -> None:
        """Open a page and follow where it leads."""
        self._came(self.client.get(address))

    def send(self, ending: str, to: str = "", **values: str) -> None:
        """Send the page's form to the address that ends so, or a form without one to its own page."""
        address, hidden = Page(self.html).form_to(ending)
        self._came(self.client.post(address or to, {**hidden, **values}))

    def _came(self, response) -> None:
        while response.status_code == 302:
            if not self.cookies:
                self.client.cookies.clear()
            self.path = response.url
            response = self.client.get(response.url)
        assert response.status_code == 200, response.content[:300]
        if not self.cookies:
            self.client.cookies.clear()
        self.html = unescape(response.content.decode())

    def begin(self) -> Conversation:
        """Agree and start."""
        self.send("/start/", consent="on")
        return Conversation.objects.get(pk=self.path.split("/")[2])


def rated(person: Person) -> None:
    conversation = person.begin()
    for number in range(3):
        exchange(conversation, f"message {number}", f"reply {number}")
    address = person.path.replace(f"{conversation.pk}/", f"{conversation.pk}/rate/")
    person.open(address)
    person.send("", to=address, **ANSWERS)


def bot_failed(person: Person) -> None:
    fail_reply(person.begin())
    person.open(person.path)
    person.send("/finish/")


def withdrawn(person: Person) -> None:
    person.begin()
    person.send("/withdraw/")


def no_consent(person: Person) -> None:
    person.send("/decline/")


def ended(outcome: str) -> Callable[[Person], None]:
    def end(person: Person) -> None:
        conversation = person.begin()
        task_end_with_chats(task=conversation.task, outcome=outcome)
        person.open(person.path)  # the chat's page leads on

    return end


ENDS = {
    "rated": rated,
    "bot_failed": bot_failed,
    "screened_out": ended("screened_out"),
    "failed_check": ended("failed_check"),
    "no_consent": no_consent,
    "withdrawn": withdrawn,
}


@pytest.mark.parametrize("cookies", [True, False], ids=["cookies", "no cookies"])
@pytest.mark.parametrize("outcome", ENDS)
def test_prolific_takes_every_outcome_by_its_own_code(outcome: str, cookies: bool) -> None:
    make_study("s", **BY_PROLIFIC)
    prolific = FakeProlific(recruiting_link(STUDY), ACTIONS)
    link = prolific.reserve("anna")
    person = Person(cookies=cookies)
    person.open(link)
    ENDS[outcome](person)
    assert f'data-outcome="{outcome}"' in person.html
    assert Task.objects.get().outcome == outcome
    for again in (None, Person(cookies=cookies), Person(cookies=not cookies)):
        if again is not None:
            again.open(link)
        html = (again or person).html
        assert f">{CODES[outcome]}</p>" in html
        assert (Task.objects.get().completion_code or "no code of ours") not in html
        assert "Return your place" not in html
        assert 'name="consent"' not in html or outcome == "no_consent"
    back = [href for href in Page(person.html).links if href.startswith(prolific.HOST)]
    assert len(back) == 1
    assert prolific.answer(back[0], "anna") == (200, f"Submission {ACTIONS[CODES[outcome]]}.")
    assert prolific.submissions["session-1"].code == CODES[outcome]
    assert prolific.answer(back[0], "anna")[1] == "You have no active submission."


@pytest.mark.parametrize("outcome", ["rated", "no_consent"])
def test_the_next_place_on_prolific_is_another_visit(outcome: str) -> None:
    make_study("s", **BY_PROLIFIC)
    prolific = FakeProlific(recruiting_link(STUDY), ACTIONS)
    first, second = prolific.reserve("anna"), prolific.reserve("anna")
    person = Person(cookies=True)
    person.open(first)
    bot_failed(person)
    person.open(second)
    ENDS[outcome](person)
    for link, code in ((first, "FAILED1"), (second, CODES[outcome])):
        stranger = Person(cookies=False)
        stranger.open(link)
        assert f">{code}</p>" in stranger.html
    assert Participant.objects.count() == 1


def test_who_opens_the_link_again_is_led_to_the_open_chat_in_their_own_browser_alone() -> None:
    make_study("s", **BY_PROLIFIC)
    prolific = FakeProlific(recruiting_link(STUDY), ACTIONS)
    first, second = prolific.reserve("anna"), prolific.reserve("anna")
    person, stranger = Person(cookies=True), Person(cookies=True)
    person.open(first)
    chat = f"/chat/{person.begin().pk}/"
    person.open(first)
    assert "You have an open chat." in person.html
    assert chat in Page(person.html).links
    person.open(second)
    assert chat not in Page(person.html).links, "another visit is paid by itself"
    stranger.open(first)
    assert chat not in Page(stranger.html).links


@pytest.mark.parametrize("cookies", [True, False], ids=["cookies", "no cookies"])
@pytest.mark.parametrize("outcome", ENDS)
def test_mechanical_turk_takes_every_outcome_by_its_form(outcome: str, cookies: bool) -> None:
    make_study("s", platform="mturk")
    turk = FakeMTurk(external_question(STUDY))
    person = Person(cookies=cookies)
    person.open(turk.preview())
    assert "Accept the task to start" in person.html
    assert "I do not agree" not in person.html
    assert not Participant.objects.exists()
    link = turk.accept("worker")
    person.open(link)
    ENDS[outcome](person)
    assert f'data-outcome="{outcome}"' in person.html
    task = Task.objects.get()
    submits = [address for address in Page(person.html).forms if address.startswith(turk.HOST)]
    assert bool(submits) == bool(task.completion_code)
    if outcome in ("no_consent", "withdrawn"):
        assert not submits
        assert "Return your place on Mechanical Turk" in person.html
        return
    again = Person(cookies=not cookies)
    again.open(link)
    assert f">{task.completion_code}</p>" in again.html
    address, fields = Page(again.html).form_to("/externalSubmit")
    assert turk.submit(address, urlencode(fields)) == (200, "Submitted.")
    assert turk.assignments["assignment-1"].answers == {"completionCode": task.completion_code, "outcome": outcome}
    assert turk.submit(address, urlencode(fields))[0] == 400, "once"


def test_whoever_withdraws_in_mechanical_turks_frame_sends_their_work_all_the_same() -> None:
    make_study("s", platform="mturk", withdrawal_days=30)
    turk = FakeMTurk(external_question(STUDY))
    person = Person(cookies=False)
    person.open(turk.accept("worker"))
    ENDS["rated"](person)
    code = Task.objects.get().completion_code
    [link] = [one for one in Page(person.html).links if one.startswith("/withdraw/")]
    assert turk.HOST in policy(Client().get(link))["frame-ancestors"], "its frame shows the page"
    person.open(link)
    person.send("", to=link, confirm="on")
    assert "All your data have been deleted." in person.html
    [link] = [one for one in Page(person.html).links if one.startswith("/task/")]
    person.open(link)
    address, fields = Page(person.html).form_to("/externalSubmit")
    assert turk.submit(address, urlencode(fields)) == (200, "Submitted.")
    assert turk.assignments["assignment-1"].answers["completionCode"] == code


def test_what_a_platform_left_unfilled_is_refused() -> None:
    make_study("s", **BY_PROLIFIC)
    person = Person(cookies=True)
    person.open(recruiting_link(STUDY))
    assert "Your Prolific ID is missing from this link" in person.html
    advice = "paste the whole address from “Who and pay”"
    assert advice not in person.html, "it is for researchers"
    staff = Client()
    staff.force_login(get_user_model().objects.create_user("lab", is_staff=True))
    assert advice in staff.get(recruiting_link(STUDY)).content.decode()
    person.open(f"{STUDY}?workerId=${{workerId}}&assignmentId=a")
    assert "Your Mechanical Turk ID is missing from this link" in person.html
