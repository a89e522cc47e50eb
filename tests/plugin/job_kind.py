"""A kind of job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from chatbots.validation import InputModel, Many
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job


class CountingParams(InputModel):
    words: Many[str] = Field(min_length=1)


@register_kind
class Counting(JobKind[Job, CountingParams]):
    name = "counting"
    title = "Counting"
    Payload = CountingParams

    def plan(self, job: Job, params: CountingParams) -> Iterable[ShardPlan]:
        return [ShardPlan({"word": word}, n_total=len(word)) for word in params.words]

    def slice(self, work: ShardWork[Job, CountingParams]) -> int:
        return len(work.shard["word"])

    def finish(self, work: ShardWork[Job, CountingParams], results: Sequence[Any]) -> dict[str, int]:
        return dict(zip(work.params.words, results, strict=True))
