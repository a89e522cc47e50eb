"""Pay among a study's people: what is listed, that a decision needs a name and can be taken back, and files."""

import csv
import io
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.builders import signed_in
from tests.fake_prolific import TOKEN, fake_prolific
from tests.markup import flat
from tests.webapp.conftest import PROLIFIC_STUDY
from tests.webapp.pay.test_services import REASON
from webapp.core.rights import Right
from webapp.dashboard import people_list
from webapp.insights.action_items import pay_waits
from webapp.jobs import engine
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.pay.models import Decision
from webapp.pay.prolific import messages_start
from webapp.pay.services import mturk_file, results_filled, visit_bonus, visit_reject, visits_approve
from webapp.pay.submissions import SubmissionKey
from webapp.studies.models import Participant, Study, Task
from webapp.studies.models.participants import PlatformIds
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.writers import stream

Make = Callable[..., SubmissionKey]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def payer(db: None) -> Client:
    """Return the browser of somebody who pays and may see ids."""
    return signed_in(Right.READ, Right.PAY, Right.PRIVATE, username="payer")


def listed(client: Client, study: Study, **query: str) -> str:
    answer = client.get(reverse("dashboard:study_people", args=[study.key]), query)
    assert answer.status_code == 200
    return flat(answer.content.decode())


def decide(client: Client, study: Study, **fields: object):  # type: ignore[no-untyped-def]
    return client.post(reverse("dashboard:study_pay_decide", args=[study.key]), fields, follow=True)


def names(html: str) -> list[str]:
    return re.findall(r'class="person-id"[^>]*aria-label="([^"]+)"', html)


def test_everybody_who_began_is_listed_and_filtered(payer: Client, paid: Study, visit: Make) -> None:
    for end in ("rated", "bot_failed", "failed_check", "withdrawn", "left", "inside"):
        visit(end, end)
    html = listed(payer, paid)
    assert sorted(names(html)) == sorted(
        f"pid-{end}" for end in ("rated", "bot_failed", "failed_check", "withdrawn", "left", "inside")
    )
    assert "1 person could not finish through no fault of their own" in html
    assert "£3.20 to pay" in html
    # The answers are all 4: a flag, so it is looked at.
    assert set(names(listed(payer, paid, show="look"))) == {"pid-rated", "pid-failed_check"}
    assert names(listed(payer, paid, show="ours")) == ["pid-bot_failed"]
    assert names(listed(payer, paid, words="ses-with")) == ["pid-withdrawn"]
    assert names(listed(payer, paid, words="CFAIL")) == ["pid-bot_failed"]
    assert "No participants here" in listed(payer, paid, words="nothing-like-it")
    assert names(listed(payer, paid, show="nonsense", page="-3")) == names(html)


def test_what_waits_for_a_decision_is_told_and_leads_here(payer: Client, paid: Study, visit: Make) -> None:
    old, new = visit("rated", "old", quality=1), visit("rated", "new", quality=2)
    assert pay_waits() == []
    Task.objects.filter(participant=old.participant).update(ended_at=timezone.now() - timedelta(days=4))
    (need,) = pay_waits()
    assert (need.lead, need.href[0]) == ("1 person", "dashboard:study_people")
    assert "more than 3 days ago" in payer.get("/dashboard/").content.decode()
    visits_approve(study=paid, keys=[old, new])
    assert pay_waits() == []
    Decision.objects.filter(participant=new.participant).update(state="failed", error="away")
    (need,) = pay_waits()
    assert (need.lead, need.href[2]) == ("1 decision", "show=failed")


def test_the_steps_of_the_webhook_stand_here(payer: Client, paid: Study, visit: Make, settings: Any) -> None:
    html = listed(payer, paid)
    assert "http://testserver/hooks/prolific/paid/" in html
    assert "webhook: not set up" in html
    settings.CONFAB_PROLIFIC_HOOK_SECRET = "secret"
    assert "no events yet" in listed(payer, paid)


