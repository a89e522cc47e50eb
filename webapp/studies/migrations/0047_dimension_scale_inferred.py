from django.db import migrations, models


def mark(apps, schema_editor):
    """Mark the questions of rubrics whose scales were read off ratings."""
    dimensions = apps.get_model("studies", "Dimension").objects
    dimensions.filter(rubric__scale_inferred=True).update(scale_inferred=True)


class Migration(migrations.Migration):
    dependencies = [("studies", "0046_no_link_openings")]

    operations = [
        migrations.AddField(
            model_name="dimension",
            name="scale_inferred",
            field=models.BooleanField(
                default=False,
                help_text="The scale was read off imported ratings, so that no interval ends there.",
            ),
        ),
        migrations.AlterField(
            model_name="rubric",
            name="scale_inferred",
            field=models.BooleanField(
                default=False, help_text="Scales of these questions were read off imported ratings."
            ),
        ),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
