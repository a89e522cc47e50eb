"""How messages are typed: stored where the study counts it and says so before people agree, and nowhere else."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from tests.builders import answer, exchange, make_arena, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.frames import KeystrokeCounts, MessageFrame, frame_parse
from webapp.conversations.models import Conversation, Typing
from webapp.conversations.services import turn_add_human
from webapp.conversations.task_start import task_chats
from webapp.ratings.flag_store.models import TaskFlag
from webapp.ratings.flags.base import flag_kinds
from webapp.ratings.services import comparison_submit, flags_make
from webapp.studies.models import Study
from webapp.studies.privacy import consent_texts
from webapp.studies.services import task_open

pytestmark = pytest.mark.django_db

COUNTED = KeystrokeCounts(keystrokes=3, pastes=1, deletions=0, ms=900)


def written(study: Study) -> Conversation:
    """Make a rated chat of three messages, of which two were pasted."""
    chat = make_conversation(study)
    for number in range(3):
        text = f"Message {number}, with which somebody fills in more than sixty characters."
        exchange(chat, text, "I see.")
    return chat


@pytest.mark.parametrize(
    ("fields", "n_stored"), [({"counts_typing": True}, 1), ({}, 0), ({"counts_typing": True, "typing_notice": " "}, 0)]
)
def test_typing_is_stored_only_where_people_agreed_to_it(fields: dict[str, object], n_stored: int) -> None:
    study = make_study(**fields)
    chat = make_conversation(study)
    turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text="Hello", typed=COUNTED)
    assert Typing.objects.count() == n_stored
    page = Client().get(f"/s/{study.key}/").content.decode()
    assert page.count("We never store which keys.") == n_stored
    said = consent_texts(study.values)["typing_notice"]
    assert ("We never store" in said) is bool(n_stored)


def test_frames_may_carry_it_and_need_not() -> None:
    sent = f'{{"type": "message", "client_id": "{uuid.uuid4()}", "text": "Hello"'
    plain = frame_parse(sent + "}")
    assert isinstance(plain, MessageFrame)
    assert plain.typing is None
    counted = frame_parse(sent + ', "typing": {"keystrokes": 3, "pastes": 1, "deletions": 0, "ms": 900}}')
    assert isinstance(counted, MessageFrame)
    assert counted.typing == COUNTED


def test_pasted_messages_are_flagged_by_it() -> None:
    study = make_study(counts_typing=True)
    chat = written(study)
    for turn in chat.turns.filter(speaker="human"):
        Typing.objects.create(turn=turn, **COUNTED.model_dump())
    make_rating(chat, quality=1)
    written(study)  # goes on
    state = flags_make(study=study)
    assert set(TaskFlag.objects.values_list("name", flat=True)) == {"pasted", "machine"}
    assert state.of("machine")["of"] == 1
    kind = flag_kinds.get("pasted")
    flag = TaskFlag.objects.get(name="pasted")
    assert kind.explain(flag.figures, {}) == "3 of 3 messages were pasted."


def test_of_an_arena_what_was_written_to_both_counts_once() -> None:
    study = make_arena(counts_typing=True, n_comparisons=1)
    task = task_open(participant=make_participant(study))
    task_chats(task=task)
    first, second = Conversation.objects.order_by("slot__order")
    for number in range(3):
        text = f"Message {number}, with which somebody fills in more than sixty characters."
        for chat in (first, second):
            turn_add_human(conversation_id=chat.pk, client_id=uuid.uuid4(), text=text, typed=COUNTED)
            answer(chat, "I see.")
    slots = (first.slot, second.slot)
    assert comparison_submit(task=task, slots=slots, choice="a").task.outcome == "rated"
    flags_make(study=study)
    figures = dict(TaskFlag.objects.values_list("name", "figures"))
    assert figures["pasted"] == {"pasted": 3, "copied": 0, "messages": 3}
    assert figures["machine"]["long"] == 3


def test_of_an_arena_what_repeats_either_reply_is_copied() -> None:
    study = make_arena(n_comparisons=1)
    task = task_open(participant=make_participant(study))
    task_chats(task=task)
    first, second = Conversation.objects.order_by("slot__order")
    ours, theirs = "Well, that is a long story to tell.", "I went to the sea with my brother."
    for text in ("Hello you two, how was your week so far?", theirs, ours, "Good bye to both of you"):
        exchange(first, text, ours)
        exchange(second, text, theirs)
    assert comparison_submit(task=task, slots=(first.slot, second.slot), choice="b").created
    flags_make(study=study)
    flag = TaskFlag.objects.get(name="pasted")
    assert flag.figures == {"pasted": 0, "copied": 2, "messages": 4}