def test_ids_are_private(paid: Study, visit: Make) -> None:
    key = visit("rated", "secret")
    client = signed_in(Right.READ, Right.PAY, username="no-ids")
    person = reverse("dashboard:study_person", args=[paid.key, key.participant])
    pages = [listed(client, paid), client.get(person, {"visit": key.digest}).content.decode()]
    for html in pages:
        assert "pid-secret" not in html
        assert key.participant.hex in html
    assert "No participants here" in listed(client, paid, words="pid-secret")
    assert "ses-secret" not in pages[0] + pages[1]


def test_approving_taking_back_and_marking_as_sent(payer: Client, paid: Study, visit: Make) -> None:
    a, b = visit("rated", "a", quality=1), visit("rated", "b", quality=2)
    html = decide(payer, paid, action="approve", visit=str(a)).content.decode()
    assert "1 visit was approved. Nothing has been sent yet." in html
    assert names(listed(payer, paid, show="send")) == ["pid-a"]
    assert "Select visits to approve first." in decide(payer, paid, action="approve").content.decode()
    assert "1 visit was approved" in decide(payer, paid, action="approve_all").content.decode()
    for decision in Decision.objects.all():
        assert decision.decided_by is not None
    first = Decision.objects.get(participant=a.participant)
    html = decide(payer, paid, action="undo", decision=first.pk, person=str(a)).content.decode()
    assert "The decision was undone." in html
    assert "Undone" in html
    assert names(listed(payer, paid, show="approve")) == ["pid-a"]
    match = re.search(r'value="sent">.*?name="decision" value="(\d+)"', listed(payer, paid))
    assert match
    # Whom somebody else approves meanwhile is not on the page, and nobody has told the platform of them.
    visits_approve(study=paid, keys=[visit("rated", "c")])
    html = decide(payer, paid, action="sent", decision=match[1]).content.decode()
    assert "1 decision is marked as sent" in html
    assert names(listed(payer, paid, show="paid")) == ["pid-b"]
    assert names(listed(payer, paid, show="send")) == ["pid-c"]
    second = Decision.objects.get(participant=b.participant)
    html = decide(payer, paid, action="undo", decision=second.pk).content.decode()
    assert "The decision has been sent and cannot be undone." in html


