"""Studies that admit people, or do not, by the studies in which they took part before."""

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import BY_PROLIFIC, make_participant, make_study
from tests.webapp.participant.conftest import entry_field, post
from webapp.studies.models import Participant, Study

pytestmark = pytest.mark.django_db

QUERY = "?PROLIFIC_PID={}&STUDY_ID=x&SESSION_ID=y"


@pytest.fixture
def first(db: None) -> Study:
    """Make a study in which `old` took part and into which `looked` only came."""
    study = make_study("first")
    make_participant(study, platform="prolific", external_id="old")
    return study


def opened(browser: Client, person: str) -> str:
    page = browser.get(f"/s/s/{QUERY.format(person)}")
    assert page.status_code == 200
    return page.content.decode()


def test_only_people_of_an_earlier_study_are_admitted(browser: Client, first: Study) -> None:
    make_study("s", only_after_studies="first", **BY_PROLIFIC)
    assert "_entry" in opened(browser, "old")
    assert "This study is for people who took part in an earlier one" in opened(Client(), "new")
    page = Client().get("/s/s/")
    assert page.status_code == 200
    assert "_entry" not in page.content.decode()


def test_nobody_of_an_earlier_study_is_admitted_whatever_the_form_says(browser: Client, first: Study) -> None:
    study = make_study("s", never_after_studies="first", **BY_PROLIFIC)
    assert "You took part in an earlier study" in opened(browser, "old")
    page = browser.get(f"/s/s/{QUERY.format('new')}")
    assert page.status_code == 200
    # A form that was opened before its person began the other study.
    make_participant(first, platform="prolific", external_id="new")
    response = post(browser, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert response.status_code == 409
    assert "You took part in an earlier study" in response.content.decode()
    assert not Participant.objects.filter(study=study).exists()


def test_who_has_begun_may_go_on(browser: Client, first: Study) -> None:
    make_study("s", never_after_studies="first", **BY_PROLIFIC)
    page = browser.get(f"/s/s/{QUERY.format('new')}")
    started = post(browser, "/s/s/start/", consent="on", _entry=entry_field(page))
    assert started.status_code == 302
    make_participant(first, platform="prolific", external_id="new")
    assert "You took part" not in opened(browser, "new")


@pytest.mark.parametrize(
    ("keys", "message"),
    [("none", "There is no study “none”"), ("s", "is this study itself"), ("a/b", "a/b is not a study key")],
)
def test_keys_are_those_of_other_studies(keys: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("s", only_after_studies=keys)
    assert message in str(refused.value)
