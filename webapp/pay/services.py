"""Writes of decisions about pay. Every change is one conditional UPDATE, or a constraint guards it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from chatbots.text import sanitise_input
from webapp.core.errors import Refused
from webapp.pay.models import Decision
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Participant, Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Action, State = Decision.Action, Decision.State
TO_SEND = (State.DECIDED, State.FAILED)
"""Decisions in these states have reached nobody, and can be taken back."""
MOST_BONUS = Decimal(1000)
REASON_LEAST_CHARS = {"prolific": 100}
REASON_MOST_CHARS = 1000
"""Prolific wants at least 100 characters, Mechanical Turk takes at most 1024."""
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
"""As Prolific's interface names them."""


def visits_approve(*, study: Study, keys: Sequence[SubmissionKey], by: User | None = None) -> int:
    """Approve the visits that are over and undecided; the others stay as they are.

    Returns:
        How many were approved.
    """
    visits = submissions_of(study).by_key
    new = [
        Decision(participant_id=key.participant, submission=key.submission, action=Action.APPROVE, decided_by=by)
        for key in dict.fromkeys(keys)
        if key in visits and visits[key].can_be_approved
    ]
    # Who decides at the same moment keeps what they decided.
    Decision.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    return len(new)


def rejection_check(*, study: Study, key: SubmissionKey, reason: str, category: str) -> Participant:
    """Return whom a rejection is about, if it can be made.

    Raises:
        Refused: `no_reason`, `short_reason`, `long_reason`, `bad_category`, `decided` or `not_found`.
    """
    person = _person(study, key)
    n = len(sanitise_input(reason))
    least = REASON_LEAST_CHARS.get(person.platform, 1)
    if not n:
        raise Refused("no_reason", _("Write what was wrong; the person reads it."))
    if n < least:
        raise Refused(
            "short_reason",
            _("The reason has {n} characters; Prolific takes no fewer than {least}.").format(n=n, least=least),
        )
    if n > REASON_MOST_CHARS:
        raise Refused(
            "long_reason",
            _("The reason has {n} characters; at most {most} are taken.").format(n=n, most=REASON_MOST_CHARS),
        )
    if category not in REJECTION_CATEGORIES:
        raise Refused(
            "bad_category",
            _("“{category}” is no category; one of: {known}.").format(
                category=category, known=", ".join(REJECTION_CATEGORIES)
            ),
        )
    verdicts = Decision.objects.filter(participant=person, submission=key.submission)
    if verdicts.exclude(action=Action.BONUS).exclude(state=State.UNDONE).exists():
        raise _decided()
    return person


def visit_reject(
    *, study: Study, key: SubmissionKey, reason: str, category: str = "OTHER", by: User | None = None
) -> Decision:
    """Reject a visit.

    Raises:
        Refused: as `rejection_check`.
    """
    person = rejection_check(study=study, key=key, reason=reason, category=category)
    try:
        with transaction.atomic():
            return Decision.objects.create(
                participant=person,
                submission=key.submission,
                action=Action.REJECT,
                reason=reason.strip(),
                category=category,
                decided_by=by,
            )
    except IntegrityError:
        raise _decided() from None


def _decided() -> Refused:
    return Refused("decided", _("This visit is already approved or rejected. Undo that decision first."))


def visit_bonus(
    *,
    study: Study,
    key: SubmissionKey,
    amount: Decimal,
    reason: str = "",
    asked: uuid.UUID | None = None,
    by: User | None = None,
) -> Decision:
    """Give a visit a bonus.

    Args:
        asked: of the form; the same form sent twice gives one bonus.

    Raises:
        Refused: `bad_amount` or `not_found`.
    """
    person = _person(study, key)
    if not (amount.is_finite() and Decimal(0) < amount <= MOST_BONUS):
        raise Refused(
            "bad_amount",
            _("A bonus of {amount} cannot be paid; it is more than 0 and at most {most}.").format(
                amount=amount, most=MOST_BONUS
            ),
        )
    if amount != amount.quantize(Decimal("0.01")):
        raise Refused("bad_amount", _("A bonus of {amount} is no whole cents.").format(amount=amount))
    decision, _made = Decision.objects.get_or_create(
        asked=asked or uuid.uuid4(),
        defaults={
            "participant": person,
            "submission": key.submission,
            "action": Action.BONUS,
            "amount": amount,
            "reason": reason.strip()[:REASON_MOST_CHARS],
            "decided_by": by,
        },
    )
    return decision


def decision_undo(*, study: Study, pk: int, by: User | None = None) -> None:
    """Take a decision back that has not been sent.

    Raises:
        Refused: `sent` or `not_found`.
    """
    rows = Decision.objects.filter(pk=pk, participant__study=study)
    undone = rows.filter(state__in=TO_SEND).update(state=State.UNDONE, closed_at=timezone.now(), closed_by=by, error="")
    if undone:
        return
    decision = rows.first()
    if decision is None:
        raise Refused("not_found", _("There is no such decision in this study."))
    if decision.state != State.UNDONE:
        raise Refused("sent", _("It has been sent and cannot be undone."))


def decisions_mark_sent(*, study: Study, up_to: int, by: User | None = None) -> int:
    """Note that a person has told the platform of the decisions that were not sent. Returns how many.

    Args:
        up_to: the newest that they knew of; what somebody decided meanwhile, they told nobody.
    """
    states = (*TO_SEND, State.UNSURE)
    rows = Decision.objects.filter(participant__study=study, pk__lte=up_to, state__in=states)
    # Without a join, which an UPDATE has not.
    found = list(rows.values_list("pk", flat=True))
    return Decision.objects.filter(pk__in=found, state__in=states).update(
        state=State.SENT, closed_at=timezone.now(), closed_by=by, error=""
    )


def _person(study: Study, key: SubmissionKey) -> Participant:
    person = Participant.objects.filter(study=study, pk=key.participant, is_synthetic=False).first()
    if person is None or not (
        person.submission == key.submission or person.tasks.filter(submission=key.submission).exists()
    ):
        raise Refused("not_found", _("There is no such visit in this study."))
    return person
