"""Checkpoints of learned metrics with random weights, written in a moment, for whoever only needs that there is one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from chatbots.encoders.word_vectors import WORD_DIMENSION
from evaluation.training.checkpoint import MetricManifest, checkpoint_write
from evaluation.training.config import MetricTrainingConfig, backbone_identity, learned_get


def pone_checkpoint(folder: Path, **options: Any) -> Path:
    """Write a checkpoint of PONE on MiniLM, or of RUBER's scorer on word vectors."""
    from evaluation.training.metrics.pone import PoneNetwork

    config = _config("pone", {"hidden": [4], **options})
    torch.manual_seed(1)
    width = WORD_DIMENSION if config.metric_options.sentences == "recurrent" else 384
    return _written(folder, config, PoneNetwork(width, config.metric_options), {"width": width})


def rade_checkpoint(folder: Path) -> Path:
    """Write a checkpoint of RADE's lite network."""
    from evaluation.training.metrics.rade import INPUTS, LiteNetwork

    config = _config("rade", {"rated": ["none.jsonl"], "hidden": 4, "members": 1, "axes": 2})
    torch.manual_seed(1)
    network = LiteNetwork(config.metric_options, 384)
    return _written(folder, config, network, {"width": 384}, {INPUTS: network.dumped()})


def encoder_mlp_checkpoint(folder: Path, **options: Any) -> Path:
    """Write a checkpoint of an MLP on MiniLM."""
    from evaluation.training.metrics.encoder_mlp import EncoderMlpNetwork

    config = _config("encoder_mlp", {"rated": ["none.jsonl"], **options})
    torch.manual_seed(1)
    return _written(folder, config, EncoderMlpNetwork(config.backbone, config.metric_options), {"licences": ["MIT"]})


def entailment_checkpoint(folder: Path, *, model: str = "", **options: Any) -> Path:
    """Write a checkpoint of DialogEntailment on MiniLM, or on another encoder."""
    from evaluation.training.metrics.entailment import EntailmentTraining

    config = _config("entailment", options, {"model": model, "learns": "frozen"} if model else {})
    torch.manual_seed(1)
    prepared: Any = SimpleNamespace(facts={"width": 384})
    network = EntailmentTraining().network(config, prepared)
    for parameter in network.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.5)
    return _written(folder, config, network, {"width": 384, "licences": ["MIT"]})


def _config(metric: str, options: dict[str, Any], backbone: dict[str, Any] | None = None) -> MetricTrainingConfig:
    values: dict[str, Any] = {"name": "random", "metric": metric, "options": options, "backbone": backbone or {}}
    if learned_get(metric).reads_dialogues is not False:
        values["data"] = {"corpora": [{"path": "everyday", "licence": "MIT"}]}
    return MetricTrainingConfig.model_validate(values)


def _written(
    folder: Path,
    config: MetricTrainingConfig,
    network: torch.nn.Module,
    facts: dict[str, Any],
    files: dict[str, bytes] | None = None,
) -> Path:
    manifest = MetricManifest(
        metric=config.metric,
        version=learned_get(config.metric).version,
        config=config.model_dump(mode="json"),
        decisive=config.decisive,
        backbone=backbone_identity(config.backbone),
        data="",
        facts=facts,
    )
    checkpoint_write(folder, network, manifest, files or {})
    return folder
