"""The builder's page of conditions: without script, as forms send it."""

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
NAMES = ["factors", "n_each_cell"]


@pytest.fixture
def study() -> Study:
    return make_study("lab", bots=["eliza", "parrot"], state="draft")


def send(staff: Client, study: Study, data: dict[str, Any], *, script: bool = False) -> HttpResponse:
    sent = {"n_each_cell": "0", "factor1_varies": "between", "factor1_label": "Scenario"}
    sent |= {f"factor{n}_varies": "between" for n in (2, 3, 4)}
    return send_step(staff, study, "conditions", NAMES, {**sent, **data}, script=script)


def factors(study: Study) -> dict[str, list[str]]:
    return {factor.key: [level.key for level in factor.levels] for factor in study.values.conditions.factors}


def level(n: int, token: str, **fields: Any) -> dict[str, Any]:
    return {f"levels{n}-{token}-{name}": value for name, value in fields.items()}


def test_one_button_makes_a_factor_of_two_scenarios(staff: Client, study: Study) -> None:
    page = staff.get(address(study, "conditions"))
    assert page.status_code == 200
    bots_page = staff.get(reverse("dashboard:study_build_step", args=["lab", "bots"]))
    assert address(study, "conditions") in bots_page.content.decode()

    assert send(staff, study, {"_do": "set:levels1:two"}).status_code == 302

    assert factors(study) == {"scenario": ["weekend_trip", "broken_parcel"]}
    assert study.values.conditions.factors[0].levels[0].goal == "Find out what to do on Saturday."
    page = staff.get(address(study, "conditions"))
    assert [len(place["cards"]) for place in page.context["form"].places] == [2, 0, 0, 0]
    assert page.context["n_cells"] == 4
    assert "4 cells." in page.content.decode()


def test_levels_are_changed_added_and_deleted_and_their_cells_shown(staff: Client, study: Study) -> None:
    send(staff, study, {"_do": "set:levels1:two"})
    two = {"levels1": ["a", "b"], "n_each_cell": "10", "factor1_varies": "within", "factor1_key": "story"}
    two |= level(1, "a", label="Trip", key="trip", scenario="You travel.", bots=["eliza"])
    two |= level(1, "b", label="Nothing", is_control="on")

    answer = send(staff, study, two, script=True)

    assert answer.json()["saved"], answer.json()
    assert "3 cells." in answer.json()["live"]
    assert "30 conversations in total." in answer.json()["live"]
    [factor] = study.values.conditions.factors
    assert (factor.key, factor.varies, factors(study)["story"]) == ("story", "within", ["trip", "nothing"])
    assert factor.levels[0].bots == ("eliza",)
    send(staff, study, {**two, "_do": "add:levels1"})
    assert factors(study)["story"] == ["trip", "nothing", "hard_day"]
    send(staff, study, {"n_each_cell": "0"})
    assert factors(study) == {}, "a place without levels is no factor"


def test_all_mistakes_are_told_at_once_each_at_its_field(staff: Client, study: Study) -> None:
    data = {"levels1": ["a", "b"], "levels2": ["c"], "factor1_key": "bot", "factor2_label": "Told"}
    data |= level(1, "a", label="Empty") | level(1, "b", label="Said", goal="Win.", is_control="on")
    data |= level(2, "c", label="Alone", disclosure="You talk with a program.")

    errors = send(staff, study, data, script=True).json()["errors"]

    assert set(errors) == {"factor1_key", "levels1-a-label", "levels1-b-label", "levels2"}
    assert "name of a column" in errors["factor1_key"][0]
    assert "The level has no text." in errors["levels1-a-label"][0]
    assert "at least two levels" in errors["levels2"][0]
    page = send(staff, study, data)
    assert page.status_code == 200
    assert page.content.decode().count("field-error") >= 4, "without script they stand there, too"
    wrong_key = level(1, "a", label="A", key="no key", goal="x") | level(1, "b", label="B", goal="y")
    errors = send(staff, study, {"levels1": ["a", "b"], **wrong_key}, script=True).json()["errors"]
    assert list(errors) == ["levels1-a-key"]


def test_the_preview_shows_the_chosen_level(staff: Client, study: Study) -> None:
    send(staff, study, {"_do": "set:levels1:two"})

    page = staff.get(address(study, "conditions"), {"level": "1.2"})

    preview = page.context["preview"]
    assert preview.levels == [("1.1", "Scenario: A weekend trip"), ("1.2", "Scenario: A broken parcel")]
    assert "level=1.2" in preview.address
    assert staff.get(preview.address).status_code == 200
    assert "level" not in staff.get(address(study, "conditions"), {"level": "7.7"}).context["preview"].address


def test_bots_without_a_prompt_are_named_where_a_level_has_one(staff: Client, study: Study) -> None:
    data = (
        {"levels1": ["a", "b"]} | level(1, "a", label="A", bot_prompt="Be brief.") | level(1, "b", label="B", goal="y")
    )
    live = send(staff, study, data, script=True).json()["live"]
    assert "ignore a level’s prompt: eliza, parrot." in live


def test_a_level_without_a_name_is_shown_by_its_key(staff: Client) -> None:
    levels = [{"key": "trip", "scenario": "You plan a trip."}, {"key": "refund", "scenario": "A parcel is broken."}]
    factors = [{"key": "scenario", "levels": levels}]
    page = staff.get(address(make_study("named", bots=["eliza"], factors=factors, state="draft"), "conditions"))
    assert page.status_code == 200
    assert [card.title_now for card in page.context["form"].cards["levels1"]] == ["trip", "refund"]
    assert '<span class="q-title" dir="auto" data-title>trip</span>' in page.content.decode()
