"""Decisions as a file that Mechanical Turk's requester page takes: it adds columns Approve and Reject.

See "Reviewing assignments offline" in the Requester UI guide: an X in Approve, or the reason in Reject. Where people
paste a code of ours into a plain project, Mechanical Turk alone knows their assignments: then its own results file is
filled in, each row by its assignment or else by the code.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from django.utils.translation import gettext as _

from evaluation.formats.tables import escape_cell
from webapp.core.errors import Refused
from webapp.pay.models import Decision
from webapp.pay.submissions import SubmissionKey
from webapp.studies.models import Study, Task

_COLUMNS = ("HITId", "AssignmentId", "WorkerId", "Approve", "Reject")
_ANSWER = "Answer."
"""What the columns begin with that hold what people gave to the task's form, the pasted code among it."""


def mturk_file(study: Study) -> Iterator[str]:
    """Yield the lines of the file: approvals and rejections of Mechanical Turk's participants that are not sent.

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


@dataclass(frozen=True, slots=True)
class Filled:
    """Result of filling in Mechanical Turk's results file.

    Attributes:
        n_filled: rows that have a decision now.
        n_open: rows of participants of the study about whom nothing is decided.
        n_unknown: rows of no participant of the study, by their assignment or any code in them.
    """

    n_filled: int
    n_open: int
    n_unknown: int


def results_filled(study: Study, results: TextIO, out: TextIO) -> Filled:
    """Fill the study's decisions into a results file, row by row, in two queries however long it is.

    Args:
        results: the file as Mechanical Turk gave it, opened with `newline=""`.
        out: where it goes with the columns Approve and Reject, as CSV.

    Raises:
        Refused: `no_results_file` for what is none.
    """
    rows = csv.DictReader(results)
    try:
        return _filled(study, rows, out)
    except UnicodeDecodeError:
        raise Refused("no_results_file", _("The file is no CSV file in UTF-8.")) from None
    except csv.Error as error:
        raise Refused(
            "no_results_file", _("Line {n} of the file cannot be read: {why}").format(n=rows.line_num + 1, why=error)
        ) from None


def _filled(study: Study, rows: csv.DictReader[str], out: TextIO) -> Filled:
    columns = list(rows.fieldnames or ())
    if "AssignmentId" not in columns:
        raise Refused(
            "no_results_file",
            _(
                "This is not a results file of Mechanical Turk: it has no column AssignmentId. Download it there under "
                "Review results, Download CSV."
            ),
        )
    columns += [name for name in ("Approve", "Reject") if name not in columns]
    verdicts = _verdicts(study)
    codes, by_assignment = _visits_known(study)
    writer = csv.DictWriter(out, columns, quoting=csv.QUOTE_ALL, extrasaction="ignore")
    writer.writeheader()
    n_filled = n_open = n_unknown = 0
    for row in rows:
        visit = by_assignment.get(row["AssignmentId"]) or _by_code(row, codes)
        verdict = verdicts.get(visit) if visit is not None else None
        n_unknown += visit is None
        n_open += visit is not None and verdict is None
        if verdict is not None:
            n_filled += 1
            is_approved = verdict.action == Decision.Action.APPROVE
            row["Approve"] = "X" if is_approved else ""
            row["Reject"] = "" if is_approved else " ".join(verdict.reason.split())
        writer.writerow({name: escape_cell(row.get(name) or "") for name in columns})
    return Filled(n_filled, n_open, n_unknown)


def _verdicts(study: Study) -> dict[SubmissionKey, Decision]:
    """Return the decisions about visits that can still be sent, or have been."""
    found = Decision.objects.filter(participant__study=study).exclude(state=Decision.State.UNDONE)
    verdicts = found.exclude(action=Decision.Action.BONUS).order_by("pk")
    return {SubmissionKey(one.participant_id, one.submission): one for one in verdicts}


def _visits_known(study: Study) -> tuple[dict[str, SubmissionKey], dict[str, SubmissionKey]]:
    """Return the study's visits by the code that each was shown, and by the platform's id of it."""
    codes: dict[str, SubmissionKey] = {}
    by_assignment: dict[str, SubmissionKey] = {}
    tasks = Task.objects.filter(participant__study=study, participant__is_synthetic=False).order_by("pk")
    for person, submission, code in tasks.values_list("participant", "submission", "completion_code").iterator(
        chunk_size=2000
    ):
        visit = SubmissionKey(person, submission)
        if code:
            codes[code.upper()] = visit
        if submission:
            by_assignment[submission] = visit
    return codes, by_assignment


def _by_code(row: Mapping[str, str | None], codes: Mapping[str, SubmissionKey]) -> SubmissionKey | None:
    """Return whose code somebody pasted into the task; spaces and small letters are let pass."""
    pasted = (text for name, text in row.items() if str(name).startswith(_ANSWER) and text)
    found = (codes.get("".join(text.split()).upper()) for text in pasted)
    return next((visit for visit in found if visit is not None), None)


def _line(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([escape_cell(cell) for cell in cells])
    return out.getvalue()
