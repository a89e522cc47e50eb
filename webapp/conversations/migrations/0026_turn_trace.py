"""Trace of a reply: reasoning and tool calls before it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0025_partner_seat")]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="trace",
            field=models.JSONField(
                blank=True, default=list, help_text="Reasoning and tool calls before the reply (`chatbots/trace.py`)."
            ),
        )
    ]
