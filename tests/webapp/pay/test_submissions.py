"""Everybody who began: outcomes, faults of ours, codes, searching, and a constant number of queries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.builders import exchange, fail_reply, make_conversation, make_participant, make_rating
from webapp.conversations.services import conversation_swap
from webapp.pay.flags.base import flags_of
from webapp.pay.submissions import SubmissionKey, codes_shown, submissions_of, submissions_searched
from webapp.studies.models import Participant, Study, Task
from webapp.studies.recruitment.links import task_decline
from webapp.studies.services import participant_enter

Make = Callable[..., SubmissionKey]


def test_every_end_is_told_with_its_code(paid: Study, visit: Make) -> None:
    ends = ["rated", "bot_failed", "withdrawn", "screened_out", "failed_check", "left", "inside"]
    keys = {end: visit(end, end) for end in ends}
    agreed_only = make_participant(paid, platform="prolific", external_id="pid-agreed")
    visits = submissions_of(paid)
    found = {visit.key: visit for visit in visits.all}
    assert len(found) == len(ends) + 1
    for end, key in keys.items():
        assert found[key].outcome == end
        assert found[key].is_ours == (end == "bot_failed")
        assert (found[key].duration is None) == (end in ("left", "inside"))
    assert found[SubmissionKey(agreed_only.pk, "")].outcome == "inside"
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
    assert (only.outcome, only.told) == ("no_consent", "CNOCO555")
    chat = make_conversation(paid, n_exchanges=3, **names)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.told, only.ended_at) == ("inside", None, None)
    assert codes_shown([only]) == {}
    Task.objects.filter(pk=chat.task.pk).update(created_at=timezone.now() - timedelta(days=1))
    [only] = submissions_of(paid).all
    assert (only.outcome, only.told) == ("left", None)
    make_rating(chat)
    [only] = submissions_of(paid).all
    assert (only.outcome, only.told) == ("rated", "CDONE111")


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
    own = Participant.objects.get(pk=ann.participant).tasks.get().completion_code
    assert own is not None
    assert search(own.lower()) == {ann}


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
