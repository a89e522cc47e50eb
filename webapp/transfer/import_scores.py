"""Import of scores from elsewhere, which become metrics of a study or self-play run.

Importing a file again replaces the values that differ; values that the file does not mention stay. Conversations
without a value get a result without one, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from chatbots.text import quote, sanitise
from evaluation.data.formats.base import Skipped
from evaluation.data.scores import MatchedMetric, MatchedScores, match_scores
from evaluation.metrics.imported import NO_VALUE
from evaluation.metrics.registry import metric_list
from webapp.conversations.models import Conversation
from webapp.core.audit_trail import SCORES_DELETE, SCORES_IMPORT, record
from webapp.core.errors import Refused
from webapp.core.models import Project
from webapp.jobs.models import ImportedMetric, ItemScore, MetricResult, MetricVersion, SelfPlayRun
from webapp.jobs.selectors.metrics import imported_metric, measurable, turn_indices
from webapp.studies.models import Item, Study
from webapp.transfer.exporters.base import dialogue_id
from webapp.transfer.models import ImportedFile

MOST_REPORTED = 200
_CHUNK = 1_000
_COLUMNS = (
    "conversation",
    "bot",
    "participant",
    "rater",
    "turn",
    "speaker",
    "study",
    "state",
    "votes",
    "vote",
    "hybrid",
)
"""Columns of tables that also have metrics."""


@dataclass
class MetricCounts:
    """Number of values of one metric in an import.

    Attributes:
        new, replaced, unchanged: values stored for the first time, in place of another value, or already stored.
        missing: rows of the file without a value.
        without: conversations of the study or run that have no value now.
    """

    title: str = ""
    new: int = 0
    replaced: int = 0
    unchanged: int = 0
    missing: int = 0
    without: int = 0


@dataclass
class ScoresReport:
    """Result of an import of scores."""

    metrics: dict[str, MetricCounts] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report with the first skipped rows, as the command prints it."""
        return {
            "metrics": {name: vars(counts) for name, counts in self.metrics.items()},
            "n_skipped": len(self.skipped),
            "skipped": [{"line": row.line, "reason": row.reason} for row in self.skipped[:MOST_REPORTED]],
        }


def scores_target(study: str, run: int | None = None) -> tuple[Study | None, SelfPlayRun | None]:
    """Return the study or self-play run that gets scores.

    Raises:
        Refused: `not_found`, or `bad_target` unless exactly one is named.
    """
    if bool(study) == (run is not None):
        raise Refused("bad_target", "name either a study or a self-play run")
    target = Study.objects.filter(key=study).first() if study else SelfPlayRun.objects.filter(pk=run).first()
    if target is None:
        name = f"study {quote(study)}" if study else f"run {run}"
        raise Refused("not_found", f"there is no {name}; import its conversations first")
    return (target, None) if isinstance(target, Study) else (None, target)


def scores_preview(path: Path, *, study: Study | None, run: SelfPlayRun | None = None) -> MatchedScores:
    """Assign a file's scores to a study or run without storing anything.

    Raises:
        OSError, ValueError: as `match_scores`.
    """
    ids, ambiguous = _known_ids(study, run)
    replies: dict[str, Collection[int]] = {}

    def find(name: str) -> str | None:
        if name in ambiguous:
            raise ValueError(
                f"several conversations have the id {quote(name)}; use the ids of the column conversation in exports"
            )
        return ids.get(name)

    def turns(name: str) -> Collection[int] | None:
        if name.startswith(_ITEM):
            return None
        if not replies:
            rows = measurable(study=study, run=run).values_list("pk", flat=True)
            replies.update({str(pk): numbers for pk, numbers in turn_indices(rows, of_bot=run is None).items()})
        return replies.get(name, ())

    return match_scores(path, find=find, turns=turns, reserved=_reserved_names(study))


_ITEM = "item:"


def _known_ids(study: Study | None, run: SelfPlayRun | None) -> tuple[dict[str, str], set[str]]:
    """Return the ids of conversations and items by the ids in files, and ids that several conversations have."""
    ids: dict[str, str] = {}
    ambiguous: set[str] = set()
    rows = measurable(study=study, run=run).values_list("pk", "external_id", "bot__params")
    for pk, external_id, params in rows.iterator():
        for name in {str(pk), external_id, dialogue_id(pk, external_id, params)} - {""}:
            if ids.setdefault(name, str(pk)) != str(pk):
                ambiguous.add(name)
    if study is not None:
        for key in study.items.values_list("key", flat=True).iterator():
            ids.setdefault(key, f"{_ITEM}{key}")
    return ids, ambiguous


