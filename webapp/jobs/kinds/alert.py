"""Job that sends waiting alerts: bots that were disabled, or enabled again."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel
from webapp.core.language import plural
from webapp.jobs.alerts import KIND, alert_send, alerts_again, alerts_waiting
from webapp.jobs.kinds.base import JobKind, ShardWork, register_kind
from webapp.jobs.models import UNFINISHED, Job


@register_kind
class AlertJob(JobKind[Job, InputModel]):
    """Job that sends all waiting alerts; its result counts the outcomes."""

    name = KIND
    title = _("Alerts")
    is_server_wide = True

    def slice(self, work: ShardWork[Job, InputModel]) -> dict[str, int]:
        waiting = list(alerts_waiting().select_related("aside"))
        sent = 0
        for n, alert in enumerate(waiting):
            work.beat(n, len(waiting))
            sent += alert_send(alert=alert)
        alerts_again()
        work.beat(max(len(waiting), 1), max(len(waiting), 1), now=True)
        return {"sent": sent, "not_sent": len(waiting) - sent}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        sent, not_sent = result["sent"], result["not_sent"]
        sentence = plural(sent, "1 alert was sent", "%(n)d alerts were sent") % {"n": sent}
        return [f"{sentence}; {not_sent} could not be sent." if not_sent else f"{sentence}."]

    def follow_up(self, job: Job) -> None:
        older = Job.objects.filter(kind=KIND).exclude(pk=job.pk)
        older.exclude(state__in=UNFINISHED).delete()
