"""Catalogue of public checkpoints (`remote_models.yaml`).

The catalogue lists names and settings only. A model is downloaded only when a researcher has added it to `bots.yaml`,
and then when the bot is loaded.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from chatbots.generation.options import TransformersOptions
from chatbots.registry import UnknownName
from chatbots.text import nearest_names, quote
from chatbots.validation import InputModel, Many, ValuesError, values_read, yaml_read
from chatbots.yaml_registry import BotId

REMOTE_MODELS_FILE = Path(__file__).with_name("remote_models.yaml")


class RemoteModel(InputModel):
    """Public checkpoint with the settings that it needs.

    Attributes:
        id, name: of its bot.
        model: hub id.
        licence: SPDX id of the licence of the weights.
        parameters: number of parameters, for display.
        download_mb: size of the download in megabytes.
        about: description in one or two sentences.
        params: params of kind transformers, without `model` and `allow_download`.
    """

    id: BotId
    name: str
    model: str
    licence: str
    parameters: str
    download_mb: int = Field(ge=1)
    about: str
    params: dict[str, Any]

    @model_validator(mode="after")
    def _makes_a_bot(self) -> RemoteModel:
        values_read(TransformersOptions, {"model": self.model, **self.params}, path="params")
        return self

    @property
    def entry(self) -> dict[str, Any]:
        """Entry of `bots.yaml` that declares its bot."""
        return {
            "id": self.id,
            "kind": "transformers",
            "name": self.name,
            "params": {"model": self.model, **self.params, "allow_download": True},
        }

    @property
    def snippet(self) -> str:
        """The entry as YAML, for pasting into `bots.yaml`."""
        import yaml

        return yaml.safe_dump([self.entry], sort_keys=False, allow_unicode=True, width=100)


@cache
def remote_list() -> tuple[RemoteModel, ...]:
    """Return the models of the catalogue in file order.

    Raises:
        ValuesError: the file is invalid; lists all mistakes.
    """
    try:
        return values_read(Many[RemoteModel], yaml_read(REMOTE_MODELS_FILE), subject="the catalogue")
    except ValuesError as error:
        raise ValuesError(error.mistakes, REMOTE_MODELS_FILE) from None


def remote_get(model_id: str) -> RemoteModel:
    """Return the model of the catalogue with this id.

    Raises:
        UnknownName: there is none; the message suggests the nearest ids.
    """
    for model in remote_list():
        if model.id == model_id:
            return model
    ids = [model.id for model in remote_list()]
    near = nearest_names(model_id, ids) or ids
    raise UnknownName(f"the catalogue has no model {quote(model_id)}; did you mean {' or '.join(near)}?")
