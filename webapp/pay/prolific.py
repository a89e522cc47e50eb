"""Client of Prolific's API: submissions, decisions, bonuses and completion codes.

See docs.prolific.com/api-reference. Approving or rejecting twice is harmless. Paying a bonus twice pays twice, so that
call is never repeated, and a missing response is reported as uncertain.

A decision is claimed by a conditional UPDATE before the request, outside any transaction. After a killed process it is
sent again, except for bonuses: those are marked as uncertain, and the next attempt first checks the bonuses that
Prolific has paid.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from chatbots.text import is_blank
from webapp.core.audit_trail import PAY_CANCEL, PAY_RETRY, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.jobs.models import UNFINISHED, Job
from webapp.jobs.models import State as JobState
from webapp.jobs.services.jobs import job_cancel, job_create
from webapp.pay.models import Decision
from webapp.pay.submissions import SCREENED_OUT, SubmissionKey, submissions_of
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_TIMEOUT_S = 20.0
_TRIES = 3
_LONGEST_PAUSE_S = 30.0
_PAGE = 100
MESSAGE_MOST_CHARS = 2000
CANCEL_WITHIN = timedelta(seconds=30)
"""Time in which sending decisions can be cancelled."""


class ProlificError(Exception):
    """Error of Prolific's API, or a failed connection.

    Attributes:
        message: a sentence for the researcher.
        is_unsure: True if Prolific may have carried out the request.
    """

    def __init__(self, message: str, *, is_unsure: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_unsure = is_unsure


@dataclass(frozen=True, slots=True)
class ProlificSubmission:
    """Submission at Prolific.

    `bonuses` are in the smallest currency unit and only set when it is read alone.
    """

    id: str
    status: str
    entered_code: str
    bonuses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionCode:
    """Completion code of a study, with Prolific's type: COMPLETED, NO_CONSENT, …"""

    code: str
    kind: str


_SETTINGS = {
    "COMPLETED": "code_rated",
    "FAILED_ATTENTION_CHECK": "code_failed_check",
    "NO_CONSENT": "code_no_consent",
    "FIXED_SCREENOUT": "code_screened_out",
}
"""Settings of a study by Prolific's type of code. Prolific has no type for other outcomes."""


def codes_by_setting(codes: Sequence[CompletionCode]) -> dict[str, str]:
    """Return the codes by setting; the first if a type has several."""
    code_settings: dict[str, str] = {}
    for code in codes:
        if code.kind in _SETTINGS and code.code:
            code_settings.setdefault(_SETTINGS[code.kind], code.code)
    return code_settings


def codes_left(codes: Sequence[CompletionCode]) -> list[CompletionCode]:
    """Return codes without a matching setting, which a researcher must assign."""
    known_codes = set(codes_by_setting(codes).values())
    return [code for code in codes if code.code and code.code not in known_codes]


