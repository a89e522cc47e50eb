"""The builder's page of parts: without script, as forms send it."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tests.builders import make_study
from tests.webapp.dashboard.test_build import address, send_step
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db
NAMES = ["same_bot", "bots_remember", "pay_for_all", "parts"]


@pytest.fixture
def study() -> Study:
    return make_study("lab", bots=["eliza", "parrot"], state="draft")


def send(staff: Client, study: Study, data: dict[str, Any], *, script: bool = False) -> HttpResponse:
    return send_step(staff, study, "sittings", NAMES, data, script=script)


def part(token: str, **fields: Any) -> dict[str, Any]:
    return {f"parts-{token}-{name}": value for name, value in fields.items()}


def test_one_button_makes_two_parts_with_a_gap(staff: Client, study: Study) -> None:
    pay_page = staff.get(reverse("dashboard:study_build_step", args=["lab", "pay"]))
    assert pay_page.status_code == 200
    assert address(study, "sittings") in pay_page.content.decode()
    assert send(staff, study, {"_do": "set:parts:two", "pay_for_all": "3", "same_bot": "on"}).status_code == 302
    first, second = study.values.sittings.parts
    assert (first.key, first.after_days, second.key) == ("first_chat", None, "after_some_days")
    assert second.after_days is not None
    assert (second.after_days.least, second.after_days.most) == (2, 4)
    assert (study.values.sittings.same_bot, study.values.sittings.pay_for_all) == (True, 3)
    page = staff.get(address(study, "sittings"))
    assert page.status_code == 200
    assert len(page.context["form"].cards["parts"]) == 2


def test_all_mistakes_stand_beside_their_fields(staff: Client, study: Study) -> None:
    cards = {
        "parts": ["a", "b"],
        **part("a", label="One", least="1", key="x"),
        **part("b", label="Two", least="4", most="2", key="x"),
    }
    answer = send(staff, study, cards, script=True)
    assert answer.status_code == 200
    assert answer.json()["saved"] is False
    errors = answer.json()["errors"]
    assert "The first part cannot have a gap before it" in str(errors["parts-a-most"])
    assert "ends before it starts" in str(errors["parts-b-most"])
    assert "parts[0] already has the key" in str(errors["parts-b-key"])
    cards |= part("b", most="-1", pay="-2")
    errors = send(staff, study, cards, script=True).json()["errors"]
    assert {"parts-b-most", "parts-b-pay"} <= errors.keys()
    assert study.values.sittings.parts == ()
