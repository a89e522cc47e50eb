from django.db import migrations
from django.db.models import Q

CHUNK = 2000


def ids_into_their_table(apps, schema_editor):
    """What a platform calls a participant leaves the participant's row."""
    Participant = apps.get_model("studies", "Participant")
    PlatformIds = apps.get_model("studies", "PlatformIds")
    named = Participant.objects.exclude(Q(external_id="") & Q(recruitment={})).order_by("pk")
    rows = []
    for person in named.iterator(chunk_size=CHUNK):
        rows.append(
            PlatformIds(
                participant_id=person.pk,
                study_id=person.study_id,
                platform=person.platform,
                external_id=person.external_id,
                parameters=person.recruitment,
            )
        )
        if len(rows) == CHUNK:
            PlatformIds.objects.bulk_create(rows)
            rows = []
    PlatformIds.objects.bulk_create(rows)


def ids_back(apps, schema_editor):
    """Put them into the participants' rows again."""
    Participant = apps.get_model("studies", "Participant")
    PlatformIds = apps.get_model("studies", "PlatformIds")
    for ids in PlatformIds.objects.iterator(chunk_size=CHUNK):
        Participant.objects.filter(pk=ids.participant_id).update(
            external_id=ids.external_id, recruitment=ids.parameters
        )


class Migration(migrations.Migration):
    dependencies = [("studies", "0027_platform_ids")]

    operations = [migrations.RunPython(ids_into_their_table, ids_back)]