class Prolific:
    """Connection to Prolific's API, closed by its `with` block.

    Raises:
        ProlificError: there is no token.
    """

    def __init__(self) -> None:
        token = settings.CONFAB_PROLIFIC_TOKEN
        if not token:
            raise ProlificError(_("Confab has no token for Prolific. Set CONFAB_PROLIFIC_TOKEN and restart Confab."))
        self._http = httpx.Client(
            base_url=settings.CONFAB_PROLIFIC_URL, headers={"Authorization": f"Token {token}"}, timeout=_TIMEOUT_S
        )

    def __enter__(self) -> Prolific:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._http.close()

    def codes(self, study_id: str) -> list[CompletionCode]:
        """Return the completion codes of a study."""
        study = self._call("GET", f"/api/v1/studies/{_id(study_id)}/")
        return [
            CompletionCode(str(fields.get("code", "")), str(fields.get("code_type", "")))
            for fields in study.get("completion_codes") or []
            if isinstance(fields, dict)
        ]

    def submissions(self, study_id: str) -> Iterator[ProlificSubmission]:
        """Yield every submission of a study."""
        page = 1
        while True:
            listing = self._call(
                "GET", "/api/v1/submissions/", params={"study": _id(study_id), "page": page, "page_size": _PAGE}
            )
            rows = listing.get("results") or []
            for row in rows:
                yield ProlificSubmission(
                    str(row.get("id", "")),
                    str(row.get("status", "")).replace("_", " ").upper(),
                    str(row.get("study_code") or row.get("entered_code") or ""),
                )
            if len(rows) < _PAGE:
                return
            page += 1

    def submission(self, submission_id: str) -> ProlificSubmission:
        """Return one submission, with the bonuses that were paid on it."""
        row = self._call("GET", f"/api/v1/submissions/{_id(submission_id)}/")
        return ProlificSubmission(
            str(row.get("id", "")),
            str(row.get("status", "")).replace("_", " ").upper(),
            str(row.get("entered_code") or ""),
            tuple(round(float(paid)) for paid in row.get("bonus_payments") or ()),
        )

    def approve(self, submission_id: str) -> None:
        """Approve a submission (idempotent)."""
        self._call("POST", f"/api/v1/submissions/{_id(submission_id)}/transition/", {"action": "APPROVE"})

    def reject(self, submission_id: str, *, message: str, category: str) -> None:
        """Reject a submission, with a message of at least 100 characters."""
        self._call(
            "POST",
            f"/api/v1/submissions/{_id(submission_id)}/transition/",
            {"action": "REJECT", "message": message, "rejection_category": category},
        )

    def bonus_set_up(self, study_id: str, submission_id: str, amount: Decimal) -> str:
        """Set up a bonus and return its id.

        Nothing is paid yet, so repeating it is harmless.
        """
        bonus = self._call(
            "POST",
            "/api/v1/submissions/bonus-payments/",
            {"study_id": _id(study_id), "csv_bonuses": f"{_id(submission_id)},{amount:.2f}"},
        )
        if not bonus.get("id"):
            raise ProlificError(_("Prolific set up no bonus and gave no reason."))
        return str(bonus["id"])

    def bonus_pay(self, bonus_id: str) -> None:
        """Pay a bonus; never retried, because Prolific would pay twice."""
        self._call("POST", f"/api/v1/bulk-bonus-payments/{_id(bonus_id)}/pay/", {}, again=False)

    def screen_out(self, study_id: str, submission_id: str, amount: Decimal) -> None:
        """End a submission as screened out, with this amount for the time."""
        body = {"submission_ids": [_id(submission_id)], "bonus_per_submission": float(amount)}
        self._call("POST", f"/api/v1/studies/{_id(study_id)}/screen-out-submissions/", body, again=False)

    def message(self, recipient: str, study_id: str, text: str) -> None:
        """Send a message; never retried, because it would arrive twice."""
        body = {"recipient_id": _id(recipient), "study_id": _id(study_id), "body": text}
        self._call("POST", "/api/v1/messages/", body, again=False)

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        params: dict[str, Any] | None = None,
        again: bool = True,
    ) -> dict[str, Any]:
        """Send a request, with retries if repeating it is harmless."""
        for attempt in range(1, _TRIES + 1):
            is_last = attempt == _TRIES
            try:
                answer = self._http.request(method, path, json=body, params=params)
            except httpx.HTTPError as error:
                if again and not is_last:
                    time.sleep(0.5 * 2**attempt)
                    continue
                # Without a connection, no request was sent.
                is_unsure = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                raise ProlificError(
                    _("Prolific could not be reached: {why}").format(why=str(error) or type(error).__name__),
                    is_unsure=is_unsure,
                ) from None
            if answer.status_code == 429 and not is_last:  # Prolific did nothing
                time.sleep(_asked_pause(answer))
                continue
            if answer.status_code >= 500 and again and not is_last:
                time.sleep(0.5 * 2**attempt)
                continue
            return _read(answer)
        raise AssertionError("the last try returns or raises")


def _asked_pause(answer: httpx.Response) -> float:
    try:
        return min(max(float(answer.headers.get("Retry-After", "2")), 0), _LONGEST_PAUSE_S)
    except ValueError:
        return 2.0


def _read(answer: httpx.Response) -> dict[str, Any]:
    """Return the response's JSON; empty for a text response.

    Raises:
        ProlificError: with the error in the response.
    """
    if answer.is_success:
        try:
            body = answer.json()
        except ValueError:
            body = {}
        return body if isinstance(body, dict) else {}
    if answer.status_code in (401, 403):
        raise ProlificError(
            _("Prolific does not accept the token ({status}). Check CONFAB_PROLIFIC_TOKEN.").format(
                status=answer.status_code
            )
        )
    if answer.status_code == 404:
        raise ProlificError(_("Prolific has no such study or submission (404)."))
    raise ProlificError(
        _("Prolific responded with {status}: {why}").format(status=answer.status_code, why=_detail(answer)),
        is_unsure=answer.status_code >= 500,
    )


def _detail(answer: httpx.Response) -> str:
    """Return the error message in the response, shortened."""
    try:
        error = answer.json().get("error", {})
        detail = error.get("detail") or error.get("title") or ""
    except (ValueError, AttributeError):
        detail = ""
    return str(detail or answer.reason_phrase or "nothing more")[:300]


