"""`train_metric` and `train_bot` with several trainings: one job, resumed after a stop, and one table on its page."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from chatbots.training import engine as training_engine
from evaluation.training.config import learned_metrics
from tests.builders import signed_in
from tests.chatbots.training.builders import DATA, SIZES, corpus_write
from tests.evaluation.training.builders import SharedWords, values
from tests.markup import flat
from webapp.core.rights import Right
from webapp.jobs import queue
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.models import Job, Shard, State
from webapp.jobs.services.jobs import job_cancel

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(queue, "send", lambda job: None)
    learned_metrics.add(SharedWords())
    yield
    learned_metrics.discard("shared_words")


def tiny(folder: Path, **changes: Any) -> Path:
    path = corpus_write(folder) / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump(values(**{"optimiser": {"max_batches": 4}, **changes})))
    return path


def called(command: str, *arguments: Any) -> tuple[str, str]:
    out, notes = StringIO(), StringIO()
    call_command(command, *map(str, arguments), stdout=out, stderr=notes)
    return out.getvalue(), notes.getvalue()


def test_workers_train_the_cells_and_the_page_shows_one_table(tmp_path: Path) -> None:
    asked = (tiny(tmp_path), "--output", tmp_path / "out", "--seeds", "71,72", "--sweep", "margin=.1,.5")
    printed, _notes = called("train_metric", *asked, "--data-share", ".5,1", "--enqueue")
    job = Job.objects.get(kind="metric_sweep")
    address = f"/dashboard/jobs/metric_sweep/{job.pk}/"
    assert address in printed
    browser = signed_in(Right.READ, Right.RUN)
    (tmp_path / "tiny.yaml").unlink()  # a worker needs the corpora, not the file
    run_job_for(job)
    job.refresh_from_db()
    if not job.is_over:
        html = flat(browser.get(address).content.decode())
        assert "tiny-margin-0p1-share-0p5-seed-71" in html
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error, len(job.result["cells"])) == (State.DONE, "", 8)
    html = flat(browser.get(address).content.decode())
    assert "8 of 8 trainings are complete." in html
    assert "Measures of the trainings" in html
    first = [cell["best"]["test_accuracy"] for cell in job.result["cells"][:2]]
    mean, sd = sum(first) / 2, abs(first[0] - first[1]) / 2**0.5
    assert f"{mean:.3f} ± {sd:.3f}" in html


def test_a_stopped_sweep_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (tiny(tmp_path), "--output", tmp_path / "out", "--seeds", "1,2,3")
    called("train_metric", *asked, "--enqueue")
    job = Job.objects.get(kind="metric_sweep")
    run = training_engine.TrainingLoop.run
    trained: list[str] = []

    def stopping(loop: Any) -> Any:
        trained.append(loop.name)
        if len(trained) == 2:
            job_cancel(job=job)
        return run(loop)

    monkeypatch.setattr(training_engine.TrainingLoop, "run", stopping)
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.CANCELLED
    assert [shard.state for shard in Shard.objects.filter(job_id=job.pk)].count(State.DONE) >= 1
    printed, notes = called("train_metric", *asked, "--inline")
    assert f"continues job {job.pk}" in notes
    assert "3 of 3 trainings are complete." in printed
    assert trained.count("tiny-seed-1") == 1, "a finished part is not repeated"
    assert Job.objects.filter(kind="metric_sweep").count() == 1
    again, _notes = called("train_metric", *asked, "--inline")
    assert again == printed
    assert Job.objects.filter(kind="metric_sweep").count() == 2, "what is done can be asked again"


def test_trained_metrics_are_compared_with_people(tmp_path: Path) -> None:
    rows = [
        {
            "id": k,
            "source": "ours",
            "context": [f"Do you like number {k // 2}?"],
            "response": f"Yes, I like it {'very ' * (k % 4)}much.",
            "ratings": [{"good": 1 + k % 4}],
        }
        for k in range(12)
    ]
    judged = tmp_path / "judged.jsonl"
    judged.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = corpus_write(tmp_path) / "pone.yaml"
    options = {"hidden": [4], "negatives": "random", "most_pairs": 20, "most_held_out": 8}
    optimiser = {"max_batches": 2, "batch_size": 8, "precision": "float32"}
    written = {"name": "pone-tiny", "metric": "pone", "data": {"corpora": [{"path": "small.jsonl"}]}}
    config.write_text(yaml.safe_dump({**written, "options": options, "optimiser": optimiser}))
    out = tmp_path / "out"
    arguments = (config, "--output", out, "--seeds", "1,2", "--benchmark", judged, "--inline")
    printed, _notes = called("train_metric", *arguments)
    assert "Agreement with people" in printed
    document = json.loads(called("train_metric", *arguments, "--json")[0])
    by_seed = [row for cell in document["cells"] for row in cell["agreement"]]
    assert [(row["dimension"], row["n"]) for row in by_seed] == [("good", 12)] * 2
    r = [row["spearman"]["r"] for row in by_seed]
    unstable = sum(row["spearman"]["p"] > 0.05 for row in by_seed) == 2
    star = "⋆" if unstable else ""
    text = f"{sum(r) / 2:.3f} ± {abs(r[0] - r[1]) / 2**0.5:.3f}{star}".replace("-", "−").replace("0.", ".")
    assert text in printed


def test_mistakes_come_before_any_training(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    for arguments, message in (
        (("--seeds", "1,x"), "--seeds: .x. is not a number"),
        (("--seeds", "1", "--seed", "2"), "give --seeds"),
        (("--sweep", "margin"), "must be an option and its values"),
        (("--sweep", "margin=.1", "--sweep", "margin=.5"), "names an option twice"),
        (("--data-share", "2"), "data.share is 2"),
        (("--seeds", "1", "--ship", tmp_path), "--ship is for a single training"),
        (("--seeds", "1", "--benchmark", tmp_path / "none.jsonl"), "there is no file"),
        (("--benchmark", tmp_path / "none.jsonl"), "--benchmark is for a sweep"),
    ):
        with pytest.raises(CommandError, match=message):
            called("train_metric", path, "--output", tmp_path / "out", *arguments)
    assert not Job.objects.exists()
    printed, _notes = called("train_metric", path, "--seeds", "1,2", "--plan")
    assert printed.splitlines() == ["tiny-seed-1", "tiny-seed-2", "2 trainings"]


def test_several_bots_are_trained_and_their_configs_printed(tmp_path: Path) -> None:
    corpus_write(tmp_path)
    paths = []
    for model in ("hred", "vhred"):
        written = {
            "name": model,
            "model": model,
            "sizes": SIZES[model],
            "data": DATA,
            "optimiser": {"batch_size": 8, "max_batches": 2},
            "held_out": {"max_windows": 4, "max_replies": 2, "samples": 2},
        }
        paths.append(tmp_path / f"{model}.yaml")
        paths[-1].write_text(yaml.safe_dump(written))
    printed, _notes = called("train_bot", *paths, "--output", tmp_path / "out", "--seeds", "1,2", "--inline")
    assert "Hyper-parameters" in printed
    assert "4 of 4 trainings are complete." in printed
    [job] = Job.objects.filter(kind="bot_sweep")
    perplexities = [cell["best"]["perplexity"] for cell in job.result["cells"][:2]]
    mean, sd = sum(perplexities) / 2, abs(perplexities[0] - perplexities[1]) / 2**0.5
    assert f"{mean:.3f} ± {sd:.3f}" in printed
