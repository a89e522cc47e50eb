"""Metrics, their languages, and conversations without results.

A chat has the language in which its participant read the study; an imported conversation has that of its import.
Otherwise the language is detected from the text. It is unknown for short texts, for which no metric is skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf.locale import LANG_INFO
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.registry import UnknownName
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.jobs.models import ImportedMetric, MetricResult, MetricRun, MetricVersion, ResultTally, SelfPlayRun
from webapp.studies.models import Study

if TYPE_CHECKING:
    import chatbots
    from evaluation.data.scores import Place
    from evaluation.metrics.base import Metric
    from evaluation.metrics.imported import ScoreFileMetric


def metrics_all(project: str | None = None) -> list[Metric]:
    """Return every registered and imported metric by name, without loading models.

    Args:
        project: as in `imported_metrics`.
    """
    from evaluation.metrics.registry import metric_list

    # A command without a project may see imported metrics of several projects under one name.
    metrics = {metric.name: metric for metric in (*imported_metrics(project=project), *metric_list())}
    return [metrics[name] for name in sorted(metrics)]


def imported_metrics(study: Study | None = None, *, project: str | None = None) -> list[ScoreFileMetric]:
    """Return the visible imported metrics, without their values.

    Args:
        study: only metrics of its project with values for its conversations.
        project: only metrics of this project.
    """
    rows = ImportedMetric.objects.all()
    if project is not None:
        rows = rows.filter(project=project)
    if study is not None:
        rows = rows.filter(project=study.project_id)
        tallies = ResultTally.objects.filter(study=study).values("metric")
        rows = rows.filter(version__in=tallies)
    return [imported_metric(row) for row in rows]


def imported_metric(row: ImportedMetric, values: Mapping[Place, float] | None = None) -> ScoreFileMetric:
    """Return an imported metric, with values if they are loaded."""
    from evaluation.metrics.imported import ScoreFileMetric

    return ScoreFileMetric(
        row.name,
        row.title,
        direction=row.direction,  # type: ignore[arg-type]
        version=str(row.revision),
        project=row.project_id or "",
        licence=row.licence,
        values=values,
    )


def metric_with_item_scores(name: str, study: Study | None) -> Metric | None:
    """Return an imported metric with its values for the study's rated replies; None for other metrics.

    The ids are those of the study's rated replies: an item's key, or `CONVERSATION/TURN`.
    """
    row = None if study is None else ImportedMetric.objects.filter(name=name, project=study.project_id).first()
    if row is None:
        return None
    of_items = row.item_scores.filter(item__study=study)
    values: dict[Place, float] = {(key, None): value for key, value in of_items.values_list("item__key", "value")}
    results = MetricResult.objects.filter(metric=row.version_id, conversation__study=study)
    turns_by_chat = dict(results.values_list("conversation_id", "turns"))
    for chat, indices in turn_indices(turns_by_chat).items():
        scores = turns_by_chat[chat].get(name) or []
        values |= {(str(chat), k): x for k, x in zip(indices, scores, strict=False) if x is not None}
    return imported_metric(row, values)


def turn_indices(conversation_ids: Collection[UUID], *, of_bot: bool = False) -> dict[UUID, list[int]]:
    """Return the numbers of the conversations' turns, in the order of stored values.

    Args:
        of_bot: only the bot's replies.
    """
    indices: dict[UUID, list[int]] = {}
    ids = list(conversation_ids)
    for start in range(0, len(ids), _MOST_IDS):
        turns = Turn.objects.filter(conversation__in=ids[start : start + _MOST_IDS], is_refused=False)
        turns = turns.filter(speaker=Turn.Speaker.BOT) if of_bot else turns
        for chat, index in turns.order_by("conversation", "index").values_list("conversation", "index"):
            indices.setdefault(chat, []).append(index)
    return indices


_MOST_IDS = 5_000


def metric_titles(*, ingredients: bool = True) -> dict[str, str]:
    """Return the titles of conversation-level columns.

    Args:
        ingredients: also include columns that only serve as inputs of fits.
    """
    return {
        column.name: column.title.removesuffix(", mean")
        for metric in metrics_all()
        if ingredients or not getattr(metric, "ingredient", False)
        for column in metric.columns
        if column.level == "conversation"
    }


def metrics_find(names: Sequence[str] = ()) -> list[Metric]:
    """Return the named metrics, or all available default ones.

    Raises:
        UnknownName: for an unknown name; the message suggests similar ones.
        Refused: `unavailable` for a named metric that cannot be computed here, with the reason.
    """
    from evaluation.metrics.registry import configured_metrics, metric_defaults, metric_get

    if not names:
        return metric_defaults()
    chosen: list[Metric] = []
    imported = {metric.name: metric for metric in imported_metrics()}
    for name in dict.fromkeys(names):
        try:
            chosen.append(imported[name] if name in imported else metric_get(name))
        except UnknownName:
            for broken in configured_metrics.broken:
                if broken.id == name:
                    raise UnknownName(str(broken)) from None
            raise
    for metric in chosen:
        reason = metric.unavailable_reason()
        if reason is not None:
            raise Refused("unavailable", f"{metric.name} cannot be computed here: {reason}")
    return chosen


def measurable(*, study: Study | None, run: SelfPlayRun | None) -> QuerySet[Conversation]:
    """Return final conversations: not open, failed or withdrawn."""
    rows = Conversation.objects.filter(state=Conversation.State.COMPLETED)
    return rows.filter(study=study) if study is not None else rows.filter(selfplay__run=run)


def _lacking(
    study: Study | None, run: SelfPlayRun | None, versions: Collection[MetricVersion]
) -> QuerySet[Conversation]:
    ids = [version.pk for version in versions]
    return (
        measurable(study=study, run=run)
        .annotate(n_results=Count("metric_results", filter=Q(metric_results__metric__in=ids)))
        .filter(n_results__lt=len(ids))
    )


def conversations_lacking_count(
    *, study: Study | None, run: SelfPlayRun | None, versions: Collection[MetricVersion]
) -> int:
    """Count the conversations that lack a result of any of the metrics."""
    return _lacking(study, run, versions).count()


def conversations_unmeasured(run: SelfPlayRun) -> int:
    """Count a run's finished conversations that lack a current default metric."""
    default_keys = {metric.identity.key for metric in metrics_find()}
    versions = list(MetricVersion.objects.filter(key__in=default_keys))
    if len(versions) < len(default_keys):
        return measurable(study=None, run=run).count()
    return conversations_lacking_count(study=None, run=run, versions=versions)


