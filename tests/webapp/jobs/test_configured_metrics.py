"""`metrics.yaml` is read by every process; a broken entry in it disables itself only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from chatbots.registry import UnknownName
from evaluation.metrics.registry import configured_metrics
from tests.builders import make_staff, make_study
from webapp.core.rights import Right
from webapp.jobs.selectors.metrics import metrics_find


def test_a_file_that_cannot_be_read_ends_the_process_with_one_line(settings: Any, tmp_path: Path) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("kind: perplexity")
    with pytest.raises(SystemExit, match=r"metrics.yaml must hold a list of metrics"):
        apps.get_app_config("plugins").ready()


@pytest.mark.django_db
def test_a_broken_entry_is_left_out_and_told_of(settings: Any, tmp_path: Path, client: Client) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("[{id: mine, kind: perplexit}, {kind: toxicity, params: {model: x}}]")
    said = "entry 1 (mine): kind is &#x27;perplexit&#x27;; did you mean perplexity?"
    client.force_login(make_staff(*Right))
    make_study("s")
    pages = ["/dashboard/metrics/", "/dashboard/studies/s/metrics/"]
    try:
        apps.get_app_config("plugins").ready()
        for page in pages:
            html = client.get(page, follow=True).content.decode()
            assert "One entry of metrics.yaml is broken and left out." in html
            assert said in html
        with pytest.raises(UnknownName, match=r"metrics.yaml, entry 1 \(mine\): kind is"):
            metrics_find(["mine"])
    finally:
        configured_metrics.register(tmp_path / "none.yaml")
    assert "broken" not in client.get(pages[0]).content.decode()
