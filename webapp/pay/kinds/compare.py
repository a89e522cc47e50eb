"""Asking Prolific how the visits of a study stand there."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from webapp.pay.comparing import platform_visits_store, prolific_studies
from webapp.pay.prolific import Prolific
from webapp.runs.kinds.base import Kind, Work, register_kind
from webapp.runs.models import Job


@register_kind
class PayCompare(Kind[Job, Values]):
    """Every submission of the Prolific studies whose participants came; the result counts those that never did."""

    name = "pay_compare"
    title = _("Comparing with Prolific")

    def slice(self, work: Work[Job, Values]) -> dict[str, int]:
        study = work.job.study
        assert study is not None
        n_here = n_never = 0
        with Prolific() as prolific:
            for study_id in prolific_studies(study):
                here, never = platform_visits_store(
                    study=study, told=prolific.submissions(study_id)
                )
                n_here, n_never = n_here + here, n_never + never
        return {"submissions": n_here, "never_came": n_never}
