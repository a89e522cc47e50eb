import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("studies", "0015_task_without_bot")]

    operations = [
        migrations.CreateModel(
            name="StudyVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("values", models.JSONField()),
                ("digest", models.CharField(help_text="Of all of the above.", max_length=32)),
                ("frozen_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "rubric",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="study_versions",
                        to="studies.rubric",
                    ),
                ),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="studies.study",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("study", "number"), name="study_version_unique"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="study",
            name="version",
            field=models.ForeignKey(
                editable=False,
                help_text="The newest; new tasks carry it.",
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="+",
                to="studies.studyversion",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="version",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="tasks",
                to="studies.studyversion",
            ),
        ),
    ]
