"""Sequential ranking of a study's bots, computed by a worker as ratings come in."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values
from evaluation.analysis.settling import Settling, SettlingOfPairs, settling, settling_pairs
from webapp.core.errors import Refused
from webapp.ratings.pairs import compares_pairs, study_judgements
from webapp.ratings.selectors import study_ratings
from webapp.results.order import KIND
from webapp.runs.kinds.base import Kind, Work, register_kind
from webapp.runs.models import UNFINISHED, Job
from webapp.studies.services import order_state_store


class Asked(Values):
    """Parameters of the job: the study.

    Attributes:
        study: its number.
    """

    study: int


@register_kind
class Order(Kind[Job, Asked]):
    """Look at a study's ratings; what is found is kept in its `OrderState`."""

    name = KIND
    title = _("Order of the bots")
    Payload = Asked

    def slice(self, work: Work[Job, Asked]) -> dict[str, Any]:
        study = work.job.study
        if study is None or study.pk != work.asked.study:
            raise Refused("no_study", f"there is no study {work.asked.study}")
        found: Settling | SettlingOfPairs
        if compares_pairs(study):
            judged = study_judgements(study)
            if judged is None or not len(judged):
                return {"n_ratings": 0}
            n, found = len(judged), settling_pairs(judged)
        else:
            ratings = study_ratings(study)
            if ratings.leading is None or not len(ratings):
                return {"n_ratings": 0}
            n, found = len(ratings), settling(ratings)
        work.beat(now=True)
        order_state_store(study=study, found=found.to_json(), n_ratings=n)
        return {"n_ratings": n}

    def follow_up(self, job: Job) -> None:
        older = Job.objects.filter(kind=KIND, study=job.study).exclude(pk=job.pk)
        older.exclude(state__in=UNFINISHED).delete()
