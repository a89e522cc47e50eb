"""The builder's questions and checks: cards that are worded, added, moved, taken away and closed."""

import html
import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client

from tests.builders import QUIZ, TRAINING_PAIR, make_annotated, make_pairwise, make_participant, make_study, signed_in
from tests.webapp.dashboard.test_build import JSON, address
from webapp.core.rights import Right
from webapp.dashboard.builder.questions import key_made
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.questions import Question
from webapp.studies.ready_made import QUESTION_SETS
from webapp.studies.rubrics import post_task_questions
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db

FIVE = ["quality", "fluency", "diversity", "contingency", "empathy"]
AGE = {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["Young", "Old"]}
MOOD = {
    "key": "mood",
    "title": "How do you feel?",
    "kind": "scale",
    "low": 0,
    "high": 3,
    "labels": {0: "bad", 1: "so so", 3: "good"},
    "reversed": True,
    "help": "Now, not in general.",
}


def draft(**fields: Any) -> Study:
    return make_study("d", state=Study.State.DRAFT, **fields)


def sent(staff: Client, study: Study) -> dict[str, Any]:
    """Return what a browser would send of the step as it stands."""
    context = staff.get(address(study, "questions")).context
    form = context["form"]
    data: dict[str, Any] = {"_seen": context["seen"], **dict.fromkeys(form.lists, ())}
    for name in form.fields:
        if name not in form.lists and form[name].value() not in (None, False):
            data[name] = "on" if form[name].value() is True else form[name].value()
    for cards in form.cards.values():
        for card in cards:
            data[card.list_name] = [*data[card.list_name], card.token]
            for field in card:
                value = field.value()
                if value not in (None, False):
                    data[field.html_name] = "on" if value is True else value
    return data


def after(study: Study) -> list[Question]:
    return list(post_task_questions(Study.objects.get(pk=study.pk).version))


def keys(questions: Sequence[Question]) -> list[str]:
    return [question.key for question in questions]


def press(staff: Client, study: Study, button: str, **more: Any) -> Any:
    data = {**sent(staff, study), "_do": button, **more}
    return staff.post(address(study, "questions"), data)


def test_a_step_that_is_saved_as_it_stands_changes_nothing(staff: Client) -> None:
    for fields in ({}, {"questions": [AGE, MOOD], "after": [MOOD, AGE], "after_order": "shuffled"}):
        study = draft(**fields)
        before = (study.version.values, study.rubric_id)
        answer = staff.post(address(study, "questions"), sent(staff, study), **JSON).json()
        assert answer["saved"], answer
        study.refresh_from_db()
        assert (study.version.values, study.rubric_id) == before
        study.delete()


def test_the_question_about_the_goal_is_offered_where_a_level_has_one(staff: Client) -> None:
    study = draft()
    assert [one.name for one, _cards in staff.get(address(study, "questions")).context["sets"]] == ["interactive"]
    study.delete()
    levels = [{"key": "one", "goal": "Find a hotel."}, {"key": "two", "is_control": True}]
    study = draft(factors=[{"key": "scenario", "levels": levels}])
    page = staff.get(address(study, "questions"))
    assert page.status_code == 200
    assert [one.name for one, _cards in page.context["sets"]] == ["interactive", "goal"]
    press(staff, study, "set:after:goal")
    result = after(study)[-1]
    assert (result.key, result.low, result.high, result.only_with_goal) == ("goal_reached", 0, 1, True)
    assert result.labels == {0: "no", 1: "yes"}


def test_all_of_a_question_can_be_worded(staff: Client) -> None:
    study = draft(after=[MOOD])
    data = sent(staff, study)
    data |= {
        "after-1-title": "How was it?",
        "after-1-help": "Honestly.",
        "after-1-span": "1:5",
        "after-1-low_words": "awful",
        "after-1-high_words": "great",
        "after-1-between": "all",
        "after-1-word_3": "so so",
        "after-1-name": "Feeling",
        "after-1-key": "feeling",
        "after_order": "shuffled",
    }
    data.pop("after-1-reversed")
    data.pop("after-1-required")
    assert staff.post(address(study, "questions"), data, **JSON).json()["saved"]
    [question] = after(study)
    assert question == Question(
        key="feeling",
        title="How was it?",
        name="Feeling",
        kind="scale",
        help="Honestly.",
        required=False,
        low=1,
        high=5,
        labels={1: "awful", 3: "so so", 5: "great"},
    )
    assert Study.objects.get().values.asking.after_order == "shuffled"


