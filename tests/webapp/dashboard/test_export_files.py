"""Files of large tables: made by a worker, for whoever may have them, and not for longer than need be."""

import asyncio
import io
import math
import os
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.builders import make_conversation, make_rating, make_study, signed_in
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.core.thread_pool import PIECE_BYTES, PagesInOneThread
from webapp.jobs import queue
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.transfer import job_files, tasks
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.kinds import files
from webapp.transfer.writers import write_file

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _little_is_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job_files, "settings", SimpleNamespace(DATA_DIR=tmp_path))
    monkeypatch.setattr(job_files, "LARGE_EXPORT", 2)
    monkeypatch.setattr("webapp.dashboard.views.export.LARGE_EXPORT", 2)
    monkeypatch.setattr(queue, "send", lambda job: True)


@pytest.fixture
def study() -> Study:
    result = make_study("out")
    for n in range(3):
        make_rating(make_conversation(result, n_exchanges=3, entry_nonce=f"n{n}"), quality=4 + n)
    return result


def staff(*rights: Right) -> Client:
    """Return the browser of somebody with these rights beside reading."""
    return signed_in(Right.READ, *rights, username="-".join(rights) or "reader")


PAGE = "/dashboard/studies/out/export/"
SHOWN = "/dashboard/studies/out/report/?part=export"
RATINGS = {"what": "ratings", "format": "csv"}


def body(answer: Any) -> bytes:
    """Return the bytes of a streamed answer."""
    return b"".join(answer.streaming_content)


def made(client: Client, **asked: str) -> Job:
    """Ask for a file on the page, and be the worker that makes it."""
    answer = client.post(PAGE, {**RATINGS, **asked})
    assert (answer.status_code, answer.headers.get("Location")) == (302, f"{SHOWN}#export")
    job = Job.objects.get(state="queued")
    run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    return job


def test_a_small_table_comes_at_once(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.dashboard.views.export.LARGE_EXPORT", 3)
    answer = staff().post(PAGE, RATINGS)
    assert answer["Content-Disposition"] == 'attachment; filename="out-ratings.csv"'
    assert not Job.objects.exists()
    dictionary = staff(Right.RUN).post(PAGE, {"what": "dictionary", "format": "jsonl"})
    assert dictionary.status_code == 200


def test_the_form_without_a_table_says_so(study: Study) -> None:
    assert staff().post(PAGE, {"format": "csv"}).status_code == 400


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_a_large_table_is_made_by_a_worker_as_the_command_makes_it(
    study: Study, file_format: str, tmp_path: Path
) -> None:
    client = staff()
    job = made(client, format=file_format)
    assert job.result == {"rows": 3, "bytes": job_files.export_path(job).stat().st_size}
    assert (job.n_done, job.n_total) == (3, 3)
    assertContains(client.get(SHOWN), "3 rows")
    answer = client.get(reverse("dashboard:study_export_file", args=["out", job.pk]))
    assert answer["Content-Disposition"] == f'attachment; filename="out-ratings.{file_format}"'
    by_command, exporter = tmp_path / "by_command", exporter_get("ratings")
    columns = exporter.columns(study, ExportOptions())
    write_file(by_command, file_format, columns, exporter.rows(study, ExportOptions()))  # type: ignore[arg-type]
    assert body(answer) == by_command.read_bytes()
    assert job_files.export_path(job).stat().st_mode & 0o077 == 0
    assert job_files.export_folder().stat().st_mode & 0o077 == 0


def test_a_large_table_is_asked_for_once_and_shows_how_far_it_is(study: Study) -> None:
    client = staff()
    for _ in range(2):
        client.post(PAGE, RATINGS)
    job = Job.objects.get()
    page = client.get(SHOWN)
    assertContains(page, "Waiting")
    assertContains(page, reverse("dashboard:job_live", args=["export", job.pk]))
    assertContains(client.get("/dashboard/"), "Export of ratings")
    url = reverse("dashboard:study_export_file", args=["out", job.pk])
    assert client.get(url).status_code == 404  # not made yet


def test_a_file_is_for_those_who_may_have_made_it(study: Study) -> None:
    reader, private = staff(), staff(Right.PRIVATE, Right.PAY)
    job = made(private, include_private="on")
    url = reverse("dashboard:study_export_file", args=["out", job.pk])
    assertContains(private.get(SHOWN), url)
    for lacking in (reader, staff(Right.PRIVATE), staff(Right.PAY)):
        assertNotContains(lacking.get(SHOWN), url)
        assert lacking.get(url).status_code == 403
    assert private.get(url).status_code == 200
    assert reader.post(PAGE, {**RATINGS, "include_private": "on"}).status_code == 403
    people = {"what": "participants", "format": "csv"}
    assert reader.post(PAGE, people).status_code == 403
    other = reverse("dashboard:study_export_file", args=["other", job.pk])
    assert private.get(other).status_code == 404


def test_a_file_goes_when_somebody_of_the_study_is_erased(
    study: Study, django_capture_on_commit_callbacks: Any
) -> None:
    client, elsewhere = staff(), make_study("elsewhere")
    done = made(client)
    client.post(PAGE, {**RATINGS, "format": "jsonl"})
    kept = job_create(kind="export", payload=RATINGS, study=elsewhere, enqueue=False)
    run_job(kept)
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(study=study)[:1])
    assert not job_files.export_path(done).exists()
    assert job_files.export_path(kept).exists()
    url = reverse("dashboard:study_export_file", args=["out", done.pk])
    assert client.get(url).status_code == 404
    assertNotContains(client.get(SHOWN), url)
    assert Job.objects.get(payload__format="jsonl").state == "cancelled"


