"""Every outcome on Prolific, Mechanical Turk and panels, with cookies and without; and where pages speak of pay."""

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.builders import BY_PROLIFIC, exchange, fail_reply, make_rating, make_study
from tests.platforms import FakeMTurk, FakeProlific
from tests.webapp.participant.conftest import ANSWERS, begin, chat, entry_field, policy, post
from tests.webapp.participant.test_declining import MTURK, PROLIFIC, end_early, rate
from webapp.conversations.models import Conversation
from webapp.conversations.services import task_end_with_chats
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.privacy import withdrawal_token
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
# Nobody is late in a study without parts.
CODES = {outcome: BY_PROLIFIC[f"code_{outcome}"] for outcome in Outcome.values if outcome != Outcome.LATE}


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
    [link] = [link for link in Page(person.html).links if link.startswith("/withdraw/")]
    assert turk.HOST in policy(Client().get(link))["frame-ancestors"], "its frame shows the page"
    person.open(link)
    person.send("", to=link, confirm="on")
    assert "All your data have been deleted." in person.html
    [link] = [link for link in Page(person.html).links if link.startswith("/task/")]
    person.open(link)
    address, fields = Page(person.html).form_to("/externalSubmit")
    assert turk.submit(address, urlencode(fields)) == (200, "Submitted.")
    assert turk.assignments["assignment-1"].answers["completionCode"] == code


def test_what_a_platform_left_unfilled_is_refused() -> None:
    make_study("s", **BY_PROLIFIC)
    person = Person(cookies=True)
    person.open(recruiting_link(STUDY))
    assert "Your Prolific ID is missing from this link" in person.html
    advice = "paste the whole address from “Participants and pay”"
    assert advice not in person.html, "it is for researchers"
    staff = Client()
    staff.force_login(get_user_model().objects.create_user("lab", is_staff=True))
    assert advice in staff.get(recruiting_link(STUDY)).content.decode()
    person.open(f"{STUDY}?workerId=${{workerId}}&assignmentId=a")
    assert "Your Mechanical Turk ID is missing from this link" in person.html


BACK = "https://panel.example/{outcome}?who={pid}&visit={sid}&supplier={psid}"
PANEL_LINKS = {f"link_{outcome}": BACK for outcome in Outcome.values}
CAME = "?pid=P%201&sid=V1&psid=S7&other=x"


@pytest.fixture
def study(db: None) -> Study:
    names = {"id_parameter": "pid", "session_parameter": "sid", "more_parameters": "psid"}
    return make_study("s", platform="panel", **names, **PANEL_LINKS)


def back(outcome: str) -> str:
    return f'href="https://panel.example/{outcome}?who=P%201&amp;visit=V1&amp;supplier=S7"'


def test_a_panels_person_is_known_by_its_parameters_and_goes_back_with_them(study: Study, browser: Client) -> None:
    conversation = begin(browser, query=CAME)
    participant = Participant.objects.get()
    assert (participant.platform, participant.external_id) == ("panel", "P 1")
    assert participant.recruitment == {"pid": "P 1", "sid": "V1", "psid": "S7"}
    assert Task.objects.get().submission == "V1"
    chat(conversation, 3)
    code = make_rating(conversation).task.completion_code
    for client in (browser, Client()):
        html = client.get(f"/s/s/{CAME}").content.decode()
        assert back("rated") in html
        assert code not in html, "a link without {code} takes none"
    assert back("rated") not in Client().get(f"/s/s/{CAME.replace('V1', 'V2')}").content.decode()


def test_who_does_not_agree_goes_back_too(study: Study, browser: Client) -> None:
    page = browser.get(f"/s/s/{CAME}")
    response = post(browser, "/s/s/decline/", _entry=entry_field(page))
    assert back("no_consent") in browser.get(response.url).content.decode()
    assert back("no_consent") in Client().get(f"/s/s/{CAME}").content.decode()


