"""Training configs of metrics, and the registry of trainable metrics.

Describing the encoder loads neither its weights nor torch.

A YAML file is validated before training, and all errors are reported at once.

    name: grade-lite
    metric: grade
    data: {corpora: [{path: topical_chat.jsonl.gz, licence: CDLA-Sharing-1.0}]}
    backbone: {model: minilm, learns: frozen}
    options: {text: two}                # specific to the metric
    optimiser: {lr: 1e-3, epochs: 5}

With `base: grade-lite`, a file contains only the differences from another config in its folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, PrivateAttr, StringConstraints, ValidationInfo, field_validator

from chatbots.encoders.sentence import MINILM, encoder_get
from chatbots.huggingface import missing_reason, model_known_by
from chatbots.identity import canonical_json
from chatbots.registry import Registry, UnknownName
from chatbots.training.config import CorpusConfig, KeepingConfig, OptimiserConfig, corpora_missing, merge_values
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, Share, Size, ValuesError, values_read, yaml_read


class BackboneConfig(InputModel):
    """Text encoder.

    Attributes:
        model: "minilm", shipped with Confab, or the folder or hub id of a transformers encoder.
        learns: trainable part: "frozen": none; "adapters": low-rank updates of the linear layers (LoRA, Hu et al.
            2022); "all": all weights.
        rank, alpha, dropout: parameters of the adapters.
        max_tokens: maximum length of a pair; longer pairs are truncated, the longer text first.
        pooling: vector of a text: "cls": the first token's state, through the model's pooler if it has one; "mean": the
            mean over tokens.
    """

    model: str = Field(default=MINILM, min_length=1)
    learns: Literal["frozen", "adapters", "all"] = "frozen"
    rank: Size = 8
    alpha: Size = 16
    dropout: Share = 0.0
    max_tokens: int = Field(default=128, ge=8)
    pooling: Literal["cls", "mean"] = "mean"


def backbone_missing(config: BackboneConfig) -> str | None:
    """Explain why an encoder cannot be used here, or return None, without loading it."""
    if config.learns == "adapters" and find_spec("peft") is None:
        return "adapters need the package peft, which is not installed"
    if config.model == MINILM:
        return encoder_get(MINILM).unavailable_reason()
    return missing_reason(config.model, None, allow_download=False, has_option=False)


def backbone_identity(config: BackboneConfig) -> dict[str, Any]:
    """Return the settings that identify an encoder's weights, without loading them."""
    if config.model == MINILM:
        return encoder_get(MINILM).identity.as_dict()
    return model_known_by(config.model)


C = TypeVar("C", bound=type)

learned_metrics: Registry[Any] = Registry("learned metric", "evaluation.training.metrics")
"""Instances of `evaluation.training.contract.LearnedMetric`."""


def register_learned(cls: C) -> C:
    """Register the decorated class as a trainable metric, instantiated without arguments."""
    learned_metrics.register(cls)
    return cls


def learned_get(name: str) -> Any:
    """Return a learned metric by name.

    Raises:
        UnknownName: if there is none; suggests the nearest names.
    """
    return learned_metrics.get(name)


TrainingName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$", max_length=64),
    TypeDescription("lower-case words joined by hyphens, such as grade-lite"),
]
_HeldOut = Annotated[Number, Field(gt=0, lt=0.5)]


class MetricDataConfig(InputModel):
    """Dialogues for training a metric.

    Attributes:
        corpora: at least one if the metric learns from dialogues.
        split: "shuffle": a random split by `split_seed`; "published": the corpus's own.
        validation, test: share of each corpus's shuffled dialogues that is held out.
        split_seed: seed of the split.
        max_dialogues: maximum number of dialogues per corpus, sampled by `split_seed`; 0: all.
        share: share of the training part that is used, drawn by the config's seed; with the same seed, a smaller share
            is part of each larger one.
    """

    corpora: Many[CorpusConfig] = ()
    split: Literal["shuffle", "published"] = "shuffle"
    validation: _HeldOut = 0.1
    test: _HeldOut = 0.1
    split_seed: int = 0
    max_dialogues: int = Field(default=0, ge=0)
    share: Number = Field(default=1.0, gt=0, le=1)


