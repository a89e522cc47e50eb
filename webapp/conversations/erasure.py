"""Erasure of cached encodings with the last turn that contains their text.

Deleting a study, participant or conversation deletes its turns, from the admin, a command or a shell. Django sends
`pre_delete` for each of these turns, so this module catches every case.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import connections, transaction
from django.db.models import Q, QuerySet
from django.db.models.signals import post_delete, pre_delete

from webapp.bots.selectors import text_store
from webapp.conversations.images import image_file_delete
from webapp.conversations.models import ChatImage, PartnerSeat, Turn
from webapp.conversations.services import partner_words_remove
from webapp.core.clean_up import clean_up_add, clean_up_kind, clean_up_run
from webapp.studies.models import Study
from webapp.studies.privacy.retention import TextsKind

_NAMED_IN_A_QUERY = 500
_MOST_QUERIES = 10
"""Maximum number of queries, each of which reads the whole table of turns; for more texts, reading it once and
comparing here is faster.
"""


class _EncodedTextsErasure:
    """Texts of turns deleted in one transaction; called after its commit."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.texts: set[str] = set()
        self._promise = clean_up_add(CLEAN_UP, using=using)

    def __call__(self) -> None:
        clean_up_run(self._promise, lambda: encoded_texts_delete(self.texts, using=self.using))


def turn_deleted(*, instance: Turn, using: str, **_: Any) -> None:
    """Record the text of a turn about to be deleted (receiver).

    A rollback discards the record.
    """
    waiting = connections[using].run_on_commit
    # The signals of one deletion share one commit hook per savepoint.
    if waiting:
        savepoints, newest = waiting[-1][:2]
        is_same = savepoints == set(connections[using].savepoint_ids)
        if isinstance(newest, _EncodedTextsErasure) and is_same:
            newest.texts.add(instance.text)
            return
    forgetting = _EncodedTextsErasure(using)
    forgetting.texts.add(instance.text)
    transaction.on_commit(forgetting, using=using, robust=True)


def partner_seat_deleted(*, instance: PartnerSeat, **_: Any) -> None:
    """Remove a deleted chat's messages from the partner's chat (receiver)."""
    partner_words_remove(chats=[instance.pk])


def encoded_texts_delete(texts: set[str], *, using: str = "default") -> int:
    """Remove encodings of texts that no turn contains.

    Returns their number.

    Raises:
        OSError, sqlite3.Error: rows may be left.
    """
    store = text_store()
    encoded_texts = store.known(texts)
    return store.forget(encoded_texts - _select_texts_in_use(encoded_texts, using)) if encoded_texts else 0


def encoded_texts_sweep() -> int:
    """Remove all encodings of texts that no turn contains; return the number.

    This also removes encodings of texts outside turns, which are recomputed when needed.

    Raises:
        OSError, sqlite3.Error: rows may be left.
    """
    turn_texts = Turn.objects.order_by().values_list("text", flat=True)
    return text_store().keep_only(turn_texts.iterator(chunk_size=2000))


CLEAN_UP = "encoded_texts"
clean_up_kind(CLEAN_UP, "Encodings of erased texts", lambda _payload: encoded_texts_sweep())


def image_deleted(*, instance: ChatImage, using: str, **_: Any) -> None:
    """Delete the file of an image after its row's deletion (receiver).

    It runs once the deletion is committed.
    """
    transaction.on_commit(partial(image_file_delete, instance.name), using=using, robust=True)


def images_texts() -> TextsKind:
    """Return the images of a study's chats; erasure also deletes their rows."""

    def blank(_study: Study, rows: QuerySet[Any]) -> None:
        rows.delete()

    return TextsKind(lambda study: ChatImage.objects.filter(conversation__study=study), blank)


def turns_texts() -> TextsKind:
    """Return the texts of a study's chats.

    Emptying them also removes their encodings.
    """

    def rows(study: Study) -> QuerySet[Any]:
        # A reply that is only an image has no text, but may have a trace that quotes the participant.
        has_texts = ~Q(text="") | ~Q(withheld_text="") | ~Q(trace=[])
        return Turn.objects.filter(has_texts, conversation__study=study)

    def blank(study: Study, matching_turns: QuerySet[Any]) -> None:
        forgetting = _EncodedTextsErasure("default")
        forgetting.texts.update(matching_turns.order_by().values_list("text", flat=True))
        rows(study).update(text="", withheld_text="", trace=[])
        transaction.on_commit(forgetting, robust=True)

    return TextsKind(rows, blank)


def connect_signals() -> None:
    """Connect the receivers of deletions of turns, images and partner seats."""
    pre_delete.connect(turn_deleted, sender=Turn, dispatch_uid="texts_forget")
    post_delete.connect(image_deleted, sender=ChatImage, dispatch_uid="image_file_delete")
    pre_delete.connect(partner_seat_deleted, sender=PartnerSeat, dispatch_uid="partner_words_remove")


def _select_texts_in_use(texts: set[str], using: str) -> set[str]:
    """Return the texts that a turn still contains."""
    turn_texts = Turn.objects.using(using).order_by().values_list("text", flat=True)
    if len(texts) > _NAMED_IN_A_QUERY * _MOST_QUERIES:
        return texts.intersection(turn_texts.iterator())
    sorted_texts = sorted(texts)
    return {
        text
        for start in range(0, len(sorted_texts), _NAMED_IN_A_QUERY)
        for text in turn_texts.filter(text__in=sorted_texts[start : start + _NAMED_IN_A_QUERY]).distinct()
    }
