"""Decisions as a file that Mechanical Turk's requester page takes: columns Approve and Reject beside the ids.

See "Reviewing assignments offline" in the Requester UI guide: an X in Approve, or the reason in Reject.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from evaluation.formats.spreadsheet import escaped
from webapp.pay.models import Decision
from webapp.studies.models import Study

_COLUMNS = ("HITId", "AssignmentId", "WorkerId", "Approve", "Reject")


def mturk_file(study: Study) -> Iterator[str]:
    """Yield the lines of the file: approvals and rejections of Mechanical Turk's people that are not sent.

    Bonuses are not among them: the requester page takes those one by one.
    """
    yield _line(_COLUMNS)
    decisions = (
        Decision.objects.filter(
            participant__study=study,
            participant__platform="mturk",
            state__in=(Decision.State.DECIDED, Decision.State.FAILED),
        )
        .exclude(action=Decision.Action.BONUS)
        .select_related("participant__platform_ids")
        .order_by("pk")
    )
    for decision in decisions.iterator(chunk_size=500):
        person = decision.participant
        is_newest = person.recruitment.get("assignmentId") == decision.submission
        yield _line(
            (
                person.recruitment.get("hitId", "") if is_newest else "",
                decision.submission,
                person.external_id,
                "X" if decision.action == Decision.Action.APPROVE else "",
                " ".join(decision.reason.split()),
            )
        )


def _line(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([escaped(cell) for cell in cells])
    return out.getvalue()
