"""The step `questions`: asked once before the task, stored once, exported, and gone with the person."""

import csv
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client

from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.participant.conftest import opens_to_its_own_alone, post, shown, started
from tests.webapp.transfer.test_exporters import rows_of
from webapp.conversations.models import Conversation
from webapp.conversations.services import conversation_withdraw
from webapp.conversations.task_start import conversation_start
from webapp.core.errors import Refused
from webapp.participant.simulated.steps import STEP_SCRIPTS
from webapp.participant.steps.base import next_step, standing_of, steps
from webapp.studies.models import Participant, QuestionAnswers, Study, Task
from webapp.studies.pre_task import question_answers_store
from webapp.studies.privacy import participants_erase
from webapp.studies.protocols.base import protocols
from webapp.studies.services import task_close
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
QUESTIONS: list[dict[str, Any]] = [
    {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["18 to 29", "30+"]},
    {
        "key": "languages",
        "title": "Which do you speak?",
        "kind": "choices",
        "options": ["English", "Danish", "<i>Manx</i>"],
    },
    {"key": "job", "title": "What do you do?", "kind": "text", "required": False},
]
SENT = {"question_age": "30+", "question_languages": ["English", "<i>Manx</i>"], "question_job": ""}
STORED = {"age": "30+", "languages": ["English", "<i>Manx</i>"]}


@pytest.fixture
def asking(db: None) -> Study:
    """Make a study of chats that asks three questions first."""
    return make_study("s", questions=QUESTIONS)


def test_a_chat_opened_by_its_address_leads_back_to_the_questions(asking: Study, browser: Client) -> None:
    address = started(browser, "s")
    chat = Conversation.objects.get()
    for page in ("", "rate/", "done/"):
        assert browser.get(f"/chat/{chat.pk}/{page}").url == address
    assert browser.get("/s/s/").context["continue_url"] == address


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"question_age": ""}, "Please answer this question."),
        ({"question_age": "17"}, "Choose one of the answers shown."),
        ({"question_languages": []}, "Please answer this question."),
        ({"question_languages": ["English", "Ido"]}, "Choose from the answers shown."),
        ({"question_job": "x" * 1001}, "Write up to 1000 characters; your text has 1001."),
    ],
)
def test_what_cannot_be_taken_is_said_beside_its_question_and_the_rest_kept(
    asking: Study, browser: Client, changed: dict[str, Any], said: str
) -> None:
    address = started(browser, "s")
    page = shown(post(browser, address, **{**SENT, "question_job": "a baker", **changed}))
    [name] = changed
    assert f'id="{name}-error"' in page
    assert f'aria-describedby="{name}-error"' in page
    assert page.count(f"<span>{said}</span>") == page.count(said) == 1
    is_missing = not any(changed.values())
    words = "1 answer is missing." if is_missing else "1 answer is missing or invalid."
    assert words in page
    assert f'href="#{name}-1"' in page
    assert "<title>Error:" in page.replace("<title> ", "<title>")
    if name != "question_age":
        assert re.search(r'value="30\+" checked', page)
    if name != "question_job":
        assert "> a baker</textarea>" in page
    assert not QuestionAnswers.objects.exists()
    assert post(browser, address, **SENT).url.startswith("/chat/")


def test_sent_twice_the_first_answers_stay(asking: Study, browser: Client) -> None:
    address = started(browser, "s")
    first = post(browser, address, **SENT)
    again = post(browser, address, **{**SENT, "question_age": "18 to 29"})
    assert first.url == again.url
    stored = QuestionAnswers.objects.get()
    assert stored.answers == STORED
    task = Task.objects.get()
    assert question_answers_store(task=task, answers={"age": "18 to 29"}) == stored
    with pytest.raises(IntegrityError), transaction.atomic():
        QuestionAnswers.objects.create(participant=task.participant, version=task.version, answers={})


def test_only_who_took_the_task_on_opens_it(asking: Study, browser: Client) -> None:
    mine = opens_to_its_own_alone(browser, asking, "questions", SENT)
    assert QuestionAnswers.objects.get().participant == mine.participant


def test_a_task_that_is_over_takes_no_answers(asking: Study, browser: Client) -> None:
    address = started(browser, "s")
    task = Task.objects.get()
    task_close(task=task, state=Task.State.EXPIRED)
    with pytest.raises(Refused) as refused:
        question_answers_store(task=task, answers=STORED)
    assert refused.value.code == "closed"
    chat = f"/chat/{Conversation.objects.get().pk}/"
    assert post(browser, address, **SENT).url == chat
    assert browser.get(chat).status_code == 200, "whose place was lost may go on with the chat"
    assert not QuestionAnswers.objects.exists()


def step_of(conversation: Conversation) -> str:
    step = next_step(standing_of(Conversation.objects.get(pk=conversation.pk)))
    return step.name


def test_after_an_edit_those_under_way_answer_what_their_version_asks(asking: Study) -> None:
    before = make_conversation(asking, entry_nonce="n")
    fewer = study_edit(study=asking, questions=QUESTIONS[:1])
    assert fewer.version.number == 2
    after = make_conversation(fewer)
    assert before.task is not None
    assert after.task is not None
    with pytest.raises(Refused) as refused:
        question_answers_store(task=before.task, answers={"age": "30+"})
    assert set(refused.value.details["errors"]) == {"languages"}
    question_answers_store(task=after.task, answers={**STORED, "age": "18 to 29"})
    question_answers_store(task=before.task, answers=STORED)
    stored = QuestionAnswers.objects.order_by("version__number").values_list("answers", flat=True)
    assert list(stored) == [STORED, {"age": "18 to 29"}]
    columns = exporter_get("participants").columns(fewer, ExportOptions(include_private=True))
    assert [c.name for c in columns if c.name.startswith("question_")] == [
        "question_age",
        "question_languages",
        "question_job",
    ]


