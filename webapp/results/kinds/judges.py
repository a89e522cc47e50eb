"""Job that compares judges with people, a shard for each judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evaluation.agreement.judges.comparison import SELECTED, compare_judges
from evaluation.agreement.judges.scoring import score_gold
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job, State
from webapp.results.judges import JUDGES_KIND, JudgesParams, gold_read, judge_named


@register_kind
class JudgesJob(JobKind[Job, JudgesParams]):
    """Job that evaluates judges, keeping all scores for later drift checks."""

    name, title, queue = JUDGES_KIND, "Judges", "gpu"
    Payload = JudgesParams

    def check(self, asked: JudgesParams) -> None:
        gold_read(asked)

    def plan(self, job: Job, asked: JudgesParams) -> Iterable[ShardPlan]:
        n = len(gold_read(asked))
        return [ShardPlan({"judge": name}, n_total=n) for name in asked.judges]

    def slice(self, work: ShardWork[Job, JudgesParams]) -> Any:
        judge, gold = judge_named(work.shard["judge"]), gold_read(work.asked)
        work.beat(note=judge.title)
        scores = score_gold(judge, gold, repeats=work.asked.repeats, progress=work.beat)
        work.beat(len(gold), now=True)
        return compare_judges(gold, [scores], expertise=work.asked.expertise).to_json()

    def finish(self, work: ShardWork[Job, JudgesParams], results: Sequence[Any]) -> Any:
        first = results[0]
        if any(
            (shard_result["digests"], shard_result["n_ratings"]) != (first["digests"], first["n_ratings"])
            for shard_result in results
        ):
            raise Refused("changed", "ratings arrived while the judges scored; start the comparison again")
        judges = [judge for shard_result in results for judge in shard_result["judges"]]
        sentences = [*(judge["sentence"] for judge in judges), *([SELECTED] if len(judges) > 1 else [])]
        return {**first, "judges": judges, "sentences": sentences}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return list(result["sentences"])

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # possibly a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)
