from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("studies", "0045_link_counts"),
    ]

    operations = [
        migrations.DeleteModel(
            name="LinkOpening",
        ),
    ]