@pytest.mark.parametrize("name", ["after", "questions"])
@pytest.mark.parametrize("kind", ["scale", "choice", "choices", "text"])
def test_a_question_of_each_kind_is_added_before_and_after(staff: Client, name: str, kind: str) -> None:
    study = draft()
    answer = press(staff, study, f"add:{name}:{kind}")
    assert answer.status_code == 302
    stored = Study.objects.get()
    questions = stored.values.questions if name == "questions" else post_task_questions(stored.version)
    assert (questions[-1].kind, questions[-1].key) == (kind, "new_question")
    # A key is made of the words, until somebody writes one.
    data = sent(staff, study)
    token = data[name][-1]
    data[f"{name}-{token}-title"] = "How many languages do you speak?"
    body = staff.post(address(study, "questions"), data, **JSON).json()
    assert body["keys"][f"{name}-{token}"] == "languages_speak"


SETS = [
    question_set for question_set in QUESTION_SETS if question_set.name != "goal"
]  # offered only where a condition has a goal


@pytest.mark.parametrize("chosen", SETS, ids=lambda one: one.name)
def test_a_set_is_added_with_keys_that_differ(staff: Client, chosen: Any) -> None:
    study = draft()
    press(staff, study, f"set:after:{chosen.name}")
    result = keys(after(study))
    assert result[:5] == FIVE
    assert len(result) == 5 + len(chosen.questions) == len(set(result))


def test_buttons_move_duplicate_and_delete_without_script(staff: Client) -> None:
    study = draft()
    press(staff, study, "up:after:3")
    assert keys(after(study)) == ["quality", "diversity", "fluency", "contingency", "empathy"]
    press(staff, study, "down:after:5")  # the last stays
    press(staff, study, "down:after:1")
    assert keys(after(study))[:2] == ["diversity", "quality"]
    press(staff, study, "duplicate:after:1")
    assert keys(after(study))[:3] == ["diversity", "diversity_2", "quality"]


def test_a_question_deleted_without_script_can_be_brought_back(staff: Client) -> None:
    study = draft(after=[MOOD, AGE])
    answer = press(staff, study, "delete:after:1")
    assert keys(after(study)) == ["age"]
    page = staff.get(answer["Location"].partition("#")[0]).content.decode()
    assert "“How do you feel?” was deleted." in page
    token = html.unescape(re.search(r'name="_deleted" value="([^"]+)"', page)[1])
    press(staff, study, "undo:after:", _deleted=token)
    assert [question.to_plain() for question in after(study)] == [
        Question.model_validate(one).to_plain() for one in (MOOD, AGE)
    ]
    press(staff, study, "undo:after:", _deleted=token[:-2])  # no text of ours
    assert keys(after(study)) == ["mood", "age"]


def test_every_mistake_is_said_at_once_at_its_field(staff: Client) -> None:
    study = draft(after=[MOOD, AGE], questions=[AGE])
    data = sent(staff, study)
    data |= {
        "after-1-title": " ",
        "after-2-options": "only one\n",
        "after-2-key": "Not a key",
        "questions-1-options": "a\na",
        "questions-1-help": "x" * 501,
    }
    body = staff.post(address(study, "questions"), data, **JSON).json()
    assert not body["saved"]
    errors = body["errors"]
    assert errors["after-1-title"] == ["This field is required."]
    assert "lower-case" in errors["after-2-key"][0]
    assert "questions-1-help" in errors
    assert keys(after(study)) == ["mood", "age"]
    data |= {"after-2-key": "age", "questions-1-help": ""}
    errors = staff.post(address(study, "questions"), data, **JSON).json()["errors"]
    assert errors["after-2-options"] == ["“Answers to choose from” must be two or more for kind 'choice'"]
    assert errors["questions-1-options"][0].startswith("“Answers to choose from” has 'a' twice")


