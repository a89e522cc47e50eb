"""The database refuses answers that are not on the scale of their question, whoever writes them."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from tests.builders import make_annotated, make_conversation, make_participant, make_rating, make_study
from webapp.ratings.apps import triggers_ensure
from webapp.ratings.models import Rating
from webapp.studies.models import Dimension, Rubric
from webapp.studies.services import task_open

pytestmark = pytest.mark.django_db


@pytest.fixture
def given() -> dict[str, Any]:
    """Return the fields of a rating of an item whose rubric has a question of its own scale, from 0 to 3."""
    study = make_annotated()
    task = task_open(participant=make_participant(study))
    rubric = Rubric.objects.create(name="grades", low=1, high=5)
    Dimension.objects.create(rubric=rubric, key="coherence", question="?", title="c")
    Dimension.objects.create(rubric=rubric, key="grade", question="?", title="g", low=0, high=3)
    return {
        "task": task,
        "participant": task.participant,
        "item": task.slots.all()[0].item,
        "rubric": rubric,
        "submitted_at": timezone.now(),
    }


@pytest.mark.parametrize(
    "answers",
    [
        {"coherence": 6},
        {"coherence": 0},
        {"coherence": 3, "grade": 4},
        {"grade": -0.5},
        {"coherence": "3"},
        {"coherence": True},
        {"coherence": [3]},
        {"direction": 2},
        {"direction": 0.5},
        {"reference_score": 6},
        {"reference_score": "4"},
    ],
)
def test_an_answer_beyond_its_scale_is_refused(given: dict[str, Any], answers: Any) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.create(**given, answers=answers)
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.bulk_create([Rating(**given, answers=answers)], ignore_conflicts=True)
    rating = Rating.objects.create(**given)
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.filter(pk=rating.pk).update(answers=answers)
    rating.refresh_from_db()
    assert rating.answers == {}


def test_what_is_on_the_scale_is_stored(given: dict[str, Any]) -> None:
    answers = {"coherence": 1, "grade": 0, "direction": -1, "reference_score": 5, "more": "words"}
    rating = Rating.objects.create(**given, answers=answers)
    Rating.objects.filter(pk=rating.pk).update(answers={"coherence": 4.5, "grade": None})
    wider = Rubric.objects.create(name="wider", low=4, high=9)
    Dimension.objects.create(rubric=wider, key="coherence", question="?", title="c")
    Rating.objects.filter(pk=rating.pk).update(rubric=wider)
    narrower = Rubric.objects.create(name="narrower", low=5, high=9)
    Dimension.objects.create(rubric=narrower, key="coherence", question="?", title="c")
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.filter(pk=rating.pk).update(rubric=narrower)


def test_ratings_of_chats_are_held_to_it_too() -> None:
    rating = make_rating(make_conversation(make_study(), n_exchanges=3)).rating
    with pytest.raises(IntegrityError), transaction.atomic():
        Rating.objects.filter(pk=rating.pk).update(answers={"quality": 8})


@pytest.mark.django_db(transaction=True)
def test_migrations_that_change_the_tables_leave_it_in_force() -> None:
    """SQLite rewrites the table for these, which takes its triggers along."""
    call_command("migrate", "ratings", "0004", verbosity=0)
    call_command("migrate", "ratings", verbosity=0)
    triggers_ensure(using="default")  # again, to no harm
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'rating_answers%'")
        else:
            cursor.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'rating_answers%'")
        assert cursor.fetchone()[0] == 2
