"""The builder's page of checks: cards for every list, mistakes at their fields, and a file that says the same."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import (
    QUIZ,
    TRAINING_PAIR,
    make_annotated,
    make_pairwise,
    make_staff,
    make_study,
)
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text

pytestmark = pytest.mark.django_db
CHAT_CHECK = {
    "after": 2,
    "question": "Choose blue.",
    "options": ["Red", "Blue"],
    "expected": ["Blue"],
}


@pytest.fixture
def staff() -> Client:
    client = Client()
    client.force_login(make_staff(Right.READ, Right.ADMINISTER))
    return client


def address(study: Study, step: str = "checks") -> str:
    return f"/dashboard/studies/{study.key}/build/{step}/"


def fields_of(staff: Client, study: Study, step: str = "checks") -> dict[str, object]:
    """Return what the form of the page sends as it stands."""
    form = staff.get(address(study, step)).context["form"]
    sent: dict[str, object] = {}
    for card in [card for cards in form.cards.values() for card in cards]:
        sent.setdefault(card.list_name, []).append(card.token)
        sent |= {field.html_name: _sent(field) for field in card if field.value() is not None}
    own = [name for name in form.fields if name not in form.cards]
    return sent | {name: _sent(form[name]) for name in own if form[name].value() is not None}


def _sent(field) -> object:
    value = field.field.prepare_value(field.value())
    return "on" if value is True else "" if value is False else value


def test_every_list_is_shown_as_cards_and_saved_as_it_stands(staff: Client) -> None:
    study = make_study(quiz_questions=QUIZ, chat_checks=[CHAT_CHECK], state="draft")
    before = study.values.to_json()
    sent = fields_of(staff, study)
    assert sent["quiz_questions-1-right"] == "Five"
    assert staff.post(address(study), sent).status_code == 302
    study.refresh_from_db()
    assert Study.objects.get().values.to_json() == before
    assert "Quiz, missed once" in staff.get(address(study)).content.decode()


def test_buttons_add_move_and_delete_without_script_and_a_deletion_is_undone(
    staff: Client,
) -> None:
    study = make_study(quiz_questions=QUIZ, state="draft", language="de")
    asked = [
        ("down:quiz_questions:1", 2, "#list-quiz_questions"),
        ("add:quiz_questions", 3, "#list-quiz_questions"),
        ("delete:quiz_questions:1", 2, "#deleted"),
    ]
    for button, n, place in asked:
        answer = staff.post(address(study), {**fields_of(staff, study), "_do": button})
        assert answer.url.endswith(place)
        assert len(Study.objects.get().values.checking.quiz_questions) == n
    five, new = Study.objects.get().values.checking.quiz_questions
    assert (five.right, new.question) == ("Five", "Was werden Sie tun?")
    shown = staff.get(answer.url)
    assert f"“{QUIZ[1]['question']}” is deleted." in shown.content.decode()
    undo = {"_do": "undo:quiz_questions:", "_deleted": shown.context["deleted"]}
    staff.post(address(study), {**fields_of(staff, study), **undo})
    assert Study.objects.get().values.checking.quiz_questions[0].question == QUIZ[1]["question"]


def test_a_mistake_stands_at_its_field(staff: Client) -> None:
    study = make_study(quiz_questions=QUIZ, chat_checks=[CHAT_CHECK], state="draft")
    sent = fields_of(staff, study) | {
        "quiz_questions-1-right": "Six",
        "quiz_questions-2-options": "One alone",
        "chat_checks-1-expected": "Green",
        "screened_out_pay": "x" * 99,
    }
    told = staff.post(address(study), sent, headers={"accept": "application/json"}).json()
    assert set(told["errors"]) == {
        "quiz_questions-1-right",
        "quiz_questions-2-options",
        "chat_checks-1-expected",
        "screened_out_pay",
    }
    for told_by_title, title in (
        ("quiz_questions-1-right", "The right one"),
        ("chat_checks-1-expected", "Answers that pass"),
    ):
        assert told["errors"][told_by_title][0].startswith(f"“{title}” "), "no name of a file's"
    beyond = fields_of(staff, study) | {"quiz_questions-2-point": "9"}
    told = staff.post(address(study), beyond, headers={"accept": "application/json"}).json()
    assert "the instructions have 4" in told["errors"]["quiz_questions"][0]


def test_pairs_are_practised_and_checked_by_a_field_for_each_question(staff: Client) -> None:
    check = {
        "response": "Take this one.",
        "second_response": "Not this.",
        "expected": {"quality": [1]},
    }
    study = make_pairwise(training_pairs=[TRAINING_PAIR], attention_checks=[check])
    before = study.values.to_json()
    sent = fields_of(staff, study)
    assert sent["training_pairs-1-by_quality"] == "first"
    assert sent["attention_checks-1-by_quality"] == ["1"]
    assert staff.post(address(study), sent).status_code == 302
    assert Study.objects.get().values.to_json() == before
    wrong = sent | {"attention_checks-1-by_quality": "7", "training_pairs-1-why": ""}
    told = staff.post(address(study), wrong, headers={"accept": "application/json"}).json()
    assert set(told["errors"]) == {"attention_checks-1-by_quality", "training_pairs-1-why"}
    # New ones can be used as they stand: right answers are there for the questions that are asked.
    for name in ("training_pairs", "attention_checks"):
        staff.post(address(study), {**fields_of(staff, study), "_do": f"add:{name}"})
    values = Study.objects.get().values
    assert values.training.training_pairs[1].answers == {"quality": "first"}
    assert set(values.attention.attention_checks[1].expected) == {
        question.key for question in protocols.get("pairwise").asks
    }


def test_a_question_is_made_a_check_in_its_card_and_the_file_says_all_of_it(staff: Client) -> None:
    study = make_study(
        quiz_questions=QUIZ,
        chat_checks=[CHAT_CHECK],
        questions=[
            {"key": "blue", "title": "Choose blue.", "kind": "choice", "options": ["Red", "Blue"]}
        ],
        state="draft",
    )
    sent = fields_of(staff, study, "questions") | {"questions-1-expected": "Green"}
    told = staff.post(address(study, "questions"), sent, headers={"accept": "application/json"})
    assert list(told.json()["errors"]) == ["questions-1-expected"]
    sent |= {"questions-1-expected": "Blue"}
    assert staff.post(address(study, "questions"), sent).status_code == 302
    study = Study.objects.get()
    assert study.values.questions[0].expected == ("Blue",)
    text = study_file_text(study_file_of(study))
    assert study_file_read(text).values.checking == study.values.checking
    assert study_file_read(text).questions == study.values.questions
    shown = staff.get(address(study, "questions")).content.decode()
    assert "One choice, attention check" in shown


def test_an_item_gets_its_right_answers_in_the_builder(staff: Client) -> None:
    study = make_annotated()
    page = f"/dashboard/studies/{study.key}/items/gold/"
    for item, answers in (("i1", "9"), ("nothing", "5"), ("i1", "4, 5")):
        staff.post(page, {"item": item, "by_quality": answers.split(", ")})
    [gold] = study.items.filter(purpose="gold")
    assert (gold.key, gold.expected) == ("i1", {"quality": [4, 5]})
    assert "The study has 1 gold item." in staff.get(address(study)).content.decode()
    staff.post(page, {"item": "i1"})
    assert not study.items.filter(purpose="gold").exists()
