"""Ids of participants lose the blanks around them, where no other participant of the study has that id.

Ids of visits stay: tasks and decisions about pay are found by them as they stand.
"""

import unicodedata

from django.db import migrations


def strip_ids(apps, schema_editor):
    """Strip ids that platforms gave; names of imported raters stay as they are written."""
    PlatformIds = apps.get_model("studies", "PlatformIds")
    rows = PlatformIds.objects.exclude(platform="import").exclude(external_id="").order_by("pk")
    ids = rows.values_list("pk", "external_id").iterator(chunk_size=2000)
    for pk in [pk for pk, written in ids if _stripped(written) not in ("", written)]:
        row = PlatformIds.objects.get(pk=pk)
        written, stripped = row.external_id, _stripped(row.external_id)
        same = {"study_id": row.study_id, "platform": row.platform, "external_id": stripped}
        if PlatformIds.objects.filter(**same).exists():
            continue
        row.external_id = stripped
        row.parameters = {
            name: stripped if value == written else value for name, value in row.parameters.items()
        }
        row.save(update_fields=["external_id", "parameters"])


def _stripped(text):
    """Remove blanks around an id, and control and format characters."""
    return "".join(char for char in text if unicodedata.category(char) not in ("Cc", "Cf")).strip()


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0047_dimension_scale_inferred"),
    ]

    operations = [
        migrations.RunPython(strip_ids, migrations.RunPython.noop),
    ]
