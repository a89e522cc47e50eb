"""Sending to Prolific: once each, failures in their rows, a bonus never paid twice."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from tests.builders import make_participant
from tests.fake_prolific import FakeProlific
from tests.webapp.conftest import PROLIFIC_STUDY
from tests.webapp.pay.test_services import REASON
from webapp.audit.models import PendingEntry
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.selectors.jobs import jobs_for_workers
from webapp.pay.flags.base import flags_of
from webapp.pay.models import Decision, PlatformVisit
from webapp.pay.prolific import (
    CLAIM_HELD_FOR,
    PAID_LATE_FOR,
    Prolific,
    ProlificError,
    codes_by_setting,
    codes_left,
    comparing_start,
    decision_retry,
    decision_send,
    sending_cancel,
    sending_start,
)
from webapp.pay.services import decision_undo, visit_bonus, visit_reject, visits_approve
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

Make = Callable[..., SubmissionKey]


def send(study: Study) -> Job:
    job = sending_start(study=study)
    run_job(job)
    job.refresh_from_db()
    return job


def test_sending_waits_and_can_be_cancelled_until_it_starts(paid: Study, visit: Make, platform: FakeProlific) -> None:
    platform.add("ses-a", "ses-b")
    visits_approve(study=paid, keys=[visit("rated", "a")])
    cancelled = sending_start(study=paid)
    assert jobs_for_workers("default") == []
    sending_cancel(study=paid)
    run_job(cancelled)
    assert states() == ["decided"]
    job = sending_start(study=paid)
    visits_approve(study=paid, keys=[visit("rated", "b")])  # not part of what was to be sent
    Job.objects.filter(pk=job.pk).update(starts_at=timezone.now() - timedelta(seconds=1))
    assert jobs_for_workers("default") == [job]
    with pytest.raises(Refused, match="cannot be cancelled"):
        sending_cancel(study=paid)
    run_job(job)
    run_job(job)
    assert states() == ["sent", "decided"]
    assert [platform.submissions[name]["status"] for name in ("ses-a", "ses-b")] == ["APPROVED", "AWAITING REVIEW"]
    recorded = PendingEntry.everywhere.filter(action__in=["pay.cancel", "pay.send"]).order_by("pk")
    assert [(entry.action, entry.parameters["job"]) for entry in recorded] == [
        ("pay.cancel", cancelled.pk),
        ("pay.send", job.pk),
    ]


def states() -> list[str]:
    return list(Decision.objects.order_by("pk").values_list("state", flat=True))


def test_what_was_decided_reaches_prolific(paid: Study, visit: Make, platform: FakeProlific) -> None:
    platform.add("ses-a", "ses-b", "ses-c")
    a, b, c = visit("rated", "a"), visit("rated", "b"), visit("withdrawn", "c")
    visits_approve(study=paid, keys=[a])
    visit_reject(study=paid, key=b, reason=REASON, category="TOO_QUICKLY")
    visit_bonus(study=paid, key=c, amount=Decimal("0.60"))
    job = send(paid)
    assert (job.state, job.result) == (State.DONE, {"sent": 3, "failed": 0})
    assert platform.submissions["ses-a"]["status"] == "APPROVED"
    assert platform.submissions["ses-b"] == {"status": "REJECTED", "code": "", "bonuses": [], "message": REASON}
    assert platform.submissions["ses-c"]["bonuses"] == [60]
    assert states() == ["sent"] * 3
    n_asked = len(platform.asked)
    assert send(paid).result == {"sent": 0, "failed": 0}
    assert len(platform.asked) == n_asked, "what is sent is sent once"


def test_people_of_other_platforms_are_left_to_a_person(paid: Study, visit: Make, platform: FakeProlific) -> None:
    visits_approve(study=paid, keys=[visit("rated", "w", platform="mturk")])
    assert send(paid).result == {"sent": 0, "failed": 0}
    assert states() == ["decided"]


def test_a_failure_stands_in_its_row_and_is_tried_again(paid: Study, visit: Make, platform: FakeProlific) -> None:
    platform.add("ses-a", status="RETURNED")
    platform.add("ses-b")
    a, b = visit("rated", "a"), visit("rated", "b")
    visits_approve(study=paid, keys=[a, b])
    assert send(paid).result == {"sent": 1, "failed": 1}
    failed = Decision.objects.get(participant=a.participant)
    assert failed.state == "failed"
    assert "A submission that is RETURNED cannot be changed." in failed.error
    with pytest.raises(Refused) as refused:
        decision_retry(study=paid, pk=Decision.objects.get(participant=b.participant).pk)
    assert refused.value.code == "not_failed"
    platform.add("ses-a")
    decision_retry(study=paid, pk=failed.pk)
    assert send(paid).result == {"sent": 1, "failed": 0}
    assert states() == ["sent", "sent"]


def test_a_busy_prolific_is_asked_again_and_one_that_is_away_is_told(
    paid: Study, visit: Make, platform: FakeProlific, settings: Any
) -> None:
    platform.add("ses-a")
    platform.trouble += [("/transition/", 429), ("/transition/", 503)]
    visits_approve(study=paid, keys=[visit("rated", "a")])
    assert send(paid).result == {"sent": 1, "failed": 0}
    settings.CONFAB_PROLIFIC_URL = "http://127.0.0.1:9"
    visits_approve(study=paid, keys=[visit("rated", "b")])
    assert send(paid).result == {"sent": 0, "failed": 1}
    assert "Prolific could not be reached" in Decision.objects.latest("pk").error


def test_a_wrong_token_and_a_forged_id_are_told(
    paid: Study, visit: Make, platform: FakeProlific, settings: Any
) -> None:
    visits_approve(study=paid, keys=[visit("rated", "x/../../studies")])
    send(paid)
    assert "is not a Prolific id" in Decision.objects.get().error
    assert "x/../../studies" not in Decision.objects.get().error
    assert platform.asked == []
    settings.CONFAB_PROLIFIC_TOKEN = "wrong"
    with Prolific() as prolific, pytest.raises(ProlificError, match="CONFAB_PROLIFIC_TOKEN"):
        prolific.approve("ses-a")
    settings.CONFAB_PROLIFIC_TOKEN = ""
    with pytest.raises(Refused) as refused:
        sending_start(study=paid)
    assert refused.value.code == "no_token"


@pytest.fixture
def bonus(paid: Study, visit: Make, platform: FakeProlific) -> Decision:
    platform.add("ses-a")
    return visit_bonus(study=paid, key=visit("rated", "a"), amount=Decimal("0.50"))


def age(decision: Decision, by: timedelta) -> None:
    Decision.objects.filter(pk=decision.pk).update(tried_at=timezone.now() - by)


def test_a_bonus_is_not_paid_twice_when_the_answer_is_lost(
    paid: Study, bonus: Decision, platform: FakeProlific
) -> None:
    platform.trouble.append(("/pay/", "drop"))  # it is paid, and nobody hears of it
    assert send(paid).result == {"sent": 0, "failed": 1}
    bonus.refresh_from_db()
    assert bonus.state == "unsure"
    with pytest.raises(Refused):
        decision_undo(study=paid, pk=bonus.pk)
    decision_retry(study=paid, pk=bonus.pk)
    assert send(paid).result == {"sent": 1, "failed": 0}
    assert platform.submissions["ses-a"]["bonuses"] == [50]


def test_a_bonus_that_was_not_paid_is_paid_once_prolific_had_its_time(
    paid: Study, bonus: Decision, platform: FakeProlific
) -> None:
    platform.trouble.append(("/pay/", 500))
    send(paid)
    decision_retry(study=paid, pk=bonus.pk)
    send(paid)
    bonus.refresh_from_db()
    assert (bonus.state, platform.submissions["ses-a"]["bonuses"]) == ("unsure", [])
    assert "15 minutes" in bonus.error
    age(bonus, PAID_LATE_FOR)
    decision_retry(study=paid, pk=bonus.pk)
    send(paid)
    assert platform.submissions["ses-a"]["bonuses"] == [50]
    # A second bonus of the same amount is another bonus.
    visit_bonus(study=paid, key=SubmissionKey(bonus.participant_id, "ses-a"), amount=Decimal("0.50"))
    platform.trouble.append(("/pay/", "drop"))
    send(paid)
    assert platform.submissions["ses-a"]["bonuses"] == [50, 50]
    decision_retry(study=paid, pk=Decision.objects.latest("pk").pk)
    send(paid)
    assert platform.submissions["ses-a"]["bonuses"] == [50, 50]
    assert states() == ["sent", "sent"]


def test_a_killed_process_leaves_nothing_unsent_and_nothing_twice(
    paid: Study, bonus: Decision, visit: Make, platform: FakeProlific
) -> None:
    platform.add("ses-b")
    visits_approve(study=paid, keys=[visit("rated", "b")])
    Decision.objects.update(state="sending", tried_at=timezone.now())
    with Prolific() as prolific:
        assert decision_send(pk=bonus.pk, prolific=prolific) == "sending", "somebody is at it"
    assert send(paid).result == {"sent": 0, "failed": 0}
    Decision.objects.update(tried_at=timezone.now() - CLAIM_HELD_FOR * 2)
    # It was killed after it had asked for the payment.
    platform.set_up["bulk-x"] = [("ses-a", 0.5)]
    platform.submissions["ses-a"]["bonuses"].append(50)
    Decision.objects.filter(pk=bonus.pk).update(platform_ref="bulk-x")
    assert send(paid).result == {"sent": 2, "failed": 0}
    assert platform.submissions["ses-a"]["bonuses"] == [50]
    assert platform.submissions["ses-b"]["status"] == "APPROVED"


def test_one_sending_at_a_time(paid: Study, platform: FakeProlific) -> None:
    assert sending_start(study=paid) == sending_start(study=paid)
    assert comparing_start(study=paid) != sending_start(study=paid)


def test_how_visits_stand_at_prolific(paid: Study, visit: Make, platform: FakeProlific) -> None:
    keys = {name: visit("rated", name, quality=1) for name in ("ok", "none", "other", "back")}
    visit("rated", "done", quality=1)
    make_participant(
        paid,
        platform="prolific",
        external_id="pid-idle",
        recruitment={"SESSION_ID": "ses-idle", "STUDY_ID": PROLIFIC_STUDY},
    )
    platform.add("ses-idle", status="ACTIVE")
    platform.add("ses-ok", code="CDONE111")
    platform.add("ses-none", code="NOCODE")
    platform.add("ses-other", code="CFAIL222")
    platform.add("ses-back", status="RETURNED")
    platform.add("ses-done", status="APPROVED", code="CDONE111")
    platform.add(*(f"zz{number}" for number in range(120)), status="ACTIVE")
    job = comparing_start(study=paid)
    run_job(job)
    job.refresh_from_db()
    assert job.result == {"submissions": 6, "never_came": 120}
    assert PlatformVisit.objects.count() == 6, "of those who never came nothing is kept"
    visits = submissions_of(paid)
    named = {key.submission: {flag.name for flag in flags} for key, flags in flags_of(visits).items()}
    assert named == {"ses-none": {"no_code"}, "ses-other": {"other_code"}}
    assert visits_approve(study=paid, keys=[visit.key for visit in visits.all]) == 3
    assert submissions_of(paid).by_key[keys["back"]].status == "RETURNED"
    people = Participant.objects.filter(pk=keys["ok"].participant)
    assert participants_erase(participants=people)["platform_visits"] == 1
    assert PlatformVisit.objects.count() == 5


def test_codes_are_fetched_by_what_they_are_for(platform: FakeProlific) -> None:
    platform.codes = [
        ("C1", "COMPLETED"),
        ("C2", "COMPLETED"),
        ("C3", "NO_CONSENT"),
        ("C4", "FIXED_SCREENOUT"),
        ("C5", "FAILED_ATTENTION_CHECK"),
        ("C6", "OTHER"),
    ]
    with Prolific() as prolific:
        codes = prolific.codes(PROLIFIC_STUDY)
        with pytest.raises(ProlificError, match="has no such study"):
            prolific.codes("60f6acb180a7b59ac0621fff")
    assert codes_by_setting(codes) == {
        "code_rated": "C1",
        "code_no_consent": "C3",
        "code_screened_out": "C4",
        "code_failed_check": "C5",
    }
    assert [one.code for one in codes_left(codes)] == ["C2", "C6"]
