"""Studies that were closed before this was noted: their last change is the latest that it can have been."""

from django.db import migrations
from django.db.models import F


def ended_note(apps, schema_editor):
    studies = apps.get_model("studies", "Study").objects.using(schema_editor.connection.alias)
    studies.filter(state="ended", ended_at=None).update(ended_at=F("updated_at"))


class Migration(migrations.Migration):
    dependencies = [("studies", "0039_rights")]

    operations = [migrations.RunPython(ended_note, migrations.RunPython.noop, elidable=True)]
