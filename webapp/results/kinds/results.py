"""Results of a study's analysis, computed by a worker and stored until the data have changed twice."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.storable import quote
from webapp.core.errors import Refused
from webapp.results.making import PARTS
from webapp.results.read_once import study_read
from webapp.results.stored import KIND, Asked, made_dump, make, prune
from webapp.runs.kinds.base import Kind, Work, register_kind
from webapp.runs.models import Job, State


@register_kind
class Results(Kind[Job, Asked]):
    """One part of the analysis; the result is read by `stored.made_of`."""

    name = KIND
    title = _("Analysis")
    Payload = Asked

    def job_title(self, job: Job) -> str:
        study = job.study.name if job.study is not None else ""
        return str(_("Analysis of {study}: {part}")).format(study=study, part=job.payload["part"])

    def check(self, asked: Asked) -> None:
        if asked.part not in PARTS:
            raise Refused(
                "no_part", f"there is no part {quote(asked.part)}; there are {', '.join(PARTS)}"
            )

    def slice(self, work: Work[Job, Asked]) -> dict[str, Any]:
        asked, study = work.asked, work.job.study
        if study is None or study.pk != asked.study:
            raise Refused("no_study", f"there is no study {asked.study}")
        work.beat(note=str(_("Reading the ratings")))
        data = study_read(
            study,
            include_synthetic=asked.include_synthetic,
            include_failed=asked.include_failed,
            without=asked.without,
        )
        if data is None:
            raise Refused("no_ratings", f"study {study.key} has no ratings any more")
        work.beat(note=str(_("Computing")), now=True)
        return made_dump(asked.part, make(asked.part, data))

    def follow_up(self, job: Job) -> None:
        if (
            job.cancel_requested
        ):  # after the last heartbeat: perhaps a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)
        prune(job)
