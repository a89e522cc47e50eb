"""Data of a study for the question whether it needs people: metrics, self-play, simulations and judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING

from evaluation.agreement.judges.gold import GoldSet, gold_of_chats, gold_of_replies
from evaluation.agreement.metric_agreement import JudgedReplies, judgements_of
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.judge import JudgeMetric
from evaluation.replacement.candidate import ReplacementData
from evaluation.replacement.compare import compare_candidates
from evaluation.replacement.replies import reply_table
from evaluation.replacement.result import NOT_RATED_ALONE, TEXTS_ERASED, ReplacementResult
from webapp.conversations.selectors import conversations_for_metrics
from webapp.jobs.models import Job, SelfPlayRun, State
from webapp.jobs.selectors.analysis_tables import column_names, metric_frame
from webapp.jobs.selectors.metrics import imported_metrics, metric_with_item_scores
from webapp.jobs.selectors.selfplay import run_with_metrics
from webapp.ratings.paired_comparisons import study_judged
from webapp.results.benchmark import benchmark_metrics
from webapp.results.candidate_origins import Origins, origin_of_judge, origin_of_metric, origin_of_simulation
from webapp.results.fingerprint import BENCHMARK_KIND, JUDGES_KIND
from webapp.results.realism import FEWEST_PLAYED
from webapp.results.study_data import StudyData
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    import pandas as pd


def study_replacement(data: StudyData, run: SelfPlayRun | None = None) -> ReplacementResult:
    """Ask every candidate of a study whether it can replace people.

    A study whose participants rate neither chats nor single replies has no candidates.

    Args:
        run: self-play run; None: the newest with metrics of enough of the bots.
    """
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    note = None if get_protocol(data.study).rates_conversations else NOT_RATED_ALONE
    if rates_replies(data.study):
        judged = judgements_of(study_judged(data.study, **data.counted_work))
        if any(item.response.strip() for item in judged.items):
            return compare_candidates(_reply_data(data, judged))
        note = TEXTS_ERASED
    if note is not None:
        return ReplacementResult(
            *(data.headline.key, data.ratings.smallest_difference(), tuple(bots), len(data.ratings), 0, "raters"),
            notes={"chats": note},
        )
    run = run or run_with_metrics(bots, FEWEST_PLAYED)
    selfplay = None if run is None else metric_frame(run=run)
    origins = Origins()
    simulated = dict(_simulated(data.study, origins))
    judges = _judge_scores(data, lambda: _chats_of(data), origins)
    return compare_candidates(
        ReplacementData(
            data.ratings,
            data.metrics.copy().reset_index(),  # the copy is not fragmented
            selfplay=None if selfplay is None else selfplay[selfplay["bot"].isin(bots)],
            simulated=simulated,
            within=frozenset(simulated) if data.study.is_imported else frozenset(),
            judges=judges,
            imported=_imported_scores(data),
            imported_bots=data.bot_table.metrics,
            built_on=origins.built_on,
            unknown_origins=origins.unknown,
        )
    )


def rates_replies(study: Study) -> bool:
    """Return True if participants of a study rate single replies, each alone."""
    protocol = get_protocol(study)
    rates_items = protocol.judges_items and not protocol.compares_pairs and not protocol.has_one_item
    return (rates_items or protocol.marks_turns) and not protocol.marks_errors


def _reply_data(data: StudyData, judged: JudgedReplies) -> ReplacementData:
    """Return the rated replies with the scores of judges, metrics and files."""
    key = data.headline.key
    gold = gold_of_replies(judged, key if key in judged.targets else "", name=data.study.name)
    ids = {f"{item.key} {item.model}".strip(): item.id for item in judged.items}
    table = reply_table(gold, ids)
    origins = Origins()
    imported = {}
    for row in imported_metrics(project=data.study.project_id):
        file_scores = metric_with_item_scores(row.name, data.study)
        if isinstance(file_scores, ScoreFileMetric):
            scores = zip(ids.values(), file_scores.score_items(judged.items).tolist(), strict=True)
            imported[file_scores.title] = {name: score for name, score in scores if isfinite(score)}
    metrics: dict[str, dict[str, float]] = {}
    known = {row.name: row.metric for row in benchmark_metrics()}
    jobs = Job.objects.filter(kind=BENCHMARK_KIND, study=data.study, state=State.DONE, result__isnull=False)
    for job in jobs.order_by("-pk"):
        names = [ids.get(f"{key} {model}".strip()) for key, model in job.result.get("replies", ())]
        for row in job.result.get("metrics", ()):
            metric = known.get(row["metric"])
            if row["title"] in metrics or isinstance(metric, ScoreFileMetric | JudgeMetric):  # newer, or of other kinds
                continue
            sign = -1.0 if row.get("lower_is_better") else 1.0
            values = zip(names, row.get("scores", ()), strict=False)
            metrics[row["title"]] = {name: sign * x for name, x in values if name is not None and x is not None}
            origin_of_metric(origins, row["title"], metric, metrics[row["title"]])
    return ReplacementData(
        data.ratings,
        table,
        judges=_judge_scores(data, lambda: gold, origins, ids),
        metrics={title: scores for title, scores in metrics.items() if scores},
        imported={title: scores for title, scores in imported.items() if scores},
        imported_bots=data.bot_table.metrics,
        built_on=origins.built_on,
        unknown_origins=origins.unknown,
    )


def _imported_scores(data: StudyData) -> dict[str, dict[str, float]]:
    """Return the scores of chats that were imported from files, by title and conversation."""
    frame = data.metrics
    columns = {metric.title: column for metric in imported_metrics(data.study) for column in column_names([metric])}
    return {
        title: {str(chat): float(score) for chat, score in frame[column].dropna().items()}
        for title, column in columns.items()
        if column in frame
    }


def _simulated(study: Study, origins: Origins) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the chats of each simulated participant, of its newest run with metrics."""
    seen: set[str] = set()
    for run in study.simulations.filter(state=State.DONE).order_by("-pk"):
        for participant in run.plan["participants"]:
            table = None if participant in seen else metric_frame(run=run, participant=participant)
            if table is not None and len(table.drop(columns="participant").dropna(axis=1, how="all").columns) > 2:
                seen.add(participant)
                if not study.is_imported:  # there, all simulated chats are within stored ones
                    origin_of_simulation(origins, run, participant)
                yield participant, table


