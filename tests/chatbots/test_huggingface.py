"""Folders and files that are no whole model: what is wrong with each, and what to do."""

import json
from pathlib import Path

import pytest

from chatbots.bots.transformers_bot import TransformersBot

CASES = Path(__file__).parents[1] / "cases"
POINTER = json.loads((CASES / "model_lfs_pointer.json").read_text())["model.safetensors"]


def reason_of(model: Path) -> str:
    reason = TransformersBot(name="t", model=str(model)).unavailable_reason()
    assert reason is not None
    return reason


def fill(folder: Path, **texts: str) -> Path:
    """Write files, named with `__` for a dot."""
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_an_adapter_is_to_be_merged(tmp_path: Path) -> None:
    for name, content in json.loads((CASES / "model_lora_adapter.json").read_text())["files"].items():
        (tmp_path / name).write_text(json.dumps(content))
    assert "contains an adapter; merge it into its base model" in reason_of(tmp_path)
    fill(tmp_path, config__json="{}")  # some tools copy the base model's
    assert "contains an adapter" in reason_of(tmp_path)


@pytest.mark.parametrize("name", ["model__safetensors", "tokenizer__json", "config__json"])
def test_a_pointer_of_git_lfs_is_named(tmp_path: Path, name: str) -> None:
    fill(tmp_path, config__json='{"model_type": "gpt2"}', model__safetensors="x" * 5000, tokenizer__json="{}")
    reason = reason_of(fill(tmp_path, **{name: POINTER}))
    assert f"{name.replace('__', '.')} is a Git LFS pointer; fetch the file itself" in reason


def test_code_of_a_models_own_is_never_run(tmp_path: Path) -> None:
    config = json.loads((CASES / "model_custom_code.json").read_text())["config.json"]
    reason = reason_of(fill(tmp_path, config__json=json.dumps(config)))
    assert "needs custom code, which Confab never runs" in reason
    assert "trust_remote_code" not in reason
    known = {**config, "model_type": "gpt2"}  # transformers has code for it
    assert "custom code" not in reason_of(fill(tmp_path, config__json=json.dumps(known)))


def test_a_gguf_file_belongs_to_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    assert "kind: gguf" in reason_of(file)
    assert "kind: gguf" in reason_of(tmp_path)
