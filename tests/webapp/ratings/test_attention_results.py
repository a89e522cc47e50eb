"""Attention checks in forms, among items and in chats, gold items, and items shown twice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import (
    BLUE,
    exchange,
    make_annotated,
    make_conversation,
    make_pairwise,
    make_participant,
    make_study,
    signed_in,
)
from webapp.conversations.attention_checks import chat_check_answer, chat_check_due
from webapp.conversations.models import ChatCheckAnswer, Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.attention_results import (
    CheckAnswer,
    checks_by_task,
    own_of_people,
    own_of_questions,
    repeats_answered,
)
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import ratings_counted
from webapp.ratings.services import rating_add, rating_submit
from webapp.studies.items import gold_store
from webapp.studies.lifecycle import items_import
from webapp.studies.models import Item, Study, Task
from webapp.studies.pre_task import question_answers_store
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.services import study_copy, task_open
from webapp.studies.study_file import items_of_file
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
ATTENTIVE = {
    "key": "attentive",
    "title": "To show that you read this, choose 2.",
    "kind": "scale",
    "low": 1,
    "high": 5,
    "expected": [2],
}
IN_CHAT = {"after": 2, "question": "Please write the word yes.", "expected": ["yes"]}
FIVES = {question.key: 5 for question in DEFAULT_QUESTIONS}


def missed_by_task() -> list[list[CheckAnswer]]:
    """Return the checks that were missed, of each task in which some were."""
    answered = checks_by_task(Task.objects.all()).values()
    missed = [[check for check in checks if not check.passed] for checks in answered]
    return [checks for checks in missed if checks]


def rows_of(study: Study, what: str, **options: bool) -> list[dict[str, Any]]:
    exporter, asked = exporter_get(what), ExportOptions(**options)
    names = [column.name for column in exporter.columns(study, asked)]
    return [dict(zip(names, row, strict=True)) for row in exporter.rows(study, asked)]


def judge(task: Task, answers: dict[str, int], of_gold: dict[str, int] | None = None) -> Task:
    """Answer all of a task; gold items in another way."""
    for one in requested_ratings(task):
        item = one.slots[0].item
        is_gold = item.purpose == Item.Purpose.GOLD and of_gold
        task = rating_add(task=task, target=item, answers=of_gold if is_gold else answers).task
    return task


def test_a_check_in_the_form_after_a_chat_is_no_rating_and_sets_apart_who_misses_it() -> None:
    study = make_study(after=[*DEFAULT_QUESTIONS, ATTENTIVE], code_failed_check="CHECK1")
    assert "attentive" not in [row.key for row in study.rubric.dimensions.all()]
    ended = []
    for given in ("2", "4"):
        chat = make_conversation(study, n_exchanges=3)
        assert chat.participant is not None
        outcome = rating_submit(conversation=chat, participant=chat.participant, answers={**FIVES, "attentive": given})
        assert outcome.rating.answers == FIVES
        assert outcome.rating.other_answers == {"attentive": given}
        chat.refresh_from_db()
        ended.append((outcome.task.outcome, chat.state))
    assert ended == [("rated", "completed"), ("failed_check", "ended")]
    assert ratings_counted(study).count() == 1
    assert ratings_counted(study, include_failed=True).count() == 2
    assert len(rows_of(study, "conversations")) == 1
    result = missed_by_task()
    assert [(one.kind, one.name, one.answer) for [one] in result] == [("after", "attentive", "4")]
    told = rows_of(study, "checks")
    assert [(row["kind"], row["passed"], row["outcome"]) for row in told] == [
        ("after", True, "rated"),
        ("after", False, "failed_check"),
    ]


def test_as_many_may_be_missed_as_the_study_says_wherever_they_stand() -> None:
    study = make_study(questions=[BLUE], after=[*DEFAULT_QUESTIONS, ATTENTIVE], chat_checks=[IN_CHAT], misses_allowed=1)
    outcomes = []
    for colour, word in (("Red", "Yes."), ("Red", "no")):
        chat = make_conversation(study, n_exchanges=3)
        assert chat.task is not None
        assert chat.participant is not None
        question_answers_store(task=chat.task, answers={"colour": colour})
        answers = {**FIVES, "attentive": "2"}
        with pytest.raises(Refused, match="researchers' question"):
            rating_submit(conversation=chat, participant=chat.participant, answers=answers)
        due = chat_check_due(chat, study.version)
        assert due is not None
        for _time in range(2):
            chat_check_answer(conversation=chat, check=due.digest, answer=word)
        done = rating_submit(conversation=chat, participant=chat.participant, answers=answers)
        outcomes.append(done.task.outcome)
    assert outcomes == ["rated", "failed_check"]
    assert ChatCheckAnswer.objects.count() == 2
    kinds = [[check.kind for check in checks] for checks in checks_by_task(Task.objects.all()).values()]
    assert kinds == [["before", "after", "chat"]] * 2


def test_a_check_in_a_chat_is_due_after_its_messages_and_takes_its_answers_alone() -> None:
    study = make_study(chat_checks=[{**IN_CHAT, "options": ["yes", "no"]}])
    chat = make_conversation(study, n_exchanges=1)
    assert chat_check_due(chat, study.version) is None
    exchange(chat, "more", "reply")
    chat.refresh_from_db()
    due = chat_check_due(chat, study.version)
    for answer, check in (("perhaps", due.digest), ("", due.digest), ("yes", "another")):
        with pytest.raises(Refused):
            chat_check_answer(conversation=chat, check=check, answer=answer)
    assert not ChatCheckAnswer.objects.exists()
    words = make_conversation(make_study("w", chat_checks=[IN_CHAT]), n_exchanges=2)
    with pytest.raises(Refused):
        chat_check_answer(conversation=words, check=due.digest, answer="\u200b")
    assert not ChatCheckAnswer.objects.exists()
    with pytest.raises(ValidationError, match="comes after 9 messages"):
        make_study("t", chat_checks=[{**IN_CHAT, "after": 9}])
    with pytest.raises(ValidationError, match="has no chats"):
        make_annotated("u", chat_checks=[IN_CHAT])


def test_among_items_a_check_in_the_form_is_asked_once() -> None:
    study = make_annotated(after=[*DEFAULT_QUESTIONS[:1], BLUE])
    task = task_open(participant=make_participant(study))
    n_asked = 0
    for one in requested_ratings(task):
        try:
            rating_add(task=task, target=one.target, answers={"quality": 5})
        except Refused as refused:
            n_asked += 1
            assert set(refused.details["errors"]) == {"colour"}
            answers = {"quality": 5, "colour": "Red"}
            rating_add(task=task, target=one.target, answers=answers)
    task.refresh_from_db()
    assert (n_asked, task.outcome) == (1, "failed_check")


def test_gold_items_look_like_others_count_nowhere_and_end_the_task_when_too_many_are_missed(
    tmp_path: Path, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    study = make_annotated(n_gold=2, gold_misses_allowed=1, after=list(DEFAULT_QUESTIONS))
    lines = [
        '{"id": "g0", "context": ["hi"], "response": "well", "gold": {"quality": {"low": 5, "high": 7}}}',
        '{"id": "g1", "context": ["hi"], "response": "ill", "gold": {"quality": 1}}',
        '{"id": "g2", "context": ["hi"], "response": "ill", "gold": {"quality": 9}}',
        '{"id": "g3", "context": ["hi"], "response": "ill", "gold": {"best": 1}}',
    ]
    path = tmp_path / "gold.jsonl"
    path.write_text("\n".join(lines))
    report = items_import(study=study, lines=items_of_file(path))
    assert (report.items, [one.line for one in report.skipped]) == (2, [3, 4])
    outcomes = []
    for of_gold in (5, 3):
        task = task_open(participant=make_participant(study))
        assert task.slots.count() == 5
        task = judge(task, FIVES, {**FIVES, "quality": of_gold})
        outcomes.append(task.outcome)
    assert outcomes == ["rated", "failed_check"], "one of two is missed, then both"
    with django_assert_num_queries(2):
        assert len(missed_by_task()) == 2
    assert ratings_counted(study).count() == 3
    assert {row["kind"] for row in rows_of(study, "checks")} == {"gold"}
    assert len(rows_of(study, "ratings")) == 3
    gold = study.items.get(key="g1")
    with pytest.raises(ValidationError, match="Participants have already rated “g1”, so it cannot be changed"):
        gold_store(item=gold, expected={})


def test_items_come_again_apart_from_their_first_time_and_count_once(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    study = make_annotated(n_items=6, n_repeated=1, after=list(DEFAULT_QUESTIONS))
    for _person in range(4):
        task = judge(task_open(participant=make_participant(study)), FIVES)
        slots = [slot.item for slot in task.slots.select_related("item").order_by("order")]
        [again] = [item for item in slots if item and item.purpose == Item.Purpose.REPEAT]
        first = next(at for at, item in enumerate(slots) if item and item.pk == again.original_id)
        assert slots.index(again) - first > 2
        assert (task.outcome, len(slots)) == ("rated", 4)
    assert ratings_counted(study).count() == 12
    again = list(repeats_answered(study))
    assert own_of_questions(study, again)["quality"].same.mean == 1
    rating = Rating.objects.filter(item__purpose=Item.Purpose.REPEAT).order_by("pk")[0]
    Rating.objects.filter(pk=rating.pk).update(answers={**FIVES, "quality": 3})
    again = list(repeats_answered(study))
    quality = own_of_questions(study, again)["quality"]
    assert (quality.same.mean, quality.apart.mean, quality.n_people) == (0.75, 0.5, 4)
    assert quality.same.low < 0.75
    worst = own_of_people(again)[0]
    assert (worst.person, worst.n_same, worst.n) == (rating.participant_id, 4, 5)
    assert (worst.low, worst.high) == (None, None), "all answers are of one item"
    other = replace(again[0], item="another", person=worst.person)
    both = next(
        own_of_person for own_of_person in own_of_people([*again, other]) if own_of_person.person == worst.person
    )
    assert both.low < both.n_same / both.n < both.high
    told = [row for row in rows_of(study, "repeats") if row["question"] == "quality"]
    assert sorted(row["second"] for row in told) == [3, 5, 5, 5]
    assert all(row["item"].startswith("i") for row in told)
    client = signed_in(Right.READ)
    page = client.get(f"/dashboard/studies/{study.key}/people/").content.decode()
    assert "4 participants rated an item twice." in page
    with django_assert_max_num_queries(42) as shown:  # what checks came to is stored with the flags
        client.get(f"/dashboard/studies/{study.key}/people/")
    assert not any('"ratings_rating"."answers"' in captured_query["sql"] for captured_query in shown.captured_queries)
    assert "4 of 5" in page
    copy = study_copy(study=study)
    assert copy.items.count() == 6


def test_pairs_have_gold_and_repeats_too_on_sides_of_their_own() -> None:
    study = make_pairwise(n_items=3, n_gold=1, n_repeated=1)
    item = study.items.order_by("pk")[0]
    gold_store(item=item, expected={"quality": [1]})
    task = task_open(participant=make_participant(study))
    purposes = sorted(slot.item.purpose for slot in task.slots.all() if slot.item)
    assert purposes == ["", "", "gold", "repeat"]
    done = judge(task, {"quality": -1, "fluency": 0, "relatedness": 0, "empathy": 0})
    assert done.outcome == "failed_check"


def test_whoever_withdraws_takes_the_answers_in_the_chat_along() -> None:
    from webapp.conversations.services import conversation_withdraw

    study = make_study(chat_checks=[IN_CHAT])
    chat = make_conversation(study, n_exchanges=2)
    due = chat_check_due(chat, study.version)
    chat_check_answer(conversation=chat, check=due.digest, answer="yes")
    conversation_withdraw(conversation=Conversation.objects.get(pk=chat.pk))
    assert not ChatCheckAnswer.objects.exists()
    assert rows_of(study, "checks") == []


KNOWN = {"response": "Choose 2.", "reference": "Well.", "reference_score": 4}
FIT = {"key": "fit", "title": "Fits?", "kind": "scale", "low": 1, "high": 5}


@pytest.mark.parametrize(
    ("check", "of_one_kind", "wrong"),
    [
        (KNOWN, {}, ""),
        ({"response": "Choose 2."}, {}, "needs a reference reply and its score"),
        ({**KNOWN, "reference_score": 9}, {}, "the score 9 is not from 1 to 5"),
        ({**KNOWN, "second_response": "No."}, {}, "has a second reply"),
        (KNOWN, {"fit": ["persona"]}, "asked only for certain kinds of conversation"),
    ],
)
def test_beside_known_replies_checks_have_one_too(
    check: dict[str, Any], of_one_kind: dict[str, Any], wrong: str
) -> None:
    fields = {
        "protocol": "reference",
        "bots": [],
        "state": "draft",
        "after": [FIT],
        "asked_only_of": of_one_kind,
        "attention_checks": [{**check, "expected": {"fit": [2]}}],
    }
    if not wrong:
        assert make_study(**fields).values.attention.attention_checks[0].reference == "Well."
        return
    with pytest.raises(ValidationError) as refused:
        make_study(**fields)
    assert wrong in refused.value.message_dict["attention_checks"][0]
