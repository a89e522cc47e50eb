import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('conversations', '0010_remove_conversation_task'),
        ('studies', '0020_task_public_id_unique'),
    ]

    operations = [
        migrations.CreateModel(
            name='TaskCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_synthetic', models.BooleanField(default=False)),
                ('bot_id', models.CharField(blank=True, max_length=100)),
                ('n_completed', models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['created_at'], name='task_open_since'),
        ),
        migrations.AddField(
            model_name='taskcount',
            name='conversation',
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name='task_counts',
                to='conversations.conversation',
            ),
        ),
        migrations.AddField(
            model_name='taskcount',
            name='item',
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name='task_counts', to='studies.item'
            ),
        ),
        migrations.AddField(
            model_name='taskcount',
            name='study',
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name='task_counts', to='studies.study'
            ),
        ),
        migrations.AddConstraint(
            model_name='taskcount',
            constraint=models.UniqueConstraint(
                condition=models.Q(('conversation', None), ('item', None)),
                fields=('study', 'is_synthetic', 'bot_id'),
                name='task_count_of_bot',
            ),
        ),
        migrations.AddConstraint(
            model_name='taskcount',
            constraint=models.UniqueConstraint(
                condition=models.Q(('conversation__isnull', False)),
                fields=('conversation', 'study', 'is_synthetic'),
                name='task_count_of_conversation',
            ),
        ),
        migrations.AddConstraint(
            model_name='taskcount',
            constraint=models.UniqueConstraint(
                condition=models.Q(('item__isnull', False)),
                fields=('item', 'is_synthetic'),
                name='task_count_of_item',
            ),
        ),
    ]
