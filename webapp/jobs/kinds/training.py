"""Trainings of dialogue models and of metrics.

Each is one shard, which resumes from the state that the training's own loop stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.validation import InputModel, ValuesError
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job

if TYPE_CHECKING:
    from chatbots.training.config import TrainingConfig
    from chatbots.training.run_folder import TrainingProgress
    from evaluation.training.config import MetricTrainingConfig


class TrainingParams(InputModel):
    """Parameters of a training, by value because workers cannot read its file.

    Attributes:
        config: as `MetricTrainingConfig` of `evaluation.training.config` has it, or `TrainingConfig` of
            `chatbots.training.config`.
        data: base folder of relative paths, also on the worker's machine.
        output: holds one folder per training.
        restart: start from scratch when the job starts, but not when it resumes after a kill.
    """

    config: dict[str, Any]
    data: str
    output: str
    restart: bool = False


class BotTrainingParams(TrainingParams):
    """Parameters of a bot's training.

    Attributes:
        before: config of the training whose weights it starts from; trained first if unfinished.
    """

    before: dict[str, Any] | None = None


T = TypeVar("T", bound=TrainingParams)


class TrainingJob(JobKind[Job, T]):
    """Base of training jobs: one shard that resumes after a kill."""

    queue = "gpu"

    def job_title(self, job: Job) -> str:
        return str(_("Training of {name}")).format(name=job.payload["config"].get("name", "?"))

    def plan(self, job: Job, params: T) -> Iterable[ShardPlan]:
        from chatbots.training.engine import training_forget

        if params.restart:
            training_forget(Path(params.output) / params.config["name"])
        return [ShardPlan()]

    def describe_result(self, job: Job, result: Any) -> list[str]:
        best = ", ".join(f"{name} {value:.4g}" for name, value in result["best"].items() if value is not None)
        n = plural(result["epochs"], "1 epoch", "%(n)d epochs") % {"n": result["epochs"]}
        return [
            f"The training is complete after {n}{f'. Best values: {best}' if best else ''}.",
            f"The checkpoint is in {result['checkpoint']}.",
        ]


@register_kind
class BotTrainingJob(TrainingJob[BotTrainingParams]):
    """Job that trains a bot.

    The checkpoint goes to the output folder; the result is the output of `train_bot --json`.
    """

    name = "training"
    title = _("Training")
    Payload = BotTrainingParams

    def check(self, params: BotTrainingParams) -> None:
        _configs(params)

    def slice(self, work: ShardWork[Job, BotTrainingParams]) -> dict[str, Any]:
        from chatbots.training.loop import finished, train

        before, config = _configs(work.params)
        output = Path(work.params.output)
        if before is not None and not finished(output / before.name):
            train(before, output / before.name, device=settings.CONFAB_DEVICE, watch=_watch(work, before))
        result = train(config, output / config.name, device=settings.CONFAB_DEVICE, watch=_watch(work, config))
        return result.to_json()


def _watch(work: ShardWork[Job, BotTrainingParams], config: TrainingConfig) -> Callable[[TrainingProgress], None]:
    """Return a callback that reports a training's progress to the job.

    It also stops the training with the job.
    """

    def watch(progress: TrainingProgress) -> None:
        loss = f"{config.name}: {progress.loss:.3f} nats per token"
        work.beat(progress.step, progress.planned, note=loss)

    return watch


def _configs(params: BotTrainingParams) -> tuple[TrainingConfig | None, TrainingConfig]:
    """Return the configs of the prerequisite training and of the training.

    The first is None without a prerequisite.

    Raises:
        Refused: `bad_config` with all errors, or with the files missing on this machine.
    """
    from chatbots.training.config import config_check

    with _mistakes_refused():
        before = None if params.before is None else config_check(params.before, params.data)
        return before, config_check(params.config, params.data)


@register_kind
class MetricTrainingJob(TrainingJob[TrainingParams]):
    """Job that trains a metric.

    The checkpoint goes to the output folder; the result is the output of `train_metric --json`.
    """

    name = "metric_training"
    title = _("Training of a metric")
    Payload = TrainingParams

    def check(self, params: TrainingParams) -> None:
        _config(params)

    def slice(self, work: ShardWork[Job, TrainingParams]) -> dict[str, Any]:
        from evaluation.training.loop import train

        config = _config(work.params)

        def watch(progress: TrainingProgress) -> None:
            note = f"{config.name}: loss {progress.loss:.3f}"
            work.beat(progress.step, progress.planned, note=note)

        output = Path(work.params.output) / config.name
        return train(config, output, device=settings.CONFAB_DEVICE, watch=watch).to_json()


def _config(params: TrainingParams) -> MetricTrainingConfig:
    """Return the config of the training.

    Raises:
        Refused: as `_configs`.
    """
    from evaluation.training.config import config_check

    with _mistakes_refused():
        return config_check(params.config, params.data)


@contextmanager
def _mistakes_refused() -> Iterator[None]:
    try:
        yield
    except ValuesError as error:
        raise Refused("bad_config", str(error)) from None
