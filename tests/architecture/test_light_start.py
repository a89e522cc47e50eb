"""Web processes and Celery's parents stay light: no torch, transformers or statsmodels in them.

Each case is a process of its own that does something and then names the heavy modules it holds.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT, modules
from tests.databases import migrated_file

HEAVY = ("torch", "transformers", "statsmodels", "sentence_transformers", "model2vec")
# Networks and what drives them: imported by `load()`, `compute()` and training, not before.
NEURAL_ENGINES = (
    *("chatbots.models", "chatbots.training", "chatbots.generation.kv_cache", "chatbots.generation.decoding"),
    *("chatbots.generation.checkpoint_batch", "chatbots.generation.language_model"),
    *("chatbots.generation.prefill", "chatbots.generation.transformers_batch", "evaluation.models"),
    "evaluation.training",
)
REPORT = f"""
import json, sys
print(json.dumps(sorted(set(sys.modules) & set({HEAVY!r}))))
"""


def heavy_modules(code: str, **env: str) -> list[str]:
    """Run `code` in a fresh process and return the heavy modules loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT],
        cwd=ROOT,
        env={**_plain_environment(), **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _plain_environment() -> dict[str, str]:
    """Return this process's environment without any setting of Confab's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")}
    return {**kept, "DATABASE_URL": "", "REDIS_URL": ""}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a production web process on an SQLite file, with its static files."""
    folder = tmp_path_factory.mktemp("production")
    env = {
        "DJANGO_SETTINGS_MODULE": "webapp.settings.production",
        "CONFAB_SECRET_KEY": "production-test-" + "k3y" * 20,
        "CONFAB_HOSTS": "confab.example",
        "CONFAB_DATA_DIR": str(folder),
        "CONFAB_BOT_HOST_IN_PROCESS": "False",
    }
    shutil.copy(migrated_file(), folder / "confab.sqlite3")
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
        cwd=ROOT,
        env={**_plain_environment(), **env},
        check=True,
        timeout=600,
    )
    return env


def test_the_measure_sees_a_heavy_module() -> None:
    assert heavy_modules("import statsmodels") == ["statsmodels"]


def test_importing_the_two_lower_packages_loads_nothing_heavy() -> None:
    names = [m.name for m in modules("chatbots", "evaluation") if not m.name.startswith(NEURAL_ENGINES)]
    assert len(names) > 40
    assert heavy_modules(f"import importlib\nfor n in {names!r}: importlib.import_module(n)") == []


def test_listing_bots_and_metrics_loads_nothing_heavy() -> None:
    code = (
        "from chatbots.registry import bot_list\n"
        "from evaluation.metrics.registry import metric_list\n"
        "for bot in bot_list(): bot.identity.key, bot.unavailable_reason()\n"
        "for metric in metric_list(): metric.identity.key, metric.unavailable_reason()\n"
    )
    assert heavy_modules(code) == []


def test_a_production_web_process_loads_nothing_heavy(production: dict[str, str]) -> None:
    code = """
import webapp.asgi
from django.contrib.auth import get_user_model
from django.test import Client
from webapp.studies.lifecycle import demo_study_ensure
from webapp.bots.selectors import bot_entry_list

demo_study_ensure()
user = get_user_model().objects.create_superuser("admin", password="x")
person, staff = Client(), Client()
staff.force_login(user, backend="webapp.core.rights.ProjectBackend")
host = dict(secure=True, SERVER_NAME="confab.example")
assert person.get("/s/demo/", **host).status_code == 200
started = person.post("/s/demo/start/", {"consent": "on"}, **host)
assert started.status_code == 302, started
assert person.get(started["Location"], **host).status_code == 200
for page in ("/admin/", "/dashboard/", "/dashboard/bots/"):
    answer = staff.get(page, follow=True, **host)
    assert answer.status_code == 200, (page, answer.status_code)
assert bot_entry_list()
"""
    assert heavy_modules(code, **production) == []


def test_the_parent_of_a_celery_worker_loads_nothing_heavy(production: dict[str, str]) -> None:
    code = """
from webapp.celery import app
app.loader.import_default_modules()
assert any(name.startswith("webapp.runs.tasks.") for name in app.tasks), sorted(app.tasks)
"""
    assert heavy_modules(code, **production) == []
