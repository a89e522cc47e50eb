"""Checkpoints of learned metrics with random weights, written in a moment, for whoever only needs that there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from evaluation.training.backbone_config import backbone_identity
from evaluation.training.checkpoint import MetricManifest, checkpoint_write
from evaluation.training.config import MetricTrainingConfig
from evaluation.training.registry import learned_get


def pone_checkpoint(folder: Path) -> Path:
    """Write a checkpoint of PONE on MiniLM."""
    from evaluation.training.metrics.pone import PoneNetwork

    config = _config("pone", {"hidden": [4]})
    torch.manual_seed(1)
    return _written(folder, config, PoneNetwork(384, config.own), {"width": 384})


def _config(metric: str, options: dict[str, Any]) -> MetricTrainingConfig:
    data = {"corpora": [{"path": "everyday", "licence": "MIT"}]}
    return MetricTrainingConfig.model_validate(
        {"name": "random", "metric": metric, "data": data, "options": options}
    )


def _written(
    folder: Path, config: MetricTrainingConfig, network: torch.nn.Module, facts: dict[str, Any]
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
    checkpoint_write(folder, network, manifest, {})
    return folder
