"""Can it replace people? A rehearsed study with every kind of candidate, by commands and in a browser."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import no_sideways_scroll, sign_in
from tests.chatbots.endpoint_server import chunk
from tests.conftest import ConfabServer, start_confab

pytestmark = [pytest.mark.browser, pytest.mark.slow]
BOTS = ["eliza", "retrieval", "hred-demo", "vhred-demo", "vhcr-demo"]
WIDTHS = (390, 1366)


class Judge(BaseHTTPRequestHandler):
    """A language model that rates a chat by the length of its prompt."""

    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(chunk(f"Rating: {1 + len(prompt) % 5}") + chunk(finish="stop") + b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Write nothing to the console."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    """Start a server, rehearse a study of five bots, and run every kind of candidate on it."""
    folder = tmp_path_factory.mktemp("replaced")
    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    Thread(target=endpoint.serve_forever, daemon=True).start()
    params = f"{{model: m, base_url: 'http://127.0.0.1:{endpoint.server_port}/v1'}}"
    (folder / "bots.yaml").write_text(f"- {{id: rater, kind: endpoint, params: {params}}}\n")
    (folder / "metrics.yaml").write_text("- {id: my_judge, kind: judge, params: {bot: rater}}\n")
    for server in start_confab(folder, vector_cache, with_demo=False):
        server.shell(
            "from django.contrib.auth import get_user_model;"
            "get_user_model().objects.create_superuser('res', password='a-long-password')"
        )
        planning = {"hypotheses": "Eliza is rated lowest.", "exclusions": "None.", "smallest_difference": 0.6}
        server.add_study("played", BOTS, min_exchanges=2, max_exchanges=3, **planning)
        server.add_study("bare", BOTS)
        rehearsed = server.manage("rehearse", "--study", "played", "--people", "20", "--url", server.url, "--json")
        assert json.loads(rehearsed.stdout)["done"] == 20
        server.shell(
            "from webapp.conversations.models import Conversation; from webapp.studies.models import Participant;"
            "Participant.objects.update(is_synthetic=False); Conversation.objects.update(is_synthetic=False)"
        )
        server.manage("compute_metrics", "--study", "played", "--inline")
        server.manage("selfplay", "--bots", ",".join(BOTS), "--conversations", "3", "--turns", "6", "--inline")
        server.manage("compute_metrics", "--run", "1", "--inline")
        words = ["--participant", "scripted", "--participant", "retrieval", "--conversations", "3"]
        server.manage("simulate", "played", *words, "--inline")
        server.manage("compute_metrics", "--run", "2", "--inline")
        server.manage("compare_judges", "--study", "played", "--judges", "my_judge", "--repeats", "1")
        server.shell(
            "from pathlib import Path; from tests.webapp.dashboard.test_replacement import *;"
            f"study = import_bots(Path({str(folder)!r}), 'full');"
            "store_judge(study, 'Knows', LEVELS); store_judge(study, 'Guesses', dict.fromkeys(LEVELS, 4.0))"
        )
        server.manage("compute_metrics", "--study", "full", "--metrics", "words,length,question", "--inline")
        server.manage("can_replace", "full")  # a large study's result is computed by a worker, or here
        yield server
    endpoint.shutdown()


def photograph(page: Page, name: str, folder: Path) -> None:
    """Photograph a page on a phone and a laptop, light and dark; check its width and accessibility."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844 if width < 500 else 768})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=name != "datasheet")
        no_sideways_scroll(page)
    page.emulate_media(color_scheme="light")
    accessible(page)


def test_each_candidate_of_a_rehearsed_study_has_an_answer_or_a_reason(
    lab: ConfabServer, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    document = json.loads(lab.manage("can_replace", "played", "--json").stdout)
    by_kind = {row["kind"] for row in document["candidates"]}
    assert {"hybrid", "selfplay", "simulated", "judge"} <= by_kind, document
    for row in document["candidates"]:
        for question in ("ranking", "equality", "worth"):
            part = row[question]
            assert part["answer"] in ("yes", "no") or part["reason"] or part["settled_by"], (row["title"], question)
    page = new_page()
    sign_in(page, lab)
    page.goto(f"{lab.url}/dashboard/studies/played/results/replacement/")
    expect(page.locator(".candidate")).to_have_count(len(document["candidates"]))
    expect(page.locator(".prediction-verdict h2")).to_have_text(document["sentence"])
    photograph(page, "played", tmp_path)
    page.goto(f"{lab.url}/dashboard/studies/full/results/replacement/")
    expect(page.locator(".prediction-verdict h2")).to_contain_text("Judge (Knows)")
    photograph(page, "full", tmp_path)
    page.goto(f"{lab.url}/dashboard/studies/bare/results/replacement/")
    expect(page.get_by_role("heading", name="No ratings yet")).to_be_visible()
    photograph(page, "bare", tmp_path)


def test_a_change_after_the_opening_is_planned_next_to_done(
    lab: ConfabServer, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = new_page()
    sign_in(page, lab)
    lab.shell(
        "from webapp.studies.models import Study; from webapp.studies.versions import study_edit;"
        "study_edit(study=Study.objects.get(key='played'), hypotheses='Eliza is rated highest.')"
    )
    page.goto(f"{lab.url}/dashboard/studies/played/datasheet/")
    expect(page.get_by_text("L.2.1 Exact model and version of each")).to_be_attached()
    expect(page.get_by_text("L.6 Open model as a baseline, or the reason for none").first).to_be_attached()
    photograph(page, "datasheet", tmp_path)
    lab.manage("report", "--study", "played", "--sections=plan", "--output", str(tmp_path / "report.html"))
    page.goto(f"file://{tmp_path}/report.html")
    expect(page.get_by_text("The plan was changed after the study had opened: hypotheses.").first).to_be_visible()
    hypotheses = page.locator("tr", has_text="Eliza is rated lowest.").first
    expect(hypotheses).to_contain_text("Eliza is rated highest.")
    photograph(page, "report", tmp_path)
