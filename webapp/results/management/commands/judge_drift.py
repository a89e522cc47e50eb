"""`judge_drift [--job ID]`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.urls import reverse

from evaluation.agreement.judges.drift import measure_drift
from evaluation.data.tables import to_plain
from webapp.bots.models import Alert
from webapp.core.management.base import ConfabCommand, whole_number
from webapp.jobs.alerts import alerts_tell
from webapp.results.judges import JudgesParams, gold_read, judge_named, judges_done


class Command(ConfabCommand):
    help = "Score the stored sample of a judge comparison again, and alert if a judge has drifted."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--job", type=whole_number(1), help=("job of compare_judges (default: the newest finished one)")
        )

    def run(self, **options: Any) -> list[dict[str, Any]]:
        if (comparison := judges_done(options["job"])) is None:
            raise CommandError("there is no finished comparison of judges with this number")
        gold, stored = gold_read(JudgesParams.model_validate(comparison.payload | {"most": 10_000})), comparison.result
        assert stored is not None
        drifts = [
            measure_drift(judge_named(judge["judge"]), gold, judge, stored["digests"]) for judge in stored["judges"]
        ]
        for drift in drifts:
            if drift.has_drifted:
                title = f"Confab: the judge {drift.judge} has drifted"
                alert_fields = {"title": title, "words": drift.sentence, "link": reverse("dashboard:judges")}
                alerts_tell(event=Alert.Event.JUDGE_DRIFTED, content=alert_fields)
        return [to_plain(drift) | {"sentence": drift.sentence} for drift in drifts]

    def present(self, result: Any) -> None:
        for drift in result:
            self.stdout.write(drift["sentence"])