def test_who_comes_again_is_asked_only_what_is_new(asking: Study) -> None:
    first = make_conversation(asking, n_exchanges=3)
    assert first.task is not None
    question_answers_store(task=first.task, answers=STORED)
    make_rating(first)
    edited = study_edit(study=asking, minutes=30)
    first.participant.refresh_from_db()
    second = conversation_start(participant=first.participant, version=edited.version)
    assert second.task.version.number == 2
    assert step_of(second) == "chat"
    task_close(task=second.task, state=Task.State.EXPIRED)
    Task.objects.filter(pk=second.task.pk).delete()
    asked = study_edit(study=edited, questions=QUESTIONS[:1])
    third = conversation_start(participant=first.participant, version=asked.version)
    assert step_of(third) == "questions"
    question_answers_store(task=third.task, answers={"age": "18 to 29"})
    assert step_of(third) == "chat"
    [row] = rows_of(asked, "participants", include_private=True)
    assert (row["question_age"], row["question_languages"]) == ("18 to 29", "English; <i>Manx</i>")


def test_answers_are_columns_of_participants_with_their_words(asking: Study, tmp_path: Path) -> None:
    chat = make_conversation(asking)
    make_conversation(asking)
    question_answers_store(task=chat.task, answers={**STORED, "job": '=1+1, "a"\nb\x00'})
    assert not [name for row in rows_of(asking, "participants") for name in row if name.startswith("question_")]
    [row, other] = rows_of(asking, "participants", include_private=True)
    assert row["question_age"] == "30+"
    assert row["question_languages"] == "English; <i>Manx</i>"
    assert row["question_job"] == '=1+1, "a"\nb'
    assert {other[f"question_{key}"] for key in ("age", "languages", "job")} == {""}
    exporter = exporter_get("participants")
    words = {c.name: c.description for c in exporter.columns(asking, ExportOptions(include_private=True))}
    assert "How old are you?" in words["question_age"]
    assert "18 to 29, 30+" in words["question_age"]
    plain = exporter.columns(make_study("plain"), ExportOptions(include_private=True))
    assert not [column for column in plain if column.name.startswith("question_")]
    private = exporter.columns(asking, ExportOptions(include_private=True))
    assert len({column.name for column in private}) == len(private)
    file = tmp_path / "participants.csv"
    asked_for = ("--include-private", "--format", "csv", "--output", str(file))
    call_command("export", "--study", "s", "--what", "participants", *asked_for)
    with file.open(newline="", encoding="utf-8-sig") as lines:
        [first, _second] = csv.DictReader(lines)
    assert first["question_job"] == '\'=1+1, "a"\nb', "no spreadsheet computes it"


def test_withdrawing_and_erasing_remove_the_answers(asking: Study) -> None:
    withdrawn, erased, stays = (make_conversation(asking) for _ in range(3))
    for chat in (withdrawn, erased, stays):
        question_answers_store(task=chat.task, answers=STORED)
    conversation_withdraw(conversation=withdrawn)
    people = Participant.objects.filter(pk=erased.participant_id)
    assert participants_erase(participants=people)["question_answers"] == 1
    assert QuestionAnswers.objects.get().participant_id == stays.participant_id
    with pytest.raises(Refused, match="finished"):
        question_answers_store(task=withdrawn.task, answers=STORED)
    with pytest.raises(Refused, match="finished"):
        question_answers_store(task=erased.task, answers=STORED)


def test_a_protocol_without_the_step_takes_no_questions() -> None:
    chat = protocols.get("chat")
    steps_without = tuple(step for step in chat.steps if step.name != "questions")
    protocols.add(type("Silent", (type(chat),), {"name": "silent", "title": "No words", "steps": steps_without})())
    try:
        make_study("plain", protocol="silent")
        with pytest.raises(ValidationError, match="“No words” asks no questions"):
            make_study(protocol="silent", questions=QUESTIONS)
    finally:
        protocols.discard("silent")


def test_every_step_that_is_a_page_of_a_task_has_a_scripted_way() -> None:
    assert set(steps.names()) - {"consent", "instructions", "done"} == set(STEP_SCRIPTS)


@pytest.mark.postgres  # the test database of SQLite is in memory, where writers do not wait for each other
@pytest.mark.django_db(transaction=True)
def test_who_withdraws_while_answers_are_stored_leaves_none() -> None:
    chats = [make_conversation(make_study(f"s{n}", questions=QUESTIONS)) for n in range(8)]
    errors: list[Exception] = []

    def answer(chat: Conversation) -> None:
        try:
            question_answers_store(task=chat.task, answers=STORED)
        except Refused:
            pass
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    for chat in chats:
        writers = [threading.Thread(target=answer, args=(chat,)) for _ in range(3)]
        for writer in writers:
            writer.start()
        conversation_withdraw(conversation=chat)
        for writer in writers:
            writer.join()
    assert not errors
    assert not QuestionAnswers.objects.exists()
