"""Conditions of a study: settings with all mistakes at once, study files, texts."""

from typing import Any

import pytest

from chatbots.validation import ValuesError
from tests.builders import make_study
from webapp.studies.conditions import TAKEN_FACTOR_KEYS, Conditions, condition_key, condition_texts
from webapp.studies.lifecycle import study_import
from webapp.studies.settings import StudyValues
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db

FILE = """
confab_study: 1
key: talk
name: Everyday talk
protocol: chat
bots: [eliza, parrot]
after:
  - {key: quality, title: "How good was it?", kind: scale, labels: {1: bad, 7: good}}
"""
FACTORS = """
conditions:
  factors:
    - key: scenario
      label: Scenario
      varies: within
      levels:
        - {key: trip, scenario: You plan a trip., goal: Find a hotel., success: You have an address.}
        - {key: refund, scenario: Your parcel is broken., bot_prompt: You sell cups., bots: [eliza]}
    - key: told
      levels:
        - {key: program, disclosure: You talk with a program., bot_prompt: Say that you are one.}
        - {key: nothing, is_control: true}
  n_each_cell: 20
"""


def imported(text: str = FILE + FACTORS) -> Any:
    return study_import(file=study_file_read(text)).study


def mistakes(text: str) -> dict[str, str]:
    with pytest.raises(ValuesError) as wrong:
        imported(FILE + text)
    return {mistake.path: mistake.message for mistake in wrong.value.mistakes}


def test_a_file_brings_conditions_in_and_is_written_again() -> None:
    study = imported()
    assert study.values.conditions.n_each_cell == 20
    assert [factor.varies for factor in study.values.conditions.factors] == ["within", "between"]
    text = study_file_text(study_file_of(study))
    assert study_file_read(text).conditions == study.values.conditions
    assert "        - key: nothing\n          is_control: true\n" in text
    study = study_edit(study=study, title="Another")
    assert len(study.values.conditions.factors) == 2
    study_edit(study=study, factors=(), n_each_cell=0)
    assert "conditions" not in study_file_text(study_file_of(study))


def test_texts_of_the_levels_are_merged() -> None:
    values = study_file_read(FILE + FACTORS).values
    texts = condition_texts(values, {"scenario": "refund", "told": "program"})
    assert texts.scenario == "Your parcel is broken."
    assert texts.bot_prompt == "You sell cups.\nSay that you are one."
    assert (texts.goal, texts.disclosure) == ("", "You talk with a program.")
    assert condition_texts(values, {"scenario": "gone"}) == condition_texts(StudyValues(), {})


def test_conditions_are_named_by_their_levels_in_any_order() -> None:
    assert condition_key({}) == ""
    assert condition_key({"a": "1", "b": "2"}) == condition_key({"b": "2", "a": "1"})
    assert condition_key({"a": "1"}) != condition_key({"a": "2"})


def test_all_mistakes_of_the_design_are_told_at_once() -> None:
    told = mistakes("""
conditions:
  factors:
    - key: scenario
      levels:
        - {key: trip, scenario: You plan a trip., bots: [eliza, parot]}
        - {key: trip}
        - {key: quiet, is_control: true, goal: Be quiet.}
    - {key: Scenario, levels: [{key: only, topic: Music}]}
    - {key: bot, levels: [{key: a, topic: A}, {key: b, topic: B}]}
    - {key: quality, levels: [{key: a, topic: A}, {key: b, topic: B}]}
""")
    at = "conditions.factors"
    assert told == {
        f"{at}[0].levels[0].bots": f"{at}[0].levels[0].bots: “parot” is not a chatbot of this study (eliza, parrot); "
        "did you mean parrot?",
        f"{at}[0].levels[1]": f"{at}[0].levels[1]: The level has no text. Enter one, or set is_control for a "
        "level that shows nothing.",
        f"{at}[0].levels[1].key": f"{at}[0].levels[1].key: {at[11:]}[0].levels[0] already has the key 'trip'. "
        "Choose another key.",
        f"{at}[0].levels[2]": f"{at}[0].levels[2]: A control level cannot have text. Remove the text, or "
        "set is_control to false.",
        f"{at}[1].key": f"{at}[1].key: factors[0] already has the key 'Scenario'. Choose another key.",
        f"{at}[1].levels": f"{at}[1].levels: A factor needs at least two levels; this one has 1.",
        f"{at}[2].key": f"{at}[2].key: 'bot' is the name of a column in exported tables; choose another.",
        f"{at}[3].key": f"{at}[3].key: A question already has the key 'quality'. Choose another key.",
    }


def test_every_cell_has_a_bot_and_every_bot_a_cell() -> None:
    nested = "conditions: {factors: [%s]}"
    factor = "{key: %s, levels: [{key: a, topic: A, bots: [eliza]}, {key: b, topic: B, bots: [%s]}]}"
    crossed = mistakes(nested % f"{factor % ('one', 'parrot')}, {factor % ('two', 'parrot')}")
    assert "No chatbot has “a” with “b”, “b” with “a”." in crossed["conditions.factors"]
    without = mistakes(nested % (factor % ("one", "eliza")))
    assert "parrot has no level in at least one factor" in without["conditions.factors"]
    many = ", ".join(f"{{key: l{i}, topic: T}}" for i in range(20))
    large = mistakes(nested % ", ".join(f"{{key: f{i}, levels: [{many}]}}" for i in range(4)))
    assert "160000 combinations; the maximum is 500" in large["conditions.factors"]


def test_only_protocols_with_chats_have_conditions() -> None:
    factors = study_file_read(FILE + FACTORS).values.conditions.factors
    study = make_study("p", protocol="pairwise", state="draft")
    with pytest.raises(Exception, match="has no chats, so it has no conditions"):
        study_edit(study=study, factors=factors)


def test_unusual_values_are_refused_with_their_path() -> None:
    told = mistakes(
        "conditions: {factors: [{key: a b, varies: often, levels: [{key: '', colour: red}]}], n_each_cell: -1}"
    )
    at = "conditions.factors[0]"
    assert set(told) == {
        f"{at}.key",
        f"{at}.varies",
        f"{at}.levels[0].key",
        f"{at}.levels[0].colour",
        "conditions.n_each_cell",
    }


def test_no_factor_is_named_like_a_column_of_chats() -> None:
    study = make_study("columns", protocol="arena")
    tables = ("conversations", "messages", "ratings", "participants", "metrics")
    options = ExportOptions(include_private=True)
    columns = {column.name for table in tables for column in exporter_get(table).columns(study, options)}
    assert columns <= TAKEN_FACTOR_KEYS


def test_a_study_without_factors_has_none() -> None:
    assert StudyValues().conditions == Conditions()
    assert make_study("plain").values.conditions.n_combinations == 1
