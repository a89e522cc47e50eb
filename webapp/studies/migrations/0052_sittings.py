from django.db import migrations, models
from django.db.models import Q

OUTCOMES = [
    ("rated", "Rated"),
    ("bot_failed", "Ended early, the chatbot failed"),
    ("screened_out", "Screened out"),
    ("failed_check", "Failed a check"),
    ("no_consent", "Did not agree"),
    ("late", "Came too late for the part"),
    ("withdrawn", "Withdrawn"),
]


class Migration(migrations.Migration):
    """Tasks are parts of a study; one can be missed."""

    dependencies = [("studies", "0051_task_count_cell")]

    operations = [
        migrations.RemoveConstraint(model_name="task", name="task_ended_has_outcome"),
        migrations.AddField(
            model_name="task",
            name="sitting",
            field=models.CharField(
                blank=True, editable=False, help_text="Key of the part that it is; empty without parts.", max_length=40
            ),
        ),
        migrations.AlterField(
            model_name="task",
            name="outcome",
            field=models.CharField(
                blank=True,
                choices=OUTCOMES,
                help_text="Empty while it is open, and where it ended in nothing (swapped, left).",
                max_length=20,
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=~Q(sitting="") & Q(state__in=["open", "completed", "ended"]),
                fields=("participant", "sitting"),
                name="task_sitting_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=~Q(state="ended") | Q(outcome__in=["screened_out", "failed_check", "no_consent", "late"]),
                name="task_ended_has_outcome",
            ),
        ),
    ]
