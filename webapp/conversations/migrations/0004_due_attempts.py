

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0003_reply_cost'),
    ]

    operations = [
        migrations.AddField(
            model_name='conversation',
            name='due_attempts',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='conversation',
            name='due_retries',
            field=models.PositiveSmallIntegerField(default=0),
        ),
    ]
