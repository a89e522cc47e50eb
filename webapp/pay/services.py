"""Writes of decisions about pay, and decision files for Mechanical Turk.

Every change is one conditional UPDATE, or a constraint guards it.

See "Reviewing assignments offline" in the Requester UI guide: an X in Approve, or the reason in Reject. In a plain
project participants paste our code, and only Mechanical Turk knows their assignments: then its own results file is
filled in, by assignment or code.
"""

from __future__ import annotations

import csv
import io
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, TextIO

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from chatbots.text import sanitise_input
from evaluation.data.formats.tables import escape_cell
from webapp.core.audit_trail import PAY_APPROVE, PAY_BONUS, PAY_MARK_SENT, PAY_REJECT, PAY_UNDO, record, vocabulary_add
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.pay.models import Decision
from webapp.pay.submissions import SubmissionKey, Submissions, submissions_of
from webapp.studies.models import Participant, Study, Task
from webapp.studies.recruitment.owed import PAID_FOR_TIME

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Action, State = Decision.Action, Decision.State
TO_SEND = (State.DECIDED, State.FAILED)
"""States in which a decision has reached no one and can be revoked."""
MOST_BONUS = Decimal(1000)
REASON_LEAST_CHARS = {"prolific": 100}
REASON_MOST_CHARS = 1000
"""Prolific requires at least 100 characters, Mechanical Turk accepts at most 1024."""
REJECTION_CATEGORIES = (
    "TOO_QUICKLY",
    "TOO_SLOWLY",
    "FAILED_INSTRUCTIONS",
    "FAILED_CHECK",
    "LOW_EFFORT",
    "MALINGERING",
    "NO_CODE",
    "BAD_CODE",
    "NO_DATA",
    "UNSUPP_DEVICE",
    "INCOMP_LONGITUDINAL",
    "OTHER",
)
"""Categories with Prolific's names for them."""

vocabulary_add("category", lambda: REJECTION_CATEGORIES)


def visits_approve(*, study: Study, keys: Sequence[SubmissionKey], user: User | None = None) -> int:
    """Approve the finished, undecided visits among these.

    Returns:
        The number of approved visits.
    """
    visits = submissions_of(study).by_key
    new = [
        Decision(participant_id=key.participant, submission=key.submission, action=Action.APPROVE, decided_by=user)
        for key in dict.fromkeys(keys)
        if key in visits and visits[key].can_be_approved
    ]
    if new:
        with transaction.atomic():
            # A concurrent decision by another user is kept.
            Decision.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
            record(PAY_APPROVE, study, visits=len(new))
    return len(new)


def rejection_check(*, study: Study, key: SubmissionKey, reason: str, category: str) -> Participant:
    """Return the visit to reject, if it can be rejected.

    Raises:
        Refused: `no_reason`, `short_reason`, `long_reason`, `bad_category`, `decided` or `not_found`.
    """
    person = _person(study, key)
    n = len(sanitise_input(reason))
    least = REASON_LEAST_CHARS.get(person.platform, 1)
    if not n:
        raise Refused("no_reason", _("Write what was wrong; the participant reads it."))
    if n < least:
        raise Refused(
            "short_reason",
            _("The reason has {n} characters; Prolific requires at least {least}.").format(n=n, least=least),
        )
    if n > REASON_MOST_CHARS:
        raise Refused(
            "long_reason",
            _("The reason has {n} characters; the maximum is {most}.").format(n=n, most=REASON_MOST_CHARS),
        )
    if category not in REJECTION_CATEGORIES:
        raise Refused(
            "bad_category",
            _("“{category}” is not a category. Use one of: {known}.").format(
                category=category, known=", ".join(REJECTION_CATEGORIES)
            ),
        )
    verdicts = Decision.objects.filter(participant=person, submission=key.submission)
    if verdicts.exclude(action=Action.BONUS).exclude(state=State.UNDONE).exists():
        raise _decided()
    return person


