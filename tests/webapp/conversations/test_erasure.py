"""Vectors of texts go with the last turn that says them, by whatever way it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.db import transaction

from tests.builders import exchange, make_conversation, make_study
from webapp.bots.selectors import text_store
from webapp.conversations import erasure
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_withdraw
from webapp.studies.models import Participant, Study

ENCODER = "an encoder"


def participant_gone(conversation: Conversation) -> None:
    Participant.objects.filter(pk=conversation.participant_id).delete()


def study_gone(conversation: Conversation) -> None:
    assert conversation.study is not None
    conversation.study.delete()


WAYS: dict[str, Callable[[Conversation], Any]] = {
    "a study": study_gone,
    "a participant": participant_gone,
    "a conversation": Conversation.delete,
    "conversations at once": lambda chat: Conversation.objects.filter(pk=chat.pk).delete(),
    "turns": lambda chat: chat.turns.all().delete(),
    "a withdrawal": lambda chat: conversation_withdraw(conversation=chat),
}


def chat(study: Study, *texts: str) -> Conversation:
    conversation = make_conversation(study)
    for text in texts:
        exchange(conversation, text, f"so {text}")
    return conversation


def encoded(*texts: str) -> None:
    text_store().put(ENCODER, dict.fromkeys(texts, np.ones(3, dtype=np.float32)))


def kept(*texts: str) -> set[str]:
    return set(text_store().get(ENCODER, texts))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_whoever_deletes_turns_forgets_their_texts(way: str, is_many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_many:
        monkeypatch.setattr(erasure, "_MOST_QUERIES", 0)
    gone = chat(make_study("one"), "mine alone", "said by both")
    chat(make_study("two"), "said by both")
    encoded("mine alone", "so mine alone", "said by both", "said by nobody")
    WAYS[way](gone)
    assert kept("mine alone", "so mine alone", "said by both", "said by nobody") == {"said by both", "said by nobody"}


@pytest.mark.django_db(transaction=True)
def test_what_is_not_deleted_after_all_is_kept() -> None:
    conversation = chat(make_study(), "first", "second")
    encoded("first", "second")
    with transaction.atomic():
        with transaction.atomic():
            conversation.turns.all().delete()
            transaction.set_rollback(True)
        conversation.turns.filter(text="second").delete()
    assert kept("first", "second") == {"first"}
    assert Turn.objects.filter(text="first").exists()


@pytest.mark.django_db
def test_one_entry_of_the_transaction_holds_all_texts(
    django_capture_on_commit_callbacks: Any, django_assert_max_num_queries: Any
) -> None:
    study = make_study()
    chat(study, *(f"text {n}" for n in range(5)))
    encoded("text 3")
    with django_capture_on_commit_callbacks() as callbacks:
        study.delete()
    assert [len(each.texts) for each in callbacks if isinstance(each, erasure._EncodedTextsErasure)] == [10]
    with django_assert_max_num_queries(1):
        for each in callbacks:
            each()
    assert kept("text 3") == set()
