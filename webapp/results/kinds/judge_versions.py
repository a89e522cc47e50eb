"""Jobs that check a version of a judge in development, and whether compared judges have drifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse

from chatbots.validation import InputModel
from evaluation.agreement.judges.comparison import compare_judges
from evaluation.agreement.judges.drift import measure_drift
from evaluation.agreement.judges.scoring import score_gold
from evaluation.data.tables import to_plain
from webapp.bots.models import Alert
from webapp.core.errors import Refused
from webapp.jobs.alerts import alerts_tell
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job
from webapp.results.judge_versions import VERSION_KIND, VersionParams, development_set, version_metric
from webapp.results.judges import DRIFT_KIND, JudgesParams, gold_read, judge_named, judges_done
from webapp.results.models import JudgeVersion

_OF_SINGLE_ITEMS = ("scores", "confusion", "worth")


@register_kind
class JudgeVersionJob(JobKind[Job, VersionParams]):
    """Job that scores the development or test items with one version.

    The result about test items has no scores of single items, so that they cannot be studied.
    """

    name, title, queue = VERSION_KIND, "Version of a judge", "gpu"
    Payload = VersionParams

    def slice(self, work: ShardWork[Job, VersionParams]) -> Any:
        version = JudgeVersion.objects.select_related("development").filter(pk=work.params.version).first()
        if version is None:
            raise Refused("not_found", "The version no longer exists.")
        items = development_set(version.development)
        judge = version_metric(version, items.gold)
        gold = items.take(work.params.part, version.examples.values_list("digest", flat=True))
        work.beat(0, len(gold))
        scores = score_gold(judge, gold, repeats=1, progress=work.beat)
        result = compare_judges(gold, [scores]).to_json()
        [judged] = result.pop("judges")
        judged |= {"written": list(scores.written), "digests": result["digests"], "n_items": len(gold)}
        if work.params.part == "test":
            judged = {name: value for name, value in judged.items() if name not in (*_OF_SINGLE_ITEMS, "digests")}
            judged["written"] = []
            # An example of the judge's output could quote a test item.
            reasons: Counter[str] = Counter()
            for reason, n in judged["reasons"].items():
                reasons[reason.partition(", for example “")[0]] += n
            judged["reasons"] = dict(reasons)
        return judged

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return [result["sentence"]]


class DriftParams(InputModel):
    """Parameters of a drift check: the job of a finished comparison."""

    job: int


@register_kind
class JudgeDriftJob(JobKind[Job, DriftParams]):
    """Job that scores the stored sample of a comparison again, and alerts if a judge has drifted."""

    name, title, queue = DRIFT_KIND, "Drift of judges", "gpu"
    Payload = DriftParams

    def plan(self, job: Job, params: DriftParams) -> Iterable[ShardPlan]:
        return [ShardPlan({"number": number}) for number in range(len(_result(params)[1]["judges"]))]

    def slice(self, work: ShardWork[Job, DriftParams]) -> Any:
        comparison, stored = _result(work.params)
        gold = gold_read(JudgesParams.model_validate(comparison.payload | {"most": 10_000}))
        judge = stored["judges"][work.shard["number"]]
        work.beat(note=judge["title"])
        drift = measure_drift(judge_named(judge["judge"]), gold, judge, stored["digests"])
        return to_plain(drift) | {"sentence": drift.sentence}

    def finish(self, work: ShardWork[Job, DriftParams], results: Sequence[Any]) -> Any:
        for drift in results:
            if drift["has_drifted"]:
                title = f"Confab: the judge {drift['judge']} has drifted"
                alert_fields = {"title": title, "words": drift["sentence"], "link": reverse("dashboard:judges")}
                alerts_tell(event=Alert.Event.JUDGE_DRIFTED, content=alert_fields)
        return list(results)

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return [drift["sentence"] for drift in result]


def _result(params: DriftParams) -> tuple[Job, dict[str, Any]]:
    comparison = judges_done(params.job)
    if comparison is None or comparison.result is None:
        raise Refused("not_found", "there is no finished comparison of judges with this number")
    return comparison, comparison.result
