"""`CONFAB_PLUGINS`: a module that is missing or broken is one clear sentence, for every command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatbots.registry import PluginError, plugins_import
from evaluation.metrics.registry import metric_get, metrics
from evaluation.metrics.trained import SHIPPED
from tests.builders import make_staff, make_study
from webapp.core.rights import Right
from webapp.jobs.selectors.metrics import metrics_find

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_library_at_all", "No module named 'no_such_library_at_all' .*line 1"),
        ("x = 1\n1 / 0", r"ZeroDivisionError: division by zero \(.*lab_broken.py, line 2\)"),
        ("def (", "SyntaxError: invalid syntax"),
        ("from chatbots.registry import bots\nbots.add(bots.get('eliza'))", "two bots are called 'eliza'"),
    ],
)
def test_a_broken_module_is_named_with_what_breaks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (folder / "lab_broken.py").write_text(text)
    with pytest.raises(PluginError, match=f"'lab_broken': it cannot be imported: .*{message}") as caught:
        plugins_import(["lab_broken"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["no_such_module_here", "chatbots.no_such_module"])
def test_a_missing_module_is_called_missing(name: str) -> None:
    with pytest.raises(PluginError, match=f"'{name}': there is no such module"):
        plugins_import([name])


def test_blanks_between_the_names_are_no_modules(folder: Path) -> None:
    (folder / "lab_fine.py").write_text("")
    plugins_import([" lab_fine ", ""])
    assert "lab_fine" in sys.modules


@pytest.mark.parametrize("command", ["list_bots", "serve"])
def test_commands_and_the_web_start_end_with_one_sentence(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=ROOT,
        env={**os.environ, "CONFAB_PLUGINS": "no_such_module_here", "CONFAB_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "CONFAB_PLUGINS names 'no_such_module_here': there is no such module on Python's path. Correct or remove it."
    )


ASKS = """
from django.utils.translation import gettext
from evaluation.metrics.registry import metric_list
from webapp.jobs.kinds.base import JobKind, kinds, register_kind
from webapp.studies.privacy import erasure_kinds
from webapp.transfer.exporters.base import exporter_list

assert {"export", "import", "metrics", "training"} <= set(kinds.names())
assert "ratings" in [exporter.name for exporter in exporter_list()]
assert {"turns", "metric_results"} <= set(erasure_kinds())
assert metric_list()


@register_kind
class Again(type(kinds.get("import"))):
    name, title = "again", gettext("Import")
"""
USES = """
from lab_asks import Again
from webapp.jobs.models import Job

assert Job._meta.get_field("study").related_model.__name__ == "Study"
Again.title += "!"
"""


@pytest.mark.parametrize("order", ["lab_asks,lab_uses,tests.plugin", "tests.plugin,lab_uses,lab_asks"])
def test_a_plug_in_finds_every_app_ready_whatever_the_order(tmp_path: Path, order: str) -> None:
    (tmp_path / "lab_asks.py").write_text(ASKS)
    (tmp_path / "lab_uses.py").write_text(USES)
    code = "from webapp.jobs.kinds.base import kinds; print(*kinds.names(), kinds.get('again').title)"
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
            "CONFAB_PLUGINS": order,
            "CONFAB_DATA_DIR": str(tmp_path),
            "PYTHONPATH": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.split()
    assert {"again", "counting", "import"} <= set(told)
    assert told[-1] == "Import!"


@pytest.mark.django_db
def test_a_metric_that_is_trained_later_is_known_to_a_running_server(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.metrics.trained.LOOKED_EVERY_S", 0.0)
    study = make_study("shop")
    client.force_login(make_staff(Right.READ))
    page = reverse("dashboard:study_prediction", args=[study.key])
    assert b"trained_later" not in client.get(page).content
    folder = Path(settings.DATA_DIR, "metrics", "trained-later")
    folder.mkdir(parents=True)
    (folder / ".lock").touch()
    assert b"trained_later" not in client.get(page).content, "its first epoch is under way"
    shutil.copytree(SHIPPED / "pone-lite-open-full", folder / "best")
    try:
        assert b"trained_later" in client.get(page).content
        [result] = metrics_find(["trained_later"])
        assert result is metric_get("trained_later")
        assert result.unavailable_reason() is None
        first = result.restored("cpu")  # type: ignore[attr-defined]
        assert result.restored("cpu") is first  # type: ignore[attr-defined]
        manifest = folder / "best" / "manifest.json"
        manifest.write_text(manifest.read_text().replace("PONE", "PONE again"))
        assert result.restored("cpu") is not first, "trained again"  # type: ignore[attr-defined]
    finally:
        metrics.discard("trained_later")
