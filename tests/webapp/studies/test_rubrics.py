"""The rubric that a version's questions make: its rows, when it is changed in place and when another is made."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from tests.builders import make_conversation, make_participant, make_rating, make_study
from webapp.ratings.services import rating_submit
from webapp.studies import rubrics
from webapp.studies.models import Rubric, Study, StudyVersion
from webapp.studies.questions import Question
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.rubrics import post_task_questions, questions_of, rubric_default, rubric_freeze
from webapp.studies.services import study_copy
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
GOOD = {"key": "good", "title": "How good?", "kind": "scale", "labels": {1: "bad", 7: "good"}}
CLEAR: dict[str, Any] = {
    "key": "clear",
    "name": "Clarity",
    "title": "How clear?",
    "kind": "scale",
    "low": 0,
    "high": 3,
    "labels": {0: "bad", 1: "poor", 2: "fair", 3: "fine"},
    "required": False,
    "reversed": True,
}
AGAIN = {"key": "again", "title": "Again?", "kind": "choice", "options": ["Yes", "No"]}


def keys_of(study: Study) -> list[str]:
    return [question.key for question in post_task_questions(study.version)]


def test_scales_become_rows_with_their_points_and_words() -> None:
    study = make_study(after=[GOOD, AGAIN, CLEAR])
    assert study.rubric.name == "s"
    good, clear = study.rubric.dimensions.all()
    assert (good.key, good.title, good.question) == ("good", "Good", "How good?")
    assert (good.low_label, good.high_label, good.scale) == ("bad", "good", (1, 7))
    assert (clear.title, clear.scale, clear.required, clear.reversed) == (*("Clarity", (0, 3), False, True),)
    assert clear.labels == {"0": "bad", "1": "poor", "2": "fair", "3": "fine"}
    assert keys_of(study) == ["good", "again", "clear"]
    stored = StudyVersion.objects.get(pk=study.version_id)
    assert stored.values.after == study.values.after
    assert stored.values.after[2].labels[3] == "fine"


def test_without_questions_the_rubric_says_what_is_asked() -> None:
    study = make_study()
    assert study.values.after == ()
    assert study.rubric == rubric_default()
    assert post_task_questions(study.version) == DEFAULT_QUESTIONS
    assert questions_of(rubric_default()) == DEFAULT_QUESTIONS
    same = study_edit(study=study, after=DEFAULT_QUESTIONS)
    assert same.rubric == rubric_default(), "the same questions need no other rows"


def test_until_somebody_agrees_the_rows_change_in_place() -> None:
    study = make_study(after=[GOOD])
    first = study.rubric
    make_participant(study, is_synthetic=True)
    study = study_edit(study=study, after=[{**GOOD, "title": "How very good?"}, CLEAR])
    assert (study.version.number, study.rubric.pk) == (1, first.pk)
    assert [d.question for d in study.rubric.dimensions.all()] == ["How very good?", "How clear?"]
    assert (study.rubric.low, study.rubric.high) == (0, 7)
    study = study_edit(study=study, after=[])
    assert keys_of(study) == []
    study = study_edit(study=study, minutes=3)
    assert keys_of(study) == []
    assert study_edit(study=study, after=[GOOD]).rubric.pk == first.pk
    assert Rubric.objects.filter(name="s").count() == 1


def test_afterwards_other_words_make_another_rubric_and_other_scales_are_refused() -> None:
    study = make_study(after=[GOOD, AGAIN])
    first = study.rubric
    chat = make_conversation(study, n_exchanges=3)
    edited = study_edit(study=study, after=[{**GOOD, "title": "How fine?"}])
    assert edited.version.number == 2
    assert edited.rubric.pk != first.pk
    assert chat.participant is not None
    answers = {"good": 3, "again": "No"}
    rating = rating_submit(conversation=chat, participant=chat.participant, answers=answers).rating
    assert rating.rubric_id == first.pk
    assert rating.rubric.dimensions.get().question == "How good?"
    with pytest.raises(ValidationError) as refused:
        study_edit(study=edited, after=[{**GOOD, "high": 5, "labels": {}}])
    assert "1 person has agreed" in refused.value.message_dict["after"][0]
    with pytest.raises(ValidationError, match="Other words for the same scales are possible"):
        study_edit(study=edited, after=[])
    assert study_edit(study=edited, after=[GOOD, AGAIN]).version.number == 2


def test_a_rubric_chosen_by_hand_takes_the_place_of_the_questions() -> None:
    study = make_study(after=[GOOD])
    study = study_edit(study=study, rubric=rubric_default())
    assert study.values.after == ()
    assert make_rating(make_conversation(study, n_exchanges=3)).created


def test_a_copy_shares_the_rows_until_it_is_changed() -> None:
    study = make_study(after=[GOOD])
    copied = study_copy(study=study)
    assert copied.rubric == study.rubric
    copied = study_edit(study=copied, after=[CLEAR])
    assert keys_of(Study.objects.get(key="s")) == ["good"]
    assert [d.key for d in study.rubric.dimensions.all()] == ["good"]
    assert [d.key for d in copied.rubric.dimensions.all()] == ["clear"]


def test_all_that_is_wrong_is_said_at_once_with_its_path() -> None:
    wrong = [
        {**GOOD, "low": 7},
        {**GOOD, "key": "a", "labels": {9: "x"}},
        {**GOOD, "key": "b", "labels": {"one": "x"}},
        {**GOOD, "key": "c", "options": ["a", "b"]},
        {**AGAIN, "key": "d", "reversed": True},
        {**GOOD, "key": "e", "lables": {}},
    ]
    with pytest.raises(ValidationError) as error:
        make_study(after=wrong, after_order="random")
    said = "\n".join(error.value.message_dict["after"])
    for part in (
        "after[0].low is 7; it must be below high, which is 7",
        "after[1].labels has words at 9; the points are those from 1 to 7",
        "after[2].labels has the key 'one'",
        "after[3].options must be left out: it has points",
        "after[4].reversed must be left out: only a 'scale' has it",
        "after[5].lables is no key here; did you mean labels?",
    ):
        assert part in said, said
    assert "asking.after_order is 'random'" in error.value.message_dict["after_order"][0]
    with pytest.raises(ValidationError, match=r"after\[1\].key is 'good', as after\[0\]"):
        make_study(after=[GOOD, GOOD])
    with pytest.raises(ValidationError, match="a name that the form itself has"):
        make_study(after=[{**GOOD, "key": "comments"}])


def test_a_question_is_written_as_people_write_it() -> None:
    assert Question.model_validate(CLEAR).to_plain() == CLEAR
    assert Question.model_validate(AGAIN).to_plain() == AGAIN
    assert Question.model_validate({**GOOD, "labels": {"1": "bad"}}).labels == {1: "bad"}


def test_the_default_follows_the_code_and_frozen_versions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rubric_default()
    study = make_study("kept-study")
    rubric_freeze(rubric_id=before.pk)
    first, *others = DEFAULT_QUESTIONS
    changed = (first.model_copy(update={"title": "How good was it?"}), *others)
    monkeypatch.setattr(rubrics, "DEFAULT_QUESTIONS", changed)
    after = rubric_default()
    assert (after.name, after.version) == (before.name, before.version + 1)
    assert questions_of(after) == changed
    assert rubric_default() == after, "made once"
    assert make_study("other-study").rubric == after
    study.refresh_from_db()
    assert study.rubric == before
    assert questions_of(before) == DEFAULT_QUESTIONS
    monkeypatch.undo()
    assert rubric_default() == before
