"""Trainings of dialogue models. One shard, which goes on from the state that the training's own loop keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatbots.outside import Values, ValuesError
from webapp.core.errors import Refused
from webapp.runs.kinds.base import Kind, ShardPlan, Work, register_kind
from webapp.runs.models import Job

if TYPE_CHECKING:
    from chatbots.training.config import TrainingConfig
    from chatbots.training.state import Progress


class TrainingAsked(Values):
    """A training, by values: no worker reads the file they came from.

    Attributes:
        config: as `chatbots.training.config.TrainingConfig` has it.
        before: the config of the training whose weights it starts from; that is trained first if it is not finished.
        data: folder in which relative paths of corpora begin, on the worker's machine too.
        output: holds one folder per training.
        restart: begin anew, when the job begins: not when it goes on after a kill.
    """

    config: dict[str, Any]
    before: dict[str, Any] | None = None
    data: str
    output: str
    restart: bool = False


@register_kind
class Training(Kind[Job, TrainingAsked]):
    """A checkpoint in the output folder; the result is what `train_bot --json` prints."""

    name = "training"
    title = _("Training")
    queue = "gpu"
    Payload = TrainingAsked

    def job_title(self, job: Job) -> str:
        return str(_("Training of {name}")).format(name=job.payload["config"].get("name", "?"))

    def check(self, asked: TrainingAsked) -> None:
        _configs(asked)

    def plan(self, job: Job, asked: TrainingAsked) -> Iterable[ShardPlan]:
        from chatbots.training.loop import training_forget

        if asked.restart:
            training_forget(Path(asked.output) / asked.config["name"])
        return [ShardPlan()]

    def slice(self, work: Work[Job, TrainingAsked]) -> dict[str, Any]:
        from chatbots.training.loop import finished, train

        before, config = _configs(work.asked)
        output = Path(work.asked.output)
        if before is not None and not finished(output / before.name):
            train(
                before,
                output / before.name,
                device=settings.CONFAB_DEVICE,
                watch=_watch(work, before),
            )
        result = train(
            config, output / config.name, device=settings.CONFAB_DEVICE, watch=_watch(work, config)
        )
        return result.to_json()


def _watch(work: Work[Job, TrainingAsked], config: TrainingConfig) -> Callable[[Progress], None]:
    """Return a callback that reports a training's progress to the job, and stops it with the job."""

    def watch(progress: Progress) -> None:
        loss = f"{config.name}: {progress.loss:.3f} nats per token"
        work.beat(progress.step, progress.planned, note=loss)

    return watch


def _configs(asked: TrainingAsked) -> tuple[TrainingConfig | None, TrainingConfig]:
    """Return the configs of what is trained before, if anything, and of the training.

    Raises:
        Refused: `bad_config` with all mistakes, or with what is not on this machine.
    """
    from chatbots.training.config import config_check

    try:
        before = None if asked.before is None else config_check(asked.before, asked.data)
        return before, config_check(asked.config, asked.data)
    except ValuesError as error:
        raise Refused("bad_config", str(error)) from None
