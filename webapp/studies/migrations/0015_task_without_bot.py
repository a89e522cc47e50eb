from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0014_slots_of_chats"),
        ("conversations", "0010_remove_conversation_task"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="task", name="studies_tas_bot_id_fb0099_idx"),
        # With a default, so that it can come back.
        migrations.AlterField(
            model_name="task", name="bot_id", field=models.CharField(default="", max_length=100)
        ),
        migrations.RemoveField(model_name="task", name="bot_id"),
        migrations.RemoveField(model_name="task", name="completed_at"),
        migrations.RemoveConstraint(model_name="task", name="task_completed_has_code"),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=~Q(state="completed")
                | Q(completion_code__isnull=False, outcome__in=["rated", "bot_failed"]),
                name="task_completed_has_code",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=~Q(state="open") | Q(completion_code=None, outcome=""),
                name="task_open_has_no_outcome",
            ),
        ),
    ]
