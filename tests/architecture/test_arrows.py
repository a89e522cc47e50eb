"""Imports point one way: between the packages, and between the apps of `webapp`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.arrows import APPS, DOORS, breaches, is_wiring
from tests.architecture.source import ROOT, modules, parse


def test_no_import_points_the_wrong_way() -> None:
    results = [line for module in modules() for line in breaches(module)]
    assert not results, "\n".join(results)


def test_every_app_has_its_place_in_the_order() -> None:
    apps = {path.parent.name for path in (ROOT / "webapp").glob("*/apps.py")}
    assert apps == set(APPS)


def test_insights_has_no_pages() -> None:
    folder = ROOT / "webapp" / "insights"
    pages = [
        *folder.rglob("templates"),
        *folder.rglob("static"),
        *folder.rglob("templatetags"),
        *folder.rglob("*.html"),
    ]
    assert pages == []
    doors = [module.where for module in modules("webapp.insights") if DOORS.intersection(module.name.split("."))]
    assert doors == []


def test_every_module_of_webapp_belongs_to_an_app_or_is_wiring() -> None:
    stray = [
        module.name
        for module in modules("webapp")
        if module.name != "webapp" and not is_wiring(module.name) and module.name.split(".")[1] not in APPS
    ]
    assert stray == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chatbots.bots.x", "import evaluation.data.tables"),
        ("chatbots.bots.x", "def load():\n    from django.conf import settings"),
        ("evaluation.x", "from webapp.core import errors"),
        ("webapp.bots.x", "from webapp.studies.models import Study"),
        ("webapp.bots.x", "def late():\n    import webapp.studies.models"),
        ("webapp.dashboard.x", "from webapp.participant.access import owner"),
        ("webapp.api.x", "from webapp.dashboard.navigation import TABS"),
        ("webapp.insights.x", "from webapp.dashboard.filters import MARK"),
        ("webapp.insights.x", "from django.shortcuts import render"),
        ("webapp.insights.x", "from django.template.loader import render_to_string"),
        ("webapp.ratings.x", "from webapp.core.views import healthz"),
        ("webapp.ratings.x", "from webapp.core import views"),
        ("webapp.core.x", "import webapp.asgi"),
        ("webapp.core.x", "from ..settings import base"),
        ("webapp.core.x", "if TYPE_CHECKING:\n    from webapp.bots.models import BotVersion"),
        ("webapp.jobs.x", "from tests.fakes import SlowBot"),
    ],
)
def test_a_wrong_import_is_found(name: str, text: str, tmp_path: Path) -> None:
    module = parse(name, text, tmp_path / "x.py")
    assert len(list(breaches(module))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evaluation.x", "from chatbots import Conversation"),
        ("webapp.jobs.x", "from webapp.ratings.selectors import study_ratings"),
        ("webapp.jobs.x", "from webapp.jobs.tasks import selfplay_slice"),
        ("webapp.jobs.tasks", "from webapp.celery import app"),
        ("webapp.asgi", "from webapp.participant.consumers import websocket_urlpatterns"),
    ],
)
def test_a_right_import_is_left_alone(name: str, text: str, tmp_path: Path) -> None:
    module = parse(name, text, tmp_path / "x.py")
    assert list(breaches(module)) == []
