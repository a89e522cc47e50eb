"""A judge is developed in the browser: split, disagreements, a correction as an example, the next version, the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import no_sideways_scroll, sign_in
from tests.conftest import ConfabServer, start_confab
from tests.evaluation.agreement.judges.fake_judge import crowd, items
from tests.webapp.dashboard.judge_server import judge_server

pytestmark = [pytest.mark.browser, pytest.mark.slow]
N = 60


@pytest.fixture
def judging_server(tmp_path: Path, vector_cache: Path) -> Iterator[ConfabServer]:
    """Run Confab with a worker, a judge behind HTTP and an uploaded file of rated replies."""
    rng = np.random.default_rng(3)
    truth, ratings = crowd(N, 4, rng)
    with judge_server(truth.tolist(), rng.uniform(1, 5, N).tolist()) as (port, _requests):
        params = {"model": "m", "base_url": f"http://127.0.0.1:{port}/v1", "temperature": 0}
        (tmp_path / "bots.yaml").write_text(json.dumps([{"id": "e", "kind": "endpoint", "params": params}]))
        rows = "".join(json.dumps(row) + "\n" for row in items(ratings, [f"reply {k}" for k in range(N)]))
        (tmp_path / "rated.jsonl").write_text(rows)
        for server in start_confab(tmp_path, vector_cache, with_demo=False):
            server.shell(
                "from pathlib import Path; from django.contrib.auth import get_user_model;"
                "from webapp.results.benchmark_data import benchmark_file_keep;"
                "get_user_model().objects.create_superuser('res', password='a-long-password');"
                f"benchmark_file_keep(Path({str(tmp_path / 'rated.jsonl')!r}), '.jsonl')"
            )
            server.start_worker()
            yield server


def test_a_judge_is_developed_from_the_split_to_the_test(
    judging_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    page = new_page(width=390, height=844)
    sign_in(page, judging_server)
    page.goto(f"{judging_server.url}/dashboard/metrics/judges/")
    page.get_by_role("link", name="Develop a judge").click()
    accessible(page)
    page.get_by_label("Judge", exact=True).select_option("judge_e")
    page.get_by_role("button", name="Split the items").click()
    expect(page.get_by_text("It is not known yet how well a version agrees")).to_be_visible()

    page.get_by_role("button", name="Score development items").click()
    summary = page.get_by_text("Correct the score", exact=True).first
    summary.wait_for(timeout=60_000)
    expect(page.get_by_text("It is number").first).to_be_visible()
    summary.click()
    page.get_by_label("Right score").first.fill("2")
    page.get_by_label("Reason, for the judge").first.fill("It answers another question.")
    page.get_by_role("button", name="Save the correction").first.click()
    expect(page.get_by_text("Your correction", exact=True)).to_be_visible()

    page.get_by_text("Write the next version").click()
    prompt = page.get_by_label("Prompt", exact=True)
    prompt.fill(prompt.input_value().replace("judge the", "judge only the"))
    expect(page.get_by_label("2: It answers another question.")).to_be_checked()
    page.get_by_role("button", name="Save the version").click()
    expect(page.get_by_role("heading", name="Version 2", exact=True)).to_be_visible()
    page.get_by_role("button", name="Score development items with version 2").click()
    page.get_by_text("Version 2 agrees more with people than version 1").wait_for(timeout=60_000)
    expect(page.locator("ins", has_text="only")).to_be_visible()
    page.get_by_role("button", name="Check on test items with version 2").click()
    page.get_by_text("Version 2 agrees with people on").wait_for(timeout=60_000)
    expect(page.get_by_text("No version was chosen by them.")).to_be_visible()
    for width in (390, 1366):
        page.set_viewport_size({"width": width, "height": 844})
        no_sideways_scroll(page)
        accessible(page)
