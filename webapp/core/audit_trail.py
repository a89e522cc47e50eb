"""Audit trail: recorded actions, actors and origins.

Call `record` in the transaction of the action: an action that is rolled back leaves no entry. Entries hold numbers,
booleans and words of closed vocabularies. Other text is refused, so no entry can contain a participant's words, name
or id. `webapp/audit` stores the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.http import HttpRequest

from webapp.core.project_scope import project_of_new_rows

ParameterType = type[int] | type[bool] | str | tuple[str, ...]
"""A number, a boolean, the name of a vocabulary, or the allowed words. A parameter may also be a list of these."""


@dataclass(frozen=True, slots=True)
class AuditAction:
    """Kind of action that is recorded.

    Attributes:
        title: what was done, for researchers.
        parameters: type of each parameter.
    """

    key: str
    title: str
    parameters: Mapping[str, ParameterType]


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """Action that happened, as it is stored.

    Attributes:
        project: key of the project in whose log it belongs.
        actor: id of the user; None for participants, commands and the server's own work.
        object_kind, object_id: name of the model and primary key; empty and None if the action has no object.
        origin: `by` is page, api, command, job, participant or server; with the address, token, command or job.
    """

    project: str
    action: str
    actor: int | None
    object_kind: str
    object_id: int | None
    parameters: dict[str, Any]
    origin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of actions outside requests."""

    by: str
    actor: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


AUDIT_ACTIONS: dict[str, AuditAction] = {}
_vocabularies: dict[str, Callable[[], Collection[str]]] = {}
_origin: ContextVar[Origin | tuple[HttpRequest, str | None] | None] = ContextVar("confab_origin", default=None)
_stores: list[Callable[[RecordedAction], object]] = []


def vocabulary_add(name: str, words: Callable[[], Collection[str]]) -> None:
    """Register the words that a parameter may have."""
    _vocabularies[name] = words


def store_add(store: Callable[[RecordedAction], object]) -> None:
    """Register the function that stores recorded actions."""
    _stores.append(store)


def _action(key: str, title: str, **parameters: ParameterType) -> AuditAction:
    return AUDIT_ACTIONS.setdefault(key, AuditAction(key, title, parameters))


_FILES = (
    *("audit_log", "benchmark", "datasheet", "fit", "items", "judges", "links", "mturk", "mturk_results", "report"),
    *("plan", "scores", "simulated_file", "study_file"),
)
_PRIVATE_PAGES = ("admin", "message_recipients", "participants")
_OPTIONS: dict[str, ParameterType] = {
    "table": "table",
    "format": ("csv", "jsonl", "parquet", "zip"),
    "private": bool,
    "synthetic": bool,
    "failed": bool,
    "images": bool,
    "redacted": bool,
    "searched": bool,
    "excluded_flags": int,
}

EXPORT = _action("export", "Exported a table or data package", **_OPTIONS)
EXPORT_ORDER = _action("export.order", "Requested an export from a worker", **_OPTIONS)
DOWNLOAD = _action("download", "Downloaded a file", file=_FILES)
REPORT_SHARE = _action("report.share", "Shared a report by link", days=int)
REPORT_UNSHARE = _action("report.unshare", "Ended the link to a report")

JUDGE_DEVELOP = _action(
    "judge.develop", "Developed a judge", step=("start", "version", "correct", "development", "test"), number=int
)

ERASE = _action("erase", "Erased participants’ data", kind="erasure", participants=int)
ORIGIN_MARK = _action("origin.mark", "Decided whether a participant is a person", verdict=("human", "machine", "none"))
STUDY_DELETE = _action("study.delete", "Deleted a study with its data", participants=int)

PAY_APPROVE = _action("pay.approve", "Approved visits", visits=int)
PAY_REJECT = _action("pay.reject", "Rejected a visit", decision=int, category="category")
PAY_BONUS = _action("pay.bonus", "Gave a bonus", decision=int, cents=int)
PAY_UNDO = _action("pay.undo", "Revoked a decision about pay", decision=int)
PAY_MARK_SENT = _action("pay.mark_sent", "Marked decisions about pay as sent", decisions=int)
PAY_SEND = _action("pay.send", "Sent decisions about pay to the platform", job=int)
PAY_CANCEL = _action("pay.cancel", "Cancelled sending decisions about pay before it started", job=int)
PAY_RETRY = _action("pay.retry", "Released failed decisions about pay for another attempt", decisions=int)

ACCOUNT_CREATE = _action("account.create", "Created an account", superuser=bool)
ACCOUNT_ACTIVATE = _action("account.activate", "Activated or deactivated an account", is_active=bool)
ACCOUNT_DELETE = _action("account.delete", "Deleted an account")
ACCOUNT_LINK = _action("account.link", "Created a link for setting a password")
MEMBER_ROLES = _action("member.roles", "Changed the roles of a person", roles=int)
ROLE_SAVE = _action("role.save", "Saved a role", rights="right")
TOKEN_CREATE = _action("token.create", "Created an API token", rights="right", days=int)
TOKEN_REVOKE = _action("token.revoke", "Revoked an API token")
ADMIN_FORM = _action("admin.form", "Sent a form of Django’s admin", model="model", row=int)

PRIVATE_OPEN = _action("private.open", "Opened private data", page=_PRIVATE_PAGES)

