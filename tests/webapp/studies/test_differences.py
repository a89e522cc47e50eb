"""Differences between versions of a study: one for each setting, told in words and, for texts, in lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_participant, make_study
from webapp.studies.versions import study_edit, values_diff, values_made, version_diff

GOOD: dict[str, Any] = {"key": "good", "title": "How good?", "kind": "scale"}
JOB = {"key": "job", "title": "What do you do?", "kind": "text"}


def said(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [str(one) for one in values_diff(values_made({}, before), values_made({}, after))]


def test_questions_are_added_taken_out_moved_and_changed_by_their_keys() -> None:
    again = {"key": "again", "title": "Again?", "kind": "choice", "options": ["Yes", "No"]}
    before = {"after": [GOOD, again], "questions": [JOB]}
    reworded = {**GOOD, "title": "How very good?", "high": 5, "labels": {1: "bad"}}
    after = {"after": [{**again, "required": False}, reworded, JOB], "questions": []}
    assert said(before, after) == [
        "Before the task: gone: What do you do?",
        "After the task: new: What do you do?",
        "After the task, order: good, again → again, good",
        "After the task, Again, Must be answered: yes → no",
        "After the task, Good, Question: How good? → How very good?",
        "After the task, Good, Highest point: 7 → 5",
        "After the task, Good, Words at points: nothing → 1: bad",
    ]


def test_bots_settings_and_long_texts() -> None:
    before = {"bots": ["a", "b", "c"], "consent_points": "One.\nTwo.\n" + "Long. " * 20}
    after = {"bots": ["c", "b", "d"], "max_cost": 2.5, "consent_points": "One.\nThree.\n" + "Long. " * 20}
    changes = values_diff(values_made({}, before), values_made({}, after))
    assert [change.path for change in changes] == [*("bots", "bots", "bots", "texts.consent_points", "quotas.max_cost")]
    assert [str(change) for change in changes[:3]] == [
        *("Bots: new: d", "Bots: gone: a", "Order of the bots: a, b, c → c, b, d")
    ]
    assert ("-", "Two.") in changes[3].lines
    assert ("+", "Three.") in changes[3].lines
    assert "  - Two.\n  + Three." in str(changes[3])
    assert str(changes[4]).endswith(": nothing → 2.5")


@pytest.mark.django_db
def test_versions_differ_in_what_they_ask_even_where_one_asks_a_rubric() -> None:
    study = make_study()
    make_participant(study)
    first = study.version
    asked = [one.to_plain() for one in study_asked(study)]
    study = study_edit(study=study, after=[*asked, JOB])
    [change] = version_diff(first, study.version)
    assert (change.path, change.before, change.after) == ("after.job", "", "What do you do?")


def study_asked(study: Any) -> Any:
    from webapp.studies.rubrics import post_task_questions

    return post_task_questions(study.version)
