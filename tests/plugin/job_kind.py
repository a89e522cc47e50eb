"""A kind of job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from chatbots.validation import InputModel, Many
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job


class Asked(InputModel):
    words: Many[str] = Field(min_length=1)


@register_kind
class Counting(JobKind[Job, Asked]):
    name = "counting"
    title = "Counting"
    Payload = Asked

    def plan(self, job: Job, asked: Asked) -> Iterable[ShardPlan]:
        return [ShardPlan({"word": word}, n_total=len(word)) for word in asked.words]

    def slice(self, work: ShardWork[Job, Asked]) -> int:
        return len(work.shard["word"])

    def finish(self, work: ShardWork[Job, Asked], results: Sequence[Any]) -> dict[str, int]:
        return dict(zip(work.asked.words, results, strict=True))
