from django.db import migrations, models
from django.db.models import F


def split(apps, schema_editor):
    """What was called a protocol chose the bot only: it is the rule, and everybody chatted and rated."""
    apps.get_model("studies", "Study").objects.update(rule=F("protocol"), protocol="chat")


def join(apps, schema_editor):
    apps.get_model("studies", "Study").objects.update(protocol=F("rule"))


class Migration(migrations.Migration):
    dependencies = [("studies", "0009_consent_texts_of_earlier_people")]

    operations = [
        migrations.AddField(
            model_name="study",
            name="rule",
            field=models.CharField(
                default="balanced", max_length=50, verbose_name="assignment rule"
            ),
        ),
        migrations.AlterField(
            model_name="study",
            name="protocol",
            field=models.CharField(default="chat", max_length=50),
        ),
        migrations.RunPython(split, join),
    ]
