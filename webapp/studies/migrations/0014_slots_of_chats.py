from django.db import migrations
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce


def split(apps, schema_editor):
    """Give every task the slot of its bot, its chat that slot, and its outcome."""
    Task = apps.get_model("studies", "Task")
    Slot = apps.get_model("studies", "Slot")
    Conversation = apps.get_model("conversations", "Conversation")
    tasks = Task.objects.order_by("pk").values_list("pk", "bot_id")
    Slot.objects.bulk_create(
        (Slot(task_id=pk, bot_id=bot_id) for pk, bot_id in tasks.iterator()), batch_size=1000
    )
    of_task = Slot.objects.filter(task=OuterRef("task")).order_by("order").values("pk")
    Conversation.objects.exclude(task=None).update(slot=Subquery(of_task[:1]))

    # Who lost their place to another visit could still withdraw the chat.
    left = Q(state__in=["expired", "failed"], conversation__state="withdrawn")
    withdrawn = Q(state="withdrawn") | left
    failed = Q(state="completed", conversation__state="failed")
    for condition, outcome in (
        (withdrawn, "withdrawn"),
        (failed, "bot_failed"),
        (Q(state="completed"), "rated"),
    ):
        found = Task.objects.filter(condition, outcome="").values("pk")
        Task.objects.filter(pk__in=found).update(outcome=outcome)
    ended_at = Conversation.objects.filter(task=OuterRef("pk")).values("ended_at")
    Task.objects.exclude(state="open").update(
        ended_at=Coalesce(Subquery(ended_at[:1]), F("completed_at"))
    )


def join(apps, schema_editor):
    """Give every task back the bot of its first slot, and its chat."""
    Task = apps.get_model("studies", "Task")
    Slot = apps.get_model("studies", "Slot")
    Conversation = apps.get_model("conversations", "Conversation")
    first = Slot.objects.exclude(bot_id="").order_by("order")
    bot_id = first.filter(task=OuterRef("pk")).values("bot_id")
    Task.objects.filter(pk__in=first.values("task")).update(bot_id=Subquery(bot_id[:1]))
    Task.objects.filter(state="completed").update(completed_at=F("ended_at"))
    of_slot = Slot.objects.filter(pk=OuterRef("slot")).values("task")
    Conversation.objects.filter(slot__order=0).update(task=Subquery(of_slot[:1]))


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0013_slots"),
        ("conversations", "0009_conversation_slot"),
    ]

    operations = [migrations.RunPython(split, join)]
