"""The phone beside the builder: which pages it offers, and that they are there."""

from __future__ import annotations

import pytest
from django.http import QueryDict
from django.test import Client

from tests.builders import make_study, signed_in
from webapp.core.rights import Right
from webapp.dashboard.builder.base import FIELD_STEPS, preview_of
from webapp.participant.steps.base import steps
from webapp.studies.models import Outcome, Study
from webapp.studies.settings import NAMES

pytestmark = pytest.mark.django_db

QUESTIONS = [{"key": "age", "title": "How old are you?", "kind": "text"}]


@pytest.fixture
def staff() -> Client:
    return signed_in(Right.READ, Right.PAY)


def shown(study: Study, query: str = "", beside: str = "texts") -> tuple[str, list[str], list[str]]:
    preview = preview_of(study, QueryDict(query), beside=beside)
    tabs = [str(tab.title) for tab in preview.tabs]
    return preview.step, tabs, [str(page.title) for page in preview.pages]


def test_a_tab_for_each_place_and_the_pages_of_one_that_has_several() -> None:
    study = make_study(questions=QUESTIONS)
    tabs = ["About", "Chat", "Rate", "Done"]
    about = ["Agreeing", "How it works", "Questions before"]
    assert shown(study) == ("consent", tabs, about)
    assert shown(study, "preview=chat") == ("chat", tabs, [])
    step, _tabs, pages = shown(study, "preview=done")
    assert (step, len(pages)) == ("done", len(Outcome.values))
    assert shown(make_study("t"))[2] == ["Agreeing", "How it works"]


@pytest.mark.parametrize("query", ["preview=nonsense", "theme=nonsense&lang=xx", "outcome=rated"])
def test_what_is_not_known_is_left_out(query: str) -> None:
    preview = preview_of(make_study(), QueryDict(query), beside="texts")
    assert preview.address == "/preview/s/consent/?theme=light"


def test_a_protocol_whose_plug_in_is_away_has_no_phone(staff: Client) -> None:
    study = make_study()
    Study.objects.update(protocol="of-a-plugin")
    page = staff.get(f"/dashboard/studies/{study.key}/build/texts/").content.decode()
    assert "data-preview" not in page


def test_fields_name_values_and_steps_that_there_are() -> None:
    assert set(FIELD_STEPS) <= set(NAMES)
    assert set(FIELD_STEPS.values()) <= set(steps.names())
