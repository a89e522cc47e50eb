"""Keep the texts of people who agreed before texts were kept, where the study still has them."""

import hashlib

from django.db import migrations

# What the version of a consent was made of until now.
_FIELDS = ("title", "consent_points", "consent_text", "payment")


def keep(apps, schema_editor):
    ConsentText = apps.get_model("studies", "ConsentText")
    Participant = apps.get_model("studies", "Participant")
    for study in apps.get_model("studies", "Study").objects.iterator():
        texts = {field: getattr(study, field) for field in _FIELDS}
        digest = hashlib.sha256("\x00".join(texts.values()).encode()).hexdigest()[:16]
        people = Participant.objects.filter(study=study, consent_version=digest, consent=None)
        if people.exists():
            kept, _made = ConsentText.objects.get_or_create(digest=digest, defaults={"texts": texts})
            people.update(consent=kept)


class Migration(migrations.Migration):
    dependencies = [("studies", "0008_consent_texts")]

    operations = [migrations.RunPython(keep, migrations.RunPython.noop)]
