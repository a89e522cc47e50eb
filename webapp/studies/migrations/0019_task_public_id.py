import uuid

from django.db import migrations, models

BATCH = 500


def ids_for_earlier_tasks(apps, schema_editor):
    """Give every task that is there an id for its addresses."""
    Task = apps.get_model("studies", "Task")
    tasks = Task.objects.using(schema_editor.connection.alias)
    pks = list(tasks.filter(public_id=None).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(pks), BATCH):
        batch = [Task(pk=pk, public_id=uuid.uuid4()) for pk in pks[start : start + BATCH]]
        tasks.bulk_update(batch, ["public_id"])


class Migration(migrations.Migration):
    dependencies = [("studies", "0018_columns_of_versions_gone")]

    operations = [
        # A task may hold several pairs: sides come again.
        migrations.RemoveConstraint(model_name="slot", name="slot_side_unique"),
        migrations.AddField(
            model_name="task",
            name="public_id",
            field=models.UUIDField(null=True, editable=False),
        ),
        migrations.RunPython(ids_for_earlier_tasks, migrations.RunPython.noop),
    ]
