"""Job that compares simulated participants with people.

Its result is kept until the data change.
"""

from __future__ import annotations

from typing import Any

from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardWork, register_kind
from webapp.jobs.models import UNFINISHED, Job, SelfPlayRun, State
from webapp.results.kinds.analysis import study_of_job
from webapp.results.realism import REALISM_KIND, RealismParams, realism_compute


@register_kind
class RealismJob(JobKind[Job, RealismParams]):
    """Job that compares a run with participants.

    The newest one per run is kept.
    """

    name = REALISM_KIND
    title = "Simulated participants against people"
    queue = "gpu"
    Payload = RealismParams

    def slice(self, work: ShardWork[Job, RealismParams]) -> dict[str, Any]:
        study = study_of_job(work.job, work.params.study)
        run = SelfPlayRun.objects.filter(pk=work.params.run, study=study).first()
        if run is None:
            raise Refused("no_run", f"study {study.key} no longer has run {work.params.run}")
        work.beat(note="Comparing with people", now=True)
        comparison = realism_compute(run, work.params.participant)
        work.beat(now=True)
        return comparison.to_json()

    def describe_result(self, job: Job, result: Any) -> list[str]:
        verdict = result["verdict"]
        return [sentence for sentence in (verdict["sentence"], verdict["change"]) if sentence]

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # possibly a participant quoted in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)
        same = {f"payload__{name}": job.payload[name] for name in ("run", "participant")}
        older = Job.objects.filter(kind=self.name, study=job.study, pk__lt=job.pk, **same)
        older.exclude(state__in=UNFINISHED).delete()
