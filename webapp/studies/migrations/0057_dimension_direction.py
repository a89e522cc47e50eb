from django.db import migrations, models


def forget_direction(apps, schema_editor):
    """Make the direction of every scale that was not declared reversed "not known"."""
    apps.get_model("studies", "Dimension").objects.filter(reversed=False).update(reversed=None)


def keep_direction(apps, schema_editor):
    apps.get_model("studies", "Dimension").objects.filter(reversed=None).update(reversed=False)


class Migration(migrations.Migration):
    dependencies = [("studies", "0056_whereabouts_translated")]

    operations = [
        migrations.AlterField(
            model_name="dimension",
            name="reversed",
            field=models.BooleanField(
                blank=True,
                default=None,
                help_text="Yes: a high answer is a bad one; analyses count it the other way round, exports keep it as "
                "given. No: it is a good one. Unknown: answers count as they are.",
                null=True,
            ),
        ),
        migrations.RunPython(forget_direction, keep_direction),
    ]