PROJECT_CREATE = _action("project.create", "Created a project")
PROJECT_RENAME = _action("project.rename", "Renamed a project")
PROJECT_LIMIT = _action("project.limit", "Changed the limits of a project", cost_cents=int, disk_mb=int)
AGREEMENT_ASK = _action("agreement.ask", "Asked for an agreement about a study of another project")
AGREEMENT_DROP = _action("agreement.drop", "Removed requests for agreements about studies", agreements=int)
AGREEMENT_ANSWER = _action("agreement.answer", "Answered another project about a study", is_accepted=bool)
STUDY_CREATE = _action("study.create", "Created a study", state="state")
STUDY_CHANGE = _action("study.change", "Changed a study", settings="setting", before="state", state="state")
STUDY_ARCHIVE = _action("study.archive", "Archived a study or restored it", is_archived=bool)
STUDY_OFFER = _action("study.offer", "Offered a study to another project", to="project")
STUDY_DECLINE = _action("study.decline", "Declined or withdrew the offer of a study")
STUDY_MOVE = _action("study.move", "Moved a study to another project", source="project", to="project")
SCORES_IMPORT = _action("scores.import", "Imported scores of other programs", metrics=int, values=int)
SCORES_DELETE = _action("scores.delete", "Deleted an imported metric with its scores", values=int)
MAPPING_SAVE = _action("mapping.save", "Saved the mapping of an import file")
ITEMS_ADD = _action("items.add", "Added items to a study", items=int)
ITEMS_REMOVE = _action("items.remove", "Removed items from a study", items=int, conversations=int)
CHATS_EXCLUDE = _action("chats.exclude", "Excluded conversations from results", conversations=int)
CHATS_INCLUDE = _action("chats.include", "Included conversations in results again", conversations=int)
LINKS_CREATE = _action("links.create", "Created one-time links", links=int)
GOLD_STORE = _action("gold.store", "Stored the right answers to an item", item=int, is_gold=bool)
BOT_SAVE = _action("bot.save", "Added or changed a bot", revision=int)
BOT_ARCHIVE = _action("bot.archive", "Archived a bot or restored it", is_archived=bool)
BOT_SHARE = _action("bot.share", "Shared a bot with all projects, or stopped sharing it", is_shared=bool)
BOT_PUT_BACK = _action("bot.put_back", "Put a disabled bot back into service", bot="bot")

SECRET_STORE = _action("secret.store", "Stored a secret")
SECRET_REPLACE = _action("secret.replace", "Replaced a secret")
SECRET_DELETE = _action("secret.delete", "Deleted a secret")
SECRETS_RENEW = _action("secrets.renew", "Encrypted all secrets with the newest key", failed=int)

BACKUP = _action("backup", "Backed up the server")
RESTORE = _action("restore", "Restored a backup")
MONTH_DELETE = _action("audit.month_delete", "Deleted a month of the audit log", month=int, entries=int)


def record(action: AuditAction, obj: models.Model | None = None, *, project: str = "", **parameters: Any) -> None:
    """Record an action, in the transaction of the action.

    Args:
        obj: row that was acted on; its primary key must be a number (a project is named by its key).
        project: key of the project in whose log it belongs; by default the object's or the active one.

    Raises:
        TypeError, ValueError: a parameter is unknown or is not of the action's types.
    """
    if unknown := parameters.keys() - action.parameters.keys():
        raise TypeError(f"{action.key} has no parameter {min(unknown)}; use {', '.join(action.parameters)}")
    is_project = obj is not None and obj._meta.label == "core.Project"
    if obj is not None and not is_project and not isinstance(obj.pk, int):
        raise TypeError(f"{obj._meta.label} has no number as its key, so it cannot be the object of an audit entry")
    actor, origin = _actor_and_origin()
    recorded = RecordedAction(
        project=project or _project_of(obj),
        action=action.key,
        actor=actor,
        object_kind=(obj._meta.model_name or "") if obj is not None else "",
        object_id=obj.pk if obj is not None and not is_project else None,
        parameters={
            name: _checked(f"{action.key}: {name}", value, action.parameters[name])
            for name, value in parameters.items()
            if value is not None
        },
        origin=origin,
    )
    for store in _stores:
        store(recorded)


def _checked(name: str, value: Any, kind: ParameterType) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(_checked(name, item, kind) for item in value)
    if isinstance(kind, type):
        if type(value) is not kind:
            raise TypeError(f"{name} is a {type(value).__name__}; it must be {kind.__name__}")
        return value
    words = kind if isinstance(kind, tuple) else _vocabularies[kind]()
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} is not one of its {len(words)} words; register it, or record a number")
    return str(value)


def _project_of(obj: Any) -> str:
    if obj is None:
        return project_of_new_rows()
    if obj._meta.label == "core.Project":
        return str(obj.pk)
    owner = getattr(obj, "study", None) if not hasattr(obj, "project_id") else obj
    return getattr(owner, "project_id", None) or project_of_new_rows()


def enter_request(request: HttpRequest, address: str | None) -> None:
    """Make the request the origin of actions until it ends.

    Its user is read when something is recorded.
    """
    _origin.set((request, address))


def leave_request(**_kwargs: Any) -> None:
    """Forget the request (receiver of `request_started` and `request_finished`)."""
    _origin.set(None)


@contextmanager
def in_origin(origin: Origin) -> Iterator[None]:
    """Make this the origin of actions within the block."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def _actor_and_origin() -> tuple[int | None, dict[str, Any]]:
    """Return the acting user's id and the origin.

    Only addresses of staff are recorded.
    """
    origin = _origin.get()
    if origin is None:
        return None, {"by": "server"}
    if isinstance(origin, Origin):
        return origin.actor, {"by": origin.by, **origin.details}
    request, address = origin
    token = getattr(request, "auth", None)
    if token is not None:
        return token.user_id, {"by": "api", "token": token.pk, "address": address}
    user: Any = getattr(request, "user", None)
    if user is not None and user.is_authenticated and user.is_staff:
        return user.pk, {"by": "page", "address": address}
    return None, {"by": "participant"}