def conversations_lacking(
    *, study: Study | None, run: SelfPlayRun | None, versions: Collection[MetricVersion]
) -> list[UUID]:
    """Return conversations that lack a result of a metric, oldest first."""
    return list(_lacking(study, run, versions).order_by("created_at", "pk").values_list("pk", flat=True))


def metrics_lacked(
    conversation_ids: Collection[UUID], versions: Mapping[str, MetricVersion]
) -> dict[UUID, tuple[str, ...]]:
    """Return the names of missing metrics by conversation.

    Args:
        versions: current version by metric name.
    """
    names = {version.pk: name for name, version in versions.items()}
    names_by_conversation: dict[UUID, set[str]] = {}
    rows = MetricResult.objects.filter(conversation__in=conversation_ids, metric__in=list(names))
    for conversation_id, metric_id in rows.values_list("conversation_id", "metric_id"):
        names_by_conversation.setdefault(conversation_id, set()).add(names[metric_id])
    return {
        pk: tuple(name for name in versions if name not in names_by_conversation.get(pk, ())) for pk in conversation_ids
    }


def results_by_version(*, study: Study | None, run: SelfPlayRun | None) -> list[tuple[int, str, int]]:
    """Count the finished conversations with results by metric version and language.

    Each row is the key of the metric's version, the language and the number, of a study or of a run. A study's numbers
    come from `ResultTally`, since it may have millions of results.
    """
    if study is not None:
        rows: QuerySet[Any] = ResultTally.objects.filter(study=study)
        tallies = rows.order_by().values_list("metric", "language").annotate(Sum("n"))
        return [row for row in tallies if row[2]]
    rows = MetricResult.objects.filter(conversation__in=measurable(study=None, run=run))
    return list(rows.order_by().values_list("metric", "language").annotate(Count("pk")))


