"""Sending of decisions about pay to Prolific, each once.

A decision is claimed by a conditional UPDATE before Prolific is asked, outside any transaction. Approving and
rejecting twice is harmless, so one whose process was killed is sent again. A bonus is paid by a call that must
not be repeated: where nobody knows whether it got through, the decision says so, and the next try looks
first at what Prolific has paid.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.jobs.models import UNFINISHED, Job
from webapp.jobs.services.jobs import job_create
from webapp.pay.models import Decision
from webapp.pay.prolific import Prolific, ProlificError
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Action, State = Decision.Action, Decision.State
CLAIM_HELD_FOR = timedelta(minutes=5)
"""Whoever claimed a decision and has not told how it went for so long was killed."""
PAID_LATE_FOR = timedelta(minutes=15)
"""Prolific pays bonuses "in the following minutes"."""


def can_send() -> bool:
    """Return True if Confab has a token for Prolific."""
    return bool(settings.CONFAB_PROLIFIC_TOKEN)


def sending_start(*, study: Study, by: User | None = None) -> Job:
    """Return the job that sends what was decided, asking for it unless one is under way.

    Raises:
        Refused: `no_token`.
    """
    return _job(study, "pay_send", by)


def comparing_start(*, study: Study, by: User | None = None) -> Job:
    """Return the job that asks Prolific how the visits stand there, asking for it unless one is under way.

    Raises:
        Refused: `no_token`.
    """
    return _job(study, "pay_compare", by)


def _job(study: Study, kind: str, by: User | None) -> Job:
    if not can_send():
        raise Refused("no_token", _("Confab has no token for Prolific. Set CONFAB_PROLIFIC_TOKEN and start it again."))
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        under_way = Job.objects.filter(kind=kind, study=study, state__in=UNFINISHED).first()
        return under_way or job_create(kind=kind, study=study, created_by=by)


def decision_retry(*, study: Study, pk: int) -> None:
    """Let a decision that could not be sent be sent again.

    Raises:
        Refused: `not_failed`.
    """
    rows = Decision.objects.filter(pk=pk, participant__study=study)
    if not rows.filter(state__in=(State.FAILED, State.UNSURE)).update(state=State.DECIDED, error=""):
        raise Refused("not_failed", _("This decision has not failed, so it cannot be tried again."))


def decisions_retry(*, study: Study) -> int:
    """Let all decisions that could not be sent be sent again. Returns how many."""
    return Decision.objects.filter(participant__study=study, state__in=(State.FAILED, State.UNSURE)).update(
        state=State.DECIDED, error=""
    )


def to_send(study: Study) -> QuerySet[Decision]:
    """Return the decisions about Prolific's participants that are to be sent, those of killed processes too."""
    killed = Q(state=State.SENDING, tried_at__lt=timezone.now() - CLAIM_HELD_FOR)
    return Decision.objects.filter(
        Q(state=State.DECIDED) | killed, participant__study=study, participant__platform="prolific"
    ).order_by("pk")


def decision_send(*, pk: int, prolific: Prolific, by_id: int | None = None) -> str:
    """Send one decision, unless another process is at it, and return its state."""
    decision = Decision.objects.select_related("participant__platform_ids").get(pk=pk)
    now = timezone.now()
    claimed = Decision.objects.filter(pk=pk, state=decision.state, tried_at=decision.tried_at).filter(
        Q(state=State.DECIDED) | Q(state=State.SENDING, tried_at__lt=now - CLAIM_HELD_FOR)
    )
    if not claimed.update(state=State.SENDING, tried_at=now, error=""):
        return decision.state
    try:
        if decision.action == Action.BONUS:
            _bonus(decision, prolific)
        elif decision.action == Action.APPROVE:
            prolific.approve(decision.submission)
        else:
            prolific.reject(decision.submission, message=decision.reason, category=decision.category)
    except ProlificError as error:
        # Asking twice to approve or reject is harmless: that has failed, and may be tried again.
        is_unsure = error.is_unsure and decision.action == Action.BONUS
        words = _without_ids(error.message, decision)
        return _told(pk, State.UNSURE if is_unsure else State.FAILED, words)
    return _told(pk, State.SENT, "", by_id)


def _without_ids(words: str, decision: Decision) -> str:
    """Cut the ids that an error quotes: not everyone who pays may see them."""
    for own in filter(None, (decision.submission, decision.participant.external_id)):
        words = words.replace(own, "…")
    return words


def _told(pk: int, state: str, error: str, by_id: int | None = None) -> str:
    closed = {"closed_at": timezone.now(), "closed_by": by_id} if state == State.SENT else {}
    Decision.objects.filter(pk=pk, state=State.SENDING).update(state=state, error=error[:500], **closed)
    return state


def _bonus(decision: Decision, prolific: Prolific) -> None:
    """Pay a bonus once: what an earlier try may have paid is looked for first.

    Raises:
        ProlificError: it was not paid, or nobody knows.
    """
    assert decision.amount is not None
    if decision.platform_ref:
        if _is_paid(decision, prolific):
            return
        if decision.tried_at and decision.tried_at > timezone.now() - PAID_LATE_FOR:
            raise ProlificError(
                _("Prolific may still be paying it. Try again in a quarter of an hour."), is_unsure=True
            )
    study_id = decision.participant.recruitment.get("STUDY_ID", "")
    ref = prolific.bonus_set_up(study_id, decision.submission, decision.amount)
    # From here on a killed process leaves a trace that it may have been paid.
    Decision.objects.filter(pk=decision.pk).update(platform_ref=ref)
    try:
        prolific.bonus_pay(ref)
    except ProlificError as error:
        if not error.is_unsure:
            Decision.objects.filter(pk=decision.pk).update(platform_ref="")
        raise


def _is_paid(decision: Decision, prolific: Prolific) -> bool:
    """Return True if Prolific has paid one bonus more of this amount than Confab knows of."""
    cents = round((decision.amount or 0) * 100)
    paid = prolific.submission(decision.submission).bonuses.count(cents)
    known = Decision.objects.filter(
        participant=decision.participant,
        submission=decision.submission,
        action=Action.BONUS,
        amount=decision.amount,
        state=State.SENT,
    ).count()
    return paid > known
