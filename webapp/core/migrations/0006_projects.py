"""Projects, and the usual one, which everything belongs to."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def usual(apps: Any, schema_editor: Any) -> None:
    projects = apps.get_model("core", "Project").objects.using(schema_editor.connection.alias)
    projects.get_or_create(key="default", defaults={"name": "Everything"})


class Migration(migrations.Migration):
    dependencies = [("core", "0005_right_to_add_bots")]

    operations = [
        migrations.CreateModel(
            name="Project",
            fields=[
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("key", models.SlugField(max_length=60, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
            ],
            options={"ordering": ["key"]},
        ),
        migrations.RunPython(usual, migrations.RunPython.noop),
    ]