def versions_used(conversations: QuerySet[Conversation]) -> list[tuple[MetricVersion, bool]]:
    """Return the metric versions with results, and whether each is current."""
    used = MetricResult.objects.filter(conversation__in=conversations).order_by()
    versions = MetricVersion.objects.filter(pk__in=used.values("metric").distinct())
    current = {version.pk for version in versions_current(metrics_all()).values()}
    return [(version, version.pk in current) for version in versions.order_by("name", "pk")]


def versions_current(metrics: Sequence[Metric]) -> dict[str, MetricVersion]:
    """Return the current version's row by metric name, if ever computed."""
    keys = {metric.identity.key: metric.name for metric in metrics}
    return {keys[version.key]: version for version in MetricVersion.objects.filter(key__in=list(keys))}


def metrics_computed() -> set[str]:
    """Return the names of metrics with results of any version."""
    has_result = Exists(MetricResult.objects.filter(metric=OuterRef("pk")))
    return set(MetricVersion.objects.filter(has_result).values_list("name", flat=True))


def metric_runs_newest(study: Study, n: int) -> list[MetricRun]:
    """Return the `n` newest metric jobs of the study."""
    return list(MetricRun.objects.filter(study=study)[:n])


def metric_run_of(run: SelfPlayRun) -> MetricRun | None:
    """Return the newest metric job of this run, or None."""
    return MetricRun.objects.filter(run=run).order_by("-pk").first()


TOLD_FROM = 0.2
"""Minimum share of conversations in another language for a warning: a few may be misdetected or mixed."""


def languages_of(metric: Metric) -> str:
    """Describe in words the languages that a metric supports."""
    codes: Sequence[str] | None = getattr(metric, "languages", None)
    if codes is None:
        return _("the languages of its model")
    return languages_named(codes) or _("any language")


def languages_named(codes: Sequence[str]) -> str:
    """Return the English names of languages, joined by commas and “and”."""
    return get_text_list([language_name(code) for code in codes], _("and"))


def language_name(code: str) -> str:
    """Return a language's English name.

    Or its code, if Django does not know it.
    """
    return str(LANG_INFO.get(code, {}).get("name", code))


def conversation_languages(conversations: Sequence[chatbots.Conversation]) -> dict[str, str]:
    """Return the known languages of stored conversations by id."""
    from evaluation.data.languages import language_of

    rows = Conversation.objects.filter(pk__in=[conversation.id for conversation in conversations])
    versions = ("slot__task__version", "study__version")
    language_paths = [f"{version}__values__texts__{name}" for version in versions for name in ("language", "languages")]
    chats = rows.filter(source=Conversation.Source.CHAT).values_list("pk", "participant__language", *language_paths)
    said_by_import = rows.exclude(language="").values_list("pk", "language")
    # Chats from before studies had a language are in English, like all pages then.
    of_studies = {
        str(pk): participant_language
        if participant_language in (offered or of_study_offered or ())
        else of_task or of_study or "en"
        for pk, participant_language, of_task, offered, of_study, of_study_offered in chats
    }
    of_studies |= {str(pk): language for pk, language in said_by_import}
    languages = {
        conversation.id: of_studies.get(conversation.id) or language_of(conversation.texts)
        for conversation in conversations
    }
    return {pk: language for pk, language in languages.items() if language}


@dataclass(frozen=True, slots=True)
class SkippedMetric:
    """Metric that skipped conversations in unsupported languages.

    Attributes:
        n: number of skipped conversations by language.
        n_results: number of conversations with a row of the metric, including skipped ones.
    """

    metric: Metric
    n: Mapping[str, int]
    n_results: int

    @property
    def is_whole(self) -> bool:
        """True if the metric skipped all conversations."""
        return sum(self.n.values()) == self.n_results


