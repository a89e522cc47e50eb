"""Route of the audit log."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.api.errors import FAILURES, Token
from webapp.audit.selectors import EntryFilter, entries_matching
from webapp.core.rights import Right

router = Router(tags=["server"], auth=Token(Right.ADMINISTER))


class AuditEntryOut(Schema):
    """Entry of the audit log, with everything that its hash covers."""

    sequence: int
    recorded_at: datetime
    action: str
    actor: int | None
    object_kind: str
    object_id: int | None
    parameters: dict[str, Any]
    origin: dict[str, Any]
    previous_hash: str
    hash: str


class AuditPage(Schema):
    """One page of the audit log; `after` is empty on the last page."""

    items: list[AuditEntryOut]
    count: int
    after: str


class AuditQuery(Schema):
    """Filter of entries."""

    actor: int | None = Field(None, ge=1, le=2**62, description="Id of a user.")
    action: str = Field("", max_length=40)
    object_kind: str = Field("", max_length=40, description="Such as study, user or apitoken.")
    object_id: int | None = Field(None, ge=1, le=2**62)
    since: date | None = Field(None, description="First day, in UTC.")
    until: date | None = Field(None, description="Last day, in UTC.")
    limit: int = Field(100, ge=1, le=1000)
    after: int | None = Field(None, ge=1, le=2**62, description="Value of the previous page.")


@router.get("/audit", response={200: AuditPage, **FAILURES}, operation_id="audit")
def audit(request: HttpRequest, searched: Query[AuditQuery]) -> Any:
    """Search the audit log of the token's project, newest entries first."""
    names = ("actor", "action", "object_kind", "object_id", "since", "until")
    entry_filter = EntryFilter(**{name: getattr(searched, name) for name in names})
    entries = list(entries_matching(entry_filter, before=searched.after)[: searched.limit + 1])
    page = entries[: searched.limit]
    return {
        "items": page,
        "count": entries_matching(entry_filter).count(),
        "after": str(page[-1].sequence) if len(entries) > len(page) else "",
    }
