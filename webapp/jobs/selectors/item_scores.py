"""Scores of a study's items: imported ones, and metrics of the replies that items were drawn from."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from webapp.jobs.models import ImportedMetric, MetricResult
from webapp.jobs.selectors.metrics import metrics_all, turn_indices, versions_current
from webapp.studies.helped_draws import ItemScores
from webapp.studies.models import Item, Study
from webapp.studies.selectors import items_given

_MOST_IDS = 5_000


def item_score_titles(study: Study) -> dict[str, str]:
    """Return the titles of imported scores and metric columns that items of the study can have, by name."""
    imported = ImportedMetric.objects.filter(project=study.project_id, item_scores__item__study=study).distinct()
    titles = {metric.name: metric.title for metric in imported}
    places = _reply_places(study)
    if not places:
        return titles
    metrics = metrics_all(study.project_id)
    versions = {version.pk: name for name, version in versions_current(metrics).items()}
    chats = {chat for chat, _turn in places.values()}
    results = MetricResult.objects.filter(conversation__in=list(chats)[:_MOST_IDS], metric__in=list(versions))
    computed = {versions[metric] for metric in results.order_by().values_list("metric", flat=True).distinct()}
    columns = [column for metric in metrics if metric.name in computed for column in metric.columns]
    return titles | {column.name: column.title for column in columns if column.level == "turn"}


def item_scores(study: Study, name: str, **_signal: Any) -> ItemScores | None:
    """Return the scores of a study's items by an imported metric, else by a metric's column (receiver).

    A metric's column counts for items that are replies of stored conversations. None if nothing has this name.
    """
    imported = ImportedMetric.objects.filter(name=name, project=study.project_id).first()
    if imported is not None:
        rows = imported.item_scores.filter(item__study=study).values_list("item", "value")
        if scores := dict(rows):
            return ItemScores(f"{name}@{imported.revision}", scores)
    metrics = [metric for metric in metrics_all(study.project_id) if name in {c.name for c in metric.columns}]
    version = next(iter(versions_current(metrics).values()), None)
    if version is None:
        return None
    places = _reply_places(study)
    chats = list({chat for chat, _turn in places.values()})
    score_by_place: dict[tuple[UUID, int], float] = {}
    for start in range(0, len(chats), _MOST_IDS):
        batch = chats[start : start + _MOST_IDS]
        results = dict(
            MetricResult.objects.filter(metric=version, conversation__in=batch).values_list("conversation", "turns")
        )
        for chat, indices in turn_indices(list(results)).items():
            values = results[chat].get(name) or ()
            score_by_place |= {(chat, k): x for k, x in zip(indices, values, strict=False) if x is not None}
    scores = {pk: score_by_place[place] for pk, place in places.items() if place in score_by_place}
    return ItemScores(f"{name}@{version.version}:{version.key}", scores)


def _reply_places(study: Study) -> dict[int, tuple[UUID, int]]:
    """Return the conversation and turn of each item that is a stored reply, by the item's primary key."""
    rows = items_given(study).filter(purpose=Item.Purpose.JUDGED, conversation__isnull=False)
    # Items with new replies of other bots have a longer key.
    return {
        pk: (chat, int(turn))
        for pk, chat, turn, key in rows.values_list("pk", "conversation", "origin__turn", "key")
        if turn is not None and key == f"{chat}/{turn}"
    }
