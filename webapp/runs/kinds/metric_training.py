"""Trainings of metrics. One shard, which goes on from the state that the training's own loop keeps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values, ValuesError
from webapp.core.errors import Refused
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job

if TYPE_CHECKING:
    from chatbots.training.state import Progress
    from evaluation.training.config import MetricTrainingConfig


class MetricTrainingAsked(Values):
    """A training, by values: no worker reads the file they came from.

    Attributes:
        config: as `evaluation.training.config.MetricTrainingConfig` has it.
        data: folder in which relative paths begin, on the worker's machine too.
        output: holds one folder per training.
        restart: begin anew, when the job begins: not when it goes on after a kill.
    """

    config: dict[str, Any]
    data: str
    output: str
    restart: bool = False


@register_kind
class MetricTraining(Kind[Job, MetricTrainingAsked]):
    """A checkpoint in the output folder; the result is what `train_metric --json` prints."""

    name = "metric_training"
    title = _("Training of a metric")
    queue = "gpu"
    Payload = MetricTrainingAsked

    def job_title(self, job: Job) -> str:
        return str(_("Training of {name}")).format(name=job.payload["config"].get("name", "?"))

    def check(self, asked: MetricTrainingAsked) -> None:
        _config(asked)

    def plan(self, job: Job, asked: MetricTrainingAsked) -> Iterable[ShardPlan]:
        from chatbots.training.engine import training_forget

        if asked.restart:
            training_forget(Path(asked.output) / asked.config["name"])
        return [ShardPlan()]

    def slice(self, work: Work[Job, MetricTrainingAsked]) -> dict[str, Any]:
        from evaluation.training.loop import train

        config = _config(work.asked)

        def watch(progress: Progress) -> None:
            note = f"{config.name}: loss {progress.loss:.3f}"
            work.beat(progress.step, progress.planned, note=note)

        output = Path(work.asked.output) / config.name
        return train(config, output, device=settings.CONFAB_DEVICE, watch=watch).to_json()


def _config(asked: MetricTrainingAsked) -> MetricTrainingConfig:
    """Return the config of the training.

    Raises:
        Refused: `bad_config` with all mistakes, or with what is not on this machine.
    """
    from evaluation.training.config import config_check

    try:
        return config_check(asked.config, asked.data)
    except ValuesError as error:
        raise Refused("bad_config", str(error)) from None
