"""What the second pass of `make test` leaves out knows neither PostgreSQL nor Redis; quick tests start no server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


def left_out(name: str = "WITHOUT_DATABASE") -> list[Path]:
    """Return the paths of a list in the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.search(rf"^{name} := \$\(addprefix --ignore=tests/,([^)]*)\)", text, re.M)
    assert found
    return [ROOT / "tests" / name for name in found[1].split()]


SAME_VIEWS = {
    # Every step of every protocol in a preview: previews, and every protocol's real pages from the first to the last.
    "contracts/test_previews.py": ("webapp/participant/test_preview.py", "journeys/test_research.py"),
    # Which pages the phone offers, how a question's and a check's card looks and what it says.
    "webapp/dashboard/test_build_preview.py": ("webapp/participant/test_preview.py",),
    "webapp/dashboard/test_build_questions.py": ("webapp/dashboard/test_build.py",),
    # Words and navigation of pages that are opened there, of full studies and of studies with hardly anything in them.
    "webapp/dashboard/test_plurals.py": ("webapp/dashboard/test_pages.py", "webapp/dashboard/test_thin_studies.py"),
    "webapp/dashboard/test_tabs.py": ("webapp/dashboard/test_pages.py", "webapp/dashboard/test_thin_studies.py"),
    # Registries that plug-ins and files of a folder add to; their list is on a page that is opened there.
    "webapp/core/test_plugins.py": ("webapp/dashboard/test_pages.py",),
    # Whatever is sent to the API's routes gets an answer that its description allows.
    "webapp/api/test_contract.py": ("webapp/api/test_api.py",),
}
"""Left out although they ask a database: what they look at is words and places, and these files ask the same views on
both.
"""

ELSEWHERE = {
    # Every example is opened, played by a worker and exported there; here its pages are searched for names of bots.
    "contracts/test_rehearsals.py": ("journeys/test_research.py",),
    # Commands as the documentation shows them.
    "journeys/test_documents.py": ("journeys/test_research.py", "webapp/jobs/test_commands.py"),
    # Whether page, command and report tell one number; each is made on both databases there.
    "webapp/dashboard/analysis/test_one_result.py": (
        "webapp/dashboard/analysis/test_sections.py",
        "webapp/dashboard/analysis/test_report.py",
    ),
    # How jobs are planned, done, killed and gone on with; here a model is trained meanwhile.
    "webapp/jobs/test_training.py": ("webapp/jobs/test_jobs.py", "webapp/jobs/test_worker.py"),
    # A job of the kind that trains a metric, and files; what jobs do with a database is asked there.
    "webapp/jobs/test_train_metric.py": ("webapp/jobs/test_jobs.py", "webapp/jobs/test_kinds.py"),
    # What is fitted and predicted is stored and read there; here three readers tell one number of it.
    "webapp/dashboard/analysis/test_powered.py": (
        "webapp/dashboard/analysis/test_sections.py",
        "webapp/dashboard/analysis/test_report.py",
    ),
    # Programs that read a package's files; its bytes are asked of both.
    "webapp/transfer/test_package_loaders.py": ("webapp/transfer/test_package.py",),
    # Reading a package back asks no database, and writing one is asked of both.
    "webapp/transfer/test_package_reading.py": ("webapp/transfer/test_package.py", "webapp/transfer/test_exporters.py"),
    # What is reckoned of pairs and of an arena's choices, and their page, of dialogues judged as wholes.
    "webapp/dashboard/test_pair_pages.py": (
        "webapp/results/test_pairs_by_hand.py",
        "webapp/participant/test_dialogues.py",
    ),
    # What the migrations do to rows, and how a worker takes over work whose holder is gone.
    "upgrades/test_half_done.py": (
        "upgrades/test_upgrades.py",
        "webapp/jobs/test_worker.py",
        "webapp/jobs/test_jobs.py",
    ),
    # Short names of commands and what they print without a database; the commands themselves are called there.
    "webapp/test_command_line.py": ("webapp/jobs/test_commands.py", "journeys/test_research.py"),
    # Files of lines; a worker that does a job by Redis is started there.
    "webapp/core/test_log_files.py": ("webapp/jobs/test_worker.py",),
    # What is fitted and what mistakes are told; fits as jobs, stored and shown on pages, are there.
    "webapp/jobs/test_fits.py": ("journeys/test_research.py", "webapp/results/test_cache.py"),
    # Where models compute.
    "webapp/jobs/test_devices.py": ("webapp/jobs/test_metrics.py", "webapp/jobs/test_shards.py"),
}
"""Left out because they compute much: what may differ between databases is asked of both in these files."""


DIFFERS = re.compile(
    r"transaction|select_for_update|IntegrityError|DatabaseError|Thread|Communicator|on_commit"
    r"|connection\b|num_queries|RawSQL|cursor\(|call_command|start_worker|redis"
)
"""What may come out differently on another database or channel layer, and so is asked of both."""


@pytest.mark.parametrize("name", SAME_VIEWS)
def test_what_shows_pages_alone_is_left_out_where_others_ask_the_same_views(name: str) -> None:
    without = left_out()
    assert ROOT / "tests" / name in without
    source = (ROOT / "tests" / name).read_text(encoding="utf-8")
    assert not (found := DIFFERS.findall(source)), f"{name} asks more than what pages show: {found}"
    for other in SAME_VIEWS[name]:
        path = ROOT / "tests" / other
        assert path.exists(), path
        assert not any(path.is_relative_to(one) for one in without), f"{other} is left out too"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_computes_much_is_left_out_where_others_ask_both_databases(name: str) -> None:
    without = left_out()
    assert ROOT / "tests" / name in without
    for other in ELSEWHERE[name]:
        path = ROOT / "tests" / other
        assert path.exists(), path
        assert not any(path.is_relative_to(one) for one in without), f"{other} is left out too"


@pytest.mark.parametrize("path", left_out(), ids=lambda path: path.name)
def test_what_is_left_out_is_there_and_asks_no_database(path: Path) -> None:
    assert path.exists(), f"{path} is gone: its tests run twice, or nobody noticed that it moved"
    if path.name in ("architecture", "browser", "test_rights.py"):
        return  # commands of their own, pages whose views are tested on both, and what is asked before any row is read
    if str(path.relative_to(ROOT / "tests")) in {*SAME_VIEWS, *ELSEWHERE}:
        return
    files = [path] if path.is_file() else [*path.rglob("*.py")]
    for file in files:
        assert "django_db" not in file.read_text(encoding="utf-8"), file


def test_quick_tests_leave_out_what_is_there() -> None:
    assert not [path for path in left_out("NOT_QUICK") if not path.exists()]


def test_quick_tests_start_no_server() -> None:
    without = left_out("NOT_QUICK")
    for path in (ROOT / "tests").rglob("test_*.py"):
        source = path.read_text(encoding="utf-8")
        if "mark.slow" in source or any(path.is_relative_to(one) for one in without):
            continue
        assert "_server: ConfabServer" not in source, f"{path} is slow: add it to NOT_QUICK or mark it"
