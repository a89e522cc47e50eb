import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0008_task"),
        ("studies", "0013_slots"),
    ]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="slot",
            field=models.OneToOneField(
                blank=True,
                help_text="The slot of a task that it is made in.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="chat",
                to="studies.slot",
            ),
        ),
    ]
