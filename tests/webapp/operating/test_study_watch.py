"""Open studies: they close by their own rules and say why; full, stuck and slow ones say so and are reported once."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from webapp.bots.models import Alert
from webapp.core.clock import database_now
from webapp.core.models import Incident
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.operating.incidents import REPORTED_AGAIN_AFTER, look
from webapp.operating.study_watch import FULL, SLOW, STUCK, close_due_studies, committed_pay, find_study_problems
from webapp.studies.models import ClosedBy, Study, Task
from webapp.studies.selectors import entry_refusal
from webapp.studies.study_file import study_file_of
from webapp.studies.versions import study_edit, study_revise

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channel(settings: Any) -> None:
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    settings.CONFAB_ALERT_WEBHOOK = ""


def day(offset: int) -> str:
    return (timezone.localdate() + timedelta(days=offset)).isoformat()


def rate(study: Study, n: int = 1) -> None:
    for _ in range(n):
        make_rating(make_conversation(study, n_exchanges=3))


def passed(**elapsed: float) -> datetime:
    """Let this time pass: everything that happened so far is older by it. Returns the time it began at."""
    by = timedelta(**elapsed)
    for table, columns in ((Task, ("created_at", "ended_at")), (Study, ("updated_at",))):
        for row in table._default_manager.all():
            values = {name: getattr(row, name) - by for name in columns if getattr(row, name)}
            table._default_manager.filter(pk=row.pk).update(**values)
    return database_now() - by


def kinds(study: Study) -> list[str]:
    return [problem.kind for problem in find_study_problems([Study.objects.get(pk=study.pk)])]


def closed(study: Study) -> Study:
    """Look as a process does, and return the study as it is then."""
    close_due_studies()
    close_due_studies()
    return Study.objects.get(pk=study.pk)


def test_a_study_closes_at_its_planned_number_and_says_so_once() -> None:
    study = make_study("s", n_conversations_wanted=2, closes_when_full=True)
    rate(study)
    assert closed(study).state == Study.State.COLLECTING
    rate(study)
    ended = closed(study)
    assert (ended.state, ended.closed_by) == (Study.State.ENDED, ClosedBy.PLANNED_NUMBER)
    assert ended.ended_at is not None
    [alert] = Alert.objects.all()
    assert alert.event == "study_closed"
    assert alert.said["words"].startswith("The study closed itself: the planned number was reached.")
    page = signed_in(*Right).get(reverse("dashboard:study", args=["s"])).content.decode()
    assert "The study closed itself on" in page
    assert "the planned number was reached." in page


def test_without_the_rule_a_full_study_stays_open_and_is_reported_once() -> None:
    study = make_study("s", name="Long talks", n_conversations_wanted=1)
    rate(study)
    assert closed(study).state == Study.State.COLLECTING
    assert kinds(study) == [FULL]
    for _ in range(3):
        look()
    [alert] = Alert.objects.all()
    assert (alert.event, alert.said["title"]) == ("study_full", "Confab: Long talks: The study is full.")
    assert alert.said["link"] == reverse("dashboard:study_people", args=["s"])


def test_the_last_day_ends_the_study_even_before_a_process_has_looked() -> None:
    study = make_study("s", closes_on=day(0))
    assert closed(study).state == Study.State.COLLECTING, "the last day is not over"
    study_edit(study=study, closes_on=day(-1))
    study = Study.objects.get()
    refusal = entry_refusal(study, None)
    assert refusal is not None
    assert refusal.code == "ended"
    assert closed(study).closed_by == ClosedBy.DATE


def test_the_budget_counts_those_who_are_inside_and_one_more() -> None:
    study = make_study("s", pay_each=2.0, fee_share=0.5, currency="GBP", budget=9.0)
    rate(study)  # 3.00 with the fee
    make_conversation(study)  # inside: 3.00
    assert committed_pay(study) == pytest.approx(9.0)
    assert closed(study).state == Study.State.COLLECTING, "one more does not exceed it"
    inside = make_conversation(study)
    assert closed(study).closed_by == ClosedBy.BUDGET
    inside.task.refresh_from_db()
    assert inside.task.state == Task.State.OPEN, "who is inside can finish"


@pytest.mark.parametrize(
    ("fields", "name", "words"),
    [
        ({"closes_when_full": True}, "closes_when_full", "The study has no planned number."),
        ({"budget": 10.0}, "budget", "Without pay per task the cost is unknown."),
        ({"closes_on": "31.12.2027"}, "closes_on", "it must be a day such as 2027-01-31"),
    ],
)
def test_rules_that_cannot_apply_are_refused(fields: dict[str, Any], name: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        study_edit(study=make_study("s"), **fields)
    assert words in " ".join(refused.value.message_dict[name])


def test_a_study_whose_rule_applies_already_does_not_open_again() -> None:
    study = make_study("s", n_conversations_wanted=1, closes_when_full=True)
    rate(study)
    study = closed(study)
    with pytest.raises(ValidationError, match="already reached"):
        study_revise(study=study, changes={"state": "collecting"}, author="a")
    study_revise(study=study, changes={"n_conversations_wanted": 5}, author="a")
    study_revise(study=study, changes={"state": "collecting"}, author="a")
    opened = Study.objects.get()
    assert (opened.state, opened.closed_by, opened.ended_at) == ("collecting", "", None)
    draft = make_study("d", state=Study.State.DRAFT, closes_on=day(-1))
    with pytest.raises(ValidationError, match="is over"):
        study_edit(study=draft, state=Study.State.COLLECTING)


def test_the_rules_are_part_of_the_studys_file() -> None:
    study = make_study("s", closes_on="2027-05-31", n_conversations_wanted=4, closes_when_full=True)
    closing = study_file_of(study).values.closing
    assert (closing.closes_on, closing.closes_when_full, closing.budget) == ("2027-05-31", True, None)


def test_a_stuck_study_is_reported_once_a_day_and_recovers() -> None:
    study = make_study("s", name="Long talks")
    rate(study)
    assert kinds(study) == []
    passed(hours=25)
    for _ in range(3):
        make_conversation(study)  # three start and none finishes
    assert kinds(study) == [STUCK]
    [problem] = find_study_problems()
    assert problem.lead == "Nobody has finished for 25 hours."
    assert problem.rest == "3 participants started in the last day. Try the link yourself."
    look()
    look()
    rate(study)
    look()
    assert kinds(study) == []
    assert Incident.objects.filter(ended_at=None).count() == 0
    assert [alert.event for alert in Alert.objects.all()] == ["study_stuck"], "its end is not reported"
    # It comes back at once: the same day it is not reported again, later it is.
    passed(hours=25)
    look()
    assert Alert.objects.count() == 1
    Incident.objects.update(began_at=database_now() - REPORTED_AGAIN_AFTER - timedelta(hours=1))
    look()
    assert Alert.objects.count() == 1, "it ended less than a day ago"
    Incident.objects.update(ended_at=database_now() - REPORTED_AGAIN_AFTER - timedelta(hours=1))
    look()
    assert [alert.event for alert in Alert.objects.all()] == ["study_stuck", "study_stuck"]


def test_an_empty_study_is_stuck_too_and_a_paused_or_imported_one_never() -> None:
    study = make_study("s")
    passed(hours=30)
    [problem] = find_study_problems()
    assert problem.rest == "No participant started in the last day. Check that the link reaches people."
    Study.objects.filter(pk=study.pk).update(state=Study.State.PAUSED)
    assert find_study_problems() == []
    Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING, is_imported=True)
    assert find_study_problems() == []


def test_a_slow_study_names_the_day_on_which_it_would_be_ready() -> None:
    study = make_study("s", n_conversations_wanted=100)
    rate(study)
    passed(hours=48)
    rate(study, 3)  # four tasks in 48 hours, so 96 more take 48 days
    assert kinds(study) == [SLOW]
    [problem] = find_study_problems()
    ready = timezone.localtime(database_now() + timedelta(days=48))
    assert problem.lead == (
        f"The study is slow: at its present pace it has its 100 tasks on {ready.day} {ready:%b %Y}."
    )
    study_edit(study=Study.objects.get(), n_conversations_wanted=20, closes_on=day(30))
    assert kinds(study) == [], "16 more take 8 days"
    study_edit(study=Study.objects.get(), closes_on=day(3))
    [problem] = find_study_problems()
    assert "It closes before, with about 11." in problem.rest or "It closes before, with about 10." in problem.rest


def test_a_study_that_is_years_from_its_number_names_no_day() -> None:
    staff = signed_in(*Right)
    study = make_study("s", n_conversations_wanted=2_000_000_000)
    rate(study)
    passed(hours=30)
    rate(study)
    [problem] = find_study_problems()
    assert problem.kind == SLOW
    assert problem.lead.endswith("it has its 2,000,000,000 tasks in more than ten years.")
    for name, args in (("study", ["s"]), ("study_people", ["s"]), ("home", [])):
        assert problem.lead in staff.get(reverse(f"dashboard:{name}", args=args)).content.decode(), name


def test_while_everyone_waits_for_the_next_part_a_study_is_not_stuck() -> None:
    study = make_study("s", parts=[{"key": "a"}, {"key": "b", "after_days": {"least": 7}}])
    rate(study)
    passed(days=7.5)
    assert kinds(study) == []
    passed(days=1)
    assert kinds(study) == [STUCK]


def test_an_error_in_the_studies_stops_no_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study("s", n_conversations_wanted=1)
    rate(study)
    look()

    def fail() -> None:
        raise RuntimeError("unreadable")

    monkeypatch.setattr("webapp.operating.incidents.find_study_problems", fail)
    monkeypatch.setattr("webapp.operating.incidents.is_redis_up", lambda: False)
    look()
    assert sorted(alert.event for alert in Alert.objects.all()) == ["redis_away", "study_full"]
    assert Incident.objects.filter(ended_at=None).count() == 2, "the full study stays reported"


def test_pages_of_the_study_and_home_show_the_problem() -> None:
    staff = signed_in(*Right)
    study = make_study("s", name="Long talks", n_conversations_wanted=1)
    rate(study)
    for name, args in (("study", ["s"]), ("study_people", ["s"]), ("home", [])):
        page = staff.get(reverse(f"dashboard:{name}", args=args)).content.decode()
        assert "The study is full." in page, name


def test_problems_of_another_project_are_not_shown() -> None:
    admin = make_staff(*Right, username="admin")
    admin.is_superuser = True
    admin.save()
    project_create(actor=admin, key="other", name="Other lab")
    with in_project("other"):
        make_study("hidden", name="Quetzal")
    make_study("s")
    passed(hours=30)
    with in_project("default"):
        assert [problem.study.key for problem in find_study_problems()] == ["s"]
    look()
    assert Alert.objects.count() == 2, "the server's own work sees every project"


def test_many_studies_take_no_more_queries() -> None:
    def n_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            find_study_problems()
        return len(queries)

    for k in range(2):
        rate(make_study(f"s{k}", n_conversations_wanted=5))
    few = n_queries()
    for k in range(2, 6):
        rate(make_study(f"s{k}", n_conversations_wanted=5))
    assert n_queries() == few
