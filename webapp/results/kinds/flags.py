"""Job that makes the flags of a study with many participants."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from webapp.core.errors import Refused
from webapp.quality.services import flags_make
from webapp.results.flags import KIND
from webapp.runs.kinds.base import Kind, Work, register_kind
from webapp.runs.models import UNFINISHED, Job


class Asked(Values):
    """Parameters of the job: the study.

    Attributes:
        study: its number.
    """

    study: int


@register_kind
class Flags(Kind[Job, Asked]):
    """Look at the work of all of a study's people; what is found is kept in its `TaskFlag` and `FlagState`."""

    name = KIND
    title = _("Flags")
    Payload = Asked

    def slice(self, work: Work[Job, Asked]) -> dict[str, Any]:
        study = work.job.study
        if study is None or study.pk != work.asked.study:
            raise Refused("no_study", f"there is no study {work.asked.study}")
        state = flags_make(study=study)
        work.beat(now=True)
        return {"n_tasks": state.n_tasks}

    def follow_up(self, job: Job) -> None:
        older = Job.objects.filter(kind=KIND, study=job.study).exclude(pk=job.pk)
        older.exclude(state__in=UNFINISHED).delete()
