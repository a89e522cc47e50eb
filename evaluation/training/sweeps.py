"""Sweeps: trainings of one or more configs over seeds, settings and shares of the data.

    result = sweep_metrics(["pone-lite.yaml"], data="corpora", output="runs", seeds=(71, 72, 73),
                           sweep={"temperature": [0.1, 0.5]}, data_share=(0.25, 0.5, 1), benchmark=["judged.jsonl"])

Every cell is a training in its own folder. Running a sweep again resumes it, because finished trainings are not
repeated. `evaluation.training.sweep_results` has their results over seeds.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import yaml

from chatbots.checkpoints import CheckpointError
from chatbots.corpora.dialogues import CorpusError
from chatbots.encoders.sentence import EncoderError
from chatbots.text import nearest_names
from chatbots.training import config as bot_configs
from chatbots.training.config import TrainingConfig
from chatbots.validation import ValuesError, error_text
from evaluation.training import config as metric_configs
from evaluation.training.config import MetricTrainingConfig, config_seeded, learned_get
from evaluation.training.sweep_results import SweepResult

MAX_CELLS = 1_000
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One training of a sweep.

    Attributes:
        name: name of its folder.
        label: name of the config that it varies.
        settings: swept values by path in the config.
        share: share of the training data.
        configs: configs of the trainings in order: those whose weights it starts from, then its own.
    """

    name: str
    label: str
    settings: dict[str, Any]
    share: float
    seed: int
    configs: list[dict[str, Any]]

    @property
    def start(self) -> str:
        """Name of the training that it starts from; empty for none. Cells with the same one are trained together."""
        return str(self.configs[-2]["name"]) if len(self.configs) > 1 else ""


class Trainee(ABC):
    """Kind of model that a sweep trains: how its configs are read, varied and trained."""

    sections: ClassVar[tuple[str, ...]]
    """Parts of a config in which an option without a path is searched, in this order."""

    @abstractmethod
    def load(self, path: Path, data: Path | None) -> Any:
        """Read a config file; raises ValuesError with all mistakes."""

    @abstractmethod
    def check(self, values: dict[str, Any], data: Path) -> Any:
        """Validate plain values; raises ValuesError with all mistakes."""

    @abstractmethod
    def fields(self, config: Any, section: str) -> list[str]:
        """Return the options in a section of the config."""

    @abstractmethod
    def start(self, config: Any) -> str:
        """Return the name of the training that it starts from; empty for none."""

    @abstractmethod
    def vary(self, config: Any, values: dict[str, Any], name: str, start: str, seed: int | None) -> dict[str, Any]:
        """Return the plain values of a variant with this name, start and seed."""

    @abstractmethod
    def train(self, config: Any, folder: Path, device: str, watch: Callable[[Any], None] | None) -> Mapping[str, Any]:
        """Train, or resume a training; return the measures of its best checkpoint."""

    def agreements(self, folder: Path, benchmark: Sequence[Path], device: str) -> list[dict[str, Any]]:
        """Compare the trained model with people's ratings of replies, by dimension, data set and dialogue model."""
        return []


class MetricTrainee(Trainee):
    """Learned metrics (`train_metric`)."""

    sections = ("options", "optimiser", "backbone", "data")

    def load(self, path: Path, data: Path | None) -> MetricTrainingConfig:
        return metric_configs.config_load(path, data)

    def check(self, values: dict[str, Any], data: Path) -> MetricTrainingConfig:
        return metric_configs.config_check(values, data)

    def fields(self, config: MetricTrainingConfig, section: str) -> list[str]:
        if section == "options":
            return list(learned_get(config.metric).options_type.model_fields)
        return list(type(getattr(config, section)).model_fields)

    def start(self, config: MetricTrainingConfig) -> str:
        return config.start

    def vary(
        self, config: MetricTrainingConfig, values: dict[str, Any], name: str, start: str, seed: int | None
    ) -> dict[str, Any]:
        if seed is not None:
            variant = config_seeded(config, seed).model_dump(mode="json")
            values["seed"] = variant["seed"]
            if "data_seed" in variant["options"]:
                values["options"]["data_seed"] = seed
        return {**values, "name": name, "title": f"{config.title or config.name} ({name})", "start": start}

    def train(self, config: Any, folder: Path, device: str, watch: Callable[[Any], None] | None) -> Mapping[str, Any]:
        from evaluation.training.loop import train

        return train(config, folder, device=device, watch=watch).to_json()["best"]

    def agreements(self, folder: Path, benchmark: Sequence[Path], device: str) -> list[dict[str, Any]]:
        from evaluation.agreement.held_out import seen_sets
        from evaluation.agreement.metric_agreement import judge_everywhere, judgements_of
        from evaluation.data.items import judged_lines
        from evaluation.metrics.text_cache import TextCache
        from evaluation.metrics.trained import checkpoint_metric
        from evaluation.published.correlations import cells_of
        from evaluation.stats.correlation import METHODS

        judgements = judgements_of(line for path in benchmark for line in judged_lines(path))
        metric = checkpoint_metric(folder, "swept")
        agreements = judge_everywhere(judgements, metric, shared=TextCache(device))
        seen_sources = {item.source for item in judgements.items if item.source.startswith(seen_sets(metric) or ())}
        return [
            {
                "dimension": dimension,
                "data_set": source,
                "model": model,
                "is_seen": source in seen_sources if source else bool(seen_sources),
                "n": cell["n"],
                **{method: {"r": cell[method]["r"], "p": cell[method]["p"]} for method in METHODS},
            }
            for dimension, agreement in agreements.items()
            if not agreement.unavailable
            for source, model, cell in cells_of(agreement.to_json())
        ]


