"""`train_metric`: a config in, a checkpoint out, by the command or by a job; mistakes in one line."""

import json
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from chatbots.validation import ValuesError
from evaluation.training.checkpoint import checkpoint_read
from evaluation.training.config import config_load, config_seeded, learned_metrics
from evaluation.training.inference_pairs import pairs_read
from tests.chatbots.training.builders import corpus_write
from tests.evaluation.training.builders import SharedWords, values
from webapp.jobs import queue
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(queue, "send", lambda job: None)
    learned_metrics.add(SharedWords())
    yield
    learned_metrics.discard("shared_words")


def command(folder: Path, output: str, *args: str, **changes: Any) -> dict[str, Any]:
    path = corpus_write(folder) / "tiny.yaml"
    path.write_text(yaml.safe_dump(values(optimiser={"max_batches": 4}, **changes)))
    out = StringIO()
    where = ("--output", str(folder / output), "--json")
    call_command("train_metric", str(path), *where, *args, stdout=out, stderr=StringIO())
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


@pytest.mark.django_db
def test_a_job_trains_what_the_command_trains(tmp_path: Path) -> None:
    told = command(tmp_path, "by_command")
    assert told["checkpoint"] == str(tmp_path / "by_command" / "tiny" / "best")
    assert set(told) == {"checkpoint", "epochs", "best"}
    shipped = tmp_path / "shipped"
    with pytest.raises(CommandError, match=r"no licence for small\.jsonl"):
        command(tmp_path, "by_command", "--ship", str(shipped))
    data = {"corpora": [{"path": "small.jsonl", "licence": "MIT"}]}
    command(tmp_path, "with_licence", "--ship", str(shipped), data=data)
    assert "- small.jsonl: MIT" in (shipped / "tiny" / "CARD.md").read_text()
    assert checkpoint_read(shipped / "tiny").manifest.dtype == "float16"
    job = Job.objects.get(pk=command(tmp_path, "by_job", "--enqueue")["job"])
    (tmp_path / "tiny.yaml").unlink()  # a worker needs the corpora, not the file
    run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    assert {**job.result, "checkpoint": ""} == {**told, "checkpoint": ""}


def test_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"tiny\.yaml.*marginn.*did you mean margin.*seed"):
        command(tmp_path, "out", options={"marginn": 1}, seed=-1)


def test_inference_pairs_are_written_as_a_training_would_read_them(tmp_path: Path) -> None:
    path = corpus_write(tmp_path) / "pairs.yaml"
    path.write_text(yaml.safe_dump(values(metric="entailment", optimiser={})))
    output = tmp_path / "pairs"
    told = {}
    for form in ("tsv", "jsonl"):
        out = StringIO()
        where = ("--output", str(output), "--form", form, "--json")
        call_command("make_inference_pairs", str(path), *where, stdout=out, stderr=StringIO())
        told[form] = json.loads(out.getvalue())
    assert told["tsv"]["pairs"] == told["jsonl"]["pairs"]
    assert told["tsv"]["files"]["train"] == str(output / "train.tsv")
    pairs = pairs_read(output / "train.tsv")
    assert pairs == pairs_read(output / "train.jsonl")
    assert Counter(pair.label for pair in pairs) == told["tsv"]["pairs"]["train"]
    path.write_text(yaml.safe_dump(values()))
    with pytest.raises(CommandError, match="trains shared_words"):
        call_command("make_inference_pairs", str(path), "--output", str(output))


@pytest.mark.django_db
def test_another_seed_is_another_training_of_its_own_name(tmp_path: Path) -> None:
    told = command(tmp_path, "out", "--seed", "12")
    assert told["checkpoint"] == str(tmp_path / "out" / "tiny-seed-12" / "best")
    result = checkpoint_read(tmp_path / "out" / "tiny-seed-12")
    assert (result.config.seed, result.config.name) == (12, "tiny-seed-12")
    same = command(tmp_path, "as_config", seed=12)
    assert told["best"] == same["best"]
    with pytest.raises(CommandError, match="seed"):
        command(tmp_path, "out", "--seed", "-3")


def test_data_and_the_training_before_go_by_the_same_seed(tmp_path: Path) -> None:
    given = values(metric="entailment", optimiser={}, options={"data_seed": 4}, start="before")
    path = corpus_write(tmp_path) / "pairs.yaml"
    path.write_text(yaml.safe_dump(given))
    config = config_seeded(config_load(path), 31)
    assert (config.seed, config.metric_options.data_seed) == (31, 31)
    assert (config.start, config.data.split_seed) == ("before-seed-31", config_load(path).data.split_seed)  # fmt: skip


def test_a_config_says_only_what_differs_from_its_base(tmp_path: Path) -> None:
    folder = corpus_write(tmp_path)
    (folder / "whole.yaml").write_text(yaml.safe_dump(values(optimiser={"lr": 0.5, "epochs": 2})))
    (folder / "other.yaml").write_text("{base: whole, name: other, optimiser: {epochs: 3}}")
    whole, other = config_load(folder / "whole.yaml"), config_load(folder / "other.yaml")
    assert (other.name, other.optimiser.lr, other.optimiser.epochs) == ("other", 0.5, 3)
    assert other.data == whole.data
    (folder / "round.yaml").write_text("{base: round, name: round}")
    with pytest.raises(ValuesError, match=r"base is 'round'.*other, whole"):
        config_load(folder / "round.yaml")
