"""Shared parts of commands: options, a study's key, following a job.

A job is followed by a progress bar; after Ctrl-C the workers continue the job.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from django.conf import settings
from django.core.management.base import CommandError
from tqdm import tqdm

from chatbots.identity import Identity
from chatbots.text import nearest_names, quote
from evaluation.training.sweeps import Trainee
from webapp.core.errors import Refused
from webapp.core.management.base import ConfabCommand, Usage
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, JobBase, State
from webapp.jobs.selectors.jobs import job_named, job_progress, job_read, worker_lives
from webapp.jobs.services.jobs import job_cancel, job_create, job_restart, job_settle
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key

J = TypeVar("J", bound=JobBase)
POLL_S = 0.5


class JobProgressBar:
    """Progress bar on standard error, if that is a terminal."""

    def __init__(self, job: JobBase, label: str, unit: str) -> None:
        self._bar: tqdm[Any] = tqdm(
            total=job.n_total,
            initial=min(job.n_done, job.n_total),
            desc=label,
            unit=f" {unit}",
            file=sys.stderr,
            disable=not sys.stderr.isatty(),
        )

    def show(self, job: JobBase) -> None:
        self._bar.total = job.n_total
        self._bar.n = min(job.n_done, job.n_total)
        self._bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()


def run_inline(job: J, *, label: str, unit: str) -> J:
    """Run the whole job in this process; Ctrl-C and SIGTERM stop it.

    Raises:
        Refused: if it failed or was stopped.
    """
    with JobProgressBar(job, label, unit) as bar, _sigterm_exits():
        try:
            run_job(job, follow=bar.show)
        except (KeyboardInterrupt, SystemExit):
            job = job_cancel(job=job)
        else:
            job = job_read(job)
        bar.show(job)
    if not job.is_over:
        raise Refused("taken", f"another process is working on {job}; follow it in the dashboard")
    return require_done(job)


@contextlib.contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Turn SIGTERM into an exception, like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def follow_job(job: J, *, label: str, unit: str, note: Callable[[str], None], go_on: str, inline: bool = False) -> J:
    """Wait for workers to finish the job, or run it here.

    Args:
        note: prints a message to the user.
        go_on: message printed after Ctrl-C.

    Raises:
        Refused: if it failed or was stopped.
    """
    if inline:
        return run_inline(job, label=label, unit=unit)
    is_noted = False
    try:
        with JobProgressBar(job, label, unit) as bar:
            while not job.is_over:
                time.sleep(POLL_S)
                job = job_settle(job=job_read(job))
                bar.show(job)
                if not is_noted and job_progress(job).waits_for_worker:
                    is_noted = True
                    note(
                        "Other jobs come first; this one starts when a worker is free."
                        if worker_lives(job)
                        else (
                            "No worker has picked up this job yet. `make run` starts one; to start one yourself: "
                            "celery -A webapp.celery worker -Q gpu,default. With --inline no worker is needed."
                        )
                    )
    except KeyboardInterrupt:
        raise CommandError(go_on) from None
    return require_done(job)


def require_done(job: J) -> J:
    """Return the job if it is done.

    Raises:
        Refused: it failed, with its error, or was stopped or interrupted.
    """
    if job.state == State.FAILED:
        raise Refused("failed", f"{job} failed: {job.error}")
    if job.state == State.CANCELLED:
        raise Refused("cancelled", f"{job} was stopped; its results so far are kept")
    if job.state == State.INTERRUPTED:
        raise Refused("interrupted", f"{job} was interrupted; its results so far are kept")
    return job


def study_named(key: str) -> Study:
    """Return the study with this key.

    Raises:
        LookupError: there is no such study; the message suggests similar keys.
    """
    try:
        return study_by_key(key)
    except Study.DoesNotExist:
        near = nearest_names(key, list(Study.objects.values_list("key", flat=True)))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LookupError(f"there is no study {quote(key)}{hint}") from None


def scoring_arguments(parser: ArgumentParser, *, metrics: str, target: str) -> None:
    """Add the options for metrics, target dimension and device.

    Args:
        metrics, target: help texts of these two options.
    """
    parser.add_argument("--metrics", required=True, metavar="a,b", help=metrics)
    parser.add_argument("--target", default="", metavar="DIMENSION", help=target)
    parser.add_argument("--device", default="cpu", help="device for metrics that have none set in metrics.yaml")


def reply_bar(metric: str) -> Callable[[int, int], None]:
    """Return a callback that shows the number of replies scored.

    It is silent without a terminal.
    """
    from tqdm import tqdm

    bar = tqdm(desc=metric, unit="reply", file=sys.stderr, disable=not sys.stderr.isatty())

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show


class TrainingCommand(ConfabCommand):
    """Base of training commands: train here or queue a job.

    Attributes:
        kind: kind of that job; `sweep_kind`: of a sweep; `trainee`: what it trains.
    """

    kind: ClassVar[str]
    sweep_kind: ClassVar[str]
    trainee: ClassVar[Trainee]
    _is_sweep = False

    def is_sweep(self, options: dict[str, Any]) -> bool:
        """Return True if the options ask for several trainings."""
        return len(options["config"]) > 1 or any(options[name] for name in ("seeds", "sweep", "data_share", "plan"))

    def sweep(self, options: dict[str, Any]) -> dict[str, Any]:
        """Plan a sweep and run it as a job, or continue the job of the same sweep.

        Returns:
            The job's result; with `--enqueue` its number, and with `--plan` the names of the trainings.
        """
        from evaluation.training.sweeps import parse_values, plan_cells
        from webapp.jobs.kinds.sweeps import sweep_params

        self._is_sweep = True
        for name in ("ship", "restart"):
            if options[name]:
                raise Usage(f"--{name} is for a single training; leave out --seeds, --sweep and --data-share")
        trainee = self.trainee
        try:
            values = [parse_values(text) for text in options["sweep"] or ()]
        except ValueError as error:
            raise Usage(f"--sweep: {error}") from None
        sweep = dict(values)
        if len(sweep) < len(values):
            raise Usage("--sweep names an option twice; give all its values at once, such as temperature=.1,.5")
        shares = _numbers(options["data_share"], float, "--data-share")
        cells, data = plan_cells(
            trainee,
            options["config"],
            data=options["data"],
            seeds=_numbers(options["seeds"], int, "--seeds"),
            sweep=sweep,
            data_share=shares,
        )
        if options["plan"]:
            return {"trainings": [cell.name for cell in cells]}
        benchmark = options.get("benchmark") or []
        if missing := [path for path in benchmark if not path.is_file()]:
            raise Usage(f"--benchmark: there is no file {missing[0]}")
        output = options["output"]
        if output == Path(settings.DATA_DIR) / "metrics":  # each folder there becomes a metric
            output = Path(settings.DATA_DIR) / "metric_sweeps"
        payload = sweep_params(cells, name="", data=data, output=output, benchmark=benchmark)
        payload["name"] = Identity("sweep", "1", payload).key
        job = self._sweep_job(payload, inline=options["inline"])
        if options["enqueue"]:
            return {"job": job.pk, "state": job.state}
        go_on = f"the sweep continues as job {job.pk}; the same command shows its result"
        job = follow_job(job, label="Sweep", unit="%", note=self.note, go_on=go_on, inline=options["inline"])
        return dict(job.result or {})

    def _sweep_job(self, payload: dict[str, Any], *, inline: bool) -> Job:
        job = job_named(self.sweep_kind, payload["name"])
        if job is None:
            return job_create(kind=self.sweep_kind, payload=payload, enqueue=not inline)
        job = job_settle(job=job)
        self.note(f"continues job {job.pk} of the same sweep")
        return job_restart(job=job, enqueue=not inline) if job.can_go_on else job

    def present_sweep(self, result: dict[str, Any]) -> None:
        """Print the result of a sweep, its job, or its plan."""
        from evaluation.training.sweep_results import SweepResult

        if "job" in result:
            self.stdout.write(
                f"Job {result['job']} is waiting for a worker; see its progress at "
                f"/dashboard/jobs/{self.sweep_kind}/{result['job']}/."
            )
        elif "trainings" in result:
            self.stdout.write("\n".join([*result["trainings"], f"{len(result['trainings'])} trainings"]))
        else:
            self.stdout.write(SweepResult(tuple(result["cells"])).summary())

    def enqueue(self, config: Any, options: dict[str, Any], **extra_fields: Any) -> dict[str, Any]:
        """Queue a job with the configs' values.

        Workers cannot read the files.
        """
        if options["ship"]:
            raise Usage(
                "--enqueue and --ship exclude each other; to ship the model, run --ship without --enqueue once the "
                "job is done"
            )
        payload = {
            "config": config.model_dump(mode="json"),
            "data": str(config.folder.resolve()),
            "output": str(options["output"].resolve()),
            "restart": options["restart"],
        }
        job = job_create(kind=self.kind, payload=payload | extra_fields)
        return {"job": job.pk, "state": job.state}

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Turn errors that stop a training into one-line messages."""
        from chatbots.checkpoints import CheckpointError
        from chatbots.encoders.sentence import EncoderError
        from chatbots.training.engine import TrainingError
        from chatbots.training.run_folder import StateError

        try:
            yield
        except (CheckpointError, EncoderError, StateError, TrainingError) as error:
            raise CommandError(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            raise CommandError("stopped; run the same command again to continue from the last saved state") from None

    def note_skipped(self, n: int, config: Any) -> None:
        """Print the number of skipped batches, if any."""
        if n:
            self.note(
                f"batches skipped because their gradient was not finite: {n} (at most {config.optimiser.max_skipped})"
            )

    def present(self, result: dict[str, Any]) -> None:
        if self._is_sweep:
            self.present_sweep(result)
            return
        if "job" in result:
            self.stdout.write(
                f"Job {result['job']} is waiting for a worker; see its progress at "
                f"/dashboard/jobs/{self.kind}/{result['job']}/."
            )
            return
        self.present_best(result["best"])
        self.stdout.write(f"\n{result['checkpoint']} ({result['epochs']} epochs)")

    def present_best(self, best: dict[str, Any]) -> None:
        """Print the numbers of the best checkpoint."""
        raise NotImplementedError


def training_arguments(parser: ArgumentParser, *, folder: str, holds: str) -> None:
    """Add the options for the config, data, output and shipped files.

    Args:
        folder: default folder of trainings inside the data folder.
        holds: help of `--output` about that folder.
    """
    parser.add_argument("config", type=Path, nargs="+", metavar="CONFIG", help="a YAML file, or several for a sweep")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder of the corpora (default: the one in the config)"
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=Path(settings.DATA_DIR) / folder, help=holds)
    parser.add_argument("--restart", action="store_true", help="start again from the beginning")
    parser.add_argument(
        "--ship",
        type=Path,
        metavar="FOLDER",
        help=(
            "after training, save the model in this folder in half precision with a model card, in a subfolder of "
            "its name"
        ),
    )
    parser.add_argument(
        "--enqueue",
        action="store_true",
        help="train in a job: a worker with the same folders runs it, and no other job meanwhile",
    )
    sweep = parser.add_argument_group(
        "sweep", "several trainings as one job of the workers, with one table of the results"
    )
    sweep.add_argument("--seeds", metavar="N,N", help="seeds of each training; results are means over seeds")
    sweep.add_argument(
        "--sweep",
        action="append",
        metavar="OPTION=VALUE,VALUE",
        help="values of an option of the config, such as temperature=.1,.5 or optimiser.lr=1e-4,1e-3; repeatable",
    )
    sweep.add_argument(
        "--data-share",
        metavar="SHARE,SHARE",
        help="shares of the training data, such as .25,.5,1; for each seed, smaller ones are part of larger ones",
    )
    sweep.add_argument("--inline", action="store_true", help="run the sweep in this process instead of by workers")
    sweep.add_argument("--plan", action="store_true", help="list the trainings of the sweep, without starting them")


def _numbers(text: str | None, kind: Callable[[str], Any], option: str) -> list[Any]:
    """Return the numbers of a comma-separated option.

    Raises:
        Usage: one is not a number.
    """
    numbers = []
    for part in (text or "").split(",") if text else ():
        try:
            numbers.append(kind(part.strip()))
        except ValueError:
            raise Usage(f"{option}: {quote(part.strip())} is not a number; give numbers such as 1,2") from None
    return numbers