def results_counted(*, study: Study | None = None, run: SelfPlayRun | None = None) -> dict[str, Counter[str]]:
    """Count the finished conversations with results by metric version.

    Returns:
        Counts by version key, then by language: "" if computed, else the unsupported language.
    """
    result_counts = results_by_version(study=study, run=run)
    versions = MetricVersion.objects.filter(pk__in={version for version, _code, _n in result_counts})
    keys = dict(versions.values_list("pk", "key"))
    counts_by_version: dict[str, Counter[str]] = {}
    for version, language, n in result_counts:
        counts_by_version.setdefault(keys[version], Counter())[language] = n
    return counts_by_version


def metrics_left_out(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    known_counts: Mapping[str, Counter[str]] | None = None,
) -> list[SkippedMetric]:
    """Return the current metrics that skipped conversations of a study or run.

    Args:
        known_counts: result of `results_counted`, if already available.
    """
    current = {metric.identity.key: metric for metric in metrics_all()}
    counts_by_version = results_counted(study=study, run=run) if known_counts is None else known_counts
    return [
        SkippedMetric(metric, {code: n for code, n in sorted(counts.items()) if code}, sum(counts.values()))
        for key, metric in current.items()
        if (counts := counts_by_version.get(key)) and set(counts) != {""}
    ]


def left_out_sentences(skipped_metrics: Sequence[SkippedMetric]) -> list[str]:
    """Return a sentence per set of supported languages about skipped metrics."""
    together: dict[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], list[SkippedMetric]] = {}
    for skipped in skipped_metrics:
        codes = tuple(skipped.metric.languages or ())  # type: ignore[attr-defined]
        together.setdefault((codes, tuple(skipped.n.items())), []).append(skipped)
    sentences = []
    for (_codes, counts), concerned in together.items():
        n = sum(count for _code, count in counts)
        sentences.append(
            ngettext(
                "Not computed for {n} conversation in {languages}, because they are valid for {holds} only: {metrics}.",
                "Not computed for {n} conversations in {languages}, because they are valid for {holds} only: "
                "{metrics}.",
                n,
            ).format(
                n=n,
                languages=get_text_list([language_name(code) for code, _count in counts], _("and")),
                holds=languages_of(concerned[0].metric),
                metrics=", ".join(skipped.metric.title for skipped in concerned),
            )
        )
    return sentences


def study_languages(study: Study) -> Counter[str]:
    """Count conversations by language, from jobs that computed every metric.

    A conversation counts once per job that computed a metric for it.
    """
    totals: Counter[str] = Counter()
    for counts in MetricRun.objects.filter(study=study).values_list("languages", flat=True):
        totals.update(counts)
    return totals


def language_sentences(counts: Mapping[str, int], metrics: Sequence[Metric]) -> list[str]:
    """Return a warning per set of supported languages that many conversations lack."""
    n = sum(counts.values())
    by_languages: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        if codes := getattr(metric, "languages", None):
            by_languages.setdefault(tuple(codes), []).append(metric)
    sentences = []
    for codes, concerned in sorted(by_languages.items()):
        other_counts = {code: count for code, count in counts.items() if code not in codes}
        if n and sum(other_counts.values()) >= TOLD_FROM * n:
            commonest = sorted(other_counts, key=lambda code: (-other_counts[code], code))[:3]
            sentences.append(
                ngettext(
                    "{languages} is the language of {others} of the {n} conversation with a detected language. Do "
                    "not rely on metrics that are valid for {holds} only: {metrics}.",
                    "{languages} is the language of {others} of the {n} conversations with a detected language. Do "
                    "not rely on metrics that are valid for {holds} only: {metrics}.",
                    n,
                ).format(
                    others=sum(other_counts.values()),
                    n=n,
                    languages=get_text_list([language_name(code) for code in commonest], _("or")),
                    holds=languages_of(concerned[0]),
                    metrics=", ".join(metric.title for metric in concerned),
                )
            )
    return sentences
