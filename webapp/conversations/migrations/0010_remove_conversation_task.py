from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0009_conversation_slot"),
        ("studies", "0014_slots_of_chats"),
    ]

    operations = [migrations.RemoveField(model_name="conversation", name="task")]
