"""Catalogue of public checkpoints (`remote_models.yaml`), and adding one to `bots.yaml`.

It lists names and settings. Only an entry that a researcher has added allows a download, and only when the
bot is loaded.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from chatbots.generation.options import TransformersOptions
from chatbots.registry import UnknownName
from chatbots.text import nearest_names, quote
from chatbots.validation import InputModel, Many, ValuesError, values_read, yaml_read
from chatbots.yaml_registry import BotId, EntriesError, configured_bots

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
        return values_read(Many[RemoteModel], yaml_read(REMOTE_MODELS_FILE), what="the catalogue")
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


def remote_add(model: RemoteModel, path: Path) -> None:
    """Put the model's entry at the end of a `bots.yaml`, which is made if there is none.

    What stands there stays as it is, comments too. Adding it again changes nothing.

    Raises:
        EntriesError: if the file cannot be read, or could not take an entry at its end.
        OSError: if it cannot be written; then it is as before.
    """
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    there = {bot.name for bot in configured_bots.read(path).made}
    if model.id in there:
        return
    gap = "" if not before or before.endswith("\n") else "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{before}{gap}{model.snippet}")
        try:
            now = {bot.name for bot in configured_bots.read(part).made}
        except EntriesError:
            now = set()
        if now != {*there, model.id}:
            # A list in brackets, say, ends with its bracket.
            raise EntriesError(f"{path} cannot take an entry at its end; add it by hand:\n{model.snippet}")
        part.chmod(path.stat().st_mode if path.exists() else 0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
