from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("studies", "0053_participant_messages")]

    operations = [
        migrations.AddField(
            model_name="participant",
            name="language",
            field=models.CharField(
                blank=True, help_text="That they read the study in; empty: the study's.", max_length=20
            ),
        )
    ]
