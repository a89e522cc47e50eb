"""Questions that depend on an answer: shown, required and stored only where the answer was given."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import make_conversation, make_study
from tests.webapp.participant.conftest import begin, chat, post, started
from webapp.conversations.models import Conversation
from webapp.participant.question_view import questions_ordered
from webapp.ratings.models import Rating
from webapp.studies.models import QuestionAnswers
from webapp.studies.questions import Question
from webapp.studies.ready_made import ready_questions
from webapp.studies.sent_answers import check_answers

pytestmark = pytest.mark.django_db

USES = {"key": "uses", "title": "Do you use chatbots?", "kind": "choice", "options": ["Daily", "Never"]}
WHICH = {
    "key": "which",
    "title": "Which?",
    "kind": "choices",
    "options": ["A", "B"],
    "show_when": {"key": "uses", "answers": ["Daily"]},
}
WHY = {"key": "why", "title": "Why B?", "kind": "text", "show_when": {"key": "which", "answers": ["B"]}}
ASKED = [USES, WHICH, WHY]


def answered(browser: Client, **answers: Any) -> Any:
    """Begin, and send these answers before the task."""
    make_study("s", questions=ASKED)
    address = started(browser, "s")
    page = browser.get(address)
    assert page.status_code == 200
    assert 'data-show-when="q-uses"' in page.content.decode()
    return post(browser, address, **answers)


def test_a_hidden_question_is_not_required_and_its_answer_not_stored(browser: Client) -> None:
    response = answered(browser, question_uses="Never", question_which="B", question_why="It is better.")
    assert response.status_code == 302
    assert QuestionAnswers.objects.get().answers == {"uses": "Never"}


def test_a_question_that_is_shown_is_required(browser: Client) -> None:
    response = answered(browser, question_uses="Daily")
    assert response.status_code == 200
    assert response.content.decode().count("Please answer this question.") == 1
    response = post(browser, response.request["PATH_INFO"], question_uses="Daily", question_which="A")
    assert response.status_code == 302
    assert QuestionAnswers.objects.get().answers == {"uses": "Daily", "which": ["A"]}


def test_conditions_hold_after_the_task_too(browser: Client) -> None:
    scale = {"key": "quality", "title": "How good?", "kind": "scale", "low": 1, "high": 5}
    low = {"key": "low", "title": "What was bad?", "kind": "text", "show_when": {"key": "quality", "answers": [1, 2]}}
    study = make_study("s", min_exchanges=1, after=[scale, low])
    conversation = begin(browser)
    chat(conversation, 1)
    response = post(browser, f"/chat/{conversation.pk}/rate/", quality="4", low="nothing")
    assert response.status_code == 302
    assert Rating.objects.get().answers == {"quality": 4}
    version = make_conversation(study).version
    assert version is not None
    _found, wrong = check_answers(version=version, answers={"quality": 2})
    assert list(wrong) == ["low"]


GOAL = ready_questions("goal")[0].to_plain()
NOT_REACHED = {"key": "goal_reached", "answers": [0]}
MISSED = {"key": "missed", "title": "What was missing?", "kind": "text", "show_when": NOT_REACHED}
QUALITY = {"key": "quality", "title": "How good?", "kind": "scale", "low": 1, "high": 5}


def with_goal(goal: str) -> list[dict[str, Any]]:
    levels = [{"key": "one", "scenario": "You travel.", "goal": goal}, {"key": "two", "scenario": "You stay."}]
    return [{"key": "scenario", "levels": levels}]


@pytest.mark.parametrize("level", ["one", "two"])
def test_the_question_about_the_goal_is_asked_where_there_is_one(browser: Client, level: str) -> None:
    make_study("s", min_exchanges=1, after=[QUALITY, GOAL, MISSED], factors=with_goal("Find a hotel."))
    conversation = begin(browser)
    Conversation.objects.update(condition={"scenario": level})
    chat(conversation, 1)
    address = f"/chat/{conversation.pk}/rate/"
    page = browser.get(address)
    assert page.status_code == 200
    has_goal = level == "one"
    assert ("Did you reach your goal?" in page.content.decode()) is has_goal
    response = post(browser, address, quality="4")
    if has_goal:
        assert (response.status_code, response.url) == (302, f"{address}?note=check")
        assert "Please choose a number from 0 to 1." in browser.get(response.url).content.decode()
        response = post(browser, address, quality="4", goal_reached="0", missed="A price.")
    assert response.status_code == 302
    rating = Rating.objects.get()
    assert rating.answers == {"quality": 4, **({"goal_reached": 0} if has_goal else {})}
    assert rating.other_answers == ({"missed": "A price."} if has_goal else {})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"after": [QUALITY, GOAL], "factors": with_goal("")}, "no level has one"),
        ({"after": [GOAL], "protocol": "marked_chat"}, "in every condition. Remove only_with_goal"),
    ],
)
def test_a_question_about_a_goal_needs_a_goal_and_an_own_chat(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("s", **fields)
    assert told in str(refused.value)


def test_shuffled_questions_follow_those_that_they_depend_on() -> None:
    more = [{"key": f"k{n}", "title": "?", "kind": "text"} for n in range(4)]
    asked = [Question.model_validate(one) for one in (*ASKED, *more)]
    orders = {tuple(one.key for one in questions_ordered(asked, "shuffled", n)) for n in range(40)}
    assert len(orders) > 20
    for order in orders:
        at = order.index("uses")
        assert order[at : at + 3] == ("uses", "which", "why")


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"key": "other", "answers": ["x"]}, "must be an earlier question with answers to choose from (uses)"),
        ({"key": "which", "answers": ["A"]}, "must be an earlier question with answers to choose from (uses)"),
        ({"key": "uses", "answers": ["Weekly"]}, "must be one of Daily, Never"),
    ],
)
def test_a_condition_names_an_answer_that_can_be_given_before(when: dict, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("s", questions=[USES, {**WHICH, "show_when": when}])
    assert message in str(refused.value)


def test_pages_that_show_all_questions_refuse_conditions() -> None:
    scales = [
        {"key": key, "title": "?", "kind": "scale", "low": -1, "high": 1} | ({"show_when": when} if when else {})
        for key, when in (("one", None), ("two", {"key": "one", "answers": [1]}))
    ]
    with pytest.raises(ValidationError) as refused:
        make_study("s", protocol="pairwise", bots=[], state="draft", after=scales)
    assert "always shows all questions" in str(refused.value)
