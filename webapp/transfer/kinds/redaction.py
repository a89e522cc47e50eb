"""Job that searches a study's texts for personal data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job
from webapp.transfer.exporters.base import ExportOptions, exporter_counts
from webapp.transfer.redaction.review import texts_search


@register_kind
class RedactionSearch(JobKind[Job, InputModel]):
    """Job that finds personal data for a person's review.

    The result has the number of texts.
    """

    name = "redaction"
    title = _("Search for personal data")

    def plan(self, job: Job, params: InputModel) -> Iterable[ShardPlan]:
        assert job.study is not None
        counts = exporter_counts(job.study, ExportOptions(include_failed=True, include_synthetic=True))
        return [ShardPlan(n_total=max(counts.get("messages", 0) + counts.get("ratings", 0), 1))]

    def slice(self, work: ShardWork[Job, InputModel]) -> dict[str, int]:
        study, n_rows = work.job.study, 0
        if study is None:
            raise Refused("no_study", "the job has no study")

        def report(n: int) -> None:
            nonlocal n_rows
            n_rows = n
            work.beat(n)

        review = texts_search(study=study, report=report)
        work.beat(n_rows, max(n_rows, 1), now=True)
        return {"texts": review.n_texts}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        n = result["texts"]
        return [plural(n, "1 text was searched.", "%(n)d texts were searched.") % {"n": n}]
