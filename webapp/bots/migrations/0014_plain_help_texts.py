import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("bots", "0013_refused_messages")]

    operations = [
        migrations.AlterField(
            model_name="alert",
            name="event",
            field=models.CharField(
                choices=[
                    ("bot_set_aside", "Set aside"),
                    ("bot_came_back", "Came back"),
                    ("process_silent", "Process silent"),
                    ("process_back", "Process running again"),
                    ("disk_low", "Disk nearly full"),
                    ("disk_enough", "Disk space available again"),
                    ("queue_still", "Queue stuck"),
                    ("queue_moves", "Queue running again"),
                    ("redis_away", "Redis does not respond"),
                    ("redis_back", "Redis responds again"),
                    ("job_failed", "Job failed"),
                    ("job_went_on", "Job no longer failed"),
                    ("restore_unfinished", "Restore not finished"),
                    ("restore_finished", "Restore finished"),
                    ("clock_off", "Clock wrong"),
                    ("clock_right", "Clock right again"),
                    ("data_folder_differs", "Data folder not shared"),
                    ("data_folder_shared", "Data folder shared again"),
                    ("retention_held", "Retention held"),
                    ("retention_resumed", "Retention resumed"),
                    ("judge_drifted", "Judge drifted"),
                    ("test", "Test"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="alert",
            name="id",
            field=models.UUIDField(
                default=uuid.uuid4,
                editable=False,
                help_text=("Id sent with the alert, so that the receiver can recognise duplicates."),
                primary_key=True,
                serialize=False,
            ),
        ),
        migrations.AlterField(
            model_name="alert",
            name="said",
            field=models.JSONField(
                blank=True, default=dict, help_text=("Content of the alert, unless it is about a bot.")
            ),
        ),
        migrations.AlterField(
            model_name="alert",
            name="tried_at",
            field=models.DateTimeField(blank=True, help_text="When the last attempt to send it began.", null=True),
        ),
        migrations.AlterField(
            model_name="botaside",
            name="ended_by",
            field=models.CharField(
                blank=True, choices=[("reply", "A reply that worked"), ("person", "Put back by a user")], max_length=10
            ),
        ),
        migrations.AlterField(
            model_name="botaside",
            name="n_failed",
            field=models.PositiveIntegerField(help_text="Number of replies that had failed."),
        ),
        migrations.AlterField(
            model_name="botaside",
            name="needs_person",
            field=models.BooleanField(default=False, help_text="Only a user can put the bot back."),
        ),
        migrations.AlterField(
            model_name="botaside",
            name="of_n",
            field=models.PositiveIntegerField(
                default=0, help_text=("Number of last replies among which they failed; 0 if they failed in a row.")
            ),
        ),
        migrations.AlterField(
            model_name="botaside",
            name="reason",
            field=models.CharField(blank=True, help_text="Reason of the last failure.", max_length=500),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="answer_s",
            field=models.FloatField(blank=True, help_text="Duration of that reply.", null=True),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="answered_at",
            field=models.DateTimeField(blank=True, help_text="Time of the last reply, to the minute.", null=True),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="failed_at",
            field=models.DateTimeField(blank=True, help_text="Time of the last failure.", null=True),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="failed_in",
            field=models.JSONField(default=list, help_text="First chats with these failures, without duplicates."),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="failed_since",
            field=models.DateTimeField(blank=True, help_text="First failure of this row.", null=True),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="latest",
            field=models.JSONField(
                default=list,
                help_text=(
                    "Last replies, oldest first: the chat in which one failed, or an empty text; empty if none failed."
                ),
            ),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="n_failed",
            field=models.PositiveIntegerField(default=0, help_text="Failures in a row, including the last one."),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="n_tries",
            field=models.PositiveIntegerField(default=0, help_text="Number of such tests so far."),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="reason",
            field=models.CharField(blank=True, help_text="Reason of the last failure.", max_length=500),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="rejected_params",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text=("Request fields that the model rejected, and which are no longer sent."),
            ),
        ),
        migrations.AlterField(
            model_name="bothealth",
            name="try_at",
            field=models.DateTimeField(blank=True, help_text="When a bot host tests the bot again.", null=True),
        ),
        migrations.AlterField(
            model_name="declaredbot",
            name="revision",
            field=models.PositiveIntegerField(
                default=1, help_text=("Increased by every change, so that other processes notice it.")
            ),
        ),
        migrations.AlterField(
            model_name="secret",
            name="address",
            field=models.CharField(help_text="Scheme, host and port to which the secret can be sent.", max_length=300),
        ),
        migrations.AlterField(
            model_name="secret",
            name="sealed",
            field=models.TextField(help_text="Encrypted together with its name and address."),
        ),
        migrations.AlterField(
            model_name="spending",
            name="n_estimated",
            field=models.PositiveBigIntegerField(default=0, help_text="Number of calls with estimated tokens."),
        ),
        migrations.AlterField(
            model_name="spending",
            name="n_unpriced",
            field=models.PositiveBigIntegerField(default=0, help_text="Number of calls with an unknown price."),
        ),
        migrations.AlterField(
            model_name="spending",
            name="spent_nano",
            field=models.BigIntegerField(
                default=0, help_text=("Billionths of the currency of the prices, as an integer so that sums are exact.")
            ),
        ),
    ]
