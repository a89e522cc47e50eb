import django.db.models.deletion
from django.db import migrations, models

GONE = (
    "bots",
    "rubric",
    "title",
    "minutes",
    "payment",
    "promises_pay_on_failure",
    "organisation",
    "contact",
    "consent_points",
    "consent_text",
    "instructions_text",
    "thanks_text",
    "min_exchanges",
    "max_exchanges",
    "max_message_chars",
    "typing_chars_per_s",
    "prolific_rated",
    "prolific_bot_failed",
    "prolific_withdrawn",
    "completion_url",
    "auto_return",
    "frame_ancestors",
    "n_conversations_wanted",
    "max_conversations_per_participant",
    "max_cost",
)


class Migration(migrations.Migration):
    dependencies = [("studies", "0017_first_versions")]

    operations = [
        migrations.RemoveConstraint(model_name="study", name="study_min_up_to_max_exchanges"),
        *(migrations.RemoveField(model_name="study", name=name) for name in GONE),
        migrations.AlterModelOptions(
            name="study",
            options={
                "base_manager_name": "objects",
                "ordering": ["-created_at"],
                "verbose_name_plural": "studies",
            },
        ),
        migrations.AlterField(
            model_name="task",
            name="version",
            field=models.ForeignKey(
                help_text="Of the study, that this task follows to its end.",
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="tasks",
                to="studies.studyversion",
            ),
        ),
    ]
