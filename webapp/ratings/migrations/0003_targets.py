import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0010_remove_conversation_task"),
        ("ratings", "0002_erased_with_participant"),
        ("studies", "0015_task_without_bot"),
    ]

    operations = [
        migrations.AddField(
            model_name="rating",
            name="first",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="rated_first",
                to="studies.slot",
            ),
        ),
        migrations.AddField(
            model_name="rating",
            name="item",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="ratings",
                to="studies.item",
            ),
        ),
        migrations.AddField(
            model_name="rating",
            name="second",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="rated_second",
                to="studies.slot",
            ),
        ),
        migrations.AddField(
            model_name="rating",
            name="task",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="ratings",
                to="studies.task",
            ),
        ),
        migrations.AddField(
            model_name="rating",
            name="turn",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="ratings",
                to="conversations.turn",
            ),
        ),
        migrations.AlterField(
            model_name="rating",
            name="conversation",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="ratings",
                to="conversations.conversation",
            ),
        ),
        migrations.AddConstraint(
            model_name="rating",
            constraint=models.UniqueConstraint(
                condition=models.Q(("turn__isnull", False)),
                fields=("task", "turn"),
                name="rating_of_turn_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="rating",
            constraint=models.UniqueConstraint(
                condition=models.Q(("item__isnull", False)),
                fields=("task", "item"),
                name="rating_of_item_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="rating",
            constraint=models.UniqueConstraint(
                condition=models.Q(("first__isnull", False)),
                fields=("task", "first", "second"),
                name="rating_of_pair_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="rating",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("conversation__isnull", False),
                        ("first__isnull", True),
                        ("item__isnull", True),
                        ("second__isnull", True),
                        ("turn__isnull", True),
                    ),
                    models.Q(
                        ("conversation__isnull", True),
                        ("first__isnull", True),
                        ("item__isnull", True),
                        ("second__isnull", True),
                        ("turn__isnull", False),
                    ),
                    models.Q(
                        ("conversation__isnull", True),
                        ("first__isnull", True),
                        ("item__isnull", False),
                        ("second__isnull", True),
                        ("turn__isnull", True),
                    ),
                    models.Q(
                        ("conversation__isnull", True),
                        ("first__isnull", False),
                        ("item__isnull", True),
                        ("second__isnull", False),
                        ("turn__isnull", True),
                        models.Q(("first", models.F("second")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="rating_one_target",
            ),
        ),
        migrations.AddConstraint(
            model_name="rating",
            constraint=models.CheckConstraint(
                condition=models.Q(("task", None), ("participant__isnull", False), _connector="OR"),
                name="rating_in_task_has_person",
            ),
        ),
    ]
