"""Catalogue of public checkpoints (`remote_models.yaml`).

It lists names and settings. Only an entry that a researcher has added allows a download, and only when the
bot is loaded.
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
    """A public checkpoint with the settings it needs.

    Attributes:
        id, name: of the bot that is made of it.
        model: hub id.
        licence: of the weights, by its SPDX name.
        parameters: how many, in words.
        download_mb: what is downloaded once, in megabytes.
        about: one or two sentences.
        params: of kind transformers, besides `model` and `allow_download`.
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
        """The entry of `bots.yaml` that makes a bot of it."""
        return {
            "id": self.id,
            "kind": "transformers",
            "name": self.name,
            "params": {"model": self.model, **self.params, "allow_download": True},
        }

    @property
    def snippet(self) -> str:
        """The entry as YAML, to be put into `bots.yaml` by hand."""
        import yaml

        return yaml.safe_dump([self.entry], sort_keys=False, allow_unicode=True, width=100)


@cache
def remote_list() -> tuple[RemoteModel, ...]:
    """Return the catalogue's models, in its file's order.

    Raises:
        ValuesError: the file was changed into something else; with all mistakes.
    """
    try:
        return values_read(Many[RemoteModel], yaml_read(REMOTE_MODELS_FILE), subject="the catalogue")
    except ValuesError as error:
        raise ValuesError(error.mistakes, REMOTE_MODELS_FILE) from None


def remote_get(model_id: str) -> RemoteModel:
    """Return the catalogue's model with this id.

    Raises:
        UnknownName: there is none; the message names the nearest ids.
    """
    for model in remote_list():
        if model.id == model_id:
            return model
    ids = [model.id for model in remote_list()]
    near = nearest_names(model_id, ids) or ids
    raise UnknownName(f"the catalogue has no {quote(model_id)}; did you mean {' or '.join(near)}?")
