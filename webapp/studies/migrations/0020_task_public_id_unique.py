import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    """Apart from the one before: PostgreSQL alters no table in the transaction that has filled it."""

    dependencies = [("studies", "0019_task_public_id")]

    operations = [
        migrations.AlterField(
            model_name="task",
            name="public_id",
            field=models.UUIDField(
                default=uuid.uuid4,
                editable=False,
                help_text="In its pages' addresses.",
                unique=True,
            ),
        ),
    ]
