"""Benchmark of metrics on rated replies: jobs, data, results and an example."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Count, Max, Q, Sum
from django.utils.translation import gettext as _

from chatbots.corpora.dialogues import EVERYDAY
from chatbots.identity import canonical_json
from chatbots.text import quote
from chatbots.validation import InputModel, Many
from evaluation.agreement.metric_agreement import JudgedReplies, judgements_of, judgements_read
from evaluation.data.items import JudgedItem, judged_read
from evaluation.metrics.base import Metric
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.replies import ReplyMetric
from webapp.conversations.models import Turn
from webapp.core.clean_up import clean_up_kind, clean_up_on_commit
from webapp.core.errors import Refused
from webapp.jobs.models import UNFINISHED, Job, State
from webapp.jobs.selectors.metrics import metrics_all
from webapp.jobs.services.jobs import job_ask, job_cancel, job_restart, shards_forget
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import study_judged
from webapp.results.benchmark_data import (
    BenchmarkPairs,
    benchmark_file,
    benchmark_file_keep,
    benchmark_files,
    benchmark_folder,
    is_file_name,
    pairs_judged,
    pairs_refusal,
)
from webapp.results.fingerprint import BENCHMARK_KIND
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    from django.contrib.auth.models import User

OF_FILES = (BENCHMARK_KIND, "explanation", "judges")
"""Kinds of jobs that uploaded files belong to."""
RESULT_FORMAT = "2"
"""Changes if stored results lack what pages show, so that such a comparison can be repeated."""
BASELINE = "words_bot"
"""Number of words of the reply, a baseline that a useful metric must exceed."""
MOST_POINTS = 3_000
"""Maximum number of items of a data set stored for its plots."""


class BenchmarkParams(InputModel):
    """Parameters of a benchmark: a data set and metrics.

    Attributes:
        study: key of the study; or `file`, the name of an uploaded one in the data folder.
        title: displayed name of the file.
        judged: name of an uploaded file of a judge's choices; judged_title: its displayed name.
        metrics: names of metrics or of single columns.
    """

    study: str = ""
    file: str = ""
    title: str = ""
    judged: str = ""
    judged_title: str = ""
    metrics: Many[str]


@dataclass(frozen=True, slots=True)
class BenchmarkMetric:
    """Metric that can be compared with ratings of replies.

    Attributes:
        name: name of the metric, or of its only column about replies.
        is_usual: True if selected by default.
    """

    name: str
    title: str
    metric: Metric
    reason: str
    is_usual: bool


def benchmark_metrics() -> list[BenchmarkMetric]:
    """Return the metrics that describe a bot's reply, the baseline last."""
    metrics = []
    for metric in metrics_all():
        described = [
            column.name for column in metric.columns if column.level == "turn" and not column.name.endswith("_user")
        ]
        if not described or metric.name == "votes":
            continue
        name, title = metric.name, metric.title
        if BASELINE in described:
            name, title = BASELINE, _("Words in the reply")
        elif not isinstance(metric, ReplyMetric) and described[0] != metric.columns[0].name:
            name = described[0]
        reason = "" if isinstance(metric, ScoreFileMetric) else metric.unavailable_reason() or ""
        light = isinstance(metric, ReplyMetric) and set(metric.needs) <= {"a reference"}
        usual = not reason and (light or getattr(metric, "default", True))
        metrics.append(BenchmarkMetric(name, title, metric, reason, usual))
    return sorted(metrics, key=lambda metric: metric.name == BASELINE)