def test_a_question_screens_and_depends_on_another_in_its_card(staff: Client) -> None:
    study = draft(questions=[AGE, {**AGE, "key": "uses"}])
    data = sent(staff, study) | {"questions-1-admits": "Old", "questions-2-when_key": "year"}
    wrong: dict[str, Any] = {}

    def tell(**fields: str) -> None:
        data.update({f"questions-2-{name}": value for name, value in fields.items()})
        wrong.clear()
        wrong.update(staff.post(address(study, "questions"), data, **JSON).json()["errors"])

    tell()
    assert list(wrong) == ["questions-2-when_answers"]
    tell(when_answers="Old")
    assert wrong == {
        "questions-2-when_key": [
            "“Shown only after an answer to” is 'year'; it must be an earlier question with answers to choose "
            "from (age)"
        ]
    }
    tell(when_key="age", when_answers="Ancient")
    assert wrong == {"questions-2-when_answers": ["“Answers that show it” has 'Ancient'; it must be one of Young, Old"]}
    tell(when_key="", when_answers="Old")
    assert list(wrong) == ["questions-2-when_key"]
    tell(when_key="age", when_answers="Young\nOld")
    assert not wrong
    first, second = Study.objects.get().values.questions
    assert first.admits == ("Old",)
    assert second.show_when
    assert (second.show_when.key, second.show_when.answers) == ("age", ("Young", "Old"))
    assert "One choice, screening" in staff.get(address(study, "questions")).content.decode()
    press(staff, study, "add:questions:text")
    assert Study.objects.get().values.questions[1] == second


def test_two_questions_with_one_key_are_told(staff: Client) -> None:
    study = draft(after=[MOOD, AGE])
    data = {**sent(staff, study), "after-2-key": "mood"}
    body = staff.post(address(study, "questions"), data, **JSON).json()
    assert not body["saved"]
    assert "mood" in body["errors"]["after"][0]


def test_what_people_agreed_to_is_closed_with_the_reason(staff: Client) -> None:
    study = make_study("d", after=[MOOD, AGE], questions=[AGE])
    make_participant(study)
    study.refresh_from_db()
    page = staff.get(address(study, "questions")).content.decode()
    assert "Participants have already consented." in page
    cards = re.findall(r'<li class="q-card".*?</li>', page, re.S)
    assert 'aria-describedby="fixed-reason"' in cards[0]
    assert 'value="delete:after:1"' not in page
    assert 'value="delete:after:2"' in page  # a choice is no scale
    assert 'value="add:after:scale"' not in page.split("<template")[0].split("Before the task")[0]
    # What is sent all the same is refused; other words make a new version.
    data = sent(staff, study)
    refused = staff.post(address(study, "questions"), {**data, "after-1-span": "1:9"}, **JSON)
    assert not refused.json()["saved"]
    before = study.version.number
    data |= {"after-1-title": "How do you feel now?", "after-2-title": "What is your age?"}
    assert staff.post(address(study, "questions"), data, **JSON).json()["saved"]
    study.refresh_from_db()
    assert study.version.number == before + 1
    assert keys(after(study)) == ["mood", "age"]  # keys stay


def test_words_that_could_be_markup_are_text(staff: Client) -> None:
    study = draft(after=[{**MOOD, "title": "<b>x</b> & “y”"}])
    page = staff.get(address(study, "questions")).content.decode()
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page


def test_somebody_elses_save_is_not_overwritten(staff: Client) -> None:
    study = draft(after=[MOOD])
    data = {**sent(staff, study), "after-1-title": "Mine"}
    study_edit(study=study, author="r.lee", after=[{**MOOD, "title": "Theirs"}])
    body = staff.post(address(study, "questions"), data, **JSON).json()
    assert not body["saved"]
    assert "r.lee" in body["conflict"]
    assert after(study)[0].title == "Theirs"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("How fluent were the replies?", "fluent_replies"),
        ("Größe", "groesse"),
        ("What?", "question"),
        ("年齢", "question"),
        ("7 days", "days"),
    ],
)
def test_keys_are_made_of_words(text: str, key: str) -> None:
    assert key_made(text, ()) == key
    assert key_made(text, [key]) == f"{key}_2"


