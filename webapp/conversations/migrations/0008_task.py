from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0007_turn_answered_by"),
        ("studies", "0011_task"),
    ]

    operations = [migrations.RenameField("conversation", "assignment", "task")]
