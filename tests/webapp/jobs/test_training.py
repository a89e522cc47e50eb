"""A training as a job: gone on with after a kill to the same weights, stopped, and refused with its mistakes."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains

from chatbots.training import loop
from tests.chatbots.training.builders import DATA, SIZES, corpus_write
from webapp.core.errors import Refused
from webapp.jobs import engine, queue
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.models import Job, JobBase
from webapp.jobs.selectors.jobs import job_read
from webapp.jobs.services.jobs import job_cancel, job_create, job_restart

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[JobBase]:
    """Return the jobs that workers are woken for; progress is written at every batch."""
    results: list[JobBase] = []
    monkeypatch.setattr(queue, "send", results.append)
    monkeypatch.setattr(engine, "BEAT_EVERY_S", 0.0)
    return results


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    values = {
        "name": "tiny",
        "model": "hred",
        "sizes": SIZES["hred"],
        "data": DATA,
        "optimiser": {"batch_size": 2, "max_batches": 12, "epochs": 50},
        "keeping": {"save_every": 4},
        "held_out": {"max_windows": 4, "max_replies": 2},
    }
    path = corpus_write(tmp_path) / "tiny.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def command(config: Path, output: str, *args: str) -> dict[str, Any]:
    """Call `train_bot` and return its JSON."""
    out = StringIO()
    where = ("--output", str(config.parent / output), "--json")
    call_command("train_bot", str(config), *where, *args, stdout=out, stderr=StringIO())
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def asked_for(config: Path, output: str, *args: str) -> Job:
    """Ask for a training as a job."""
    return Job.objects.get(pk=command(config, output, "--enqueue", *args)["job"])


def weights(output: Path) -> bytes:
    """Return the bytes of the best checkpoint."""
    return (output / "tiny" / "best" / "model.safetensors").read_bytes()


def watched(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Let `act` see every batch's progress before the job does."""
    train = loop.train

    def watching(*args: Any, watch: Any, **options: Any) -> Any:
        def both(progress: Any) -> None:
            watch(progress)
            act(progress)

        return train(*args, watch=both, **options)

    monkeypatch.setattr(loop, "train", watching)


def test_a_training_is_asked_for_by_its_values_and_gives_what_the_command_gives(
    config_file: Path,
    sent: list[JobBase],
    django_capture_on_commit_callbacks: Any,
    monkeypatch: pytest.MonkeyPatch,
    admin_client: Client,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        job = asked_for(config_file, "by_job")
    assert (sent, job.state) == ([job], "queued")
    written = yaml.safe_load(config_file.read_text())
    config_file.unlink()  # a worker needs the corpora, not the file
    seen: list[tuple[int, int]] = []
    page = reverse("dashboard:job", args=["training", job.pk])

    def look(progress: Any) -> None:
        row = job_read(job)
        seen.append((row.n_done, row.n_total))
        if progress.step == 6:
            assertContains(admin_client.get(page), f"tiny: {progress.loss:.3f} nats per token")

    with monkeypatch.context() as patch:
        watched(patch, look)
        run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    assert seen == [(n, 12) for n in range(1, 13)]
    config_file.write_text(yaml.safe_dump(written))
    told = command(config_file, "by_command")
    assert {**job.result, "checkpoint": ""} == {**told, "checkpoint": ""}
    assert weights(config_file.parent / "by_job") == weights(config_file.parent / "by_command")


def test_a_killed_training_goes_on_from_its_state_to_the_same_weights(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = asked_for(config_file, "killed", "--restart")
    steps: list[int] = []

    def dies_once(progress: Any) -> None:
        steps.append(progress.step)
        if steps == list(range(1, 8)):
            raise SystemExit

    with monkeypatch.context() as patch:
        watched(patch, dies_once)
        with pytest.raises(SystemExit):
            run_job(job)
        run_job(job)
    assert steps == [*range(1, 8), *range(5, 13)]  # it was begun anew once, not when it went on
    command(config_file, "whole")
    assert weights(config_file.parent / "killed") == weights(config_file.parent / "whole")


def test_a_training_is_stopped_and_gone_on_with(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = asked_for(config_file, "out")
    steps: list[int] = []

    def stops(progress: Any) -> None:
        steps.append(progress.step)
        if progress.step == 5:
            job_cancel(job=job_read(job))

    with monkeypatch.context() as patch:
        watched(patch, stops)
        assert not run_job_for(job).has_more
    job.refresh_from_db()
    assert (job.state, steps) == ("cancelled", [1, 2, 3, 4, 5])
    run_job(job_restart(job=job))
    job.refresh_from_db()
    assert (job.state, job.n_done, job.n_total) == ("done", 12, 12)


def test_a_mistyped_config_is_refused_before_there_is_a_job(config_file: Path) -> None:
    values = yaml.safe_load(config_file.read_text())
    wrong = values | {"optimizer": {}, "keeping": {"log_every": "often"}}
    config_file.write_text(yaml.safe_dump(wrong))
    with pytest.raises(CommandError, match=r"2 mistakes.*did you mean optimiser"):
        command(config_file, "out", "--enqueue")
    params = {"config": wrong, "data": str(config_file.parent), "output": "out"}
    with pytest.raises(Refused, match=r"2 mistakes.*did you mean optimiser"):
        job_create(kind="training", payload=params)
    elsewhere = {"config": values, "data": str(config_file.parent / "none"), "output": "out"}
    with pytest.raises(Refused, match="there is no"):
        job_create(kind="training", payload=elsewhere)
    config_file.write_text(yaml.safe_dump(values))
    with pytest.raises(CommandError, match="exclude each other") as caught:
        command(config_file, "out", "--enqueue", "--ship", "there")
    assert caught.value.returncode == 2
    assert not Job.objects.exists()
