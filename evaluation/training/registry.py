"""Finds every metric that can be trained."""

from __future__ import annotations

from typing import Any, TypeVar

from chatbots.registry import Registry

C = TypeVar("C", bound=type)

learned_metrics: Registry[Any] = Registry("learned metric", "evaluation.training.metrics")
"""Instances of `evaluation.training.contract.LearnedMetric`."""


def register_learned(cls: C) -> C:
    """Decorate a class: make one of it and list it as a metric that can be trained."""
    learned_metrics.register(cls)
    return cls


def learned_get(name: str) -> Any:
    """Return the learned metric called `name`.

    Raises:
        UnknownName: there is none; the message names the nearest ones.
    """
    return learned_metrics.get(name)
