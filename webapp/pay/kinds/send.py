"""Sending to Prolific what was decided about pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from webapp.pay.models import Decision
from webapp.pay.prolific import Prolific
from webapp.pay.sending import decision_send, to_send
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job


@register_kind
class PaySend(Kind[Job, Values]):
    """All decisions of a study that wait for it, one by one; the result counts how it went."""

    name = "pay_send"
    title = _("Sending decisions about pay")

    def plan(self, job: Job, asked: Values) -> Iterable[ShardPlan]:
        assert job.study is not None
        return [ShardPlan(n_total=max(to_send(job.study).count(), 1))]

    def slice(self, work: Work[Job, Values]) -> dict[str, int]:
        job = work.job
        assert job.study is not None
        done = Counter[str]()
        waiting = list(to_send(job.study).values_list("pk", flat=True))
        with Prolific() as prolific:
            for n, pk in enumerate(waiting):
                work.beat(n, len(waiting))
                done[decision_send(pk=pk, prolific=prolific, by_id=job.created_by_id)] += 1
        work.beat(max(len(waiting), 1), max(len(waiting), 1), now=True)
        return {
            "sent": done[Decision.State.SENT],
            "failed": done[Decision.State.FAILED] + done[Decision.State.UNSURE],
        }
