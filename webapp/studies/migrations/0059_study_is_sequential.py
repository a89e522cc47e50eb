"""Studies that are open keep the always-valid test; closed and imported ones keep the fixed-sample test."""

from typing import Any

from django.db import migrations, models


def mark_open_studies(apps: Any, _schema_editor: Any) -> None:
    apps.get_model("studies", "Study").objects.filter(state__in=["collecting", "paused"]).update(is_sequential=True)


class Migration(migrations.Migration):
    dependencies = [("studies", "0058_import_error")]

    operations = [
        migrations.AddField(
            model_name="study",
            name="is_sequential",
            field=models.BooleanField(
                default=False,
                editable=False,
                help_text="Results could be watched while it was open: they keep the always-valid test.",
            ),
        ),
        migrations.RunPython(mark_open_studies, migrations.RunPython.noop),
    ]
