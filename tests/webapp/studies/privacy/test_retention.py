"""The retention clock: when ids and texts go, that nothing of them stays in any table, and the command's report."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.builders import make_conversation, make_study, signed_in
from tests.markup import flat
from tests.webapp.participant.test_declining import IDS, tables_with
from tests.webapp.studies.test_erasure import SECRET, make_person
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.tasks import retention
from webapp.pay.models import Decision
from webapp.pay.submissions import submissions_of
from webapp.ratings.models import Rating
from webapp.studies.models import Erasure, Participant, PlatformIds, Study, Task
from webapp.studies.privacy.retention import clock_of, ids_due, retention_due, retention_run, texts_are_due
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
HOME = [{"key": "home", "title": "Where do you live?", "kind": "text"}]


def closed(days_ago: int, **fields: Any) -> Study:
    """Return a study with a person in it, closed so long ago."""
    study = make_study(questions=HOME, **fields)
    make_person(study)
    study = study_edit(study=Study.objects.get(pk=study.pk), state=Study.State.ENDED)
    assert study.ended_at is not None
    at = timezone.now() - timedelta(days=days_ago)
    Study.objects.update(ended_at=at)
    Decision.objects.update(updated_at=at - timedelta(days=1))
    return Study.objects.get(pk=study.pk)


def erase(*asked: str) -> dict[str, Any]:
    out = StringIO()
    call_command("erase", *asked, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


def test_ids_go_when_their_time_has_come_and_the_work_stays() -> None:
    study = closed(10, ids_kept_days=10)
    now = timezone.now()
    assert not ids_due(study, now - timedelta(days=1)).exists()
    # Whose pay was decided later keeps them as long after that.
    Decision.objects.update(updated_at=now - timedelta(days=3))
    assert not ids_due(study, now).exists()
    assert clock_of(study).n_later == 1
    Decision.objects.update(updated_at=now - timedelta(days=11))
    assert [(one.key, what) for one, what, _n in retention_due()] == [("s", "ids")]
    retention()  # as the worker does it
    assert not tables_with(f"pid-{SECRET}")
    assert not tables_with(SECRET) & IDS
    assert retention_run() == []
    [visit] = submissions_of(study).all
    assert (visit.external_id, visit.key.submission, visit.verdict.action) == ("", "erased-1", "approve")
    assert (Task.objects.count(), Rating.objects.count()) == (1, 1)
    assert [erasure.kind for erasure in Erasure.objects.all()] == [Erasure.Kind.IDS]
    page = signed_in(Right.READ)
    said = flat(page.get("/dashboard/studies/s/").content.decode())
    assert "Recruitment ids are erased on" in said
    assert "Backups and log files are not erased." in said
    assert "Recruitment ids, by the clock (1 participant)" in said


def test_ids_and_texts_are_due_at_the_very_moment() -> None:
    study = closed(10, ids_kept_days=10, texts_kept_days=10)
    assert study.ended_at is not None
    moment = study.ended_at + timedelta(days=10)
    for now, is_due in ((moment - timedelta(microseconds=1), False), (moment, True)):
        assert ids_due(study, now).exists() is is_due
        assert texts_are_due(study, now) is is_due


def test_texts_go_and_ratings_stay() -> None:
    study = closed(20, texts_kept_days=30)
    assert retention_run() == []
    study = study_edit(study=study, texts_kept_days=20)
    [(_study, what, removed)] = retention_run()
    assert (what, removed["turns"], removed["ratings"], removed["reports"]) == ("texts", 6, 1, 1)
    assert not tables_with(f"{SECRET} says", f"to {SECRET}", f"{SECRET} thinks", f"in {SECRET}")
    assert not tables_with(SECRET) - IDS
    rating = Rating.objects.get()
    assert rating.answers
    assert rating.comment == ""
    assert retention_run() == []


def test_whoever_withdrew_is_forgotten_by_the_platform_s_name_after_ninety_days() -> None:
    study = make_study()
    person = make_conversation(study, platform="prolific", external_id="p1").participant
    Participant.objects.filter(pk=person.pk).update(withdrawn_at=timezone.now())
    assert not ids_due(study, timezone.now() + timedelta(days=89)).exists()
    assert ids_due(study, timezone.now() + timedelta(days=91)).get() == person


def test_the_command_counts_before_it_erases() -> None:
    closed(10, ids_kept_days=5)
    dry = erase("--study", "s", "--people", "--dry-run")
    assert (dry["dry_run"], dry["removed"]["turns"], dry["removed"]["platform_ids"]) == (True, 6, 1)
    assert erase("--due", "--dry-run")["studies"][0]["what"] == "ids"
    assert erase("--study", "s", "--texts", "--dry-run")["removed"]["turns"] == 6
    assert erase("--study", "s", "--ids", "--dry-run")["removed"] == {"platform_ids": 1}
    assert SECRET in repr(list(Participant.objects.values("platform_ids__external_id")))
    assert erase("--due")["removed"]["platform_ids"] == 1
    assert erase("--study", "s", "--texts")["removed"]["turns"] == 6
    gone = erase("--study", "s", "--people")["removed"]
    assert gone["participants"] == 1
    assert not tables_with(SECRET)
    for wrong, said in ((("--due", "--study", "s"), "leave --study out"), (("--people",), "--study is missing")):
        with pytest.raises(CommandError, match=said):
            erase(*wrong)


def test_after_a_jump_of_the_clock_nothing_is_erased_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    study = closed(10, ids_kept_days=20)
    assert retention_run() == []
    present = timezone.now()

    def set_clock(days: float) -> None:
        moment = present + timedelta(days=days)
        monkeypatch.setattr("webapp.studies.privacy.retention.database_now", lambda: moment)

    set_clock(30)
    with pytest.raises(Refused, match="has jumped by more than a day"):
        retention_run()
    retention()  # the worker logs it
    set_clock(0.1)  # the clock was wrong and is set right
    assert retention_run() == []
    assert PlatformIds.objects.filter(participant__study=study).exists()
    for hours in range(1, 24):  # Confab was off for a month: it erases a day later
        set_clock(30 + hours / 24)
        with pytest.raises(Refused):
            retention_run()
    set_clock(31.1)
    assert [what for _study, what, _removed in retention_run()] == ["ids"]
