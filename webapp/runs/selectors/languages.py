"""For which languages metrics hold, and whether a study's conversations are in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from django.conf.locale import LANG_INFO
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.runs.models import MetricRun
from webapp.studies.models import Study

if TYPE_CHECKING:
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


def study_languages(study: Study) -> Counter[str]:
    """Count in how many conversations each language was found when metrics of the study were computed.

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
