"""Jobs for Prolific: status of submissions, decisions about pay, and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel, Many
from webapp.core.audit_trail import PAY_SEND, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job, Shard
from webapp.pay.models import Decision
from webapp.pay.platform_status import platform_visits_store, prolific_studies
from webapp.pay.prolific import CANCEL_WITHIN, Prolific, decision_send, message_send, to_send


@register_kind
class PayComparisonJob(JobKind[Job, InputModel]):
    """Job that reads the submissions of the study's Prolific studies.

    The result counts those that never arrived here.
    """

    name = "pay_compare"
    title = _("Comparing with Prolific")

    def slice(self, work: ShardWork[Job, InputModel]) -> dict[str, int]:
        study = work.job.study
        assert study is not None
        n_here = n_never = 0
        with Prolific() as prolific:
            for study_id in prolific_studies(study):
                here, never = platform_visits_store(study=study, submissions=prolific.submissions(study_id))
                n_here, n_never = n_here + here, n_never + never
        return {"submissions": n_here, "never_came": n_never}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n, n_never = result["submissions"], result["never_came"]
        read = plural(n, "1 submission on Prolific belongs", "%(n)d submissions on Prolific belong") % {"n": n}
        never = plural(n_never, "1 further submission", "%(n)d further submissions") % {"n": n_never}
        return [f"{read} to participants of this study.", f"{never} never reached Confab."]


class SendingParams(InputModel):
    """Parameters of sending decisions.

    Attributes:
        up_to: id of the newest decision when sending was requested; later ones stay unsent. None: all.
    """

    up_to: int | None = None


@register_kind
class PaySendingJob(JobKind[Job, SendingParams]):
    """Job that sends a study's waiting decisions; its result counts outcomes."""

    name = "pay_send"
    title = _("Sending pay decisions")
    Payload = SendingParams

    def plan(self, job: Job, params: SendingParams) -> Iterable[ShardPlan]:
        assert job.study is not None
        return [ShardPlan(n_total=max(to_send(job.study, params.up_to).count(), 1))]

    def restarted(self, job: Job, *, had_failed: bool) -> None:
        Job.objects.filter(pk=job.pk).update(starts_at=database_now() + CANCEL_WITHIN)
        job.refresh_from_db()

    def slice(self, work: ShardWork[Job, SendingParams]) -> dict[str, int]:
        job = work.job
        assert job.study is not None
        done = Counter[str]()
        waiting = list(to_send(job.study, work.params.up_to).values_list("pk", flat=True))
        record(PAY_SEND, job.study, job=job.pk)
        with Prolific() as prolific:
            for n, pk in enumerate(waiting):
                work.beat(n, len(waiting))
                done[decision_send(pk=pk, prolific=prolific, by_id=job.created_by_id)] += 1
        work.beat(max(len(waiting), 1), max(len(waiting), 1), now=True)
        return {"sent": done[Decision.State.SENT], "failed": done[Decision.State.FAILED] + done[Decision.State.UNSURE]}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        sent, failed = result["sent"], result["failed"]
        sentences = [plural(sent, "1 decision was sent to Prolific.", "%(n)d decisions were sent to Prolific.")]
        if failed:
            sentences.append(
                plural(failed, "1 could not be sent. Its reason", "%(failed)d could not be sent. Their reasons")
                + " and a button to try again are on the page People."
            )
        return [sentence % {"n": sent, "failed": failed} for sentence in sentences]


class MessageParams(InputModel):
    """Parameters of a message job: a text and its recipients.

    Attributes:
        asked: id of the form, so that repeated submissions create one job.
        text: deleted after sending: Prolific stores it.
    """

    participants: Many[str]
    text: str
    asked: str


@register_kind
class MessageJob(JobKind[Job, MessageParams]):
    """Job that sends a message to several participants.

    The result has the reason for each failure.
    """

    name = "pay_message"
    title = _("Messages through Prolific")
    Payload = MessageParams

    def plan(self, job: Job, params: MessageParams) -> Iterable[ShardPlan]:
        return [ShardPlan({"participant": participant}) for participant in params.participants]

    def slice(self, work: ShardWork[Job, MessageParams]) -> dict[str, str]:
        study, person = work.job.study, work.shard["participant"]
        assert study is not None
        report = {"participant": person, "error": ""}
        if not study.participants.filter(pk=UUID(person)).exists():
            return {**report, "error": str(_("This participant was erased."))}
        # A repeated call would send the message twice: a process killed here may have sent it, so it is not retried.
        rows = Shard.objects.filter(kind=self.name, job_id=work.job.pk, payload__participant=person)
        if not rows.exclude(payload__has_key="begun").update(payload={**work.shard, "begun": True}):
            return {
                **report,
                "error": str(_("This may have been sent: Confab stopped while sending. Check on Prolific.")),
            }
        try:
            message_send(study=study, participant_id=UUID(person), text=work.params.text)
        except Refused as refused:
            return {**report, "error": refused.message}
        return report

    def finish(self, work: ShardWork[Job, MessageParams], results: Sequence[Any]) -> Any:
        Job.objects.filter(pk=work.job.pk).update(payload={**work.job.payload, "text": ""})
        return {"people": list(results)}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        people = result["people"]
        n_sent = sum(not person["error"] for person in people)
        return [f"The message was sent to {n_sent} of {len(people)} participants."]
