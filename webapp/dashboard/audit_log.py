"""Audit log for researchers: search form, and entries with names.

Names are read when the page is made. The log itself has numbers only.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import Q

from webapp.audit.models import AuditEntry
from webapp.audit.selectors import EntryFilter, action_title, entries_matching, entry_actors
from webapp.core.audit_trail import AUDIT_ACTIONS
from webapp.core.rights import accounts
from webapp.studies.models import Study

PAGE = 50
COLUMNS = (
    *("sequence", "recorded_at", "actor", "user", "action", "object_kind", "object_id", "parameters", "origin"),
    *("previous_hash", "hash"),
)
_CHUNK = 1000


class AuditForm(forms.Form):
    """Search of the log."""

    person = forms.TypedChoiceField(label="Person", coerce=int, empty_value=None, required=False)
    action = forms.ChoiceField(label="Action", required=False)
    object = forms.CharField(
        label="Object",
        max_length=100,
        required=False,
        help_text="Key of a study, or a kind and a number, such as user 3.",
    )
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        names = user_names(entry_actors())
        fields: Any = self.fields
        fields["person"].choices = [("", "Everyone"), *sorted(names.items(), key=lambda item: item[1].lower())]
        titles = {action.key: action.title for action in AUDIT_ACTIONS.values()}
        fields["action"].choices = [("", "All actions"), *sorted(titles.items(), key=lambda item: item[1])]
        for field in fields.values():
            field.widget.attrs["class"] = "input"

    def clean_object(self) -> tuple[str, int | None]:
        """Return the kind and number of the object; ("", None) for all."""
        text = " ".join(self.cleaned_data["object"].split())
        if not text:
            return "", None
        kind, _space, number = text.rpartition(" ")
        kinds = {title: name for name, title in _kinds().items()}
        if kind.lower() in kinds and number.isascii() and number.isdigit() and len(number) < 19:
            return kinds[kind.lower()], int(number)
        pk = Study.objects.filter(key=text).values_list("pk", flat=True).first()
        if pk is None:
            raise forms.ValidationError(f"There is no study “{text}”. Enter a key, or a kind and a number: user 3.")
        return "study", pk

    @property
    def entry_filter(self) -> EntryFilter:
        """Return the filter of a valid form."""
        kind, number = self.cleaned_data["object"]
        return EntryFilter(
            actor=self.cleaned_data["person"],
            action=self.cleaned_data["action"],
            object_kind=kind,
            object_id=number,
            since=self.cleaned_data["since"],
            until=self.cleaned_data["until"],
        )


@dataclass(frozen=True, slots=True)
class EntryRow:
    """Entry in words.

    Attributes:
        user: name of the user, or who acted if it was no user.
        object: kind and number of the object, for a study of this project its key.
        details: parameters.
        origin: where it came from.
    """

    sequence: int
    recorded_at: datetime
    user: str
    action: str
    object: str
    details: str
    origin: str


def entry_rows(entries: Sequence[AuditEntry]) -> list[EntryRow]:
    """Return entries in words, in two queries."""
    names = user_names([entry.actor for entry in entries if entry.actor is not None])
    studies = {entry.object_id for entry in entries if entry.object_kind == "study" and entry.object_id is not None}
    keys = dict(Study.objects.filter(pk__in=studies).values_list("pk", "key"))
    return [
        EntryRow(
            sequence=entry.sequence,
            recorded_at=entry.recorded_at,
            user=names[entry.actor] if entry.actor is not None else _ACTORS.get(entry.origin.get("by", ""), "–"),
            action=action_title(entry.action),
            object=_object_words(entry, keys),
            details=", ".join(f"{name.replace('_', ' ')}: {_words(value)}" for name, value in entry.parameters.items()),
            origin=_origin_words(entry.origin),
        )
        for entry in entries
    ]


_ACTORS = {"participant": "A participant", "command": "Command line", "server": "Server", "job": "Server"}


def user_names(ids: Sequence[int]) -> dict[int, str]:
    """Return the names of users by id.

    Deleted users, and those who are not members, are shown by number.
    """
    is_known = Q(pk__in=accounts().order_by().values("pk")) | Q(is_superuser=True)
    names = dict(User.objects.filter(is_known, pk__in=set(ids)).values_list("pk", "username"))
    return {pk: names.get(pk, f"User {pk}") for pk in ids}


@cache
def _kinds() -> dict[str, str]:
    """Return the titles of kinds of objects by name of the model."""
    return {model._meta.model_name or "": str(model._meta.verbose_name).lower() for model in apps.get_models()}


def _object_words(entry: AuditEntry, keys: dict[int, str]) -> str:
    if entry.object_id is None:
        return "this project" if entry.object_kind == "project" else ""
    if entry.object_kind == "study" and entry.object_id in keys:
        return f"study {keys[entry.object_id]}"
    return f"{_kinds().get(entry.object_kind, entry.object_kind)} {entry.object_id}"


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(_words, value)) or "none" if isinstance(value, list) else str(value)


def _origin_words(origin: dict[str, Any]) -> str:
    match origin:
        case {"by": "page", "address": address}:
            return f"Dashboard, {address or 'unknown address'}"
        case {"by": "api", "token": token, "address": address}:
            return f"API token {token}, {address or 'unknown address'}"
        case {"by": "command", "command": command}:
            return f"Command {command}"
        case {"by": "job", "job": job, "kind": kind}:
            return f"Job {kind} {job}"
        case {"by": "participant"}:
            return "Participant’s page"
    return "Server"


def log_csv(entry_filter: EntryFilter) -> Iterator[bytes]:
    """Yield the matching entries as CSV, newest first.

    They have everything that their hashes cover.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    before: int | None = None
    while entries := list(entries_matching(entry_filter, before=before)[:_CHUNK]):
        names = user_names([entry.actor for entry in entries if entry.actor is not None])
        for entry in entries:
            values = {
                **{name: getattr(entry, name) for name in COLUMNS if name != "user"},
                "recorded_at": entry.recorded_at.astimezone(UTC).isoformat(timespec="microseconds"),
                "user": names[entry.actor] if entry.actor is not None else "",
                "parameters": json.dumps(entry.parameters, sort_keys=True),
                "origin": json.dumps(entry.origin, sort_keys=True),
            }
            writer.writerow([values[name] for name in COLUMNS])
        before = entries[-1].sequence
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()
    yield out.getvalue().encode()
