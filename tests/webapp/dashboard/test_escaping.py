"""Markup in the name of a bot, a study or a rater is shown as text on every page of a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from webapp.dashboard.urls import urlpatterns

pytestmark = pytest.mark.django_db
MARKUP = "<b>bold</b>"
NOT_HERE = ("study_people_now", "study_report_file", "study_spread")
"""Parts of pages, and a file that nobody has asked for yet: 404 for this study."""
OF_A_STUDY = [
    pattern.name
    for pattern in urlpatterns
    if pattern.name
    and list(pattern.pattern.converters) == ["key"]
    and "GET" in pattern.callback.rights
    and pattern.name not in NOT_HERE
]


@pytest.fixture
def staff(tmp_path: Path) -> Client:
    """Return an administrator's browser; the study `m` has a bot and a rater whose names hold markup."""
    lines = [
        {
            "dialogue_id": f"{bot}{number}",
            "bot": bot,
            "source": "made",
            "turns": [{"speaker": "human", "text": f"hello {MARKUP}"}, {"speaker": "bot", "text": f"hi {MARKUP}"}],
            "ratings": [{"rater": f"{MARKUP}{number}", "quality": 1 + number % 5}],
        }
        for bot in (MARKUP, "plain", "third")
        for number in range(6)
    ]
    file = tmp_path / "marked.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    call_command("import_conversations", str(file), "--study", "m")
    client = Client()
    client.force_login(get_user_model().objects.create_superuser(MARKUP, password="a-long-password"))
    return client


def test_names_with_markup_are_text_on_every_page_of_a_study(staff: Client) -> None:
    n_pages = n_names = 0
    for name in OF_A_STUDY:
        answer = staff.get(reverse(f"dashboard:{name}", args=["m"]))
        if answer.status_code in (302, 405) or "html" not in answer["Content-Type"]:
            continue
        assert answer.status_code == 200, name
        html = answer.content.decode()
        assert MARKUP not in html, name
        n_pages += 1
        n_names += "&lt;b&gt;bold&lt;/b&gt;" in html
    assert n_pages > 7
    assert n_names > 4, "the names stand on pages, as text"