def _reserved_names(study: Study | None) -> set[str]:
    metrics = metric_list()
    names = {metric.name for metric in metrics} | {column.name for metric in metrics for column in metric.columns}
    questions = study.rubric.dimensions.values_list("key", flat=True) if study is not None else ()
    return names | set(_COLUMNS) | {key.lower() for key in questions}


def scores_import(
    path: Path,
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    name: str = "",
    lower: Collection[str] = (),
    licence: str = "",
    source: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ScoresReport:
    """Import a file of scores into a study or a self-play run (idempotent).

    Args:
        name: original name of an upload; empty: that of the file.
        lower: names or titles of metrics whose lower values are better.
        progress: called with (values stored, all values).

    Raises:
        OSError, ValueError: as `match_scores`, or an unknown metric in `lower`.
        Refused: `no_scores` if no row can be used, with the first reasons.
    """
    if (study is None) == (run is None):
        raise ValueError("give either study or run")
    matched = scores_preview(path, study=study, run=run)
    metrics = {key: metric for key, metric in matched.metrics.items() if metric.values}
    if not metrics:
        reasons = "; ".join(f"line {row.line}: {row.reason}" for row in matched.skipped[:3])
        raise Refused("no_scores", f"{name or path.name} contains no score that can be used. {reasons}".strip())
    if unknown := set(lower) - {word for metric in matched.metrics.values() for word in (metric.name, metric.title)}:
        raise ValueError(f"there is no metric {quote(min(unknown))} in the file; it has {', '.join(matched.metrics)}")
    counts = {key: MetricCounts(metric.title, missing=metric.n_missing) for key, metric in matched.metrics.items()}
    report = ScoresReport(counts, matched.skipped)
    project = (study or run).project_id  # type: ignore[union-attr]
    n_all, n_done = sum(len(metric.values) for metric in metrics.values()), 0
    for key, metric in metrics.items():
        is_lower = metric.name in lower or metric.title in lower
        direction = ImportedMetric.Direction.LOWER if is_lower else ""
        facts = {"direction": direction, "licence": sanitise(licence, 200), "source": sanitise(source, 500)}
        row = _metric_row(metric.name, metric.title, project=project, **facts)
        writer = _ScoreWriter(row, metric, report.metrics[key])
        writer.write_conversations(study, run)
        writer.write_items(study)
        n_done += len(metric.values)
        if progress is not None:
            progress(n_done, n_all)
    with transaction.atomic():
        if study is not None:
            ImportedFile.objects.update_or_create(
                study=study,
                name=_file_name(study, sanitise(name or path.name, 200)),
                defaults={
                    "licence": sanitise(licence, 200),
                    "source": sanitise(source, 500),
                    "mapping": {"metrics": sorted(metrics)},
                },
            )
        record(SCORES_IMPORT, study or run, metrics=len(metrics), values=n_all)
    return report


def _file_name(study: Study, name: str) -> str:
    """Return the name under which a file of scores is recorded; another file of the study keeps its record."""
    is_of_data = study.imported_files.filter(name=name).exclude(mapping__has_key="metrics").exists()
    return f"{name[:190]} (scores)" if is_of_data else name


def _metric_row(name: str, title: str, *, project: str | None, **facts: str) -> ImportedMetric:
    """Return a project's row of an imported metric, created on its first import; empty facts change nothing."""
    facts = {key: text for key, text in facts.items() if text}
    with transaction.atomic():
        # Imports that start at once must not both create it.
        Project.objects.select_for_update(no_key=True).get(pk=project)
        row = ImportedMetric.everywhere.filter(name=name, project=project).first()
        if row is None:
            row = ImportedMetric(name=name, title=title, project_id=project, **facts)
            identity = imported_metric(row).identity
            row.version = MetricVersion.objects.create(
                key=identity.key, name=row.name, version=identity.version, params=dict(identity.params)
            )
            row.save()
        elif any(getattr(row, key) != text for key, text in facts.items()):
            ImportedMetric.everywhere.filter(pk=row.pk).update(**facts)
    return row


def _revision_raise(pk: int) -> None:
    """Change the identity of a metric whose values change; the first values keep its revision."""
    row = ImportedMetric.everywhere.select_for_update().get(pk=pk)
    if _has_values(row):
        row.revision += 1
    row.save()  # `updated_at` tells stored analyses that values have changed
    identity = imported_metric(row).identity
    MetricVersion.objects.filter(pk=row.version_id).update(key=identity.key, version=identity.version)


def _has_values(row: ImportedMetric) -> bool:
    return (
        MetricResult.objects.filter(metric=row.version_id).exists()
        or ItemScore._base_manager.filter(metric=row).exists()
    )


class _ScoreWriter:
    """Storage of one metric's scores in batches."""

    def __init__(self, row: ImportedMetric, metric: MatchedMetric, counts: MetricCounts) -> None:
        self.row, self.metric, self.counts = row, metric, counts
        self.has_changed = False
        self.conversations = {name: value for (name, turn), value in metric.values.items() if turn is None}
        self.replies: dict[str, dict[int, float]] = {}
        for (name, turn), value in metric.values.items():
            if turn is not None:
                self.replies.setdefault(name, {})[turn] = value

    def write_conversations(self, study: Study | None, run: SelfPlayRun | None) -> None:
        """Store a result for every finished conversation, without a value for those that the file leaves out."""
        ids = list(measurable(study=study, run=run).order_by("pk").values_list("pk", flat=True))
        for start in range(0, len(ids), _CHUNK):
            with transaction.atomic():
                self._write_batch(ids[start : start + _CHUNK])

    def _write_batch(self, batch: Sequence[UUID]) -> None:
        # A participant may have been erased meanwhile; lock the others' rows until this is stored.
        present = Conversation.objects.filter(pk__in=batch).order_by("pk").select_for_update(no_key=True)
        ids = list(present.values_list("pk", flat=True))
        stored = {
            result.conversation_id: result
            for result in MetricResult.objects.filter(metric=self.row.version_id, conversation__in=ids)
        }
        needs_turns = [pk for pk in ids if str(pk) in self.replies or (pk in stored and stored[pk].turns)]
        indices = turn_indices(needs_turns)
        results = [self._merge(pk, stored.get(pk), indices.get(pk, ())) for pk in ids]
        changed = [
            result
            for result in results
            if (old := stored.get(result.conversation_id)) is None
            or (old.values, old.turns) != (result.values, result.turns)
        ]
        self.counts.without += sum(result.values[self.row.name] is None for result in results)
        if changed:
            self._raise_revision()
            # Replaced rather than updated: triggers of the search index follow inserts and deletes.
            replaced_ids = [result.conversation_id for result in changed if result.conversation_id in stored]
            MetricResult.objects.filter(metric=self.row.version_id, conversation__in=replaced_ids).delete()
            MetricResult.objects.bulk_create(changed, batch_size=500)

    def _merge(self, pk: UUID, old: MetricResult | None, indices: Sequence[int]) -> MetricResult:
        """Return the conversation's result with the file's values in place of stored ones."""
        name, key = self.row.name, str(pk)
        old_turns = list((old.turns if old is not None else {}).get(name) or [None] * len(indices))
        value = (old.values if old is not None else {}).get(name)
        stored_value = value
        if value is not None and value == _mean(old_turns):
            value = None
        turns = list(old_turns)
        for turn, score in self.replies.get(key, {}).items():
            place = indices.index(turn)
            self._count(old_turns[place], score)
            turns[place] = score
        if (score_of_chat := self.conversations.get(key)) is not None:
            self._count(score_of_chat if stored_value == score_of_chat else value, score_of_chat)
            value = score_of_chat
        if value is None:
            value = _mean(turns)
        return MetricResult(
            conversation_id=pk,
            metric_id=self.row.version_id,
            values={name: value},
            turns={name: turns} if any(score is not None for score in turns) else {},
            reasons={} if value is not None else {name: NO_VALUE},
        )

    def _count(self, old: float | None, score: float) -> None:
        self.counts.new += old is None
        self.counts.unchanged += old == score
        self.counts.replaced += old is not None and old != score

    def write_items(self, study: Study | None) -> None:
        """Store the scores of items to rate."""
        keys = {name.removeprefix(_ITEM): value for name, value in self.conversations.items() if name[:5] == _ITEM}
        if study is None or not keys:
            return
        rows = dict(Item.objects.filter(study=study).values_list("pk", "key"))
        with transaction.atomic():
            stored = dict(self.row.item_scores.filter(item__study=study).values_list("item", "value"))
            scores = {pk: keys[key] for pk, key in rows.items() if key in keys}
            for pk, score in scores.items():
                self._count(stored.get(pk), score)
            self.counts.without += len(rows.keys() - scores.keys() - stored.keys())
            if any(stored.get(pk) != score for pk, score in scores.items()):
                self._raise_revision()
                ItemScore.objects.bulk_create(
                    [ItemScore(metric=self.row, item_id=pk, value=score) for pk, score in scores.items()],
                    batch_size=500,
                    update_conflicts=True,
                    unique_fields=["metric", "item"],
                    update_fields=["value"],
                )

    def _raise_revision(self) -> None:
        """Change the metric's identity, once per import; a first import keeps its revision."""
        if self.has_changed:
            return
        self.has_changed = True
        _revision_raise(self.row.pk)


def _mean(turns: Sequence[float | None]) -> float | None:
    scores = [score for score in turns if score is not None]
    return sum(scores) / len(scores) if scores else None


def imported_metric_delete(name: str) -> int:
    """Delete an imported metric with its values everywhere in its project; return their number.

    Raises:
        Refused: `not_found`; `ambiguous` if no project is active and several have such a metric.
    """
    with transaction.atomic():
        rows = list(ImportedMetric.objects.select_for_update().filter(name=name))
        if not rows:
            names = ", ".join(ImportedMetric.objects.values_list("name", flat=True)) or "none"
            raise Refused("not_found", f"there is no imported metric {quote(name)}; imported metrics: {names}")
        if len(rows) > 1:
            projects = ", ".join(sorted(row.project_id for row in rows))
            raise Refused("ambiguous", f"several projects have a metric {quote(name)}; name one of them: {projects}")
        row = rows[0]
        results = MetricResult.objects.filter(metric=row.version_id)
        n_values = results.filter(reasons={}).count() + row.item_scores.count()
        results.delete()
        record(SCORES_DELETE, row, values=n_values)
        version = row.version
        row.delete()
        version.delete()
        for file in ImportedFile.objects.filter(study__project=row.project_id, mapping__has_key="metrics"):
            _forget_metric(file, name)
    return n_values


def _forget_metric(file: ImportedFile, name: str) -> None:
    """Remove a metric from the record of its file, and the record with its last metric."""
    mapping: Mapping[str, Any] = file.mapping
    names = [metric for metric in mapping["metrics"] if metric != name]
    if names:
        ImportedFile.objects.filter(pk=file.pk).update(mapping={**mapping, "metrics": names})
    else:
        file.delete()


def scores_move(study: Study, **_signal: Any) -> None:
    """Give the scores of a study that has moved to metrics of its new project (receiver of `study_moved`)."""
    of_study = Q(conversation__study=study) | Q(conversation__selfplay__run__study=study)
    for old in ImportedMetric.everywhere.exclude(project=study.project_id):
        results = MetricResult.objects.filter(of_study, metric=old.version_id)
        scores = ItemScore._base_manager.filter(metric=old, item__study=study)
        if not (results.exists() or scores.exists()):
            continue
        facts = {"direction": old.direction, "licence": old.licence, "source": old.source}
        if ImportedMetric.everywhere.filter(name=old.name, project=study.project_id).exists():
            facts = {}
        row = _metric_row(old.name, old.title, project=study.project_id, **facts)
        _revision_raise(row.pk)
        while batch := list(results.order_by("pk")[:_CHUNK]):
            # Replaced rather than updated: triggers of the search index follow inserts and deletes.
            MetricResult.objects.filter(pk__in=[result.pk for result in batch]).delete()
            for result in batch:
                result.pk, result.metric_id = None, row.version_id
            MetricResult.objects.bulk_create(batch, batch_size=500)
        scores.update(metric=row)
        if not _has_values(old):
            old.delete()
            MetricVersion.objects.filter(pk=old.version_id).delete()