def benchmark_ask(
    *, metrics: Sequence[str], study: Study | None = None, created_by: User | None = None, **files: str
) -> Job:
    """Return the benchmark job of these data and versions.

    It is created if needed. A failed or stopped job restarts.

    Args:
        files: `file`, `judged` and their titles, as in `BenchmarkParams`.

    Raises:
        Refused: no metric, an unknown one, or a judge's choices with a study without comparisons.
    """
    params = BenchmarkParams(study=study.key if study is not None else "", metrics=tuple(metrics), **files)
    if study is not None and (refusal := pairs_refusal(study, judged=bool(params.judged))):
        raise Refused("not_compared", refusal)
    known = {metric.name: metric.metric for metric in benchmark_metrics()}
    if not metrics:
        raise Refused("no_metric", str(_("Choose at least one metric.")))
    if unknown := [name for name in metrics if name not in known]:
        raise Refused("unknown_name", f"unknown metric {quote(unknown[0])}; choose from {', '.join(known)}")
    imported = [name for name in metrics if isinstance(known[name], ScoreFileMetric)]
    if imported and (study is None or get_protocol(study).compares_pairs):
        raise Refused(
            "unavailable",
            f"the scores of {', '.join(imported)} are imported and belong to rated replies of a study; "
            "choose a study with rated replies, or other metrics",
        )
    versions = {name: known[name].identity.key for name in metrics}
    job = job_ask(
        kind=BENCHMARK_KIND,
        payload=params.model_dump(mode="json"),
        state=_digest(
            [
                *(RESULT_FORMAT, versions, data_now(study) if study is not None else params.file),
                *filter(None, [params.judged]),
            ]
        ),
        study=study,
        created_by=created_by,
    )
    if job.state in (State.FAILED, State.CANCELLED):
        job = job_restart(job=job, enqueue=True)
    return job


