import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # Conversations point at the model by its name, which they must have learned before it changes.
    dependencies = [
        ("studies", "0010_study_rule"),
        ("conversations", "0007_turn_answered_by"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="assignment", name="assignment_one_open_each"),
        migrations.RemoveConstraint(model_name="assignment", name="assignment_completed_has_code"),
        migrations.RenameModel("Assignment", "Task"),
        migrations.RenameIndex(
            model_name="task",
            old_name="studies_ass_bot_id_3159cb_idx",
            new_name="studies_tas_bot_id_fb0099_idx",
        ),
        migrations.AlterField(
            model_name="task",
            name="participant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="tasks",
                to="studies.participant",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                fields=["participant"], condition=Q(state="open"), name="task_one_open_each"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=~Q(state="completed") | Q(completion_code__isnull=False),
                name="task_completed_has_code",
            ),
        ),
    ]
