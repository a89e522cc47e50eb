"""What the Makefile chooses: files on which PostgreSQL and Redis decide, and files of the quick tests."""

import ast
import re
from pathlib import Path

from tests.architecture.source import ROOT

TESTS = ROOT / "tests"


def chosen(name: str) -> list[Path]:
    """Return the paths of a list in the Makefile; of tests that are listed alone, their files."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    match = re.search(rf"^{name} := \$\(addprefix tests/,([^)]*)\)", text, re.M)
    assert match
    return [TESTS / path for path in dict.fromkeys(one.partition("::")[0] for one in match[1].split())]


def chosen_alone() -> dict[Path, set[str]]:
    """Return the tests of each file of which only some run on PostgreSQL."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    alone: dict[Path, set[str]] = {}
    for path, name in re.findall(r"(\S+\.py)::(\w+)", text):
        alone.setdefault(TESTS / path, set()).add(name)
    return alone


def apps() -> list[Path]:
    """Return the folders of tests of the apps."""
    return [app for app in (TESTS / "webapp").iterdir() if any(app.glob("**/test_*.py"))]


DECIDED = re.compile(
    r"transaction=True|IntegrityError|select_for_update|cursor\(\)|\.vendor\b|mark\.(?:postgres|redis)|start_worker"
)
"""Signs in a test's source that another database or channel layer may decide otherwise."""

EMBEDDED_ALONE = {
    "architecture": "reads sources",
    "browser": "what a browser shows; the views and workers behind it are asked on both",
    "journeys/test_adding.py": "one worker of a plug-in; jobs/test_worker.py starts one on both",
    "journeys/test_documents.py": "commands as documented; journeys/test_research.py calls them on both",
    "journeys/test_judges_of_bots_file.py": "judges in fresh processes; jobs/test_worker.py starts a worker on both",
    "webapp/audit/test_routes.py": "which actions leave an entry; audit/test_chain.py asks for entries on both",
    "webapp/conversations/test_bot_health.py": "loading bots; rows are committed for the event loop's thread",
    "webapp/core/test_bodies.py": "bodies before any row is read; users are committed for the event loop's thread",
    "webapp/core/test_log_files.py": "files of lines",
    "webapp/dashboard/test_bot_states.py": "words about failing bots; conversations/test_trials.py asks both",
    "webapp/transfer/test_damaged_files.py": "files that are refused before anything is stored",
}
"""Tests with such signs that run on the embedded defaults alone, with the reason."""


def test_what_a_database_may_decide_is_asked_on_both() -> None:
    both, alone = chosen("ON_DATABASE"), [TESTS / name for name in EMBEDDED_ALONE]
    assert not [path for path in (*both, *alone) if not path.exists()]
    for path in TESTS.rglob("test_*.py"):
        if any(path.is_relative_to(one) for one in (*both, *alone)):
            continue
        assert not (matches := DECIDED.findall(path.read_text(encoding="utf-8"))), (
            f"{path}: {matches}; add it to ON_DATABASE, or to EMBEDDED_ALONE with a reason"
        )


def test_tests_that_are_listed_alone_are_there_and_no_other_of_their_file_depends_on_the_database() -> None:
    alone = chosen_alone()
    assert alone
    for path, names in alone.items():
        source = path.read_text(encoding="utf-8")
        tests = {one.name for one in ast.parse(source).body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert names <= tests, path
        assert not (matches := DECIDED.findall(source)), f"{path}: {matches}; list the whole file in ON_DATABASE"


def test_each_app_with_tests_is_asked_on_both() -> None:
    both = chosen("ON_DATABASE")
    for app in apps():
        assert any(path.is_relative_to(app) for path in both), app


def test_quick_tests_are_there_for_each_part_and_start_no_server() -> None:
    quick = chosen("QUICK")
    assert not [path for path in quick if not path.exists()]
    for part in ("architecture", "chatbots", "contracts", "evaluation", *(f"webapp/{app.name}" for app in apps())):
        assert any(path.is_relative_to(TESTS / part) for path in quick), part
    for path in quick:
        for file in [path] if path.is_file() else path.rglob("test_*.py"):
            source = file.read_text(encoding="utf-8")
            assert "mark.slow" in source or "_server: ConfabServer" not in source, f"{file} is not quick"
