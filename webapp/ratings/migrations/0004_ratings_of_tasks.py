from django.db import migrations
from django.db.models import F, OuterRef, Subquery


def give(apps, schema_editor):
    """A rating by the person whose chat it is about was given in the task of that chat."""
    Rating = apps.get_model("ratings", "Rating")
    Slot = apps.get_model("studies", "Slot")
    of_chat = Slot.objects.filter(chat=OuterRef("conversation")).values("task")
    theirs = Rating.objects.filter(
        conversation__slot__isnull=False, conversation__participant=F("participant")
    )
    theirs.update(task=Subquery(of_chat[:1]))


class Migration(migrations.Migration):
    dependencies = [("ratings", "0003_targets")]

    operations = [migrations.RunPython(give, migrations.RunPython.noop)]