def _chats_of(data: StudyData) -> GoldSet:
    names = {str(pk): bot for pk, bot in data.conversations.values_list("pk", "bot__bot_id")}
    chats = {chat: names[chat.id] for chat in conversations_for_metrics(data.conversations)}
    return gold_of_chats(data.ratings, chats, name=data.study.name)


def _judge_scores(
    data: StudyData, gold: Callable[[], GoldSet], origins: Origins, ids: Mapping[str, str] | None = None
) -> dict[str, dict[str, float]]:
    """Return the scores of the study's chats or replies by judge, each of its newest comparison on this question.

    Scores count for the texts that were scored: a chat that has changed since is left out.

    Args:
        gold: called only if there is a comparison, since it reads all texts.
        ids: names in the ratings by key of the gold set; None: the keys themselves.
    """
    jobs = Job.objects.filter(kind=JUDGES_KIND, study=data.study, state=State.DONE, result__isnull=False)
    unit = "chat" if ids is None else "reply"
    results = [job.result for job in jobs.order_by("-pk") if (job.result or {}).get("unit") == unit]
    results = [result for result in results if result["question"] == data.headline.key]
    if not results:
        return {}
    instances = gold()
    names = {key: key for key in instances.keys} if ids is None else ids
    name_of_digest = {digest: names[key] for digest, key in zip(instances.digests, instances.keys, strict=True)}
    scores: dict[str, dict[str, float]] = {}
    for result in results:
        for judge in result["judges"]:
            by_name = {
                name_of_digest[digest]: float(score)
                for digest, score in zip(result["digests"], judge["scores"][0], strict=True)
                if digest in name_of_digest and isinstance(score, int | float)
            }
            if by_name and judge["title"] not in scores:
                scores[judge["title"]] = by_name
                origin_of_judge(origins, judge, instances, names)
    return scores