def visit_reject(
    *, study: Study, key: SubmissionKey, reason: str, category: str = "OTHER", user: User | None = None
) -> Decision:
    """Reject a visit.

    Raises:
        Refused: as in `rejection_check`.
    """
    person = rejection_check(study=study, key=key, reason=reason, category=category)
    try:
        with transaction.atomic():
            decision = Decision.objects.create(
                participant=person,
                submission=key.submission,
                action=Action.REJECT,
                reason=reason.strip(),
                category=category,
                decided_by=user,
            )
            record(PAY_REJECT, study, decision=decision.pk, category=category)
    except IntegrityError:
        raise _decided() from None
    return decision


def _decided() -> Refused:
    return Refused("decided", _("This visit is already approved or rejected. Undo that decision first."))


def visit_bonus(
    *,
    study: Study,
    key: SubmissionKey,
    amount: Decimal,
    reason: str = "",
    form_id: uuid.UUID | None = None,
    user: User | None = None,
) -> Decision:
    """Give a visit a bonus.

    Args:
        form_id: id of the form, so that a repeated submission gives one bonus.

    Raises:
        Refused: `bad_amount` or `not_found`.
    """
    person = _person(study, key)
    if not (amount.is_finite() and Decimal(0) < amount <= MOST_BONUS):
        raise Refused(
            "bad_amount",
            _("A bonus of {amount} cannot be paid. Enter more than 0 and at most {most}.").format(
                amount=amount, most=MOST_BONUS
            ),
        )
    if amount != amount.quantize(Decimal("0.01")):
        raise Refused(
            "bad_amount", _("A bonus of {amount} has a fraction of a cent. Enter whole cents.").format(amount=amount)
        )
    with transaction.atomic():
        decision, is_new = Decision.objects.get_or_create(
            asked=form_id or uuid.uuid4(),
            defaults={
                "participant": person,
                "submission": key.submission,
                "action": Action.BONUS,
                "amount": amount,
                "reason": reason.strip()[:REASON_MOST_CHARS],
                "decided_by": user,
            },
        )
        if is_new:
            record(PAY_BONUS, study, decision=decision.pk, cents=int(amount * 100))
    return decision


def visits_of_all_parts(visits: Submissions) -> list[SubmissionKey]:
    """Return the newest visit of each participant owed the all-parts bonus."""
    parts = {part.key for part in visits.study.values.sittings.parts}
    if not (parts and visits.study.values.sittings.pay_for_all):
        return []
    done: defaultdict[uuid.UUID, set[str]] = defaultdict(set)
    newest: dict[uuid.UUID, SubmissionKey] = {}
    for visit in visits.all:  # newest first
        if visit.sittings and not visit.is_synthetic:
            newest.setdefault(visit.key.participant, visit.key)
            done[visit.key.participant].update(visit.sittings)
    bonuses = Decision.objects.filter(participant__study=visits.study, action=Action.BONUS)
    given_ids = set(bonuses.values_list("asked", flat=True))
    return [key for person, key in newest.items() if done[person] >= parts and _of_all_parts(person) not in given_ids]


def _of_all_parts(person: uuid.UUID) -> uuid.UUID:
    """Return the id of the all-parts bonus, one per participant."""
    return uuid.uuid5(person, "all parts")


def all_parts_bonus(*, study: Study, user: User | None = None) -> int:
    """Give the all-parts bonus to all who are owed it.

    Returns their number.
    """
    keys = visits_of_all_parts(submissions_of(study))
    for key in keys:
        amount = Decimal(str(study.values.sittings.pay_for_all)).quantize(Decimal("0.01"))
        visit_bonus(study=study, key=key, amount=amount, form_id=_of_all_parts(key.participant), user=user)
    return len(keys)


def decision_undo(*, study: Study, pk: int, user: User | None = None) -> None:
    """Revoke an unsent decision.

    Raises:
        Refused: `sent` or `not_found`.
    """
    rows = Decision.objects.filter(pk=pk, participant__study=study)
    with transaction.atomic():
        undone = rows.filter(state__in=TO_SEND).update(
            state=State.UNDONE, closed_at=database_now(), closed_by=user, error=""
        )
        if undone:
            record(PAY_UNDO, study, decision=pk)
            return
    decision = rows.first()
    if decision is None:
        raise Refused("not_found", _("There is no such decision in this study."))
    if decision.state != State.UNDONE:
        raise Refused("sent", _("The decision has been sent and cannot be undone."))


