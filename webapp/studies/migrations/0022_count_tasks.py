from django.db import migrations
from django.db.models import Count

BATCH = 1000


def count(apps, schema_editor):
    """Count the tasks that are completed already: all of a study, and those with each bot, item or conversation."""
    using = schema_editor.connection.alias
    Task = apps.get_model("studies", "Task")
    Slot = apps.get_model("studies", "Slot")
    TaskCount = apps.get_model("studies", "TaskCount")
    whose = {"study_id": "participant__study", "is_synthetic": "participant__is_synthetic"}
    tasks = Task.objects.using(using).filter(state="completed").order_by()
    slots = Slot.objects.using(using).filter(task__state="completed").order_by()
    found = [
        TaskCount(study_id=study_id, is_synthetic=is_synthetic, n_completed=n)
        for study_id, is_synthetic, n in tasks.values_list(*whose.values()).annotate(n=Count("pk"))
    ]
    targets = ("bot_id", "conversation_id", "item_id")
    ways = [f"task__{way}" for way in whose.values()]
    for study_id, is_synthetic, *target, n in slots.values_list(*ways, *targets).annotate(
        n=Count("pk")
    ):
        found.append(
            TaskCount(
                study_id=study_id,
                is_synthetic=is_synthetic,
                n_completed=n,
                **dict(zip(targets, target, strict=True)),
            )
        )
    TaskCount.objects.using(using).bulk_create(found, batch_size=BATCH)


class Migration(migrations.Migration):
    dependencies = [("studies", "0021_task_counts")]

    operations = [migrations.RunPython(count, migrations.RunPython.noop)]
