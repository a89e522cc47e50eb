from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('reading', '0002_notes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='series',
            name='kind',
            field=models.CharField(
                choices=[('count', 'Count'), ('rating', 'Rating'), ('metric', 'Metric'), ('time', 'Time')],
                max_length=10,
            ),
        ),
    ]