def test_who_is_erased_while_the_file_is_made_stands_in_no_file(
    study: Study, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    job = job_create(kind="export", payload=RATINGS, study=study, enqueue=False)
    writes = write_file

    def erased_meanwhile(*args: Any, **options: Any) -> int:
        n_rows = writes(*args, **options)
        with django_capture_on_commit_callbacks(execute=True):
            participants_erase(participants=Participant.objects.filter(study=study)[:1])
        writes(args[0], "csv", [], iter([()]))  # as if it had been written only now
        return n_rows

    monkeypatch.setattr(files, "write_file", erased_meanwhile)
    run_job(job)
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert not job_files.export_path(job).exists()


def test_a_file_goes_after_its_time(study: Study) -> None:
    client = staff()
    job = made(client)
    path = job_files.export_path(job)
    left = path.with_name(".export-1.csv.x.part")  # by a process that was killed
    left.touch()
    assert job_files.files_expire() == 0
    long_ago = time.time() - job_files.EXPORTS_KEPT.total_seconds() - 60
    for file in (path, left):
        os.utime(file, (long_ago, long_ago))
    repeated: list[tuple[float, Any]] = []

    class Worker:
        class timer:
            @staticmethod
            def call_repeatedly(every_s: float, act: Any) -> None:
                repeated.append((every_s, act))

    tasks.files_expire_hourly(sender=Worker())
    assert not path.exists()
    assert not left.exists()
    assert repeated == [(3600, job_files.files_expire)]
    url = reverse("dashboard:study_export_file", args=["out", job.pk])
    assert client.get(url).status_code == 404


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"what": "rating", "format": "csv"}, "did you mean ratings"),
        ({"what": "ratings", "format": "xls"}, "format"),
        ({"what": "ratings", "format": "csv", "include_privat": True}, "include_private"),
    ],
)
def test_a_mistyped_export_is_refused_before_there_is_a_job(study: Study, payload: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        job_files.export_make(study=study, payload=payload)
    assert not Job.objects.exists()


PUBLISH = "/dashboard/studies/out/package/"


def test_a_package_comes_at_once_or_from_a_worker_as_the_same_bytes(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = staff(Right.PAY)
    assertContains(client.get(PUBLISH, follow=True), "--what package")
    monkeypatch.setattr("webapp.dashboard.views.export.LARGE_EXPORT", 1000)
    at_once = client.post(PUBLISH)
    assert at_once["Content-Disposition"] == 'attachment; filename="out-package.zip"'
    data = body(at_once)
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    monkeypatch.setattr("webapp.dashboard.views.export.LARGE_EXPORT", 2)
    assertRedirects(client.post(PUBLISH), "/dashboard/studies/out/report/?part=package#package")
    [job] = Job.objects.filter(kind="export")
    run_job(job)
    assert job_files.export_path(job).read_bytes() == data
    url = reverse("dashboard:study_export_file", args=["out", job.pk])
    assertContains(client.get(PUBLISH, follow=True), url)
    assertNotContains(client.get(SHOWN), url)
    assert body(client.get(url)) == data
    params = {"what": "package", "format": "csv"}
    with pytest.raises(Refused, match="data packages are zip files"):
        job_files.export_make(study=study, payload=params)


def test_a_package_with_ids_is_for_those_who_may_see_them(study: Study) -> None:
    payer = staff(Right.PAY)
    assertNotContains(payer.get(PUBLISH, follow=True), "include_private")
    assert payer.post(PUBLISH, {"include_private": "on"}).status_code == 403


@pytest.mark.django_db(transaction=True)
async def test_an_export_is_sent_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare() -> str:
        make_rating(make_conversation(make_study("out"), n_exchanges=3), quality=4)
        return staff().cookies["sessionid"].value

    cookie = await sync_to_async(prepare)()

    async def download(n_bodies: float = math.inf) -> list[dict[str, Any]]:
        """Return what is sent to somebody who goes after so many pieces."""
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        sent = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if len(sent) > n_bodies:
                inbox.put_nowait({"type": "http.disconnect"})
            await asyncio.sleep(0)  # as where the network takes its time

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/dashboard/studies/out/export/",
            "query_string": b"what=ratings&format=csv",
            "headers": [(b"host", b"localhost"), (b"cookie", f"sessionid={cookie}".encode())],
        }
        async with asyncio.timeout(60):
            await PagesInOneThread()(scope, inbox.get, send)
        return sent

    sent = await download()
    assert sent[0]["status"] == 200
    named = dict(sent[0]["headers"])[b"Content-Disposition"]
    assert named == b'attachment; filename="out-ratings.csv"'
    lines = b"".join(message["body"] for message in sent[1:] if "body" in message).splitlines()
    assert len(lines) == 2
    assert b"quality" in lines[0]

    made: list[str] = []

    def pieces(*_: object) -> Iterator[bytes]:
        try:
            for _n in range(1000):
                made.append(threading.current_thread().name)
                yield b"0123456789" * 5000
        finally:
            made.append(threading.current_thread().name)

    monkeypatch.setattr("webapp.dashboard.views.export.stream", pieces)
    sent = await download(n_bodies=3)
    assert max(len(message.get("body", b"")) for message in sent) <= PIECE_BYTES
    assert len(made) < 50, "all of it was made although nobody took it"
    assert len(set(made)) == 1, "rows are asked for, and closed, in the thread of the request"
