"""Catalogue of models by name, and their configs as plain values.

    config = config_read("vhcr", {"V": 8000, "H_e": 256, "ei": {"K": 28, "D": 384}})
    model = model_build(config, seed=7)
    config_write(config)        # back to plain values, defaults included

Importing this loads no torch; reading a config does.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatbots.text import did_you_mean
from chatbots.validation import ValuesError, values_read

if TYPE_CHECKING:
    from chatbots.models.dialogue_model import DialogueModel

MODELS = {
    "hred": "chatbots.models.hred:HRED",
    "vhred": "chatbots.models.vhred:VHRED",
    "vhcr": "chatbots.models.vhcr:VHCR",
    "seq2seq": "chatbots.models.seq2seq:Seq2Seq",
    "transformer": "chatbots.models.transformer:Transformer",
}
"""Module and class by name; the config class is named after the class, with the suffix "Config"."""


def config_read(name: str, values: Mapping[str, Any]) -> Any:
    """Read the config of a model from YAML or manifest values.

    Args:
        values: values by field name; missing fields keep their defaults.

    Raises:
        ValuesError: the model is unknown, or values are invalid; lists all mistakes.
    """
    if name not in MODELS:
        near = did_you_mean(name, MODELS)
        right = f"must be one of {', '.join(MODELS)}"
        raise ValuesError(f"model is {name!r}; {f'{near} It' if near else 'it'} {right}")
    return values_read(_classes(name)[1], values, subject="the config")


def config_write(config: Any) -> dict[str, Any]:
    """Return plain JSON values that `config_read` turns into an equal config."""
    return config.model_dump()  # type: ignore[no-any-return]


def model_name(config: Any) -> str:
    """Return the name of the model that a config belongs to.

    Raises:
        ValueError: no model has this config.
    """
    for name, place in MODELS.items():
        if type(config).__name__ == place.partition(":")[2] + "Config":
            return name
    raise ValueError(f"{type(config).__name__} is not the config of any model")


def model_build(config: Any, seed: int) -> DialogueModel:
    """Build a model with initial weights from a seed.

    torch's global random state is not changed.

    Args:
        seed: 0 … 2^63 − 1.
    """
    import torch

    build = _classes(model_name(config))[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(config)


def model_class(name: str) -> Any:
    """Return the class of the model called `name`; loads torch."""
    return _classes(name)[0]


def _classes(name: str) -> tuple[Any, Any]:
    """Return the model's class and that of its config."""
    module_name, _, class_name = MODELS[name].partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, class_name), getattr(module, f"{class_name}Config")
