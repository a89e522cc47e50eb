"""Data of a study for the question whether it needs people: metrics, self-play, simulations and judges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evaluation.agreement.judges.gold import gold_of_chats
from evaluation.replacement.candidate import ReplacementData
from evaluation.replacement.compare import compare_candidates
from evaluation.replacement.result import NOT_RATED_WHOLE, ReplacementResult
from webapp.conversations.selectors import conversations_for_metrics
from webapp.jobs.models import Job, SelfPlayRun, State
from webapp.jobs.selectors.analysis_tables import column_names, metric_frame
from webapp.jobs.selectors.metrics import imported_metrics
from webapp.jobs.selectors.selfplay import run_with_metrics
from webapp.results.fingerprint import JUDGES_KIND
from webapp.results.realism import FEWEST_PLAYED
from webapp.results.study_data import StudyData
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol

if TYPE_CHECKING:
    import pandas as pd


def study_replacement(data: StudyData, run: SelfPlayRun | None = None) -> ReplacementResult:
    """Ask every candidate of a study whether it can replace people.

    A study whose participants do not rate whole chats has no candidates here.

    Args:
        run: self-play run; None: the newest with metrics of enough of the bots.
    """
    bots = [bot for bot in data.rated_bots if not data.bots[bot].is_control]
    if not get_protocol(data.study).rates_conversations:
        return ReplacementResult(
            *(data.headline.key, data.ratings.smallest_difference(), tuple(bots), len(data.ratings), 0, "raters"),
            notes={"chats": NOT_RATED_WHOLE},
        )
    run = run or run_with_metrics(bots, FEWEST_PLAYED)
    selfplay = None if run is None else metric_frame(run=run)
    simulated = dict(_simulated(data.study))
    return compare_candidates(
        ReplacementData(
            data.ratings,
            data.metrics.copy().reset_index(),  # the copy is not fragmented
            selfplay=None if selfplay is None else selfplay[selfplay["bot"].isin(bots)],
            simulated=simulated,
            within=frozenset(simulated) if data.study.is_imported else frozenset(),
            judges=_judge_scores(data),
            imported=_imported_scores(data),
            imported_bots=data.bot_table.metrics,
        )
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


def _simulated(study: Study) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the chats of each simulated participant, of its newest run with metrics."""
    seen: set[str] = set()
    for run in study.simulations.filter(state=State.DONE).order_by("-pk"):
        for participant in run.plan["participants"]:
            table = None if participant in seen else metric_frame(run=run, participant=participant)
            if table is not None and len(table.drop(columns="participant").dropna(axis=1, how="all").columns) > 2:
                seen.add(participant)
                yield participant, table


def _judge_scores(data: StudyData) -> dict[str, dict[str, float]]:
    """Return the scores of the study's chats by judge, each of its newest comparison on this question.

    Scores count for the texts that were scored: a chat that has changed since is left out.
    """
    jobs = Job.objects.filter(kind=JUDGES_KIND, study=data.study, state=State.DONE, result__isnull=False)
    results = [job.result for job in jobs.order_by("-pk") if (job.result or {}).get("unit") == "chat"]
    results = [result for result in results if result["question"] == data.headline.key]
    if not results:
        return {}
    names = {str(pk): bot for pk, bot in data.conversations.values_list("pk", "bot__bot_id")}
    chats = {chat: names[chat.id] for chat in conversations_for_metrics(data.conversations)}
    gold = gold_of_chats(data.ratings, chats, name=data.study.name)
    chat_of_digest = dict(zip(gold.digests, gold.keys, strict=True))
    scores: dict[str, dict[str, float]] = {}
    for result in results:
        for judge in result["judges"]:
            by_chat = {
                chat_of_digest[digest]: float(score)
                for digest, score in zip(result["digests"], judge["scores"][0], strict=True)
                if digest in chat_of_digest and isinstance(score, int | float)
            }
            if by_chat:
                scores.setdefault(judge["title"], by_chat)
    return scores
