"""Who is to be paid: everybody who began, with flags; decisions once each, taken back until they are sent."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.builders import (
    exchange,
    fail_reply,
    make_conversation,
    make_participant,
    make_rating,
    make_staff,
    make_study,
)
from webapp.conversations.models import Conversation
from webapp.conversations.services import conversation_swap
from webapp.core.errors import Refused
from webapp.pay.flags.base import flags_of
from webapp.pay.models import Decision
from webapp.pay.services import decision_undo, decisions_mark_sent, visit_bonus, visit_reject, visits_approve
from webapp.pay.submission_search import codes_shown, submissions_searched
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Participant, Study, Task
from webapp.studies.privacy import participants_erase
from webapp.studies.recruitment.links import task_decline
from webapp.studies.services import participant_enter, task_close
from webapp.studies.versions import study_edit

Make = Callable[..., SubmissionKey]
REASON = "You gave the same answer to every question and took far less time than everybody else did here."
REASON += " We cannot use it."


def test_a_visit_is_approved_once(paid: Study, visit: Make) -> None:
    user = make_staff(username="payer")
    keys = [visit("rated", "a"), visit("bot_failed", "b")]
    assert visits_approve(study=paid, keys=[*keys, keys[0]], user=user) == 2
    assert visits_approve(study=paid, keys=keys) == 0
    assert {visit.verdict.action for visit in submissions_of(paid).all if visit.verdict} == {"approve"}
    assert set(Decision.objects.values_list("decided_by", flat=True)) == {user.pk}


def test_visits_of_one_person_are_found_among_all(paid: Study, visit: Make) -> None:
    keys = [visit("rated", "a"), visit("rated", "b")]
    visits = submissions_of(paid)
    assert [[visit.key for visit in visits.get_visits(key.participant)] for key in keys] == [[key] for key in keys]
    assert visits.get_visits(uuid.uuid4()) == []


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
        visit_bonus(study=paid, key=key, amount=Decimal("0.50"), form_id=form)
    visit_bonus(study=paid, key=key, amount=Decimal("0.50"))
    assert [bonus.amount for bonus in submissions_of(paid).by_key[key].bonuses] == [Decimal("0.50")] * 2


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


def test_every_end_is_told_with_its_code(paid: Study, visit: Make) -> None:
    ends = ["rated", "bot_failed", "withdrawn", "screened_out", "failed_check", "left", "inside"]
    keys = {end: visit(end, end) for end in ends}
    agreed_only = make_participant(paid, platform="prolific", external_id="pid-agreed")
    visits = submissions_of(paid)
    results = {visit.key: visit for visit in visits.all}
    assert len(results) == len(ends) + 1
    for end, key in keys.items():
        assert results[key].outcome == end
        assert results[key].is_ours == (end == "bot_failed")
        assert (results[key].duration is None) == (end in ("left", "inside"))
    assert results[SubmissionKey(agreed_only.pk, "")].outcome == "inside"
    codes = codes_shown(visits.all)
    assert {end: codes.get(key) for end, key in keys.items()} == {
        "rated": "CDONE111",
        "bot_failed": "CFAIL222",
        "withdrawn": "CWITH666",
        "screened_out": "CSCRE333",
        "failed_check": "CCHEC444",
        "left": None,
        "inside": None,
    }


def test_of_several_tasks_of_a_visit_the_best_end_counts(paid: Study) -> None:
    chat = make_conversation(paid, n_exchanges=0, platform="prolific", external_id="p")
    fail_reply(chat)
    second = conversation_swap(conversation=chat)
    assert [visit.outcome for visit in submissions_of(paid).all] == ["inside"]
    for number in range(3):
        exchange(second, f"message {number}", "reply")
    second.refresh_from_db()
    make_rating(second)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.is_ours) == ("rated", False)


def test_who_agrees_after_all_did_not_decline(paid: Study) -> None:
    names = {"platform": "prolific", "external_id": "p"}
    person = participant_enter(study=paid, **names)
    task_decline(participant=person, version=paid.version)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.shown_code) == ("no_consent", "CNOCO555")
    chat = make_conversation(paid, n_exchanges=3, **names)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.shown_code, only.ended_at) == ("inside", None, None)
    assert codes_shown([only]) == {}
    Task.objects.filter(pk=chat.task.pk).update(created_at=timezone.now() - timedelta(days=1))
    [only] = submissions_of(paid).all
    assert (only.outcome, only.shown_code) == ("left", None)
    make_rating(chat)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.shown_code) == ("rated", "CDONE111")


def test_scripts_are_paid_by_nobody(paid: Study) -> None:
    make_conversation(paid, is_synthetic=True)
    assert submissions_of(paid).all == []


def test_ids_and_codes_are_found_and_ids_only_by_those_who_may_see_them(paid: Study, visit: Make) -> None:
    ann, bob = visit("rated", "ann"), visit("withdrawn", "bob")
    visits = submissions_of(paid)

    def search(words: str, **options: bool) -> set[SubmissionKey]:
        return {visit.key for visit in submissions_searched(visits, words, **options)}

    assert search("PID-ANN") == search("ses-ann") == search("cdone") == {ann}
    assert search("") == {ann, bob}
    assert search("pid-ann", by_id=False) == set()
    assert search("cwith", by_id=False) == {bob}
    completion_code = Participant.objects.get(pk=ann.participant).tasks.get().completion_code
    assert search(completion_code.lower()) == {ann}


def test_queries_do_not_grow_with_people(paid: Study, visit: Make) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            visits = submissions_of(paid)
            flags_of(visits)
            codes_shown(visits.all)
        return len(queries)

    visit("rated", "first")
    flags_of(submissions_of(paid))
    before = count()
    for number in range(5):
        visit("rated", str(number))
    flags_of(submissions_of(paid))  # finds flags anew, once for all who look
    assert count() == before


def test_a_visit_is_found_by_its_name_which_holds_no_id(paid: Study, visit: Make) -> None:
    key = visit("rated", "a~b")
    assert submissions_of(paid).by_name[str(key)].key == key
    assert key.submission not in str(key)


def named(study: Study) -> dict[SubmissionKey, dict[str, str]]:
    flags = flags_of(submissions_of(study))
    return {key: {flag.name: flag.words for flag in result} for key, result in flags.items()}


def test_half_the_usual_time_is_fast(paid: Study, visit: Make) -> None:
    quick = visit("rated", "quick", seconds=112, quality=3, fluency=5)
    for number in range(8):
        visit("rated", str(number), seconds=460 + number, quality=number % 7 + 1, fluency=2)
    assert named(paid) == {}, "nine visits are no distribution"
    visit("rated", "usual", seconds=480, quality=3, fluency=5)
    assert named(paid) == {
        quick: {
            "fast": (
                "1:52 minutes; 90 % of participants took longer, half of them 7:44 or more. 10 % of tasks have this "
                "flag."
            )
        }
    }


def test_the_same_answer_throughout(paid: Study, visit: Make) -> None:
    alike = {"quality": 4, "fluency": 4, "diversity": 4, "contingency": 4, "empathy": 4}
    same = visit("rated", "same", **alike)
    visit("rated", "other", **{**alike, "quality": 5})
    visit("rated", "third", **{**alike, "empathy": 1})
    result = named(paid)
    assert list(result) == [same]
    assert result[same] == {"same_answer": "5 times 4. 33 % of tasks have this flag."}


def test_who_lost_a_chat_or_came_for_a_code_that_is_missing_has_none(paid: Study, visit: Make) -> None:
    visit("rated", "fine", quality=1, fluency=2)
    chat = make_conversation(paid, platform="prolific", external_id="pid-lost")
    fail_reply(chat)
    Conversation.objects.filter(pk=chat.pk).update(state="failed")
    task_close(task=chat.slot.task, state=Task.State.FAILED)
    lost = SubmissionKey(chat.participant_id, "")
    assert set(named(paid)) == {lost}
    assert "50 % of the participants who earned pay" in named(paid)[lost]["no_code"]
    paid = study_edit(study=paid, code_rated="", code_bot_failed="")
    assert set(named(paid)) == {lost}, "who finished before was shown a code"
    later = visit("rated", "later", quality=2, fluency=1)
    assert set(named(paid)) == {lost, later}, "a code of Confab's own is none to be paid by"
