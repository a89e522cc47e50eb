import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0012_dimension_reversed"),
        ("conversations", "0008_task"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="kind",
            field=models.CharField(
                default="chat",
                help_text="What is done with the slots, e.g. “chat”.",
                max_length=50,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="task",
            name="payload",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="What else the protocol drew; it never changes.",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="drawn_by",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="Identities of the protocol and the rule; empty where they were not kept yet.",
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="outcome",
            field=models.CharField(
                blank=True,
                choices=[
                    ("rated", "Rated"),
                    ("bot_failed", "Ended early, the chatbot failed"),
                    ("withdrawn", "Withdrawn"),
                ],
                default="",
                help_text="Empty while it is open, and where it ended in nothing (swapped, left).",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="task",
            name="ended_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("key", models.CharField(help_text="Its name in the study.", max_length=200)),
                ("context", models.JSONField(default=list, help_text="Utterances, oldest first.")),
                ("responses", models.JSONField(help_text="[{model, text}]")),
                (
                    "reference",
                    models.TextField(
                        blank=True, help_text="A reply written by a person.", null=True
                    ),
                ),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="studies.study",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("study", "key"), name="item_key_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("order", models.PositiveSmallIntegerField(default=0)),
                ("side", models.CharField(blank=True, max_length=10)),
                ("bot_id", models.CharField(blank=True, max_length=100)),
                (
                    "conversation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="judged_in",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slots",
                        to="studies.item",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slots",
                        to="studies.task",
                    ),
                ),
            ],
            options={
                "ordering": ["task", "order"],
                "indexes": [models.Index(fields=["bot_id"], name="slot_bot")],
                "constraints": [
                    models.UniqueConstraint(fields=("task", "order"), name="slot_order_unique"),
                    models.UniqueConstraint(
                        condition=~Q(side=""), fields=("task", "side"), name="slot_side_unique"
                    ),
                    models.CheckConstraint(
                        condition=(~Q(bot_id="") & Q(conversation=None, item=None))
                        | Q(bot_id="", conversation__isnull=False, item=None)
                        | Q(bot_id="", conversation=None, item__isnull=False),
                        name="slot_one_target",
                    ),
                ],
            },
        ),
    ]