class BotTrainee(Trainee):
    """Dialogue models (`train_bot`)."""

    sections = ("sizes", "ei", "optimiser", "regularisation", "data", "start", "held_out")

    def load(self, path: Path, data: Path | None) -> TrainingConfig:
        return bot_configs.config_load(path, data)

    def check(self, values: dict[str, Any], data: Path) -> TrainingConfig:
        return bot_configs.config_check(values, data)

    def fields(self, config: TrainingConfig, section: str) -> list[str]:
        part = getattr(config, section)
        if part is None:
            return []
        return list(part) if isinstance(part, dict) else list(type(part).model_fields)

    def start(self, config: TrainingConfig) -> str:
        return config.start.weights

    def vary(
        self, config: TrainingConfig, values: dict[str, Any], name: str, start: str, seed: int | None
    ) -> dict[str, Any]:
        values["start"]["weights"] = start
        return {**values, "name": name, "seed": config.seed if seed is None else seed}

    def train(self, config: Any, folder: Path, device: str, watch: Callable[[Any], None] | None) -> Mapping[str, Any]:
        from chatbots.training.loop import train

        return train(config, folder, device=device, watch=watch).to_json()["best"]


def plan_cells(
    trainee: Trainee,
    paths: Sequence[Path],
    *,
    data: Path | None = None,
    seeds: Sequence[int] = (),
    sweep: Mapping[str, Sequence[Any]] | None = None,
    data_share: Sequence[float] = (),
) -> tuple[list[SweepCell], Path]:
    """Return the cells of a sweep, validated, and the folder of their data.

    Args:
        seeds: none: the seed of each config.
        sweep: values by option: a name such as `temperature`, or a path such as `optimiser.lr`.
        data_share: none: the share of each config.

    Raises:
        ValuesError: a config or value is invalid, an option is unknown, or two cells have the same name.
    """
    cells: list[SweepCell] = []
    folder = Path()
    sweep = sweep or {}
    shares: list[float | None] = [*data_share] or [None]
    variant_seeds: list[int | None] = [*seeds] or [None]
    for path in paths:
        config = trainee.load(path, data)
        folder = config.folder.resolve()
        chain = [config]
        while (name := trainee.start(chain[0])) and (before := _sibling(trainee, path, name, data, chain)) is not None:
            chain.insert(0, before)
        options = {_find_option(trainee, config, name): values for name, values in sweep.items()}
        for values, share_value, seed in product(product(*options.values()), shares, variant_seeds):
            settings = dict(zip(options, values, strict=True))
            variants: list[dict[str, Any]] = []
            for member in chain:
                member_settings = settings if member is config else {}
                start = variants[-1]["name"] if variants else trainee.start(member)
                variants.append(_variant(trainee, member, member_settings, share_value, seed, start))
            for variant in variants:
                trainee.check(variant, folder)
            cells.append(
                SweepCell(
                    name=variants[-1]["name"],
                    label=config.name,
                    settings={
                        key.rpartition(".")[2] if key.startswith("options.") else key: v for key, v in settings.items()
                    },
                    share=variants[-1]["data"]["share"],
                    seed=variants[-1]["seed"],
                    configs=variants,
                )
            )
            if len(cells) > MAX_CELLS:
                raise ValuesError(f"the sweep has more than {MAX_CELLS} trainings; give fewer values")
    names = [cell.name for cell in cells]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValuesError(
            f"two trainings have the name {repeated[0]}; give each value once and each config its own name"
        )
    return cells, folder


def _sibling(trainee: Trainee, path: Path, name: str, data: Path | None, chain: Sequence[Any]) -> Any:
    """Return the config with this name next to `path`; None if there is none, or it is in the chain."""
    if name in {config.name for config in chain}:
        return None
    for file in sorted(path.parent.glob("*.yaml")):
        text = yaml.safe_load(file.read_text(encoding="utf-8"))
        if isinstance(text, Mapping) and text.get("name") == name:
            return trainee.load(file, data)
    return None