class MetricOptimiserConfig(OptimiserConfig):
    """AdamW by epochs; see `OptimiserConfig` for the other settings.

    Attributes:
        batch_size: number of examples.
        weight_decay: for weight matrices only, not for biases and norms.
        warmup_share: warm-up of the learning rate as a share of all batches; replaces `warmup`.
        beta2, eps: parameters of Adam.
        plateau: learning rate factor after each validation without improvement; 1: constant rate.
    """

    batch_size: Size = 16
    lr: Number = Field(default=2e-5, gt=0)
    schedule: Literal["constant", "linear"] = "linear"
    clip: Number = Field(default=10.0, gt=0)
    epochs: Size = 5
    patience: int = Field(default=0, ge=0)
    weight_decay: Number = Field(default=0.01, ge=0)
    warmup_share: Share = 0.0
    beta2: Number = Field(default=0.999, gt=0, lt=1)
    eps: Number = Field(default=1e-6, gt=0)
    plateau: Number = Field(default=1.0, gt=0, le=1)

    @field_validator("warmup_share")
    @classmethod
    def _one_warmup(cls, share: float, info: ValidationInfo) -> float:
        if share and info.data.get("warmup"):
            raise ValueError("give either warmup or warmup_share, not both")
        return share


class MetricTrainingConfig(InputModel):
    """Complete config of a training.

    The same config on the same data trains the same metric.

    Attributes:
        name: name of the output folder and of the resulting metric.
        metric: name of a learned metric (`evaluation/training/metrics`).
        options: options of the metric.
        start: name of a finished training in the same folder; its weights are copied where name and shape match.
        seed: seed of initial weights, batch order and all random draws.
        title: a readable name.
    """

    name: TrainingName
    metric: str
    data: Annotated[MetricDataConfig, Field(validate_default=True)] = MetricDataConfig()
    options: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    backbone: BackboneConfig = BackboneConfig()
    optimiser: MetricOptimiserConfig = MetricOptimiserConfig()
    keeping: KeepingConfig = KeepingConfig()
    start: str = ""
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    title: str = ""
    _folder: Path = PrivateAttr(Path())

    @field_validator("metric")
    @classmethod
    def _metric_is_known(cls, metric: str) -> str:
        try:
            learned_get(metric)
        except UnknownName as error:
            raise ValueError(str(error)) from None
        return metric

    @field_validator("data")
    @classmethod
    def _dialogues_are_named(cls, data: MetricDataConfig, info: ValidationInfo) -> MetricDataConfig:
        metric = info.data.get("metric")
        reads = learned_get(metric).reads_dialogues if metric else None
        if reads is not None and reads != bool(data.corpora):
            if data.corpora:
                raise ValueError(f"{metric} takes no corpora; name its training data under options")
            raise ValueError("give at least one corpus: {corpora: [{path: FILE}]}")
        return data

    @field_validator("options")
    @classmethod
    def _options_are_the_metrics(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "metric" in info.data:
            values_read(learned_get(info.data["metric"]).options_type, options)
        return options

    @property
    def metric_options(self) -> Any:
        """Parsed options of the metric."""
        return values_read(learned_get(self.metric).options_type, self.options, path="options")

    @property
    def decisive(self) -> dict[str, Any]:
        """Settings that affect the weights, as plain values."""
        values = self.model_dump(mode="json")
        for name in ("title", "keeping", "name"):
            del values[name]
        values["options"] = self.metric_options.model_dump(mode="json")
        values["keeping"] = {"validate_every": self.keeping.validate_every}
        # The only values before these options existed: trainings of that time can be resumed.
        if self.data.share == 1:
            del values["data"]["share"]
        if values["options"].get("max_pairs") == 0:
            del values["options"]["max_pairs"]
        for corpus in values["data"]["corpora"]:
            del corpus["licence"], corpus["path"]
        del values["optimiser"]["max_skipped"]
        return values

    @property
    def digest(self) -> str:
        """Digest of the decisive settings, 16 hexadecimal digits."""
        return hashlib.sha256(canonical_json(self.decisive).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Base folder of relative paths; not stored in the file."""
        return self._folder

    def in_folder(self, folder: Path | str) -> MetricTrainingConfig:
        """Return a copy with paths relative to `folder`."""
        placed = self.model_copy()
        placed._folder = Path(folder).expanduser()
        return placed

    def path(self, relative: str) -> Path:
        """Resolve a path of the config."""
        return self.folder / Path(relative).expanduser()


def config_load(path: Path | str, data: Path | str | None = None) -> MetricTrainingConfig:
    """Read and validate a config file, including that corpora and encoders exist.

    Args:
        data: folder of the corpora; None: the config's folder.

    Raises:
        ValuesError: if the file is invalid; lists all errors.
    """
    path = Path(path)
    try:
        return config_check(config_values(path), path.parent if data is None else data)
    except ValuesError as error:
        raise ValuesError(error.mistakes, path) from None


def config_values(path: Path, above: tuple[Path, ...] = ()) -> Any:
    """Return a file's values merged with those of its `base`, a sibling file.

    Args:
        above: files that inherit from this one, to detect cycles.
    """
    values = yaml_read(path)
    if not isinstance(values, Mapping) or "base" not in values:
        return values
    overrides = {key: value for key, value in values.items() if key != "base"}
    base = path.with_name(f"{values['base']}.yaml")
    if not base.is_file() or base in (*above, path):
        other_names = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml") if file != path))
        raise ValuesError(f"base is {values['base']!r}; it must be another config in this folder: {other_names}")
    base_values = config_values(base, (*above, path))
    return merge_values(base_values, overrides) if isinstance(base_values, Mapping) else overrides


def config_seeded(config: MetricTrainingConfig, seed: int) -> MetricTrainingConfig:
    """Return a renamed config with another seed for weights, order and examples.

    `start` is renamed alike. Held-out data (`data.split_seed`) stay the same.
    """
    options = dict(config.options)
    if "data_seed" in learned_get(config.metric).options_type.model_fields:
        options["data_seed"] = seed
    changed = {
        **config.model_dump(mode="json"),
        "seed": seed,
        "options": options,
        "name": f"{config.name}-seed-{seed}",
        "title": f"{config.title or config.name}, seed {seed}",
        "start": f"{config.start}-seed-{seed}" if config.start else "",
    }
    return values_read(MetricTrainingConfig, changed, subject="the config").in_folder(config.folder)


def config_check(values: Any, data: Path | str = ".") -> MetricTrainingConfig:
    """Validate a config given as plain values, as in notebooks.

    Raises:
        ValuesError: if the config is invalid; lists all errors. Missing files are only reported when everything else is
            valid.
    """
    config = values_read(MetricTrainingConfig, values, subject="the config").in_folder(data)
    missing = corpora_missing(config.data.corpora, config.folder)
    if reason := backbone_missing(config.backbone):
        missing.append(Mistake("backbone.model", f"backbone.model {config.backbone.model!r} cannot be used: {reason}"))
    learned = learned_get(config.metric)
    if config.data.share < 1 and not config.data.corpora and not learned.draws_share:
        missing.append(
            Mistake(
                "data.share", f"data.share is {config.data.share:g}, but {config.metric} cannot use a part of its data"
            )
        )
    missing += [
        Mistake(f"options.{key}", f"options.{key} cannot be used here: {reason}")
        for key, reason in learned.missing(config).items()
    ]
    if missing:
        raise ValuesError(missing)
    return config


def config_again(manifest_config: Mapping[str, Any]) -> MetricTrainingConfig:
    """Parse a checkpoint's config, which has no paths to corpora."""
    return values_read(MetricTrainingConfig, dict(manifest_config), subject="the checkpoint's config")
