from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('runs', '0005_interrupted'),
    ]

    operations = [
        migrations.AddField(
            model_name='hybridfit',
            name='note',
            field=models.CharField(
                blank=True,
                help_text='What whoever is at work on it says besides how far it is: the loss of a training.',
                max_length=200,
            ),
        ),
        migrations.AddField(
            model_name='job',
            name='note',
            field=models.CharField(
                blank=True,
                help_text='What whoever is at work on it says besides how far it is: the loss of a training.',
                max_length=200,
            ),
        ),
        migrations.AddField(
            model_name='metricrun',
            name='note',
            field=models.CharField(
                blank=True,
                help_text='What whoever is at work on it says besides how far it is: the loss of a training.',
                max_length=200,
            ),
        ),
        migrations.AddField(
            model_name='selfplayrun',
            name='note',
            field=models.CharField(
                blank=True,
                help_text='What whoever is at work on it says besides how far it is: the loss of a training.',
                max_length=200,
            ),
        ),
    ]
