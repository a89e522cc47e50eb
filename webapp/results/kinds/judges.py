"""Job that compares judges with people, a shard for each judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evaluation.agreement.judges.comparison import SELECTED, compare_judges
from evaluation.agreement.judges.panels import PanelRule, panel_scores, read_member
from evaluation.agreement.judges.scoring import score_gold
from evaluation.data.tables import to_plain
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job, State
from webapp.results.judges import JUDGES_KIND, JudgesParams, gold_read, judge_named

CHANGED = "ratings arrived while the judges scored; start the comparison again"


@register_kind
class JudgesJob(JobKind[Job, JudgesParams]):
    """Job that evaluates judges, keeping all scores for later drift checks."""

    name, title, queue = JUDGES_KIND, "Judges", "gpu"
    Payload = JudgesParams

    def check(self, params: JudgesParams) -> None:
        gold_read(params)

    def plan(self, job: Job, params: JudgesParams) -> Iterable[ShardPlan]:
        n = len(gold_read(params))
        return [ShardPlan({"judge": name}, n_total=n) for name in params.judges]

    def slice(self, work: ShardWork[Job, JudgesParams]) -> Any:
        judge, gold = judge_named(work.shard["judge"]), gold_read(work.params)
        work.beat(note=judge.title)
        scores = score_gold(judge, gold, repeats=work.params.repeats, progress=work.beat)
        work.beat(len(gold), now=True)
        result = compare_judges(gold, [scores], expertise=work.params.expertise).to_json()
        result["judges"][0]["pairs"] = to_plain(scores.pairs) if scores.pairs is not None else None
        return result

    def finish(self, work: ShardWork[Job, JudgesParams], results: Sequence[Any]) -> Any:
        first = results[0]
        if any(
            (shard_result["digests"], shard_result["n_ratings"]) != (first["digests"], first["n_ratings"])
            for shard_result in results
        ):
            raise Refused("changed", CHANGED)
        judges = [judge for shard_result in results for judge in shard_result["judges"]]
        pairs = [judge.pop("pairs", None) for judge in judges]
        panels = self._panels(work.params, first["digests"], judges, pairs) if len(judges) > 1 else []
        rows = [*judges, *panels]
        sentences = [*(judge["sentence"] for judge in rows), *([SELECTED] if len(rows) > 1 else [])]
        return {**first, "judges": judges, "panels": panels, "sentences": sentences}

    def _panels(
        self, params: JudgesParams, digests: list[str], judges: list[Any], pairs: list[Any]
    ) -> list[dict[str, Any]]:
        """Return the comparison of all judges together, by mean, and by vote if there are three or more."""
        gold = gold_read(params)
        if list(gold.digests) != digests:
            raise Refused("changed", CHANGED)
        members = [read_member(judge, judged) for judge, judged in zip(judges, pairs, strict=True)]
        rules: list[PanelRule] = ["mean", "vote"] if len(members) > 2 and gold.points else ["mean"]
        panels = compare_judges(gold, [panel_scores(gold, members, rule) for rule in rules], expertise=params.expertise)
        costs = [judge["cost_per_1000"] for judge in judges]
        per_1000 = {
            "cost_per_1000": None if None in costs else sum(costs),
            "seconds_per_1000": sum(judge["seconds_per_1000"] for judge in judges),
        }
        return [panel | per_1000 for panel in panels.to_json()["judges"]]

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return list(result["sentences"])

    def follow_up(self, job: Job) -> None:
        if job.cancel_requested:  # possibly a participant in the result was erased
            Job.objects.filter(pk=job.pk).update(state=State.CANCELLED, result=None)