def data_now(study: Study) -> str:
    """Return a digest of the study's ratings of single replies.

    It takes two queries.
    """
    ratings = Rating.objects.filter(task__participant__study=study) | Rating.objects.filter(item__study=study)
    votes = Turn.objects.filter(conversation__study=study).exclude(vote=0)
    return _digest(
        [
            {k: str(v) for k, v in ratings.aggregate(n=Count("pk"), at=Max("updated_at")).items()},
            votes.aggregate(n=Count("pk"), sum=Sum("vote"), newest=Max("pk")),
        ]
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Stale:
    """Finished benchmark that is outdated.

    Attributes:
        said_more: True if ratings were added or changed since.
        changed: titles of metrics whose version has changed.
        removed: titles of metrics that no longer exist.
        file_gone: True if its file was deleted, so that it cannot be repeated.
    """

    job: Job
    said_more: bool
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    file_gone: bool


def benchmark_stale(jobs: Sequence[Job], metrics: Sequence[BenchmarkMetric]) -> list[Stale]:
    """Return the finished benchmarks older than their data or metrics."""
    identities = {metric.name: metric.metric.identity.key for metric in metrics}
    stale_comparisons = []
    for job in jobs:
        if job.state != State.DONE or not job.result:
            continue
        computed = job.result["metrics"]
        known = job.result.get("data")
        stale = Stale(
            job,
            job.study is not None and known is not None and known != data_now(job.study),
            tuple(
                metric["title"]
                for metric in computed
                if identities.get(metric["metric"], metric["identity"]) != metric["identity"]
            ),
            tuple(metric["title"] for metric in computed if metric["metric"] not in identities),
            any(not (benchmark_folder() / name).is_file() for name in _files(job.payload)),
        )
        if stale.said_more or stale.changed or stale.removed:
            stale_comparisons.append(stale)
    return stale_comparisons


def benchmark_again(*, job: Job, created_by: User | None = None) -> Job:
    """Return the job that repeats a benchmark with current data and metrics.

    Raises:
        Refused: none of the metrics exists any more.
    """
    known = {metric.name for metric in benchmark_metrics()}
    return benchmark_ask(
        metrics=[name for name in job.payload["metrics"] if name in known],
        study=job.study,
        created_by=created_by,
        **{name: value for name, value in job.payload.items() if name not in ("study", "metrics")},
    )


def _files(payload: Mapping[str, Any]) -> dict[str, str]:
    """Return a benchmark's uploaded files with their titles, by name."""
    titles = {payload["file"]: payload["title"], payload.get("judged", ""): payload.get("judged_title", "")}
    return {name: title for name, title in titles.items() if name}


def benchmark_judgements(params: BenchmarkParams) -> JudgedReplies:
    """Read the data set.

    Raises:
        Refused: it was deleted, or has no rated reply.
    """
    if params.file:
        path = benchmark_folder() / params.file
        if not path.is_file():
            raise Refused("no_file", f"the file {params.title} no longer exists; upload it again")
        judgements = judgements_read(path)
    else:
        study = Study.objects.filter(key=params.study).first()
        if study is None:
            raise Refused("not_found", f"there is no study {quote(params.study)}")
        judgements = judgements_of(study_judged(study))
    if not judgements.targets:
        raise Refused("not_judged", str(_("This study has no rated replies.")))
    return judgements


def benchmark_replies(job: Job, numbers: Collection[int]) -> dict[int, JudgedItem]:
    """Return replies of a finished benchmark by their number in its result.

    Replies that no longer exist are missing, and all are if the file was deleted.
    """
    params = BenchmarkParams.model_validate(job.payload)
    replies = (job.result or {}).get("replies", [])
    numbers_by_reply = {tuple(replies[number]): number for number in numbers if 0 <= number < len(replies)}
    items_by_number: dict[int, JudgedItem] = {}
    for item in _judged_items(params):
        number = numbers_by_reply.pop((item.key, item.model), None)
        if number is not None:
            items_by_number[number] = item
        if not numbers_by_reply:
            break
    return items_by_number


def _judged_items(params: BenchmarkParams) -> Iterator[JudgedItem]:
    if params.file:
        path = benchmark_file(params.file)
        items = iter(()) if path is None else judged_read(path)
        yield from (item for item in items if isinstance(item, JudgedItem))
    elif (study := Study.objects.filter(key=params.study).first()) is not None:
        yield from study_judged(study)


def benchmark_pairs(params: BenchmarkParams) -> BenchmarkPairs | None:
    """Return the pairs of a study with comparisons.

    None for other data sets.

    Raises:
        Refused: as `pairs_judged`.
    """
    study = Study.objects.filter(key=params.study).first() if params.study else None
    if study is None or not get_protocol(study).compares_pairs:
        return None
    return pairs_judged(study, params.judged)


def benchmarks_newest() -> list[Job]:
    """Return the newest and the newest finished job of every data set."""
    jobs = Job.objects.filter(kind=BENCHMARK_KIND).select_related("study").order_by("-created_at", "-pk")
    newest: dict[tuple[str, str], list[Job]] = {}
    for job in jobs.defer("result"):
        jobs_of_set = newest.setdefault((job.payload["study"], job.payload["file"]), [])
        if not jobs_of_set or (job.state == State.DONE and all(earlier.state != State.DONE for earlier in jobs_of_set)):
            jobs_of_set.append(job)
    newest_jobs = [job for jobs_of_set in newest.values() for job in jobs_of_set]
    results = dict(Job.objects.filter(pk__in=[job.pk for job in newest_jobs]).values_list("pk", "result"))
    for job in newest_jobs:
        job.result = results[job.pk]
    return newest_jobs


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An uploaded file.

    Attributes:
        file: its name in the data folder.
        title: its original names.
    """

    file: str
    title: str
    size_bytes: int


def benchmark_uploads() -> list[Uploaded]:
    """Return the uploaded files, newest first."""
    titles: dict[str, dict[str, None]] = {}
    jobs = Job.objects.filter(kind__in=OF_FILES).order_by("pk")
    for payload in jobs.values_list("payload", flat=True):
        for name, title in _files(payload).items():
            titles.setdefault(name, {})[title] = None
    return [
        Uploaded(path.name, ", ".join(titles.get(path.name, {})) or path.name, path.stat().st_size)
        for path in benchmark_files()
    ]


def benchmark_file_remove(*, file: str, user: User) -> int:
    """Remove an uploaded file and its results.

    The admin log records the user.

    Running jobs are stopped and cannot restart without the file.

    Returns:
        The number of removed benchmarks.

    Raises:
        Refused: there is no such file.
    """
    is_of_it = Q(payload__file=file) | Q(payload__judged=file)
    jobs = Job.objects.filter(is_of_it, kind__in=OF_FILES)
    titles = {_files(job.payload)[file] for job in jobs if file}
    path = benchmark_file(file)
    if not is_file_name(file) or (path is None and not titles):
        raise Refused("no_file", str(_("The file does not exist. Another user may have removed it.")))
    for job in jobs.filter(state__in=UNFINISHED):
        job_cancel(job=job)
    with transaction.atomic():
        for job in jobs:
            shards_forget(job=job)
        n, _by_table = jobs.exclude(state__in=UNFINISHED).delete()
        LogEntry.objects.create(
            user=user,
            content_type=ContentType.objects.get_for_model(Job),
            object_id=file,
            object_repr=(", ".join(sorted(titles)) or file)[:200],
            action_flag=DELETION,
            change_message=f"uploaded file {file} of Benchmark, {n} comparisons of it",
        )
        if path is not None:
            clean_up_on_commit(CLEAN_UP, file)
    return n


def _file_remove(name: str) -> None:
    path = benchmark_file(name)
    if path is not None:
        path.unlink(missing_ok=True)


CLEAN_UP = "benchmark_file"
clean_up_kind(CLEAN_UP, "Removed file of Benchmark", _file_remove)


def benchmark_done(pk: int) -> Job | None:
    """Return a finished benchmark by number, or None."""
    done = Job.objects.filter(pk=pk, kind=BENCHMARK_KIND, state=State.DONE, result__isnull=False)
    return done.select_related("study").first()


TITLE = "Example with made-up ratings.jsonl"
METRICS = ("rouge_l", "bleu", "embedding_match", "pone_lite", BASELINE)
_N_CONTEXTS, _RATERS = 40, ("a", "b", "c")
_MEANS = {"the person": 4.3, "same topic": 2.8, "other topic": 1.7}
"""Mean rating (1 to 5) of the actual reply, one of another conversation on the topic, and one on another topic."""


def benchmark_example(*, created_by: Any = None) -> Job:
    """Start the example benchmark, whose data are always the same."""
    with tempfile.TemporaryDirectory(prefix="confab-benchmark-") as folder:
        path = Path(folder) / "example.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in _items()), encoding="utf-8")
        file = benchmark_file_keep(path, ".jsonl")
    known = {metric.name for metric in benchmark_metrics() if not metric.reason}
    return benchmark_ask(
        metrics=[name for name in METRICS if name in known], file=file, title=TITLE, created_by=created_by
    )


def _items() -> Iterator[dict[str, Any]]:
    """Yield rated replies: for each context, the real one and two others."""
    draw = random.Random(7)
    files = sorted(EVERYDAY.glob("*.jsonl"))
    talks = [[json.loads(line)["turns"] for line in path.read_text(encoding="utf-8").splitlines()] for path in files]
    for number in range(_N_CONTEXTS):
        topic = number % len(talks)
        talk, sibling = draw.sample(talks[topic], 2)
        stranger = draw.choice(talks[(topic + 1 + draw.randrange(len(talks) - 1)) % len(talks)])
        for model, reply in (("the person", talk[1]), ("same topic", sibling[3]), ("other topic", stranger[3])):
            yield {
                "id": f"{number}-{model}",
                "model": model,
                "context": [talk[0]],
                "response": reply,
                "reference": talk[1] if model != "the person" else None,
                "ratings": [
                    {"rater": rater, "quality": min(5, max(1, round(draw.gauss(_MEANS[model], 0.9))))}
                    for rater in _RATERS
                ],
                "scale": [1, 5],
            }
