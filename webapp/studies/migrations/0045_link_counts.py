"""Openings of links become counts of days; the rows that held a digest of each browser are deleted."""

from collections import Counter

import django.db.models.deletion
from django.db import migrations, models
from django.utils import timezone


def count_openings(apps, schema_editor):
    """Count the old rows by the day of their first opening; who was answered was not refused."""
    counts = Counter()
    rows = apps.get_model("studies", "LinkOpening").objects.values_list(
        "study_id", "opened_at", "is_synthetic", "refused", "answered_at"
    )
    for study_id, opened_at, is_synthetic, refused, answered_at in rows.iterator():
        day = timezone.localtime(opened_at).date()
        counts[study_id, day, is_synthetic, "" if answered_at else refused] += 1
    LinkCount = apps.get_model("studies", "LinkCount")
    LinkCount.objects.bulk_create(
        (
            LinkCount(study_id=study_id, day=day, is_synthetic=is_synthetic, refused=refused, n=n)
            for (study_id, day, is_synthetic, refused), n in counts.items()
        ),
        batch_size=500,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0044_live_room_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="LinkCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                (
                    "is_synthetic",
                    models.BooleanField(default=False, help_text="By the link of a rehearsal."),
                ),
                (
                    "refused",
                    models.CharField(
                        blank=True,
                        help_text="Why nobody could begin there; empty where somebody could.",
                        max_length=20,
                    ),
                ),
                ("n", models.PositiveBigIntegerField(default=0)),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="link_counts",
                        to="studies.study",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("study", "day", "is_synthetic", "refused"),
                        name="link_count_once_each",
                    )
                ],
            },
        ),
        migrations.RunPython(count_openings, migrations.RunPython.noop, elidable=True),
    ]
