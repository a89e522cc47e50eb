from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('studies', '0028_ids_moved'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='participant',
            name='participant_external_id_unique',
        ),
        migrations.RemoveField(
            model_name='participant',
            name='external_id',
        ),
        migrations.RemoveField(
            model_name='participant',
            name='recruitment',
        ),
    ]