def test_a_rejection_is_confirmed_by_name(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("rated", "0123456789")
    fields = {"action": "reject", "visit": str(key), "person": str(key), "category": "LOW_EFFORT"}
    asked = flat(decide(payer, paid, **fields).content.decode())
    assert "Reject pid-…6789?" in asked
    assert 'minlength="100"' in asked
    short = decide(payer, paid, **fields, reason=f"Too fast. {HOSTILE}", sure="1")
    assert short.status_code == 400
    text = short.content.decode()
    assert f"The reason has {10 + len(HOSTILE)} characters; Prolific requires at least 100." in text
    assert "Too fast." in text
    assert HOSTILE not in text
    assert not Decision.objects.exists()
    decide(payer, paid, **fields, reason=REASON, sure="1")
    decision = Decision.objects.get()
    assert (decision.action, decision.category, decision.reason) == ("reject", "LOW_EFFORT", REASON)


def test_several_are_rejected_by_name_all_or_none(payer: Client, paid: Study, visit: Make) -> None:
    keys = [visit("rated", name) for name in "abc"]
    assert "Select visits to reject first." in decide(payer, paid, action="reject").content.decode()
    fields = {"action": "reject", "visit": [str(key) for key in keys], "reason": REASON}
    asked = flat(decide(payer, paid, **fields).content.decode())
    assert "Reject 3 visits?" in asked
    assert all(f"pid-{name}" in asked for name in "abc")
    visits_approve(study=paid, keys=[keys[2]])
    assert "already approved or rejected" in decide(payer, paid, **fields, sure="1").content.decode()
    assert Decision.objects.count() == 1, "one was decided meanwhile, so none is rejected"
    fields["visit"] = fields["visit"][:2]
    assert "2 visits were rejected." in decide(payer, paid, **fields, sure="1").content.decode()
    assert sorted(names(listed(payer, paid, show="rejected"))) == []
    assert sorted(names(listed(payer, paid, show="send"))) == ["pid-a", "pid-b", "pid-c"]


def test_rows_may_be_selected_together(payer: Client, paid: Study, visit: Make) -> None:
    for end in ("rated", "left", "inside"):
        visit(end, end)
    html = listed(payer, paid)
    boxes = BeautifulSoup(html, "html.parser").select(".people-list input[name=visit]")
    assert [(box["aria-label"], box.has_attr("data-flagged")) for box in boxes] == [
        ("Select pid-rated", True),
        ("Select pid-left", True),
    ], "whoever is at it cannot be decided about, and only finished work is selected without flags"
    assert "Select all without flags" in html


def test_a_bonus_is_confirmed_by_name_and_given_once(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("withdrawn", "a")
    fields = {"action": "bonus", "visit": str(key), "asked": str(uuid.uuid4()), "note": "time"}
    refused = decide(payer, paid, **fields, amount="1,5")
    assert refused.status_code == 400
    assert "“1,5” cannot be paid. Enter an amount from 0.01 to 1000, such as 1.50." in refused.content.decode()
    assert "Pay pid-a a bonus of £0.60?" in flat(decide(payer, paid, **fields, amount="0.60").content.decode())
    for _again in range(2):
        decide(payer, paid, **fields, amount="0.60", sure="1")
    assert Decision.objects.get().amount is not None
    assert names(listed(payer, paid, show="send")) == ["pid-a"]
    lost = {**fields, "visit": str(visit("bot_failed", "b")), "asked": str(uuid.uuid4())}
    decide(payer, paid, **lost, amount="0.60", sure="1")
    assert names(listed(payer, paid, show="send")) == ["pid-b", "pid-a"]
    assert names(listed(payer, paid, show="ours")) == ["pid-b"]
    assert "1 person could not finish through no fault of their own" in listed(payer, paid)


def test_a_message_is_sent_once_by_prolific(payer: Client, paid: Study, visit: Make, settings: Any) -> None:
    key = visit("rated", "a")
    fields = {"action": "message", "visit": str(key), "asked": str(uuid.uuid4())}
    with fake_prolific(PROLIFIC_STUDY) as platform:
        settings.CONFAB_PROLIFIC_URL, settings.CONFAB_PROLIFIC_TOKEN = platform.url, TOKEN
        platform.trouble.append(("messages/", 400))
        page = payer.get(reverse("dashboard:study_person", args=[paid.key, key.participant]))
        assert "Send the message" in page.content.decode()
        for text, said in (
            (" ", "Use 1 to 2,000"),
            ("Hello", "Prolific responded with 400: trouble"),
            ("Hello", "The message was sent."),
            ("Hello", "This message was already sent."),
        ):
            assert said in decide(payer, paid, **fields, text=text).content.decode()
            cache.clear()  # another process has none of this one's
        assert [(message["recipient_id"], message["body"]) for message in platform.messages] == [("pid-a", "Hello")]


def test_several_get_a_message_each_once_and_the_page_says_who(
    payer: Client, paid: Study, visit: Make, settings: Any
) -> None:
    keys = [visit("rated", "a"), visit("left", "b"), visit("inside", "c")]
    visits_approve(study=paid, keys=keys[:1])
    with fake_prolific(PROLIFIC_STUDY) as platform:
        settings.CONFAB_PROLIFIC_URL, settings.CONFAB_PROLIFIC_TOKEN = platform.url, TOKEN
        platform.trouble.append(("messages/", 400))
        html = listed(payer, paid)
        assert "Write to selected…" in html
        assert html.count('name="visit"') == 3, "those who cannot be approved can be written to"
        assert "Select visits to write to first." in decide(payer, paid, action="messages").content.decode()
        fields = {"action": "messages", "visit": [str(key) for key in keys]}
        asked = decide(payer, paid, **fields)
        assert asked.status_code == 200
        assert "Write to 3 participants" in flat(asked.content.decode())
        assert all(f"pid-{name}" in asked.content.decode() for name in "abc")
        fields |= {"sure": "1", "asked": asked.context["form"]["asked"].value()}
        empty = decide(payer, paid, **fields, text=" ")
        assert empty.status_code == 400
        assert "Write the message." in empty.content.decode()
        assert not Job.objects.filter(kind="pay_message").exists()
        for _twice in range(2):
            sent = decide(payer, paid, **fields, text="Hello")
        job = Job.objects.get(kind="pay_message")
        page = reverse("dashboard:job", args=["pay_message", job.pk])
        assert sent.redirect_chain == [(page, 302)]
        assert not platform.messages
        run_job(job)
        assert sorted(message["recipient_id"] for message in platform.messages) == ["pid-b", "pid-c"]
        decide(payer, paid, **fields, text="Hello")
        assert Job.objects.get(kind="pay_message") == job
    job.refresh_from_db()
    assert (job.state, job.error, job.payload["text"]) == ("done", "", "")
    html = flat(payer.get(page).content.decode())
    assert "2 messages were sent. 1 could not be confirmed as sent" in html
    assert "Prolific responded with 400: trouble" in html
    assert reverse("dashboard:study_person", args=[paid.key, keys[0].participant]) in html


def test_a_worker_that_is_killed_while_it_writes_does_not_write_again(
    paid: Study, visit: Make, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [visit("rated", name) for name in "ab"]
    with fake_prolific(PROLIFIC_STUDY) as platform:
        settings.CONFAB_PROLIFIC_URL, settings.CONFAB_PROLIFIC_TOKEN = platform.url, TOKEN
        job = messages_start(
            study=paid, participants=[key.participant for key in keys], text="Hello", form_id=uuid.uuid4()
        )
        with monkeypatch.context() as patched:

            def killed(**_end: Any) -> None:
                raise KeyboardInterrupt

            patched.setattr(engine, "shard_end", killed)
            with pytest.raises(KeyboardInterrupt):
                run_job(job)
        assert len(platform.messages) == 1
        run_job(job)
        assert sorted(message["recipient_id"] for message in platform.messages) == ["pid-a", "pid-b"]
    job.refresh_from_db()
    assert ["may have been sent" in person["error"] for person in job.result["people"]] == [True, False]


def test_messages_are_offered_where_prolific_passes_them_on(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    html = listed(payer, paid)
    assert "Write to selected" not in html
    assert "Set <code>CONFAB_PROLIFIC_TOKEN</code>" in html
    Participant.objects.update(platform="mturk")
    assert "None of them came from Prolific" in decide(payer, paid, action="messages", visit=str(key)).content.decode()


def test_nobody_is_rejected_who_is_still_inside(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("inside", "a")
    text = decide(payer, paid, action="reject", visit=str(key), reason=REASON, sure="1").content.decode()
    assert "A participant who is still active cannot be rejected." in text
    assert not Decision.objects.exists()


def test_damaged_forms_change_nothing(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("rated", "a")
    for fields in (
        {"action": "shoot"},
        {"action": "undo", "decision": "x"},
        {"action": "undo", "decision": "9" * 30},
        {"action": "reject", "visit": "~", "reason": REASON},
    ):
        assert decide(payer, paid, **fields).status_code == 404
    unknown = reverse("dashboard:study_person", args=[paid.key, key.participant])
    assert payer.get(unknown, {"visit": "no-such"}).status_code == 404
    assert not Decision.objects.exists()


def test_what_people_send_stays_text(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("rated", HOSTILE)
    PlatformIds.objects.filter(participant=key.participant).update(external_id=HOSTILE)
    person = reverse("dashboard:study_person", args=[paid.key, key.participant])
    for html in (
        listed(payer, paid),
        listed(payer, paid, words=HOSTILE),
        payer.get(person, {"visit": key.digest}).content.decode(),
    ):
        assert HOSTILE not in html


def test_pages_of_the_list(payer: Client, paid: Study, visit: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_list, "PAGE", 2)

    def count() -> int:
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            listed(payer, paid)
        return len(queries)

    for name in "abc":
        visit("rated", name)
    count()
    before = count()
    for name in "defg":
        visit("rated", name)
    count()
    assert count() == before
    pages = [names(listed(payer, paid, page=str(page))) for page in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert sorted(name for page in pages for name in page) == [f"pid-{name}" for name in "abcdefg"]
    assert "1 to 2 of 7" in listed(payer, paid)
    assert names(listed(payer, paid, page="99")) == pages[3]


def test_the_table_has_everybody_and_runs_no_formula(payer: Client, paid: Study, visit: Make) -> None:
    key = visit("rated", "=1+1", platform="mturk")
    PlatformIds.objects.filter(participant=key.participant).update(external_id="=1+1")
    visit("withdrawn", "w")
    decide(payer, paid, action="approve", visit=str(key))
    exporter = exporter_get("pay")

    def written(*, private: bool) -> list[str]:
        options = ExportOptions(include_private=private)
        pieces = stream("csv", exporter.columns(paid, options), exporter.rows(paid, options))
        return b"".join(pieces).decode("utf-8-sig").splitlines()

    head, first, second = written(private=True)
    assert head.startswith("participant,study,outcome,our_fault,code,began_at")
    assert "'=1+1" in first
    assert ",approve,decided," in first
    assert ",withdrawn," in second
    assert ",CWITH666," in second
    assert "1+1" not in "".join(written(private=False))
    visit_bonus(study=paid, key=key, amount=Decimal("0.5"), reason="thanks")
    [row] = [one for one in csv.DictReader(written(private=True)) if one["outcome"] == "rated"]
    assert (row["bonus"], row["bonus_state"]) == ("0.5", "decided")


def test_page_and_table_agree_on_what_is_to_be_paid_without_bonuses_and_with_them(
    payer: Client, paid: Study, visit: Make
) -> None:
    visit("failed_check", "c")
    keys = [visit("rated", person) for person in "ab"]
    assert "£3.20 to pay, no bonuses" in listed(payer, paid)
    for key in keys:
        visit_bonus(study=paid, key=key, amount=Decimal("0.55"), reason="thanks")
    Decision.objects.filter(participant=keys[0].participant).update(state=Decision.State.SENT, closed_at=timezone.now())
    assert "£3.20 to pay, £3.75 with bonuses" in listed(payer, paid)
    exporter = exporter_get("pay")
    options = ExportOptions(include_private=False)
    names = [column.name for column in exporter.columns(paid, options)]
    rows = [dict(zip(names, row, strict=True)) for row in exporter.rows(paid, options)]
    assert sum(row["to_pay"] for row in rows) == pytest.approx(3.2)
    assert sum(row["to_pay_with_bonuses"] for row in rows) == pytest.approx(3.75)
    study_edit(study=paid, pay_each=None)
    edited = Study.objects.get(pk=paid.pk)
    assert "£3.20 to pay, £3.75 with bonuses" in listed(payer, edited), "as the participants were shown"


def test_without_pay_in_the_study_only_bonuses_are_counted(payer: Client, paid: Study, visit: Make) -> None:
    study_edit(study=paid, pay_each=None)
    visit_bonus(study=paid, key=visit("rated", "a"), amount=Decimal("0.55"))
    assert "£0.55 of bonuses to pay" in listed(payer, paid)
    exporter = exporter_get("pay")
    options = ExportOptions(include_private=False)
    names = [column.name for column in exporter.columns(paid, options)]
    assert [row[names.index("to_pay")] for row in exporter.rows(paid, options)] == [None]


def test_the_table_is_offered_to_those_who_pay(payer: Client, paid: Study, visit: Make) -> None:
    visit("rated", "a")
    assert "?what=pay&amp;format=csv&amp;include_private=on" in listed(payer, paid)
    client = signed_in(Right.READ, Right.PAY, username="no-ids")
    html = listed(client, paid)
    assert "?what=pay&amp;format=csv" in html
    assert "include_private" not in html


def test_without_a_token_nothing_is_sent_and_the_page_says_what_to_set(
    payer: Client, paid: Study, visit: Make, settings: Any
) -> None:
    settings.CONFAB_PROLIFIC_TOKEN = ""
    decide(payer, paid, action="approve", visit=str(visit("rated", "a")))
    html = listed(payer, paid)
    assert "CONFAB_PROLIFIC_TOKEN" in html
    assert 'value="send"' not in html
    assert 'value="compare"' not in html
    assert "has no token" in decide(payer, paid, action="send").content.decode()
    assert not Job.objects.exclude(kind="order").exists()


def test_sending_comparing_and_trying_again(payer: Client, paid: Study, visit: Make, settings: Any) -> None:
    with fake_prolific(PROLIFIC_STUDY) as platform:
        settings.CONFAB_PROLIFIC_URL, settings.CONFAB_PROLIFIC_TOKEN = platform.url, TOKEN
        platform.add("ses-a", status="RETURNED")
        key = visit("rated", "a")
        decide(payer, paid, action="approve", visit=str(key))
        assert "Send 1 to Prolific" in listed(payer, paid)
        assert "Sending pay decisions" in decide(payer, paid, action="send").content.decode()
        run_job(Job.objects.exclude(kind="order").get())
        html = listed(payer, paid, show="failed")
        assert "Could not be sent" in html
        assert "cannot be changed" in html
        assert "Retry 1" in html
        assert "Pay on the platform" not in html
        decide(payer, paid, action="retry_all")
        assert Decision.objects.get().error == ""
        run_job(Job.objects.exclude(kind="order").latest("pk"))
        assert "Could not be sent" in listed(payer, paid, show="failed")
        person = reverse("dashboard:study_person", args=[paid.key, key.participant])
        html = payer.get(person, {"visit": key.digest}).content.decode()
        assert 'value="retry"' in html
        platform.add("ses-a")
        decide(payer, paid, action="retry", decision=Decision.objects.get().pk, person=str(key))
        run_job(Job.objects.exclude(kind="order").latest("pk"))
        assert names(listed(payer, paid, show="paid")) == ["pid-a"]
        platform.add("ses-zz")
        decide(payer, paid, action="compare")
        run_job(Job.objects.exclude(kind="order").latest("pk"))
        html = listed(payer, paid)
        assert "1 person reserved a place there but never came here." in html
        html = payer.get(person, {"visit": key.digest}).content.decode()
        assert "<dd>approved</dd>" in flat(html)


def test_mechanical_turk_gets_a_file(payer: Client, paid: Study, visit: Make) -> None:
    good, bad = visit("rated", "good", platform="mturk"), visit("rated", "bad", platform="mturk")
    visits_approve(study=paid, keys=[good, visit("rated", "elsewhere")])
    visit_reject(study=paid, key=bad, reason="=1+1,\n no work")
    url = reverse("dashboard:study_pay_mturk", args=[paid.key])
    assert url in listed(payer, paid)
    assert payer.get(url)["Content-Disposition"] == 'attachment; filename="paid-mturk.csv"'
    rows = list(csv.DictReader(io.StringIO("".join(mturk_file(paid)))))
    assert rows == [
        {"HITId": "HIT1", "AssignmentId": "ses-good", "WorkerId": "pid-good", "Approve": "X", "Reject": ""},
        {"HITId": "HIT1", "AssignmentId": "ses-bad", "WorkerId": "pid-bad", "Approve": "", "Reject": "'=1+1, no work"},
    ]
    newest = Decision.objects.order_by("pk").last()
    assert newest
    decide(payer, paid, action="sent", decision=newest.pk)
    assert len(list(mturk_file(paid))) == 1


def test_the_results_file_of_mechanical_turk_is_filled_in_by_assignment_or_pasted_code(
    payer: Client, paid: Study, visit: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = visit("rated", "good", platform="mturk"), visit("rated", "bad", platform="mturk")
    pasted = visit("rated", "pasted")
    visit("rated", "waiting")
    visits_approve(study=paid, keys=[good, pasted])
    visit_reject(study=paid, key=bad, reason="=1+1,\n no work")
    code = Task.objects.get(participant=pasted.participant).completion_code
    values = [
        ("ses-good", "a code with a mistake"),
        ("ses-bad", ""),
        ("of no link", f" {code.lower()} "),
        ("ses-waiting", ""),
        ("a stranger's", "ABC-DEF"),
    ]
    text = "\ufeffAssignmentId,WorkerId,Answer.surveycode\n"
    text += "".join(f'{assignment},W,"{answer}"\n' for assignment, answer in values)
    with CaptureQueriesContext(connection) as queries:
        filled = results_filled(paid, io.StringIO(text.removeprefix("\ufeff")), out := io.StringIO())
    assert len(queries) == 3
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [(row["Approve"], row["Reject"]) for row in rows] == [
        ("X", ""),
        ("", "'=1+1, no work"),
        ("X", ""),
        ("", ""),
        ("", ""),
    ]
    assert [row["Answer.surveycode"] for row in rows] == [answer for _, answer in values]
    assert (filled.n_filled, filled.n_open, filled.n_unknown) == (3, 1, 1)
    url = reverse("dashboard:study_pay_mturk", args=[paid.key])

    def upload(content: bytes) -> Any:
        file = SimpleUploadedFile("results.csv", content, "text/csv")
        return payer.post(url, {"file": file}, follow=True)

    def sent(answer: Any) -> str:
        return b"".join(answer.streaming_content).decode()

    answer = upload(text.encode())
    assert answer["Content-Disposition"] == 'attachment; filename="paid-mturk-results.csv"'
    assert sent(answer) == out.getvalue()
    monkeypatch.setattr("webapp.dashboard.views.pay._IN_MEMORY_BYTES", 100)
    monkeypatch.setattr("webapp.dashboard.views.pay.PIECE_BYTES", 64)
    assert sent(upload(text.encode())) == out.getvalue(), "by the disk"
    # Readers of longer cells raise this limit for the whole process.
    usual = csv.field_size_limit(131_072)
    for content, told in (
        (b"Name,Code\nA,B\n", "it has no column AssignmentId"),
        (b"AssignmentId\nses-waiting\n", "1 rows have no decision yet"),
        (b"\xff\xfe\x00", "not a CSV file in UTF-8"),
        (b"AssignmentId\n" + b"x" * 200_000, "Line 2 of the file cannot be read"),
        (b"", "The file is empty."),
    ):
        assert told in upload(content).content.decode()
    csv.field_size_limit(usual)


def test_codes_of_prolific_come_as_json(staff: Client, paid: Study, settings: Any) -> None:
    url = reverse("dashboard:study_pay_codes", args=[paid.key])
    with fake_prolific(PROLIFIC_STUDY) as platform:
        settings.CONFAB_PROLIFIC_URL, settings.CONFAB_PROLIFIC_TOKEN = platform.url, TOKEN
        platform.codes = [("C1", "COMPLETED"), ("C2", "OTHER")]
        body = staff.post(url, {"prolific_study": PROLIFIC_STUDY}).json()
        assert body == {"codes": {"code_rated": "C1"}, "others": [{"code": "C2", "kind": "OTHER"}]}
        response = staff.post(url, {"prolific_study": "../users/me"})
        assert response.status_code == 502
        assert "not a Prolific id" in response.json()["error"]
