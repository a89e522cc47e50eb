"""Metrics beside people's scores of single replies: what is asked of a worker, of which data, and what there is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count, Max, Sum
from django.utils.translation import gettext as _

from chatbots.identity import canonical_json
from chatbots.outside import Many, Values
from evaluation.formats.base import Skipped
from evaluation.items import judged_read
from evaluation.judgements import Judgements, judgements_of, judgements_read
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import metric_list
from evaluation.metrics.replies import ReplyMetric
from webapp.conversations.models import Turn
from webapp.core.errors import Refused
from webapp.ratings.judged import study_judged
from webapp.ratings.models import Rating
from webapp.runs.models import UNFINISHED, Job, State
from webapp.runs.services.jobs import job_ask, job_cancel, job_restart
from webapp.runs.services.shards import shards_forget
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KIND = "benchmark"
BASELINE = "words_bot"
"""Words of the reply: whatever does not beat it has learned little else."""
MOST_POINTS = 3_000
"""So many items of a set are kept for its plots."""
_LINES_LOOKED_AT = 50


class BenchmarkAsked(Values):
    """One data set and the metrics to set against its people.

    Attributes:
        study: key of the study; or `file`, the name of an uploaded one in the data folder.
        title: of the file for people.
        metrics: names of metrics or of single columns.
    """

    study: str = ""
    file: str = ""
    title: str = ""
    metrics: Many[str]


@dataclass(frozen=True, slots=True)
class BenchmarkMetric:
    """A metric that can be set against people's scores of replies.

    Attributes:
        name: of the metric, or of the one column that describes replies.
        is_usual: computed where nobody chooses.
    """

    name: str
    title: str
    metric: Metric
    reason: str
    is_usual: bool


def benchmark_metrics() -> list[BenchmarkMetric]:
    """Return the metrics that describe a bot's reply, the baseline last."""
    found = []
    for metric in metric_list():
        described = [
            column.name
            for column in metric.columns
            if column.level == "turn" and not column.name.endswith("_user")
        ]
        if not described or metric.name == "votes":
            continue
        name, title = metric.name, metric.title
        if BASELINE in described:
            name, title = BASELINE, _("Words in the reply")
        elif not isinstance(metric, ReplyMetric) and described[0] != metric.columns[0].name:
            name = described[0]
        reason = metric.unavailable_reason() or ""
        light = isinstance(metric, ReplyMetric) and set(metric.needs) <= {"a reference"}
        usual = not reason and (light or getattr(metric, "default", True))
        found.append(BenchmarkMetric(name, title, metric, reason, usual))
    return sorted(found, key=lambda one: one.name == BASELINE)


def benchmark_ask(
    *,
    metrics: Sequence[str],
    study: Study | None = None,
    file: str = "",
    title: str = "",
    created_by: User | None = None,
) -> Job:
    """Return the job that sets metrics against a study's raters or a file's; the one there is, of the same data and versions.

    One that failed or was stopped begins again.

    Raises:
        Refused: no metric, or an unknown one.
    """
    known = {one.name: one.metric for one in benchmark_metrics()}
    if not metrics:
        raise Refused("no_metric", str(_("Choose a metric at least.")))
    if unknown := [name for name in metrics if name not in known]:
        raise Refused("unknown_name", f"no metric {unknown[0]!r}; there are {', '.join(known)}")
    versions = {name: known[name].identity.key for name in metrics}
    job = job_ask(
        kind=KIND,
        payload={
            "study": study.key if study is not None else "",
            "file": file,
            "title": title,
            "metrics": list(metrics),
        },
        state=_digest([versions, data_now(study) if study is not None else file]),
        study=study,
        created_by=created_by,
    )
    if job.state in (State.FAILED, State.CANCELLED):
        job = job_restart(job=job, enqueue=True)
    return job


def data_now(study: Study) -> str:
    """Return a digest that changes with what the study's people said of single replies, in two queries."""
    ratings = Rating.objects.filter(task__participant__study=study) | Rating.objects.filter(
        item__study=study
    )
    votes = Turn.objects.filter(conversation__study=study).exclude(vote=0)
    return _digest(
        [
            {k: str(v) for k, v in ratings.aggregate(n=Count("pk"), at=Max("updated_at")).items()},
            votes.aggregate(n=Count("pk"), sum=Sum("vote"), newest=Max("pk")),
        ]
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def benchmark_judgements(asked: BenchmarkAsked) -> Judgements:
    """Read the data set.

    Raises:
        Refused: it is not there any more, or nobody judged a single reply.
    """
    if asked.file:
        path = benchmark_folder() / asked.file
        if not path.is_file():
            raise Refused(
                "no_file", f"the file {asked.title} is not here any more; upload it again"
            )
        found = judgements_read(path)
    else:
        study = Study.objects.filter(key=asked.study).first()
        if study is None:
            raise Refused("not_found", f"there is no study {asked.study!r}")
        found = judgements_of(study_judged(study))
    if not found.targets:
        raise Refused("not_judged", str(_("Nobody has judged a single reply there.")))
    return found


def benchmark_folder() -> Path:
    """Return the folder of uploaded files, made for its owner alone if need be."""
    folder = Path(settings.DATA_DIR) / "benchmarks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def benchmark_file_keep(upload: Path, ending: str) -> str:
    """Keep an uploaded file of judged items under the name of its digest, and return that.

    Raises:
        Refused: no judged reply is among its first lines, with what is wrong with the first.
    """
    mistake = ""
    for number, one in enumerate(judged_read(upload)):
        if not isinstance(one, Skipped) and one.dimensions:
            break
        if isinstance(one, Skipped) and not mistake:
            mistake = f"line {one.line}: {one.reason}"
        if number + 1 == _LINES_LOOKED_AT:
            raise Refused("not_judged", _not_judged(mistake))
    else:
        raise Refused("not_judged", _not_judged(mistake))
    content = upload.read_bytes()
    name = f"{hashlib.sha256(content).hexdigest()[:32]}{ending}"
    (benchmark_folder() / name).write_bytes(content)
    return name


def _not_judged(mistake: str) -> str:
    told = str(_("There is no judged reply in its first lines."))
    return f"{told} {mistake}".strip()


def benchmarks_newest() -> list[Job]:
    """Return the newest job of every data set, and the newest one that is done where that is another."""
    jobs = Job.objects.filter(kind=KIND).select_related("study").order_by("-created_at", "-pk")
    newest: dict[tuple[str, str], list[Job]] = {}
    for job in jobs.defer("result"):
        of_set = newest.setdefault((job.payload["study"], job.payload["file"]), [])
        if not of_set or (job.state == State.DONE and all(o.state != State.DONE for o in of_set)):
            of_set.append(job)
    found = [job for of_set in newest.values() for job in of_set]
    results = dict(Job.objects.filter(pk__in=[job.pk for job in found]).values_list("pk", "result"))
    for job in found:
        job.result = results[job.pk]
    return found


def benchmark_done(pk: int) -> Job | None:
    """Return a finished comparison; None where there is none of this number."""
    done = Job.objects.filter(pk=pk, kind=KIND, state=State.DONE, result__isnull=False)
    return done.select_related("study").first()


def benchmarks_forget(studies: Collection[int]) -> None:
    """Remove what was computed of these studies, and stop what is being computed: somebody was erased."""
    jobs = Job.objects.filter(kind=KIND, study__in=studies)
    for job in jobs.filter(state__in=UNFINISHED):
        job_cancel(job=job)
    for job in jobs:
        shards_forget(job=job)
    jobs.exclude(state__in=UNFINISHED).delete()