def test_a_protocol_that_compares_asks_on_its_own_scale(staff: Client) -> None:
    study = make_study("d", protocol="pairwise", state="draft", bots=[])
    before = len(after(study))
    page = staff.get(address(study, "questions")).content.decode()
    assert "Compared" in page
    assert '<label for="id_after-1-title">' in page
    assert '<label for="id_after-1-low_words">' not in page
    for button in ("add:after:scale", "set:after:labels"):
        press(staff, study, button)
    added = after(study)[before:]
    assert {(one.low, one.high) for one in added} == {(-1, 1)}


def test_a_ready_made_set_follows_the_language_of_its_study(db: None) -> None:
    questions = next(question_set for question_set in QUESTION_SETS if question_set.name == "submetrics").questions
    study = make_study("s", state="draft", after=questions)
    study = study_edit(study=study, language="de")
    assert study.values.after[0].title.startswith("Wie relevant ist die Antwort")
    assert study_edit(study=study, language="en").values.after == questions


CHAT_CHECK = {"after": 2, "question": "Choose blue.", "options": ["Red", "Blue"], "expected": ["Blue"]}


@pytest.fixture
def staff() -> Client:
    return signed_in(Right.READ, Right.ADMINISTER)


def address_of_build_checks(study: Study, step: str = "checks") -> str:
    return f"/dashboard/studies/{study.key}/build/{step}/"


def fields_of(staff: Client, study: Study, step: str = "checks") -> dict[str, object]:
    """Return what the form of the page sends as it stands."""
    form = staff.get(address_of_build_checks(study, step)).context["form"]
    sent: dict[str, object] = {}
    for card in [card for cards in form.cards.values() for card in cards]:
        sent.setdefault(card.list_name, []).append(card.token)
        sent |= {field.html_name: _sent(field) for field in card if field.value() is not None}
    fields = [name for name in form.fields if name not in form.cards]
    return sent | {name: _sent(form[name]) for name in fields if form[name].value() is not None}


def _sent(field) -> object:
    value = field.field.prepare_value(field.value())
    return "on" if value is True else "" if value is False else value


def test_every_list_is_shown_as_cards_and_saved_as_it_stands(staff: Client) -> None:
    study = make_study(quiz_questions=QUIZ, chat_checks=[CHAT_CHECK], state="draft")
    before = study.values.to_json()
    sent = fields_of(staff, study)
    assert sent["quiz_questions-1-right"] == "Five"
    assert staff.post(address_of_build_checks(study), sent).status_code == 302
    study.refresh_from_db()
    assert Study.objects.get().values.to_json() == before
    assert "Quiz, missed once" in staff.get(address_of_build_checks(study)).content.decode()


def test_buttons_add_move_and_delete_without_script_and_a_deletion_is_undone(staff: Client) -> None:
    study = make_study(quiz_questions=QUIZ, state="draft", language="de")
    asked = [
        ("down:quiz_questions:1", 2, "#list-quiz_questions"),
        ("add:quiz_questions", 3, "#list-quiz_questions"),
        ("delete:quiz_questions:1", 2, "#deleted"),
    ]
    for button, n, place in asked:
        answer = staff.post(address_of_build_checks(study), {**fields_of(staff, study), "_do": button})
        assert answer.url.endswith(place)
        assert len(Study.objects.get().values.checking.quiz_questions) == n
    five, new = Study.objects.get().values.checking.quiz_questions
    assert (five.right, new.question) == ("Five", "Was werden Sie tun?")
    response = staff.get(answer.url)
    assert f"“{QUIZ[1]['question']}” was deleted." in response.content.decode()
    undo = {"_do": "undo:quiz_questions:", "_deleted": response.context["deleted"]}
    staff.post(address_of_build_checks(study), {**fields_of(staff, study), **undo})
    assert Study.objects.get().values.checking.quiz_questions[0].question == QUIZ[1]["question"]


