"""The stock admin: bots to tick, rubrics that freeze, records that are only read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.admin_form import form_of
from tests.builders import make_conversation, make_rating, make_study
from tests.webapp.dashboard.conftest import rate_some
from webapp.studies.forms import StudyForm
from webapp.studies.models import Rubric, Study


@pytest.fixture
def chief(db: Any) -> Client:
    """Return a superuser's browser."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("chief", password="x"))
    return client


def test_a_study_is_made_with_ticked_bots_and_the_usual_questions(chief: Client) -> None:
    address = reverse("admin:studies_study_add")
    data = {**form_of(chief, address), "name": "New", "key": "newer", "bots": ["parrot", "eliza"]}
    answer = chief.post(address, data)
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    study = Study.objects.get(key="newer")
    assert set(study.bots) == {"eliza", "parrot"}
    assert study.rubric.dimensions.count() == 5


def test_a_bot_keeps_its_place_when_others_are_added(chief: Client) -> None:
    study = make_study("s", bots=["parrot", "eliza"])
    address = reverse("admin:studies_study_change", args=[study.pk])
    data = {**form_of(chief, address), "bots": ["generic", "eliza", "parrot"]}
    assert chief.post(address, data).status_code == 302
    study.refresh_from_db()
    assert study.bots == ["parrot", "eliza", "generic"]
    refused = chief.post(address, {**data, "bots": ["nobody"]})
    assert refused.status_code == 200
    assert "nobody is not one of the available choices" in refused.content.decode()


def test_an_answered_rubric_cannot_change_but_gets_a_new_version(chief: Client) -> None:
    study = make_study("s")
    make_rating(make_conversation(study, n_exchanges=3))
    rubric = Rubric.objects.get()
    assert rubric.frozen_at is not None
    address = reverse("admin:studies_rubric_change", args=[rubric.pk])
    html = chief.get(address).content.decode()
    assert 'name="low"' not in html
    assert 'name="dimensions-0-question"' not in html
    chief.post(address, {"low": 0, "high": 3, "name": "x"})
    rubric.refresh_from_db()
    assert (rubric.low, rubric.high) == (1, 7)
    chief.post(
        reverse("admin:studies_rubric_changelist"),
        {"action": "new_version", "_selected_action": [rubric.pk]},
    )
    made = Rubric.objects.get(version=2)
    assert made.frozen_at is None
    assert made.dimensions.count() == 5
    open_form = chief.get(reverse("admin:studies_rubric_change", args=[made.pk])).content.decode()
    assert 'name="dimensions-0-question"' in open_form


def test_a_value_without_a_field_of_its_own_stays(chief: Client) -> None:
    study = make_study("s", minutes=23, bots=["parrot"])
    address = reverse("admin:studies_study_change", args=[study.pk])
    data = {**form_of(chief, address), "title": "Other"}
    form = StudyForm(data, instance=Study.objects.get(key="s"))
    del form.fields["minutes"]
    assert form.is_valid(), form.errors
    assert (form.values.texts.title, form.values.texts.minutes) == ("Other", 23)


@pytest.mark.parametrize(
    "name",
    [
        "studies_study",
        "studies_rubric",
        "studies_participant",
        "studies_task",
        "conversations_conversation",
        "ratings_rating",
        "bots_botversion",
    ],
)
def test_lists_ask_as_often_for_more_rows(chief: Client, name: str) -> None:
    study = make_study("s")
    rate_some(study, 2)
    address = reverse(f"admin:{name}_changelist")

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert chief.get(address).status_code == 200
        return len(queries)

    count()
    before = count()
    rate_some(study, 5)
    assert count() == before


def test_texts_are_read_and_not_written(chief: Client) -> None:
    conversation = make_conversation(make_study("s"), n_exchanges=2)
    address = reverse("admin:conversations_conversation_change", args=[conversation.pk])
    html = chief.get(address).content.decode()
    assert "message 0" in html
    assert "<textarea" not in html
    assert chief.post(address, {"state": "withdrawn"}).status_code == 403
    assert chief.get(reverse("admin:conversations_conversation_add")).status_code == 403
