"""The catalogue of public checkpoints: complete entries that make bots, and none loaded unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatbots import remote_models
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.remote_models import remote_list
from chatbots.yaml_registry import configured_bots


def test_every_entry_makes_a_bot_that_downloads_only_because_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "bots.yaml"
    for model in remote_list():
        assert model.licence
        assert model.about
        assert model.download_mb > 100
        assert "allow_download" not in model.params
    path.write_text("".join(model.snippet for model in remote_list()))
    made = configured_bots.load(path)
    assert [bot.name for bot in made] == [model.id for model in remote_list()]
    for bot, model in zip(made, remote_list(), strict=True):
        assert isinstance(bot, TransformersBot)
        assert (bot.options.model, bot.title, bot.options.allow_download) == (model.model, model.name, True)
        for name, value in model.params.items():
            assert getattr(bot.options, name) == value
    assert {"dialogpt-small", "dialogpt-medium", "blenderbot-400m", "persona-gpt"} < {bot.name for bot in made}


def test_mistakes_of_the_catalogue_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "remote_models.yaml"
    path.write_text("- {id: A b, name: A, model: a/b, license: MIT, download_mb: 0, params: {tmp: 1}}")
    monkeypatch.setattr(remote_models, "REMOTE_MODELS_FILE", path)
    remote_models.remote_list.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"remote_models\.yaml: \d mistakes") as caught:
            remote_models.remote_list()
    finally:
        remote_models.remote_list.cache_clear()
    said = str(caught.value)
    for part in ("[0].id is 'A b'", "did you mean licence?", "[0].parameters is missing"):
        assert part in said