def decisions_mark_sent(*, study: Study, up_to: int, user: User | None = None) -> int:
    """Mark unsent decisions as carried out by hand; return the number.

    Args:
        up_to: id of the newest decision the user saw; later decisions stay unsent.
    """
    states = (*TO_SEND, State.UNSURE)
    rows = Decision.objects.filter(participant__study=study, pk__lte=up_to, state__in=states)
    # Without a join, which UPDATE does not support.
    decision_ids = list(rows.values_list("pk", flat=True))
    with transaction.atomic():
        n = Decision.objects.filter(pk__in=decision_ids, state__in=states).update(
            state=State.SENT, closed_at=database_now(), closed_by=user, error=""
        )
        if n:
            record(PAY_MARK_SENT, study, decisions=n)
    return n


def _person(study: Study, key: SubmissionKey) -> Participant:
    person = Participant.objects.filter(study=study, pk=key.participant, is_synthetic=False).first()
    if person is None or not (
        person.submission == key.submission or person.tasks.filter(submission=key.submission).exists()
    ):
        raise Refused("not_found", _("There is no such visit in this study."))
    return person


_COLUMNS = ("HITId", "AssignmentId", "WorkerId", "Approve", "Reject")
_ANSWER = "Answer."
"""Prefix of the columns with the worker's answers, including the pasted code."""


def mturk_file(study: Study) -> Iterator[str]:
    """Yield the file's lines: unsent approvals and rejections.

    Bonuses and payments for time are not included, because the requester page accepts those one by one only.
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
    by_hand = _paid_by_hand(study)
    for decision in decisions.iterator(chunk_size=500):
        person = decision.participant
        if SubmissionKey(person.pk, decision.submission) in by_hand and decision.action == Action.APPROVE:
            continue
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
        n_filled: rows that now have a decision.
        n_open: rows of the study's participants without a decision.
        n_unknown: rows that match no participant of the study by assignment or code.
    """

    n_filled: int
    n_open: int
    n_unknown: int


def results_filled(study: Study, results: TextIO, out: TextIO) -> Filled:
    """Fill the study's decisions into a results file, in two queries.

    Args:
        results: file from Mechanical Turk, opened with `newline=""`.
        out: CSV output with the columns Approve and Reject.

    Raises:
        Refused: `no_results_file` for any other file.
    """
    rows = csv.DictReader(results)
    try:
        return _filled(study, rows, out)
    except UnicodeDecodeError:
        raise Refused("no_results_file", _("The file is not a CSV file in UTF-8.")) from None
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
                "This is not a results file from Mechanical Turk: it has no column AssignmentId. On MTurk, use "
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
    """Return decisions about visits that were sent or can still be sent."""
    decisions = Decision.objects.filter(participant__study=study).exclude(state=Decision.State.UNDONE)
    verdicts = decisions.exclude(action=Decision.Action.BONUS).order_by("pk")
    by_key = {SubmissionKey(verdict.participant_id, verdict.submission): verdict for verdict in verdicts}
    by_hand = _paid_by_hand(study)
    return {key: verdict for key, verdict in by_key.items() if key not in by_hand or verdict.action != Action.APPROVE}


def _paid_by_hand(study: Study) -> set[SubmissionKey]:
    """Return visits that must be paid by hand.

    Approving them in the file would pay the full reward.
    """
    if not Task.objects.filter(participant__study=study, outcome__in=PAID_FOR_TIME).exists():
        return set()
    return {visit.key for visit in submissions_of(study).all if visit.is_paid_by_hand}


def _visits_known(study: Study) -> tuple[dict[str, SubmissionKey], dict[str, SubmissionKey]]:
    """Return the study's visits by shown code and by platform id."""
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
    """Return the visit of a pasted code, ignoring spaces and case."""
    pasted = (text for name, text in row.items() if str(name).startswith(_ANSWER) and text)
    visits = (codes.get("".join(text.split()).upper()) for text in pasted)
    return next((visit for visit in visits if visit is not None), None)


def _line(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([escape_cell(cell) for cell in cells])
    return out.getvalue()
