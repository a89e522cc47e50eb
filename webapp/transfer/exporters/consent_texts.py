"""One row per version of the consent, with the exact texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Count, Min

from webapp.studies.models import ConsentText, Study
from webapp.studies.terms import AGREED
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, register_exporter
from webapp.transfer.exporters.participants import participants_included

_COLUMNS = (
    ExportColumn("consent_version", "text", "Version, as in the table participants."),
    ExportColumn("n_participants", "integer", "Participants of the study who agreed to it."),
    ExportColumn("first_at", "time", "When the first of them did."),
    *(
        ExportColumn(name, "text", f"The study's {name.replace('_', ' ')}, as it was.")
        for name in AGREED
    ),
)


@register_exporter
class ConsentTexts:
    name = packaged = "consent_texts"
    title = "Texts agreed to"
    description = "One row per version of what people agreed to, with the exact texts."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def count(self, study: Study, options: ExportOptions) -> int:
        return (
            ConsentText.objects.filter(participants__in=participants_included(study, options))
            .distinct()
            .count()
        )

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        people = participants_included(study, options)
        versions = (
            people.exclude(consent=None)
            .order_by()
            .values_list("consent")
            .annotate(n=Count("pk"), first=Min("consented_at"))
        )
        counted = {pk: (n, first) for pk, n, first in versions}
        for consent in ConsentText.objects.filter(pk__in=counted).order_by("pk"):
            n, first = counted[consent.pk]
            texts = (
                "" if (text := consent.texts.get(name)) is None else str(text) for name in AGREED
            )
            yield [consent.digest, n, first, *texts]
