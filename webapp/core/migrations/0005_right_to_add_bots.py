"""The right to add bots, given to all who could add public checkpoints before: they administer."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def give(apps: Any, schema_editor: Any) -> None:
    using = schema_editor.connection.alias
    permissions = apps.get_model("auth", "Permission").objects.using(using)
    administer = permissions.filter(
        codename="administer", content_type__app_label="core", content_type__model="staffrights"
    ).first()
    if administer is None:  # a new database, whose rights and groups are made after its migrations
        return
    added, _created = permissions.get_or_create(
        codename="bots", content_type=administer.content_type, defaults={"name": "Add bots and secrets"}
    )
    for group in apps.get_model("auth", "Group").objects.using(using).filter(permissions=administer):
        group.permissions.add(added)
    for user in apps.get_model("auth", "User").objects.using(using).filter(user_permissions=administer):
        user.user_permissions.add(added)


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0004_incidents"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="staffrights",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [
                    ("read", "Read studies and results"),
                    ("private", "See private data: recruitment ids"),
                    ("pay", "Pay: outcomes and completion codes"),
                    ("run", "Run jobs and import"),
                    ("bots", "Add bots and secrets"),
                    ("administer", "Administer studies, bots and people's data"),
                ],
                "verbose_name": "Confab",
                "verbose_name_plural": "Confab",
            },
        ),
        migrations.RunPython(give, migrations.RunPython.noop),
    ]
