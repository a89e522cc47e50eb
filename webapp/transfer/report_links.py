"""Links to a report for readers without an account.

A link is shown once, stored as a digest, and can be revoked at any time.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from chatbots.text import is_blank
from webapp.core.audit_trail import REPORT_SHARE, REPORT_UNSHARE, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.transfer.models import SharedReport

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LONGEST_DAYS = 3650
LONGEST_NAME = 100


def share_make(
    *,
    study: Study,
    name: str,
    document: bytes,
    report_made_at: datetime,
    days: int | None = None,
    made_by: User | None = None,
) -> tuple[SharedReport, str]:
    """Share a snapshot of a report; return its row and token.

    The token is not stored.

    Args:
        name: intended reader.
        document: the report, compressed.
        days: days until the link expires; None: never.

    Raises:
        Refused: `bad_share`: no name, or an impossible number of days.
    """
    name = name.strip()
    if is_blank(name) or len(name) > LONGEST_NAME:
        raise Refused("bad_share", _("Enter a recipient of 1 to {most} characters.").format(most=LONGEST_NAME))
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise Refused(
            "bad_share", _("A link can last 1 to {most} days, not {days}.").format(most=LONGEST_DAYS, days=days)
        )
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        row = SharedReport.objects.create(
            study=study,
            name=name,
            digest=_digest(token),
            document=document,
            report_made_at=report_made_at,
            made_by=made_by,
            expires_at=None if days is None else database_now() + timedelta(days=days),
        )
        record(REPORT_SHARE, study, days=days)
    return row, token


def share_withdraw(*, share: SharedReport) -> None:
    """Revoke a link and delete its report (idempotent)."""
    with transaction.atomic():
        if _end(SharedReport.objects.filter(pk=share.pk), SharedReport.Ended.WITHDRAWN):
            record(REPORT_UNSHARE, share.study)


def shares_forget(studies: Collection[int]) -> None:
    """Revoke the links to these studies' reports after an erasure.

    The numbers include the erased participant's answers.
    """
    _end(SharedReport.objects.filter(study__in=studies), SharedReport.Ended.ERASED)


def share_find(token: str) -> SharedReport | None:
    """Return the shared report of a link's token, even if it has ended.

    The document is not loaded.

    None if there never was such a link.
    """
    return SharedReport.objects.defer("document").filter(digest=_digest(token)).first()


def share_document(digest: str) -> bytes:
    """Return a link's compressed report by the digest of its token."""
    return bytes(SharedReport.objects.values_list("document", flat=True).get(digest=digest))


def share_is_over(share: SharedReport) -> str:
    """Explain why a link no longer works; "" while it does."""
    if share.ended_at is not None:
        reasons = {
            SharedReport.Ended.WITHDRAWN: _("It was revoked on {day}."),
            SharedReport.Ended.ERASED: _("It ended on {day}, when data used in the report were removed."),
        }
        return reasons[SharedReport.Ended(share.ended)].format(day=_day(share.ended_at))
    if share.expires_at is not None and share.expires_at <= database_now():
        return _("It expired on {day}.").format(day=_day(share.expires_at))
    return ""


def shares_of(study: Study) -> QuerySet[SharedReport]:
    """Return the study's links, newest first, including revoked ones, without reports."""
    return SharedReport.objects.filter(study=study).defer("document").select_related("made_by")


def _end(shares: QuerySet[SharedReport], ending: SharedReport.Ended) -> int:
    return shares.filter(ended_at=None).update(ended_at=database_now(), ended=ending, document=b"")


def _day(when: datetime) -> str:
    return f"{when:%-d %B %Y}"


def _digest(token: str) -> str:
    # A plain digest: the token has 256 random bits, too many to guess.
    return hashlib.sha256(token.encode()).hexdigest()
