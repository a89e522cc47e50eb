"""Prolific's webhook: signatures, replays, stale and unordered events, and nothing that it says of others."""

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.builders import make_study
from webapp.pay.models import Decision, HookEvent, PlatformVisit
from webapp.pay.platform_status import signature_of
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

Make = Callable[..., SubmissionKey]
SECRET = "secret-of-the-workspace"


@pytest.fixture(autouse=True)
def _secret(settings: Any) -> None:
    settings.CONFAB_PROLIFIC_HOOK_SECRET = SECRET


def tell(
    status: str = "AWAITING REVIEW",
    *,
    submission: str = "ses-a",
    key: str = "paid",
    event: str = "e1",
    at: float | None = None,
    secret: str = SECRET,
    body: bytes | None = None,
    **headers: str,
) -> Any:
    told = {
        "event_type": "submission.status.change",
        "resource_id": submission,
        "participant_id": "pid-a",
        "status": status,
    }
    content = json.dumps(told).encode() if body is None else body
    timestamp = str(int(time.time() if at is None else at))
    signed = {
        "X-Prolific-Request-Signature": signature_of(secret, timestamp, content),
        "X-Prolific-Request-Timestamp": timestamp,
        "X-Event-ID": event,
    }
    # As Prolific comes: without a session or a CSRF token.
    return Client(enforce_csrf_checks=True).post(
        f"/hooks/prolific/{key}/", content, content_type="application/json", headers={**signed, **headers}
    )


def status_of(study: Study) -> str:
    return submissions_of(study).all[0].status


def test_the_signature_is_that_of_the_documentation() -> None:
    # printf '1700000000{"a": 1}' | openssl dgst -sha256 -hmac s -binary | base64
    assert signature_of("s", "1700000000", b'{"a": 1}') == "UpaUuXz6TvjQp/uADZS0coFu0VfUfmVGGEonXRoExZ4="


def test_a_signed_event_is_taken_once(paid: Study, visit: Make) -> None:
    visit("rated", "a")
    assert tell().json() == {"result": "taken"}
    assert tell().json() == {"result": "known"}
    assert tell(at=time.time() + 1).json() == {"result": "known"}, "told again at another time"
    assert HookEvent.objects.count() == 1
    assert status_of(paid) == "AWAITING REVIEW"
    assert not Decision.objects.exists()


def test_a_body_of_64_kib_is_read_and_a_longer_one_refused(paid: Study) -> None:
    longest = b"{}".ljust(64 * 1024)
    assert tell(body=longest).status_code == 200
    assert tell(body=longest + b" ", event="e2").status_code == 403


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "guessed"},
        {"X-Prolific-Request-Signature": ""},
        {"X-Prolific-Request-Signature": "ümlaut"},
        {"X-Prolific-Request-Timestamp": "1"},
        {"at": time.time() - 400},
        {"at": time.time() + 4000},
    ],
)
def test_what_prolific_did_not_sign_now_is_refused_with_a_log_line(
    paid: Study, visit: Make, change: Any, caplog: pytest.LogCaptureFixture
) -> None:
    visit("rated", "a")
    with caplog.at_level(logging.WARNING, logger="webapp.pay.views"):
        assert tell("APPROVED", **change).status_code == 403
    assert "the webhook of study paid refused a request" in caplog.text
    assert not HookEvent.objects.exists()
    assert status_of(paid) == ""


def test_without_a_secret_nothing_is_believed(paid: Study, visit: Make, settings: Any) -> None:
    visit("rated", "a")
    settings.CONFAB_PROLIFIC_HOOK_SECRET = ""
    assert tell(secret="").status_code == 403


def test_a_request_sent_again_as_another_event_is_a_replay(paid: Study, visit: Make) -> None:
    visit("rated", "a")
    at = time.time()
    assert tell(at=at).status_code == 200
    assert tell(at=at, event="e2").status_code == 403
    assert HookEvent.objects.count() == 1


def test_a_late_event_leads_back_to_nothing(paid: Study, visit: Make) -> None:
    visit("rated", "a")
    now = time.time()
    tell("APPROVED", at=now, event="e3")
    tell("AWAITING REVIEW", at=now + 2, event="e2")  # an earlier one that was told again later
    assert status_of(paid) == "APPROVED"
    tell("REJECTED", at=now - 60, event="e1")
    assert status_of(paid) == "APPROVED"


def test_what_is_told_of_others_is_not_kept(paid: Study, visit: Make) -> None:
    visit("rated", "a")
    make_study("elsewhere")
    assert tell(submission="ses-unknown").json() == {"result": "ignored"}
    assert tell(key="elsewhere").json() == {"result": "ignored"}
    assert tell("DANCING").json() == {"result": "ignored"}
    study_event = json.dumps({"event_type": "study.status.change", "resource_id": "x"}).encode()
    assert tell(body=study_event).json() == {"result": "ignored"}
    assert tell(key="no-such-study").status_code == 403
    assert not HookEvent.objects.exists()
    assert not PlatformVisit.objects.exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_a_signed_body_that_makes_no_sense(paid: Study, body: bytes) -> None:
    assert tell(body=body).status_code == 400


def test_it_takes_posts_alone(paid: Study) -> None:
    assert Client().get("/hooks/prolific/paid/").status_code == 405


def test_events_go_with_their_person(paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    tell()
    people = Participant.objects.filter(pk=key.participant)
    assert participants_erase(participants=people)["hook_events"] == 1
    assert not HookEvent.objects.exists()
