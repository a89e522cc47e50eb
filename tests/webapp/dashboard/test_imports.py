"""A large upload is imported by a worker; its job's page tells what came in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains

from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.dashboard.views import jobs
from webapp.jobs import engine
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.ratings.models import Rating
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


def test_a_large_upload_is_a_job(staff: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(jobs, "WAITED_FOR_BYTES", 0)
    good = {
        "dialogue_id": "a",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
        "ratings": [{"rater": "w", "quality": 4, "fun": 2}],
    }
    upload = SimpleUploadedFile("talk.jsonl", (json.dumps(good) + "\n{broken\n").encode())
    answer = staff.post(
        reverse("dashboard:imports"),
        {"file": upload, "study": "imp", "low": 1, "high": 5, "scales": "fun=0:1", "language": "DE"},
    )
    job = Job.objects.get()
    page = reverse("dashboard:job", args=["import", job.pk])
    assert (answer.status_code, answer["Location"]) == (302, page)
    assertContains(staff.get(page), "Import into imp")
    assert not Conversation.objects.exists()
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error) == ("done", "")
    assert (job.result["conversations"], job.result["ratings"]) == (1, 1)
    assert [skipped["line"] for skipped in job.result["skipped"]] == [1, 2]
    assert Rating.objects.get().answers == {"quality": 4}
    assert Conversation.objects.get().language == "de"
    assert list((tmp_path / "imports").iterdir()) == []
    html = staff.get(page).content.decode()
    assert "2 records or answers were left out" in html
    assert "Done, 2 left out" in html
    assert 'action="/dashboard/studies/imp/analyse/"' in html
    assert 'href="/dashboard/studies/imp/">Open the study' in html
    assert "&quot;conversations&quot;" not in html
    Study.objects.all().delete()
    html = staff.get(page).content.decode()
    assert "2 records or answers were left out" in html
    assert "/dashboard/studies/imp/" not in html


def test_a_worker_that_is_killed_at_the_very_end_loses_neither_upload_nor_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = tmp_path / "talk.jsonl"
    turns = [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}]
    upload.write_text(json.dumps({"dialogue_id": "a", "bot": "b", "turns": turns}) + "\n")
    asked = {"file": str(upload), "study": "imp", "is_upload": True}
    job = job_create(kind="import", payload=asked, enqueue=False)

    def killed(**_: Any) -> None:
        raise SystemExit

    for name in ("shard_end", "job_done"):
        with monkeypatch.context() as patch:
            patch.setattr(engine, name, killed)
            with pytest.raises(SystemExit):
                run_job(job)
        assert upload.exists() == (name == "shard_end")
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error) == ("done", "")
    assert (Conversation.objects.count(), len(job.result["skipped"])) == (1, 0)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"file": "/nowhere.jsonl", "study": "a"}, "no file /nowhere.jsonl"),
        ({"file": __file__, "study": "a", "scale": [1]}, "two ends"),
        ({"file": __file__, "studie": "a"}, "did you mean study"),
    ],
)
def test_what_cannot_be_imported_is_refused_before_there_is_a_job(payload: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        job_create(kind="import", payload=payload)
    assert not Job.objects.exists()


def test_a_file_names_its_study_and_a_key_that_cannot_be_is_told_with_one_that_can(staff: Client) -> None:
    line = {
        "dialogue_id": "a",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
    }

    def sent(name: str, key: str) -> str:
        upload = SimpleUploadedFile(name, (json.dumps(line) + "\n").encode())
        answer = staff.post(reverse("dashboard:imports"), {"file": upload, "study": key})
        return answer.content.decode()

    assert "1 conversation" in sent("Talks of May.jsonl", "")
    assert Conversation.objects.get().study.key == "talks-of-may"
    assert "“My study”: a key has" in (refused := sent("a.jsonl", "My study"))
    assert "“my-study” would do." in refused
    assert "“!!.jsonl” makes no key." in sent("!!.jsonl", "")
