"""Every step of every registered protocol in a preview: the real page, and nothing is stored."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.test import Client

from tests.builders import QUIZ, TRAINING_PAIR, make_staff, make_study
from webapp.core.rights import Right
from webapp.participant.access import Visit
from webapp.participant.preview.page import BEFORE_TASKS
from webapp.participant.preview.stage import standing_staged
from webapp.participant.steps.base import steps
from webapp.studies.models import Outcome, Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import participant_token

pytestmark = pytest.mark.django_db

QUESTIONS = [{"key": "age", "title": "How old are you?", "kind": "text"}]
STEPS = [(name, step.name) for name in protocols.names() for step in protocols.get(name).steps]


def draft(protocol: str) -> Study:
    """Return a study that has questions, practice and neither bots nor items."""
    study = make_study(
        protocol=protocol,
        state="draft",
        bots=[],
        questions=QUESTIONS,
        training_pairs=[TRAINING_PAIR],
        quiz_questions=QUIZ,
    )
    return Study.objects.get(pk=study.pk)


@pytest.fixture
def staff() -> Client:
    client = Client()
    client.force_login(make_staff(Right.READ, Right.PAY))
    return client


def rows() -> dict[str, int]:
    managed = [model for model in apps.get_models() if model._meta.managed]
    return {model._meta.label: model._base_manager.count() for model in managed}


def main_of(page: bytes) -> str:
    """Return what the page shows, without what differs from visit to visit."""
    html = page.decode().split("<main", 1)[1].split("</main>", 1)[0]
    html = re.sub(
        r'(value|href|action|data-rate|data-report-url|data-token|datetime)="[^"]*"', "", html
    )
    html = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|AB\d{6}|\d\d:\d\d UTC", "·", html)
    return " ".join(html.split())


@pytest.mark.parametrize(("protocol", "step"), STEPS)
def test_a_preview_stores_nothing(protocol: str, step: str, staff: Client) -> None:
    study = draft(protocol)
    before, frozen = rows(), study.version.frozen_at
    for outcome in Outcome.values if step == "done" else [""]:
        page = staff.get(f"/preview/{study.key}/{step}/", {"outcome": outcome})
        assert page.status_code == 200, page.content.decode()[:500]
        assert not page.cookies
    assert rows() == before
    study.version.refresh_from_db()
    assert study.version.frozen_at == frozen


@pytest.mark.parametrize(("protocol", "step"), STEPS)
def test_a_preview_holds_what_the_real_page_holds(protocol: str, step: str, staff: Client) -> None:
    study = draft(protocol)
    shown = staff.get(f"/preview/{study.key}/{step}/")
    if step in BEFORE_TASKS:
        Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING)
        real = Client().get(f"/s/{study.key}/")
    else:
        standing = standing_staged(study, step, Outcome.RATED)
        visit = Visit(participant_token(standing.participant), standing.participant)
        real = Client().get(steps.get(step).address(standing, visit))
    assert real.status_code == 200
    assert main_of(shown.content) == main_of(real.content)
