"""Limits of projects in money and disk space: nothing exceeds them, and pages and commands show and set them."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.urls import reverse

from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import CapReached, ReplyCost
from chatbots.registry import bots
from tests.builders import make_conversation, make_staff, make_study, signed_in
from tests.webapp.core.test_project_members import browser, member
from webapp.bots.models import Spending
from webapp.bots.services import spending_settle
from webapp.conversations.cost_meter import _reserve
from webapp.core.errors import Refused
from webapp.core.models import Project
from webapp.core.project_disk import MB, disk_use
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.results.benchmark_data import benchmark_folder
from webapp.transfer.job_files import export_folder, export_make, export_path, upload_folder, upload_keep


def limited(**limits: Any) -> Project:
    admin = make_staff(*Right, username="admin")
    return project_create(actor=admin, key="lab", name="Speech lab", **limits)  # type: ignore[arg-type]


@pytest.fixture
def _no_files() -> Iterator[None]:
    yield
    for folder in (export_folder(), upload_folder("lab"), benchmark_folder("lab")):
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()


@pytest.mark.django_db(transaction=True)
def test_two_studies_at_once_do_not_exceed_the_limit_of_their_project() -> None:
    limited(monthly_cost_limit=2.0)
    with in_project("lab"):
        chats = [make_conversation(make_study(f"study-{n}")) for n in range(2)]
    priced = EndpointBot(name="e", base_url="https://bots.example/v1", model="m", price_in=1, price_out=1)
    bound, paid = ReplyCost(1, 1, 0.1), ReplyCost(1, 1, 0.05)
    # Accounts that are there already, in another order than that of the first call.
    for of, key in (("project", f"lab {datetime.now(UTC):%Y-%m}"), ("study", str(chats[0].study_id)), ("bot", "e")):
        Spending.objects.create(of=of, key=key)
    together = threading.Barrier(4)
    refused, errors = [], []

    def insist(work: Any) -> Any:
        while True:
            try:
                return work()
            except OperationalError as error:
                if connection.vendor == "postgresql":  # a deadlock; SQLite in memory does not wait for its turn
                    errors.append(error)
                    return None

    def spend(chat: Any) -> None:
        together.wait()
        for n in range(12):
            try:
                reservation = insist(lambda: _reserve(priced, str(chat.pk), bound, ()))
            except CapReached as error:
                refused.append(str(error))
            else:
                if n % 2:
                    insist(lambda reservation=reservation: spending_settle(reservation=reservation, cost=paid))
        connection.close()

    threads = [threading.Thread(target=spend, args=(chats[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = {(row.of, row.key): row.spent for row in Spending.objects.all()}
    project = spent.pop(("project", f"lab {datetime.now(UTC):%Y-%m}"))
    assert not errors
    assert project <= 2.0
    assert project == pytest.approx(sum(amount for (of, _key), amount in spent.items() if of == "study"))
    assert refused
    assert all("lab" not in error for error in refused)


@pytest.mark.django_db
@pytest.mark.usefixtures("_no_files")
def test_uploads_and_benchmark_files_beyond_the_limit_are_refused_with_value_and_fix() -> None:
    limited(disk_limit_mb=1)
    owner = member("Owner")
    text = b'{"x": "' + b"y" * 600_000 + b'"}'
    with in_project("lab"):
        upload_keep(SimpleUploadedFile("a.jsonl", text), owner)
        with pytest.raises(Refused) as refused:
            upload_keep(SimpleUploadedFile("b.jsonl", text), owner)
        assert len(list(upload_folder().iterdir())) == 1
    assert refused.value.code == "project_disk_full"
    assert "take 0.572 of 1 MB, and this needs 0.572 MB. Delete files" in refused.value.message
    upload_keep(SimpleUploadedFile("b.jsonl", text), owner)  # the usual project has no limit
    item = {"id": "i", "context": ["hi"], "response": "ho " * 1000, "ratings": [{"rater": "a", "quality": 1}]}
    judged = "".join(json.dumps({**item, "id": f"i{n}", "scale": [1, 5]}) + "\n" for n in range(160)).encode()
    page = browser(owner).post(
        reverse("dashboard:benchmark"), {"metrics": ["rouge_l"], "file": SimpleUploadedFile("j.jsonl", judged)}
    )
    assert "The files of this project take" in page.content.decode()
    assert not list(benchmark_folder("lab").iterdir())
    sent = browser(owner).post(reverse("dashboard:imports"), {"file": SimpleUploadedFile("c.jsonl", text)})
    assert sent.status_code == 507


@pytest.mark.django_db
@pytest.mark.usefixtures("_no_files")
def test_exports_are_refused_at_the_limit_and_deleted_if_they_exceed_it() -> None:
    limited(disk_limit_mb=1)
    with in_project("lab"):
        study = make_study("large")
        chat = make_conversation(study, n_exchanges=3)
        chat.turns.update(text="long " * 80_000)
        payload = {"what": "messages", "format": "csv"}
        job = export_make(study=study, payload=payload)
        run_job(job)
        job.refresh_from_db()
        assert job.state == "failed"
        assert "of 1 MB, and this needs" in job.error
        assert not export_path(job).exists()
        chat.turns.update(text="short")
        run_job(small := export_make(study=study, payload=payload))
        assert export_path(small).is_file()
        (export_folder() / f"report-{small.pk}.json.gz").write_bytes(b"x" * MB)
        assert disk_use("lab")["Exports and reports"] > MB
        n_jobs = Job.objects.count()
        with pytest.raises(Refused, match=r"take 1 of 1 MB\. Delete files"):
            export_make(study=study, payload={**payload, "format": "jsonl"})
        report = browser(member("Owner")).post(reverse("dashboard:study_report", args=["large"]), follow=True)
        assert "The files of this project take" in report.content.decode()
        assert Job.objects.count() == n_jobs
    assert disk_use("default")["Exports and reports"] == 0


@pytest.mark.django_db
def test_the_page_shows_use_warns_at_80_percent_and_lets_only_administrators_of_the_server_set_limits() -> None:
    limited()
    owner = browser(member("Owner"))
    projects, change = reverse("dashboard:projects"), reverse("dashboard:project_change")
    page = owner.get(projects).content.decode()
    assert "Cost and disk space" in page
    assert "no limit" in page
    assert "Save limits" not in page
    owner.post(change, {"action": "limits", "project": "lab", "monthly_cost_limit": "1", "disk_limit_mb": ""})
    assert Project.objects.get(key="lab").monthly_cost_limit is None
    admin = signed_in(*Right, username="second")
    admin.post(change, {"action": "limits", "project": "lab", "monthly_cost_limit": "50", "disk_limit_mb": "2"})
    lab = Project.objects.get(key="lab")
    assert (lab.monthly_cost_limit, lab.disk_limit_mb) == (50.0, 2)
    wrong = {"action": "limits", "project": "lab", "monthly_cost_limit": "-1", "disk_limit_mb": "x"}
    assert "Cost limit a month: Ensure" in admin.post(change, wrong, follow=True).content.decode()
    key = f"lab {datetime.now(UTC):%Y-%m}"
    Spending.objects.create(of="project", key=key, spent_nano=40 * 10**9)
    home = reverse("dashboard:home")
    assert "has used 80% of its cost limit" in owner.get(projects).content.decode()
    assert "has used 80% of its cost limit" in owner.get(home).content.decode()
    Spending.objects.filter(key=key).update(spent_nano=50 * 10**9)
    Path(upload_folder("lab") / "big").write_bytes(b"x" * 2 * MB)
    try:
        page = owner.get(projects).content.decode()
    finally:
        (upload_folder("lab") / "big").unlink()
    assert "paid bots no longer reply" in page
    assert "has reached its disk limit" in page
    assert "Speech lab" not in signed_in(Right.READ, username="reader").get(projects).content.decode()


@pytest.mark.django_db
def test_a_limit_names_the_bots_that_have_no_price() -> None:
    limited()
    bots.add(EndpointBot(name="unpriced", base_url="https://bots.example/v1", model="m"))
    try:
        page = signed_in(*Right).post(
            reverse("dashboard:project_change"),
            {"action": "limits", "project": "lab", "monthly_cost_limit": "5", "disk_limit_mb": ""},
            follow=True,
        )
    finally:
        bots.discard("unpriced")
    assert "No price is set for unpriced" in page.content.decode()


@pytest.mark.django_db
def test_the_command_creates_lists_and_limits_projects(capsys: pytest.CaptureFixture[str]) -> None:
    make_staff(*Right, username="boss")

    def projects(*arguments: str) -> list[dict[str, Any]]:
        call_command("projects", *arguments, "--json")
        document: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return document

    projects("create", "lab", "--name", "Lab", "--owner", "boss", "--cost-limit", "50")
    assert [(row["key"], row["cost_limit"], row["disk_limit_mb"]) for row in projects("list")] == [
        ("default", None, None),
        ("lab", 50.0, None),
    ]
    (lab,) = projects("limit", "lab", "--cost-limit", "none", "--disk-limit-mb", "2000")
    assert (lab["cost_limit"], lab["disk_limit_mb"], lab["spent"]) == (None, 2000, 0.0)
    with pytest.raises(CommandError, match=r"The cost limit is -1\. It must be from 0"):
        projects("limit", "lab", "--cost-limit=-1")
    with pytest.raises(CommandError, match="there is no project 'no'"):
        projects("limit", "no", "--cost-limit", "1")
    call_command("projects", "list")
    assert "0 spent in" in capsys.readouterr().out
