"""For which languages metrics hold, and in which a study's conversations are.

A chat is in the language of its study, an imported conversation in that which its import named. Of others the
language is told by their words; where those are too few it is not known, and no metric is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf.locale import LANG_INFO
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.conversations.models import Conversation
from webapp.runs.models import MetricRun, MetricVersion, SelfPlayRun
from webapp.runs.selectors.metrics import metrics_all, results_by_version
from webapp.studies.models import Study

if TYPE_CHECKING:
    import chatbots
    from evaluation.metrics.base import Metric

TOLD_FROM = 0.2
"""Share of the conversations in another language from which it is told: a few are misread, or are mixed."""


def languages_of(metric: Metric) -> str:
    """Say in words for which languages a metric holds."""
    codes: Sequence[str] | None = getattr(metric, "languages", None)
    if codes is None:
        return _("the languages of its model")
    return get_text_list([language_name(code) for code in codes], _("and")) or _("any language")


def language_name(code: str) -> str:
    """Return a language's English name, or its code where Django does not know it."""
    return str(LANG_INFO.get(code, {}).get("name", code))


def conversation_languages(conversations: Sequence[chatbots.Conversation]) -> dict[str, str]:
    """Return the languages of stored conversations by their ids; those whose language is not known are left out."""
    from evaluation.languages import language_of

    said = "values__texts__language"
    rows = Conversation.objects.filter(pk__in=[one.id for one in conversations])
    chats = rows.filter(source=Conversation.Source.CHAT).values_list(
        "pk", f"slot__task__version__{said}", f"study__version__{said}"
    )
    said_by_import = rows.exclude(language="").values_list("pk", "language")
    # Chats of before studies had a language are in English, as every page was.
    of_studies = {str(pk): of_task or of_study or "en" for pk, of_task, of_study in chats}
    of_studies |= {str(pk): language for pk, language in said_by_import}
    found = {one.id: of_studies.get(one.id) or language_of(one.texts) for one in conversations}
    return {pk: language for pk, language in found.items() if language}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metric that was left out of conversations in languages that it does not hold for.

    Attributes:
        n: how many conversations, by language.
        n_results: how many have a result of the metric, with these.
    """

    metric: Metric
    n: Mapping[str, int]
    n_results: int

    @property
    def is_whole(self) -> bool:
        """True if the metric was left out of all its conversations."""
        return sum(self.n.values()) == self.n_results


def results_counted(
    *, study: Study | None = None, run: SelfPlayRun | None = None
) -> dict[str, Counter[str]]:
    """Return the number of finished conversations of a study or run with a result, by version of a metric.

    Returns:
        By the version's key, by language: "" where it was computed, else that for which it does not hold.
    """
    counted = results_by_version(study=study, run=run)
    versions = MetricVersion.objects.filter(pk__in={version for version, _code, _n in counted})
    keys = dict(versions.values_list("pk", "key"))
    found: dict[str, Counter[str]] = {}
    for version, language, n in counted:
        found.setdefault(keys[version], Counter())[language] = n
    return found


def metrics_left_out(
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
    counted: Mapping[str, Counter[str]] | None = None,
) -> list[LeftOut]:
    """Return the metrics, as they are now, that were left out of some conversations of a study or of a run.

    Args:
        counted: `results_counted` of it, where that is known already.
    """
    current = {metric.identity.key: metric for metric in metrics_all()}
    found = results_counted(study=study, run=run) if counted is None else counted
    return [
        LeftOut(
            metric, {code: n for code, n in sorted(counts.items()) if code}, sum(counts.values())
        )
        for key, metric in current.items()
        if (counts := found.get(key)) and set(counts) != {""}
    ]


def left_out_told(found: Sequence[LeftOut]) -> list[str]:
    """Return a sentence for each set of languages that metrics hold for and were left out because of."""
    together: dict[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], list[LeftOut]] = {}
    for one in found:
        codes = tuple(one.metric.languages or ())  # type: ignore[attr-defined]
        together.setdefault((codes, tuple(one.n.items())), []).append(one)
    told = []
    for (_codes, counts), concerned in together.items():
        n = sum(count for _code, count in counts)
        told.append(
            ngettext(
                "Left out of {n} conversation in {languages}, since they hold for {holds} only: {metrics}.",
                "Left out of {n} conversations in {languages}, since they hold for {holds} only: {metrics}.",
                n,
            ).format(
                n=n,
                languages=get_text_list([language_name(code) for code, _count in counts], _("and")),
                holds=languages_of(concerned[0].metric),
                metrics=", ".join(one.metric.title for one in concerned),
            )
        )
    return told


def study_languages(study: Study) -> Counter[str]:
    """Count in how many conversations each language was found by jobs that computed every metric of all of them.

    A conversation counts once for every job that computed something of it.
    """
    found: Counter[str] = Counter()
    for counts in MetricRun.objects.filter(study=study).values_list("languages", flat=True):
        found.update(counts)
    return found


def languages_told(counts: Mapping[str, int], metrics: Sequence[Metric]) -> list[str]:
    """Return a sentence for each set of languages that metrics hold for while many conversations are in others."""
    n = sum(counts.values())
    by_languages: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        if codes := getattr(metric, "languages", None):
            by_languages.setdefault(tuple(codes), []).append(metric)
    told = []
    for codes, concerned in sorted(by_languages.items()):
        others = {code: count for code, count in counts.items() if code not in codes}
        if n and sum(others.values()) >= TOLD_FROM * n:
            most = sorted(others, key=lambda code: (-others[code], code))[:3]
            told.append(
                ngettext(
                    "{languages} is written in {others} of the {n} conversation whose language can be told. Do not "
                    "rely on metrics that hold for {holds} only: {metrics}.",
                    "{languages} is written in {others} of the {n} conversations whose language can be told. Do not "
                    "rely on metrics that hold for {holds} only: {metrics}.",
                    n,
                ).format(
                    others=sum(others.values()),
                    n=n,
                    languages=get_text_list([language_name(code) for code in most], _("or")),
                    holds=languages_of(concerned[0]),
                    metrics=", ".join(metric.title for metric in concerned),
                )
            )
    return told
