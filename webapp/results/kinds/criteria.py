"""Job in which a judge checks the criteria of a study's items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet

from chatbots.validation import InputModel
from evaluation.agreement.judges.checklist import NEEDS_ENDPOINT, check_items
from evaluation.agreement.judges.scoring import CAPPED
from evaluation.data.items import ReplyItem
from evaluation.number_format import pluralise
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job
from webapp.results.fingerprint import CRITERIA_KIND
from webapp.results.judges import judge_named
from webapp.studies.models import Item
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import items_given, study_by_key

_SHARD = 50
"""Number of items of a shard, which are paid again if it is killed."""


class CriteriaParams(InputModel):
    """Parameters: key of the study, and name of the judge."""

    study: str
    judge: str


def _items(params: CriteriaParams) -> QuerySet[Item]:
    return items_given(study_by_key(params.study))


@register_kind
class CriteriaJob(JobKind[Job, CriteriaParams]):
    """Job that keeps a judge's answers; results compare them with people's."""

    name, title = CRITERIA_KIND, "Criteria checked by a judge"
    Payload = CriteriaParams

    def check(self, params: CriteriaParams) -> None:
        judge = judge_named(params.judge)
        if judge.options is None or not judge.options.bot:
            raise Refused("unavailable", NEEDS_ENDPOINT)
        if not get_protocol(study_by_key(params.study)).needs_criteria:
            raise Refused("no_criteria", f"participants do not tick criteria in {params.study}")
        if not _items(params).exists():
            raise Refused("not_found", "the study has no items with criteria; import some first")

    def plan(self, job: Job, params: CriteriaParams) -> Iterable[ShardPlan]:
        options = judge_named(params.judge).options
        assert options is not None, "checked before"
        pks = list(_items(params).order_by("pk").values_list("pk", flat=True))[: options.max_requests]
        shards = [pks[start : start + _SHARD] for start in range(0, len(pks), _SHARD)]
        return [ShardPlan({"items": shard}, n_total=len(shard)) for shard in shards]

    def slice(self, work: ShardWork[Job, CriteriaParams]) -> Any:
        rows = Item.objects.filter(pk__in=work.shard["items"]).order_by("pk")
        items = [
            ReplyItem(id=row.key, context=row.context, response=row.responses[0]["text"], criteria=row.criteria)
            for row in rows
        ]
        checked = check_items(judge_named(work.params.judge), items, work.beat)
        return {"ticks": checked.ticks, "problems": checked.problems}

    def finish(self, work: ShardWork[Job, CriteriaParams], results: Sequence[Any]) -> Any:
        judge, problems = judge_named(work.params.judge), Counter[str]()
        for result in results:
            problems.update(result["problems"])
        ticks = {item: met for result in results for item, met in result["ticks"].items()}
        if (n_left := _items(work.params).count() - len(ticks) - problems.total()) > 0:
            problems[CAPPED] = n_left
        return {"judge": judge.title, "identity": judge.identity.key, "ticks": ticks, "problems": dict(problems)}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        unanswered = [f"{n:,} without an answer: {reason}." for reason, n in sorted(result["problems"].items())]
        items = pluralise(len(result["ticks"]), "item")
        return [f"{result['judge']} checked the criteria of {items}.", *unanswered]