def _id(text: str) -> str:
    """Validate an id for use in a URL, since it came from a link.

    Raises:
        ProlificError: the id is invalid.
    """
    if not (0 < len(text) <= 100 and text.isascii() and text.replace("-", "").isalnum()):
        raise ProlificError(_("“{id}” is not a Prolific id.").format(id=text[:40]))
    return text


Action, State = Decision.Action, Decision.State
CLAIM_HELD_FOR = timedelta(minutes=5)
"""Time after which a process that claimed a decision without reporting counts as killed."""
PAID_LATE_FOR = timedelta(minutes=15)
"""Time in which Prolific pays bonuses: "in the following minutes"."""


def can_send() -> bool:
    """Return True if Confab has a token for Prolific."""
    return bool(settings.CONFAB_PROLIFIC_TOKEN)


def message_send(*, study: Study, participant_id: UUID, text: str) -> None:
    """Message a participant through Prolific; only Prolific stores the text.

    Raises:
        Refused: `bad_message`, or `not_sent` with Prolific's reason.
    """
    _message_check(text)
    participant = study.participants.select_related("platform_ids").get(pk=participant_id)
    try:
        with Prolific() as prolific:
            prolific.message(participant.external_id, participant.recruitment.get("STUDY_ID", ""), text)
    except ProlificError as error:
        raise Refused("not_sent", _without_ids(error.message, participant.external_id)) from None


def _message_check(text: str) -> None:
    if is_blank(text) or len(text) > MESSAGE_MOST_CHARS or "\x00" in text:
        raise Refused("bad_message", f"The message has {len(text):,} characters. Use 1 to {MESSAGE_MOST_CHARS:,}.")


def messages_start(
    *, study: Study, participants: Sequence[UUID], text: str, form_id: UUID, user: User | None = None
) -> Job:
    """Return the job that messages participants, one job per form.

    Args:
        form_id: id of the submitted form.

    Raises:
        Refused: `no_token` or `bad_message`.
    """
    _message_check(text)
    ids = [participant_id.hex for participant_id in participants]
    payload = {"participants": ids, "text": text, "asked": form_id.hex}
    return _request_job(study, "pay_message", user, payload)


def sending_start(*, study: Study, user: User | None = None) -> Job:
    """Return the job that sends the current decisions, requesting one if none is running.

    It starts after `CANCEL_WITHIN`; until then it can be cancelled.

    Raises:
        Refused: `no_token`.
    """
    decisions = Decision.objects.filter(participant__study=study)
    newest = decisions.order_by("-pk").values_list("pk", flat=True).first() or 0
    return _request_job(study, "pay_send", user, {"up_to": newest}, starts_at=database_now() + CANCEL_WITHIN)


def sending_cancel(*, study: Study) -> None:
    """Cancel sending decisions before it starts; they stay unsent.

    Raises:
        Refused: `sending`: it has started or there is none.
    """
    with transaction.atomic():
        jobs = Job.objects.filter(kind="pay_send", study=study, state=JobState.QUEUED, starts_at__gt=database_now())
        job = jobs.select_for_update(of=("self",), no_key=True).first()
        if job is None or job_cancel(job=job).state != JobState.CANCELLED:
            raise Refused("sending", _("The decisions have been sent or are being sent, so this cannot be cancelled."))
        record(PAY_CANCEL, study, job=job.pk)


def comparing_start(*, study: Study, user: User | None = None) -> Job:
    """Return the job that reads Prolific's statuses, requesting one if needed.

    Raises:
        Refused: `no_token`.
    """
    return _request_job(study, "pay_compare", user)


def _request_job(
    study: Study,
    kind: str,
    user: User | None,
    payload: Mapping[str, Any] | None = None,
    *,
    starts_at: datetime | None = None,
) -> Job:
    if not can_send():
        raise Refused("no_token", _("Confab has no token for Prolific. Set CONFAB_PROLIFIC_TOKEN and restart Confab."))
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        jobs = Job.objects.filter(kind=kind, study=study)
        # A form creates a single job, permanently; without a form, a running job is reused.
        form_id = (payload or {}).get("asked")
        same = jobs.filter(payload__asked=form_id) if form_id else jobs.filter(state__in=UNFINISHED)
        return same.first() or job_create(kind=kind, study=study, payload=payload, created_by=user, starts_at=starts_at)


def decision_retry(*, study: Study, pk: int) -> None:
    """Queue a failed decision for sending again.

    Raises:
        Refused: `not_failed`.
    """
    rows = Decision.objects.filter(pk=pk, participant__study=study)
    with transaction.atomic():
        if not rows.filter(state__in=(State.FAILED, State.UNSURE)).update(state=State.DECIDED, error=""):
            raise Refused("not_failed", _("This decision has not failed, so there is nothing to retry."))
        record(PAY_RETRY, study, decisions=1)