@pytest.mark.parametrize("query", ["", "?pid=[PID]", "?pid={id}", "?pid=%25%25id%25%25", "?sid=V1"])
def test_without_an_id_nobody_begins(study: Study, browser: Client, query: str) -> None:
    html = browser.get(f"/s/s/{query}").content.decode()
    assert "Your participant ID is missing from this link" in html
    assert "Prolific" not in html
    assert 'name="consent"' not in html
    refused = Client().post(f"/s/s/start/{query}", {"consent": "on"})
    assert refused.status_code == 409
    assert "Your participant ID is missing from this link" in refused.content.decode()
    assert not Participant.objects.exists()


def test_without_a_parameter_for_visits_the_persons_id_opens_the_outcome(browser: Client) -> None:
    make_study("s", platform="panel", id_parameter="pid", **dict.fromkeys(PANEL_LINKS, "https://panel.example/"))
    conversation = begin(browser, query="?pid=7")
    chat(conversation, 3)
    make_rating(conversation)
    assert 'href="https://panel.example/"' in Client().get("/s/s/?pid=7").content.decode()


def test_another_study_reads_no_parameters_of_panels(browser: Client) -> None:
    make_study("s")
    begin(browser, query="?id=7")
    assert Participant.objects.get().platform == ""


OF_PAY = re.compile(r"\b(?:pay|pays|paid|payment)\b", re.I)
LINKS: dict[str, tuple[dict[str, Any], str]] = {
    "link": ({}, ""),
    "prolific": (BY_PROLIFIC, PROLIFIC),
    "mturk": ({"platform": "mturk"}, MTURK),
    "mturk, pasted": ({"platform": "mturk"}, ""),
    "panel": ({**BY_PROLIFIC, "platform": "panel"}, "?id=p1"),
}


def read(client: Client, path: str) -> str:
    """Return what a page says, without its markup's names."""
    html = client.get(path).content.decode()
    return re.sub(r"<[^>]*>", " ", html)


def pages_of(browser: Client, query: str, **settings: Any) -> list[str]:
    """Return everything that is read on the way of a chat that fails, and on that of a withdrawal."""
    make_study("s", pays_in_full=True, ids_kept_days=30, withdrawal_days=30, **settings)
    results = [read(browser, f"/s/s/{query}")]
    chat = begin(browser, query=query)
    exchange(chat, "hello", "hello you")
    results += [read(browser, f"/chat/{chat.pk}/"), read(browser, f"/chat/{chat.pk}/report/?turn=1")]
    assert end_early(browser, query).pk == chat.pk
    results += [read(browser, f"/chat/{chat.pk}/done/"), read(browser, f"/s/s/{query}")]
    withdrawal = f"/withdraw/{withdrawal_token(Participant.objects.get())}/"
    results.append(read(browser, withdrawal))
    assert post(browser, withdrawal, confirm="on").status_code == 302
    results += [read(browser, withdrawal), read(browser, f"/s/s/{query}")]
    results.append(read(Client(), f"/s/s/{'?id=' if 'id=' in query else '?PROLIFIC_PID='}"))
    return results


@pytest.mark.parametrize("come_by", LINKS)
def test_a_study_without_pay_says_no_word_of_it(browser: Client, come_by: str) -> None:
    settings, query = LINKS[come_by]
    for page in pages_of(browser, query, **settings):
        assert not (match := OF_PAY.search(page)), page[match.start() - 200 : match.end() + 200]


@pytest.mark.parametrize("come_by", LINKS)
def test_who_has_rated_in_a_study_without_pay_is_promised_none(browser: Client, come_by: str) -> None:
    settings, query = LINKS[come_by]
    make_study("s", **settings)
    chat = rate(browser, query)
    page = read(browser, f"/chat/{chat.pk}/done/")
    assert "Everything is saved" in page
    assert not OF_PAY.search(page)


@pytest.mark.parametrize("pay", [{"pay_each": 2}, {"payment": "£1.40 per chat"}])
def test_a_study_with_pay_speaks_of_it_everywhere(browser: Client, pay: dict[str, Any]) -> None:
    settings, query = LINKS["prolific"]
    assert all(OF_PAY.search(page) for page in pages_of(browser, query, **settings, **pay))