def test_a_mistake_stands_at_its_field(staff: Client) -> None:
    study = make_study(quiz_questions=QUIZ, chat_checks=[CHAT_CHECK], state="draft")
    sent = fields_of(staff, study) | {
        "quiz_questions-1-right": "Six",
        "quiz_questions-2-options": "One alone",
        "chat_checks-1-expected": "Green",
        "screened_out_pay": "x" * 99,
    }
    body = staff.post(address_of_build_checks(study), sent, headers={"accept": "application/json"}).json()
    assert set(body["errors"]) == {
        "quiz_questions-1-right",
        "quiz_questions-2-options",
        "chat_checks-1-expected",
        "screened_out_pay",
    }
    for told_by_title, title in (
        ("quiz_questions-1-right", "Right answer"),
        ("chat_checks-1-expected", "Answers that pass"),
    ):
        assert body["errors"][told_by_title][0].startswith(f"“{title}” "), "no name of a file's"
    beyond = fields_of(staff, study) | {"quiz_questions-2-point": "9"}
    body = staff.post(address_of_build_checks(study), beyond, headers={"accept": "application/json"}).json()
    assert "the instructions have 4" in body["errors"]["quiz_questions"][0]


def test_pairs_are_practised_and_checked_by_a_field_for_each_question(staff: Client) -> None:
    check = {"response": "Take this one.", "second_response": "Not this.", "expected": {"quality": [1]}}
    study = make_pairwise(training_pairs=[TRAINING_PAIR], attention_checks=[check])
    before = study.values.to_json()
    sent = fields_of(staff, study)
    assert sent["training_pairs-1-by_quality"] == "first"
    assert sent["attention_checks-1-by_quality"] == ["1"]
    assert staff.post(address_of_build_checks(study), sent).status_code == 302
    assert Study.objects.get().values.to_json() == before
    wrong = sent | {"attention_checks-1-by_quality": "7", "training_pairs-1-why": ""}
    body = staff.post(address_of_build_checks(study), wrong, headers={"accept": "application/json"}).json()
    assert set(body["errors"]) == {"attention_checks-1-by_quality", "training_pairs-1-why"}
    # New ones can be used as they stand: right answers are there for the questions that are asked.
    for name in ("training_pairs", "attention_checks"):
        staff.post(address_of_build_checks(study), {**fields_of(staff, study), "_do": f"add:{name}"})
    values = Study.objects.get().values
    assert values.training.training_pairs[1].answers == {"quality": "first"}
    assert set(values.attention.attention_checks[1].expected) == {
        question.key for question in protocols.get("pairwise").asks
    }


def test_a_question_is_made_a_check_in_its_card_and_the_file_says_all_of_it(staff: Client) -> None:
    study = make_study(
        quiz_questions=QUIZ,
        chat_checks=[CHAT_CHECK],
        questions=[{"key": "blue", "title": "Choose blue.", "kind": "choice", "options": ["Red", "Blue"]}],
        state="draft",
    )
    sent = fields_of(staff, study, "questions") | {"questions-1-expected": "Green"}
    response = staff.post(address_of_build_checks(study, "questions"), sent, headers={"accept": "application/json"})
    assert list(response.json()["errors"]) == ["questions-1-expected"]
    sent |= {"questions-1-expected": "Blue"}
    assert staff.post(address_of_build_checks(study, "questions"), sent).status_code == 302
    study = Study.objects.get()
    assert study.values.questions[0].expected == ("Blue",)
    text = study_file_text(study_file_of(study))
    assert study_file_read(text).values.checking == study.values.checking
    assert study_file_read(text).questions == study.values.questions
    shown = staff.get(address_of_build_checks(study, "questions")).content.decode()
    assert "One choice, attention check" in shown


def test_an_item_gets_its_right_answers_in_the_builder(staff: Client) -> None:
    study = make_annotated()
    page = f"/dashboard/studies/{study.key}/items/gold/"
    for item, answers in (("i1", "9"), ("nothing", "5"), ("i1", "4, 5")):
        staff.post(page, {"item": item, "by_quality": answers.split(", ")})
    [gold] = study.items.filter(purpose="gold")
    assert (gold.key, gold.expected) == ("i1", {"quality": [4, 5]})
    assert "The study has 1 gold item." in staff.get(address_of_build_checks(study)).content.decode()
    staff.post(page, {"item": "i1"})
    assert not study.items.filter(purpose="gold").exists()