def decisions_retry(*, study: Study) -> int:
    """Queue all failed decisions for sending again; return the number."""
    failed = Decision.objects.filter(participant__study=study, state__in=(State.FAILED, State.UNSURE))
    with transaction.atomic():
        if n := failed.update(state=State.DECIDED, error=""):
            record(PAY_RETRY, study, decisions=n)
    return n


def to_send(study: Study, up_to: int | None = None) -> QuerySet[Decision]:
    """Return the Prolific decisions to send, including those of killed processes.

    Args:
        up_to: id of the newest decision to send; None: all.
    """
    killed = Q(state=State.SENDING, tried_at__lt=database_now() - CLAIM_HELD_FOR)
    decisions = Decision.objects.filter(
        Q(state=State.DECIDED) | killed, participant__study=study, participant__platform="prolific"
    )
    return decisions.filter(**{} if up_to is None else {"pk__lte": up_to}).order_by("pk")


def decision_send(*, pk: int, prolific: Prolific, by_id: int | None = None) -> str:
    """Send one decision unless another process does; return its state."""
    decision = Decision.objects.select_related("participant__platform_ids", "participant__study__version").get(pk=pk)
    now = database_now()
    claimed = Decision.objects.filter(pk=pk, state=decision.state, tried_at=decision.tried_at).filter(
        Q(state=State.DECIDED) | Q(state=State.SENDING, tried_at__lt=now - CLAIM_HELD_FOR)
    )
    if not claimed.update(state=State.SENDING, tried_at=now, error=""):
        return decision.state
    try:
        if decision.action == Action.BONUS:
            _bonus(decision, prolific)
        elif decision.action == Action.APPROVE:
            _approve(decision, prolific)
        else:
            prolific.reject(decision.submission, message=decision.reason, category=decision.category)
    except ProlificError as error:
        # Approving, screening out or rejecting twice is harmless, so a retry is allowed.
        is_unsure = error.is_unsure and decision.action == Action.BONUS
        words = _without_ids(error.message, decision.submission, decision.participant.external_id)
        return _record_result(pk, State.UNSURE if is_unsure else State.FAILED, words)
    return _record_result(pk, State.SENT, "", by_id)


def _without_ids(words: str, *ids: str) -> str:
    """Remove ids from an error.

    Some users who pay may not see them.
    """
    for platform_id in filter(None, ids):
        words = words.replace(platform_id, "…")
    return words


def _record_result(pk: int, state: str, error: str, by_id: int | None = None) -> str:
    closed = {"closed_at": database_now(), "closed_by": by_id} if state == State.SENT else {}
    Decision.objects.filter(pk=pk, state=State.SENDING).update(state=state, error=error[:500], **closed)
    return state


def _approve(decision: Decision, prolific: Prolific) -> None:
    """Pay the announced amount: the reward, or a screen-out payment for time."""
    participant, study = decision.participant, decision.participant.study
    visit = submissions_of(study, participant=participant.pk).by_key.get(
        SubmissionKey(participant.pk, decision.submission)
    )
    if visit is None or not visit.pay.is_for_time:
        prolific.approve(decision.submission)
    elif not visit.pay.amount:
        raise ProlificError(_("Prolific can only send an amount. Pay it by hand, then mark it as sent."))
    # Its code may already have triggered Prolific's payment for the time.
    elif prolific.submission(decision.submission).status != SCREENED_OUT:
        prolific.screen_out(participant.recruitment.get("STUDY_ID", ""), decision.submission, visit.pay.amount)


def _bonus(decision: Decision, prolific: Prolific) -> None:
    """Pay a bonus once, first checking for an earlier payment.

    Raises:
        ProlificError: it was not paid, or the result is unknown.
    """
    assert decision.amount is not None
    if decision.platform_ref:
        if _is_paid(decision, prolific):
            return
        if decision.tried_at and decision.tried_at > database_now() - PAID_LATE_FOR:
            raise ProlificError(
                _("Prolific may still be processing this payment. Try again in 15 minutes."), is_unsure=True
            )
    study_id = decision.participant.recruitment.get("STUDY_ID", "")
    ref = prolific.bonus_set_up(study_id, decision.submission, decision.amount)
    # From here on, a killed process leaves the decision marked as possibly paid.
    Decision.objects.filter(pk=decision.pk).update(platform_ref=ref)
    try:
        prolific.bonus_pay(ref)
    except ProlificError as error:
        if not error.is_unsure:
            Decision.objects.filter(pk=decision.pk).update(platform_ref="")
        raise


def _is_paid(decision: Decision, prolific: Prolific) -> bool:
    """Return True if Prolific has paid a bonus that Confab does not know of.

    It has the same amount.
    """
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
