"""Decisions: once each, taken back until they are sent, refused with what would be right, and kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.builders import make_staff, make_study
from webapp.core.errors import Refused
from webapp.pay.models import Decision
from webapp.pay.services import decision_undo, decisions_mark_sent, visit_bonus, visit_reject, visits_approve
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

Make = Callable[..., SubmissionKey]
REASON = "You gave the same answer to every question and took far less time than everybody else did here."
REASON += " We cannot use it."


def test_a_visit_is_approved_once(paid: Study, visit: Make) -> None:
    user = make_staff(username="payer")
    keys = [visit("rated", "a"), visit("bot_failed", "b")]
    assert visits_approve(study=paid, keys=[*keys, keys[0]], by=user) == 2
    assert visits_approve(study=paid, keys=keys) == 0
    assert {visit.verdict.action for visit in submissions_of(paid).all if visit.verdict} == {"approve"}
    assert set(Decision.objects.values_list("decided_by", flat=True)) == {user.pk}


def test_nobody_is_approved_who_is_not_in_the_study_or_still_at_it(paid: Study, visit: Make) -> None:
    a, inside = visit("rated", "a"), visit("inside", "b")
    other = make_study("other")
    assert visits_approve(study=other, keys=[a]) == 0
    forged = SubmissionKey(a.participant, "ses-of-somebody-else")
    assert visits_approve(study=paid, keys=[forged, inside, SubmissionKey(uuid.uuid4(), "")]) == 0
    for act in (visit_reject, visit_bonus):
        extra = {"reason": REASON} if act is visit_reject else {"amount": Decimal(1)}
        with pytest.raises(Refused) as refused:
            act(study=paid, key=forged, **extra)  # type: ignore[operator]
        assert refused.value.code == "not_found"


@pytest.mark.parametrize(
    ("reason", "category", "code"),
    [
        ("  ", "OTHER", "no_reason"),
        ("\u200b" * 200, "OTHER", "no_reason"),
        ("Too fast.", "OTHER", "short_reason"),
        ("x" * 1001, "OTHER", "long_reason"),
        (REASON, "UGLY", "bad_category"),
    ],
)
def test_a_rejection_needs_a_reason(paid: Study, visit: Make, reason: str, category: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        visit_reject(study=paid, key=visit("rated", "a"), reason=reason, category=category)
    assert refused.value.code == code
    assert not Decision.objects.exists()


def test_elsewhere_a_short_reason_will_do(paid: Study, visit: Make) -> None:
    key = visit("rated", "w", platform="mturk")
    assert visit_reject(study=paid, key=key, reason="Empty work.").reason == "Empty work."


def test_a_verdict_is_changed_by_taking_it_back(paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    visits_approve(study=paid, keys=[key])
    with pytest.raises(Refused) as refused:
        visit_reject(study=paid, key=key, reason=REASON)
    assert refused.value.code == "decided"
    first = Decision.objects.get()
    decision_undo(study=paid, pk=first.pk)
    decision_undo(study=paid, pk=first.pk)  # twice is as once
    visit_reject(study=paid, key=key, reason=REASON)
    assert list(Decision.objects.order_by("pk").values_list("action", "state")) == [
        ("approve", "undone"),
        ("reject", "decided"),
    ]


def test_what_is_sent_cannot_be_taken_back(paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    visits_approve(study=paid, keys=[key])
    newest = Decision.objects.get().pk
    assert decisions_mark_sent(study=paid, up_to=newest) == 1
    assert decisions_mark_sent(study=paid, up_to=newest) == 0
    with pytest.raises(Refused) as refused:
        decision_undo(study=paid, pk=Decision.objects.get().pk)
    assert refused.value.code == "sent"
    with pytest.raises(Refused):
        decision_undo(study=make_study("other"), pk=Decision.objects.get().pk)


def test_one_form_gives_one_bonus(paid: Study, visit: Make) -> None:
    key, form = visit("rated", "a"), uuid.uuid4()
    for _again in range(2):
        visit_bonus(study=paid, key=key, amount=Decimal("0.50"), asked=form)
    visit_bonus(study=paid, key=key, amount=Decimal("0.50"))
    assert [one.amount for one in submissions_of(paid).by_key[key].bonuses] == [Decimal("0.50")] * 2


@pytest.mark.parametrize("amount", ["0", "-1", "1000.01", "0.005", "NaN", "Infinity"])
def test_a_bonus_that_cannot_be_paid_is_refused(paid: Study, visit: Make, amount: str) -> None:
    with pytest.raises(Refused) as refused:
        visit_bonus(study=paid, key=visit("rated", "a"), amount=Decimal(amount))
    assert refused.value.code == "bad_amount"


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "reject", "reason": ""},
        {"action": "bonus", "amount": None},
        {"action": "bonus", "amount": Decimal(-1)},
        {"action": "approve", "amount": Decimal(1)},
        {"action": "approve", "state": "sent"},
        {"action": "approve", "closed_at": timezone.now()},
    ],
)
def test_the_database_refuses_what_makes_no_sense(paid: Study, visit: Make, fields: dict[str, object]) -> None:
    key = visit("rated", "a")
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision.objects.create(participant_id=key.participant, **fields)


def test_decisions_go_with_their_person(paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    visits_approve(study=paid, keys=[key])
    people = Participant.objects.filter(pk=key.participant)
    assert participants_erase(participants=people)["pay_decisions"] == 1
    assert not Decision.objects.exists()
