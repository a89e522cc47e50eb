"""One amount per participant: on their page, in the row, list, export, total, API, and at the platform."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from tests.builders import make_study, signed_in
from tests.fake_prolific import FakeProlific
from tests.markup import flat
from tests.webapp.api.programs import Program
from tests.webapp.conftest import CODES, PROLIFIC_STUDY
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.pay.models import Decision, PlatformVisit
from webapp.pay.prolific import sending_start
from webapp.pay.services import mturk_file, visits_approve
from webapp.pay.submissions import SubmissionKey, submissions_of
from webapp.studies.models import Study, Task
from webapp.studies.recruitment.owed import pay_for_ending
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

Make = Callable[..., SubmissionKey]
TIMES = {"pay_each": 1.2, "pay_screened_out": 0.1, "pay_late": 0.5, "fee_share": 0.0}


@pytest.fixture
def study(paid: Study) -> Study:
    study_edit(study=paid, **TIMES)
    return Study.objects.get(pk=paid.pk)


def exported(study: Study) -> dict[str, dict[str, Any]]:
    exporter, options = exporter_get("pay"), ExportOptions(include_private=True)
    names = [column.name for column in exporter.columns(study, options)]
    rows = (dict(zip(names, row, strict=True)) for row in exporter.rows(study, options))
    return {row["external_id"].removeprefix("pid-"): row for row in rows}


def row_amounts(client: Client, study: Study) -> dict[str, str]:
    page = client.get(f"/dashboard/studies/{study.key}/people/")
    assert page.status_code == 200
    soup = BeautifulSoup(page.content, "html.parser")
    results = {}
    for row in soup.select(".people-list tbody tr"):
        link, cell = row.select_one(".person-id"), row.select_one("td[data-label=Pay]")
        assert link
        assert cell
        results[link["aria-label"].removeprefix("pid-")] = flat(cell.get_text(" ")).strip()
    return results


def end_late(key: SubmissionKey) -> None:
    Task.objects.filter(participant=key.participant).update(outcome="late", state="ended")


def test_there_is_one_amount_per_participant_everywhere(study: Study, visit: Make) -> None:
    keys = {name: visit(name, name, quality=n) for n, name in enumerate(("screened_out", "rated"), 2)}
    keys["late"] = visit("screened_out", "late")
    end_late(keys["late"])
    keys["returned"] = visit("screened_out", "returned")
    PlatformVisit.objects.create(study=study, submission="ses-returned", status="RETURNED", told_at="2026-11-01T00:00Z")
    owed = {"screened_out": 0.1, "rated": 1.2, "late": 0.5, "returned": 0.0}
    assert {name: row["to_pay"] for name, row in exported(study).items()} == owed
    assert {name: row["owed"] for name, row in exported(study).items()} == owed
    client = signed_in(Right.READ, Right.PAY, Right.PRIVATE)
    rows = row_amounts(client, study)
    assert {name: "Returned" not in text and text.split()[-1] for name, text in rows.items()} == {
        "screened_out": "£0.10",
        "rated": "£1.20",
        "late": "£0.50",
        "returned": False,
    }
    people = flat(client.get(f"/dashboard/studies/{study.key}/people/").content.decode())
    assert "£1.80 to pay, no bonuses" in people
    assert "£1.80" in people.split("£1.80 to pay")[0], "cost so far"
    api = Program(Right.READ).client.get(f"/api/v1/studies/{study.key}/live")
    assert api.status_code == 200
    assert api.json()["money"]["people"] == pytest.approx(1.8)
    for name, key in keys.items():
        person = Client()
        ids = f"PROLIFIC_PID=pid-{name}&STUDY_ID={PROLIFIC_STUDY}&SESSION_ID={key.submission}"
        page = person.get(f"/s/{study.key}/?{ids}")
        assert page.status_code == 200
        shown = {"screened_out": "You are paid £0.10", "late": "You are paid £0.50"}.get(name)
        text = flat(page.content.decode())
        assert shown in text if shown else "You are paid" not in text


def test_approving_pays_what_the_participant_was_shown(study: Study, visit: Make, platform: FakeProlific) -> None:
    names = ("out", "late", "rated", "told")
    platform.add(*(f"ses-{name}" for name in names))
    platform.submissions["ses-told"]["status"] = "SCREENED OUT"  # by its code, at the platform
    keys = [visit("rated" if name == "rated" else "screened_out", name) for name in names]
    end_late(keys[1])
    assert visits_approve(study=study, keys=keys) == 4
    assert submissions_of(study).to_pay.work == Decimal("1.90")
    study_edit(study=study, pay_screened_out=9.0)
    job = sending_start(study=Study.objects.get(pk=study.pk))
    run_job(job)
    job.refresh_from_db()
    assert job.result == {"sent": 4, "failed": 0}
    kept = {name: (submission["status"], submission["bonuses"]) for name, submission in platform.submissions.items()}
    assert kept == {
        "ses-out": ("SCREENED OUT", [10]),
        "ses-late": ("SCREENED OUT", [50]),
        "ses-rated": ("APPROVED", []),
        "ses-told": ("SCREENED OUT", []),
    }
    assert submissions_of(Study.objects.get(pk=study.pk)).to_pay.work == 0


def test_select_without_flags_leaves_out_those_who_did_no_work(study: Study, visit: Make) -> None:
    for name in ("screened_out", "rated", "failed_check"):  # the answers are all 4: a flag
        visit(name, name)
    page = signed_in(Right.READ, Right.PAY, Right.PRIVATE).get(f"/dashboard/studies/{study.key}/people/")
    boxes = BeautifulSoup(page.content, "html.parser").select("input[name=visit]")
    assert [box["value"] for box in boxes if not box.has_attr("data-flagged")] == []
    assert len(boxes) == 3


def test_nobody_is_approved_whose_ending_is_unpaid(paid: Study, visit: Make) -> None:
    key = visit("screened_out", "a")
    assert visits_approve(study=paid, keys=[key]) == 0
    assert not Decision.objects.exists()
    assert not submissions_of(paid).all[0].can_be_approved
    page = signed_in(Right.READ, Right.PAY, Right.PRIVATE).get(
        f"/dashboard/studies/{paid.key}/people/{key.participant}/"
    )
    assert page.status_code == 200
    assert 'value="approve"' not in page.content.decode()
    assert 'value="reject"' in page.content.decode()


def test_mechanical_turk_is_not_asked_to_pay_time_in_full(study: Study, visit: Make) -> None:
    keys = [visit("screened_out", "out", platform="mturk"), visit("rated", "done", platform="mturk")]
    assert row_amounts(signed_in(Right.READ, Right.PAY, Right.PRIVATE), study)["out"] == "Pay by hand £0.10"
    visits_approve(study=study, keys=keys)
    assert [line.split(",")[1] for line in mturk_file(study)][1:] == ['"ses-done"']
    assert exported(study)["out"]["by_hand"]
    assert not exported(study)["done"]["by_hand"]


@pytest.mark.parametrize(
    ("words", "amount", "text"),
    [
        ("0.10", Decimal("0.10"), "£0.10"),
        ("£0,14", Decimal("0.14"), "£0.14"),
        ("0.2 GBP", Decimal("0.2"), "£0.20"),
        ("$0.10", None, "$0.10"),
        ("a minute's pay", None, "a minute's pay"),
        ("", Decimal(), ""),
    ],
)
@pytest.mark.django_db
def test_amounts_of_earlier_versions_in_words_are_read_or_named(words: str, amount: Decimal | None, text: str) -> None:
    values = make_study(platform="prolific", pay_each=1.2, screened_out_pay=words, **CODES).values
    pay = pay_for_ending(values, "screened_out")
    assert (pay.amount, pay.text, pay.is_for_time) == (amount, text, True)
