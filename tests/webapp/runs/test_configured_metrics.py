"""`metrics.yaml` is read by every process, and a mistake in it is one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from evaluation.metrics.configured import configured_register
from evaluation.metrics.registry import metric_get


def test_the_file_of_the_settings_is_registered(settings: Any, tmp_path: Path) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("[{kind: perplexity, params: {model: /nowhere/gpt2}}]")
    try:
        apps.get_app_config("runs").ready()
        assert "/nowhere/gpt2" in (metric_get("perplexity").unavailable_reason() or "")
    finally:
        configured_register(tmp_path / "none.yaml")


def test_a_mistake_ends_the_process_with_one_line(settings: Any, tmp_path: Path) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("[{kind: perplexit}]")
    with pytest.raises(SystemExit, match="entry 1: kind is 'perplexit'; did you mean perplexity"):
        apps.get_app_config("runs").ready()
