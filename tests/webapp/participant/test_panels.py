"""People of a panel: known by whatever its link calls them, led back by a way of its own for every outcome."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import make_rating, make_study
from tests.webapp.participant.conftest import begin, chat, entry_field, post
from webapp.studies.models import Outcome, Participant, Study, Task

pytestmark = pytest.mark.django_db
BACK = "https://panel.example/{outcome}?who={pid}&visit={sid}&supplier={psid}"
LINKS = {f"link_{outcome}": BACK for outcome in Outcome.values}
CAME = "?pid=P%201&sid=V1&psid=S7&other=x"


@pytest.fixture
def study(db: None) -> Study:
    names = {"id_parameter": "pid", "session_parameter": "sid", "more_parameters": "psid"}
    return make_study("s", platform="panel", **names, **LINKS)


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
    make_study("s", platform="panel", id_parameter="pid", **dict.fromkeys(LINKS, "https://panel.example/"))
    conversation = begin(browser, query="?pid=7")
    chat(conversation, 3)
    make_rating(conversation)
    assert 'href="https://panel.example/"' in Client().get("/s/s/?pid=7").content.decode()


def test_another_study_reads_no_parameters_of_panels(browser: Client) -> None:
    make_study("s")
    begin(browser, query="?id=7")
    assert Participant.objects.get().platform == ""
