"""Writes of stars, tags, notes and saved searches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from chatbots.text import is_blank
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.search.fields import LONGEST
from webapp.search.models import Note, SavedSearch
from webapp.search.pagination import Source
from webapp.search.selectors import source_fields


def star_set(*, conversation: Conversation, is_starred: bool, author: Any) -> None:
    """Star or unstar a conversation (idempotent)."""
    if is_starred:
        Note.objects.get_or_create(conversation=conversation, kind=Note.Kind.STAR, text="", defaults={"author": author})
    else:
        Note.objects.filter(conversation=conversation, kind=Note.Kind.STAR).delete()


def tag_add(*, conversation: Conversation, text: str, author: Any) -> Note:
    """Tag a conversation; tags are lower case and unique.

    Raises:
        Refused: for a tag that is empty, too long, or has a comma or a quotation mark, which queries cannot contain.
    """
    return Note.objects.get_or_create(
        conversation=conversation, kind=Note.Kind.TAG, text=tag_checked(text), defaults={"author": author}
    )[0]


def tag_remove(*, conversation: Conversation, text: str) -> None:
    """Remove a tag, if present.

    Raises:
        Refused: as `tag_add` does.
    """
    tag = tag_checked(text)
    Note.objects.filter(conversation=conversation, kind=Note.Kind.TAG, text=tag).delete()


def tag_checked(text: str) -> str:
    """Return a tag as it is stored.

    Raises:
        Refused: as `tag_add` does.
    """
    tag = " ".join(text.lower().split())
    if is_blank(tag) or len(tag) > Note.LONGEST_TAG or set(tag) & set(',"\x00'):
        raise Refused(
            "tag",
            _("“{text}” is not a valid tag. Use 1 to {n} characters, without commas and quotation marks.").format(
                text=text.replace("\x00", "")[:60], n=Note.LONGEST_TAG
            ),
        )
    return tag


def note_add(*, conversation: Conversation, text: str, author: Any) -> Note:
    """Add a note to a conversation.

    An author's identical note is stored once.

    Raises:
        Refused: for one that is empty or too long.
    """
    words = note_checked(text)
    with transaction.atomic():
        # Different authors may write equal notes, so a constraint cannot prevent duplicates of one author.
        Conversation.objects.select_for_update(of=("self",)).get(pk=conversation.pk)
        author_notes = Note.objects.filter(conversation=conversation, kind=Note.Kind.NOTE, author=author)
        existing_note = author_notes.filter(text=words).first()
        return existing_note or Note.objects.create(
            conversation=conversation, kind=Note.Kind.NOTE, text=words, author=author
        )


def notes_add(*, chats: Collection[UUID], text: str, author: Any) -> None:
    """Add one note to several conversations; an author's identical note is stored once for each.

    Raises:
        Refused: as `note_add` does.
    """
    words = note_checked(text)
    with transaction.atomic():
        locked = Conversation.objects.select_for_update(of=("self",)).filter(pk__in=chats).order_by("pk")
        ids = list(locked.values_list("pk", flat=True))
        same = Note.objects.filter(conversation__in=ids, kind=Note.Kind.NOTE, author=author, text=words)
        noted = set(same.values_list("conversation", flat=True))
        Note.objects.bulk_create(
            Note(conversation_id=pk, kind=Note.Kind.NOTE, text=words, author=author) for pk in ids if pk not in noted
        )


def note_checked(text: str) -> str:
    """Return the text of a note as stored.

    Raises:
        Refused: as `note_add` does.
    """
    words = text.replace("\x00", "").strip()
    if is_blank(words) or len(words) > Note.LONGEST:
        raise Refused(
            "note", _("The note has {n} characters. Use 1 to {most}.").format(most=Note.LONGEST, n=len(words))
        )
    return words


def note_remove(*, conversation: Conversation, pk: int) -> None:
    """Remove a tag or a note of a conversation, if present."""
    Note.objects.filter(conversation=conversation, pk=pk).delete()


def search_save(*, source: Source, owner: Any, name: str, line: str, columns: str = "") -> SavedSearch:
    """Save a named query for a study or run.

    It replaces one with the same name.

    Raises:
        Refused: for a name that is empty or too long, or a query that is empty or too long.
    """
    name, line = _name_read(name), line.replace("\x00", "").strip()
    longest = SavedSearch._meta.get_field("name").max_length or 0
    if is_blank(name) or len(name) > longest:
        raise Refused("name", _("A name must have 1 to {n} characters.").format(n=longest))
    if is_blank(line) or len(line) > LONGEST:
        raise Refused("line", _("There is no search to save. Enter a search first."))
    return SavedSearch.objects.update_or_create(
        **source_fields(source), owner=owner, name=name, defaults={"line": line, "columns": columns[:500]}
    )[0]


def search_forget(*, source: Source, owner: Any, name: str) -> None:
    """Delete a user's saved query, if present."""
    SavedSearch.objects.filter(**source_fields(source), owner=owner, name=_name_read(name)).delete()


def _name_read(text: str) -> str:
    """Return the name of a search as it is stored."""
    return " ".join(text.replace("\x00", "").split())
