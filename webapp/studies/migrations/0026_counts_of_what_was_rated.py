from django.db import migrations
from django.db.models import Count, F


def subtract(apps, schema_editor):
    """Take out of the counts of bots what ended early because the bot failed: nobody rated it."""
    using = schema_editor.connection.alias
    Slot = apps.get_model("studies", "Slot")
    Task = apps.get_model("studies", "Task")
    counts = apps.get_model("studies", "TaskCount").objects.using(using)
    failed = Task.objects.using(using).filter(state="completed", outcome="bot_failed").order_by()
    whose = ("participant__study", "participant__is_synthetic")
    for study_id, is_synthetic in failed.values_list(*whose).distinct():
        own = counts.filter(study=study_id, is_synthetic=is_synthetic, conversation=None, item=None)
        slots = Slot.objects.using(using).filter(
            task__in=failed,
            task__participant__study=study_id,
            task__participant__is_synthetic=is_synthetic,
        )
        bots = slots.exclude(bot_id="").order_by().values_list("bot_id").annotate(n=Count("pk"))
        for bot_id, n_of_bot in bots:
            mine = own.filter(bot_id=bot_id, n_completed__gte=n_of_bot)
            mine.update(n_completed=F("n_completed") - n_of_bot)


class Migration(migrations.Migration):
    dependencies = [("studies", "0025_slot_is_flipped")]

    operations = [migrations.RunPython(subtract, migrations.RunPython.noop)]