def _find_option(trainee: Trainee, config: Any, name: str) -> str:
    """Return the path of an option in the config.

    Raises:
        ValuesError: there is no such option.
    """
    section, _, field = name.rpartition(".")
    if section in trainee.sections and field in trainee.fields(config, section):
        return name
    known = {option: part for part in reversed(trainee.sections) for option in trainee.fields(config, part)}
    if name in known:
        return f"{known[name]}.{name}"
    near = nearest_names(name, list(known))
    raise ValuesError(
        f"{config.name} has no option {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
    )


def _variant(
    trainee: Trainee, config: Any, settings: Mapping[str, Any], share_value: float | None, seed: int | None, start: str
) -> dict[str, Any]:
    values = config.model_dump(mode="json")
    parts = [config.name]
    for path, value in settings.items():
        section, _, field = path.rpartition(".")
        values[section][field] = value
        parts.append(f"{field}-{value}")
    if share_value is not None:
        values["data"]["share"] = share_value
        parts.append(f"share-{share_value:g}")
    if seed is not None:
        parts.append(f"seed-{seed}")
    return trainee.vary(config, values, _slug(parts), start, seed)


def _slug(parts: Sequence[str]) -> str:
    """Return a name of lower-case words and hyphens; a long one ends in its digest."""
    words = [re.sub(r"[^a-z0-9]+", "-", part.lower().replace(".", "p").replace("_", "-")).strip("-") for part in parts]
    name = "-".join(words)
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


_EXPECTED = (CheckpointError, CorpusError, EncoderError, OSError, ValuesError)


def run_cell(
    trainee: Trainee,
    cell: SweepCell,
    *,
    data: Path,
    output: Path,
    device: str = "cpu",
    benchmark: Sequence[Path] = (),
    watch: Callable[[Any], None] | None = None,
) -> dict[str, Any]:
    """Train a cell, or resume its training, and return its result as JSON values.

    A training that fails for an expected reason has the reason as `error`.
    """
    from chatbots.training.engine import TrainingError
    from chatbots.training.run_folder import StateError

    result: dict[str, Any] = {**asdict(cell), "best": {}, "agreement": [], "error": ""}
    del result["configs"]
    try:
        for values in cell.configs:
            config = trainee.check(values, data)
            result["best"] = dict(trainee.train(config, output / config.name, device, watch))
        if benchmark:
            result["agreement"] = trainee.agreements(output / cell.name, benchmark, device)
    except (*_EXPECTED, StateError, TrainingError) as error:
        result["error"] = " ".join(error_text(error).split())
    return result


def sweep_metrics(
    configs: Sequence[Path | str],
    *,
    output: Path | str,
    data: Path | str | None = None,
    seeds: Sequence[int] = (),
    sweep: Mapping[str, Sequence[Any]] | None = None,
    data_share: Sequence[float] = (),
    benchmark: Sequence[Path | str] = (),
    device: str = "cpu",
) -> SweepResult:
    """Train metrics over seeds, settings and shares of the data, one after another; see `plan_cells`.

    Args:
        output: folder of the trainings; finished ones are not repeated.
        benchmark: files of rated replies with which each trained metric is compared.
    """
    trainee = MetricTrainee()
    options = {"seeds": seeds, "sweep": sweep, "data_share": data_share}
    return _sweep(trainee, configs, Path(output), data, [Path(path) for path in benchmark], device, **options)


def sweep_bots(
    configs: Sequence[Path | str],
    *,
    output: Path | str,
    data: Path | str | None = None,
    seeds: Sequence[int] = (),
    sweep: Mapping[str, Sequence[Any]] | None = None,
    data_share: Sequence[float] = (),
    device: str = "cpu",
) -> SweepResult:
    """Train dialogue models as `sweep_metrics` trains metrics."""
    options = {"seeds": seeds, "sweep": sweep, "data_share": data_share}
    return _sweep(BotTrainee(), configs, Path(output), data, [], device, **options)


def _sweep(
    trainee: Trainee,
    configs: Sequence[Path | str],
    output: Path,
    data: Path | str | None,
    benchmark: Sequence[Path],
    device: str,
    **options: Any,
) -> SweepResult:
    paths = [Path(path) for path in configs]
    cells, folder = plan_cells(trainee, paths, data=None if data is None else Path(data), **options)
    common: dict[str, Any] = {"data": folder, "output": output, "device": device, "benchmark": benchmark}
    return SweepResult(tuple(run_cell(trainee, cell, **common) for cell in cells))


def parse_values(text: str) -> tuple[str, list[Any]]:
    """Read an option and its values, such as `temperature=.1,.5` or `neighbours=[10],[10, 10]`.

    Raises:
        ValueError: the text has another form.
    """
    name, equals, values_text = text.partition("=")
    try:
        values = yaml.safe_load(f"[{values_text}]") if equals else None
    except yaml.YAMLError:
        values = None
    if not name.strip() or not values or None in values:
        raise ValueError(f"{text!r} must be an option and its values, such as temperature=.1,.5")
    return name.strip(), [_number(value) for value in values]


def _number(value: Any) -> Any:
    """Return 1e-6 as a number, which YAML reads as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
