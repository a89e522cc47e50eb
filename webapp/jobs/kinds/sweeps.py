"""Sweeps: trainings over seeds, settings and shares of the data, a shard for each training.

Trainings that start from the same weights share a shard, so that no two processes train these at once. A shard that is
repeated resumes its training from the state that the training's own loop stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots.validation import InputModel, Many
from evaluation.data.result_tables import NamedTable
from evaluation.training.sweep_results import SweepResult
from evaluation.training.sweeps import BotTrainee, MetricTrainee, SweepCell, Trainee, run_cell
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job

STEPS = 100
"""Amount of work of a training, in percent."""


class SweepParams(InputModel):
    """Parameters of a sweep, by value because workers cannot read its files.

    Attributes:
        name: digest of the other parameters, by which the same command finds its job again.
        cells: the trainings, as `SweepCell`.
        data: base folder of relative paths, also on the worker's machine.
        output: holds one folder per training.
        benchmark: files of rated replies with which each trained model is compared.
    """

    name: str
    cells: list[dict[str, Any]] = Field(min_length=1)
    data: str
    output: str
    benchmark: Many[str] = ()


class SweepJob(JobKind[Job, SweepParams]):
    """Base of sweeps, with one kind of model each."""

    queue = "gpu"
    Payload = SweepParams
    trainee: ClassVar[Trainee]

    def job_title(self, job: Job) -> str:
        names = dict.fromkeys(str(cell.get("label", "?")) for cell in job.payload["cells"])
        return str(_("Sweep of {names}")).format(names=", ".join(names))

    def plan(self, job: Job, params: SweepParams) -> Iterable[ShardPlan]:
        groups: dict[str, list[int]] = {}
        for number, cell in enumerate(_cells(params)):
            groups.setdefault(cell.start or cell.name, []).append(number)
        for numbers in groups.values():
            names = [params.cells[number]["name"] for number in numbers]
            yield ShardPlan({"cells": numbers, "names": names}, n_total=STEPS * len(numbers))

    def shard_title(self, shard: Mapping[str, Any]) -> str:
        return ", ".join(shard["names"])

    def slice(self, work: ShardWork[Job, SweepParams]) -> list[dict[str, Any]]:
        params, cells = work.params, _cells(work.params)
        results = []
        for n, number in enumerate(work.shard["cells"]):
            results.append(
                run_cell(
                    self.trainee,
                    cells[number],
                    data=Path(params.data),
                    output=Path(params.output),
                    device=settings.CONFAB_DEVICE,
                    benchmark=[Path(path) for path in params.benchmark],
                    watch=_watch(work, cells[number].name, n * STEPS),
                )
            )
            work.beat((n + 1) * STEPS, now=True)
        return results

    def finish(self, work: ShardWork[Job, SweepParams], results: Sequence[Any]) -> dict[str, Any]:
        by_name = {result["name"]: result for shard_results in results for result in shard_results}
        return {"cells": [by_name[cell.name] for cell in _cells(work.params)]}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        return SweepResult(tuple(result["cells"])).sentences

    def result_tables(self, job: Job, result: Any) -> Sequence[NamedTable]:
        return SweepResult(tuple(result["cells"])).tables


@register_kind
class MetricSweepJob(SweepJob):
    """Job that trains metrics; its result is the output of `train_metric --json` with several trainings."""

    name = "metric_sweep"
    title = _("Sweep of metrics")
    trainee = MetricTrainee()


@register_kind
class BotSweepJob(SweepJob):
    """Job that trains dialogue models; its result is the output of `train_bot --json` with several trainings."""

    name = "bot_sweep"
    title = _("Sweep of dialogue models")
    trainee = BotTrainee()


def _cells(params: SweepParams) -> list[SweepCell]:
    return [SweepCell(**cell) for cell in params.cells]


def _watch(work: ShardWork[Job, SweepParams], name: str, done: int) -> Callable[[Any], None]:
    """Return a callback that reports a training's progress to the job, and stops the training with it."""

    def watch(progress: Any) -> None:
        share = progress.step / progress.planned if progress.planned else 0
        work.beat(done + min(int(share * STEPS), STEPS - 1), note=f"{name}: loss {progress.loss:.3f}")

    return watch


def sweep_params(
    cells: Sequence[SweepCell], *, name: str, data: Path, output: Path, benchmark: Sequence[Path]
) -> dict[str, Any]:
    """Return the payload of a sweep."""
    return {
        "name": name,
        "cells": [asdict(cell) for cell in cells],
        "data": str(data),
        "output": str(output.resolve()),
        "benchmark": [str(path.resolve()) for path in benchmark],
    }
