"""Ratings: refused by the database off their scale, read as every analysis reads them, and given once."""

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.builders import make_annotated, make_conversation, make_participant, make_rating, make_study
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.selectors import raters_count, ratings_counted, study_ratings, study_whole
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Dimension, Rubric, Study
from webapp.studies.services import task_open
from webapp.transfer.import_file import import_conversations

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


def turn(study: Study, key: str) -> None:
    Dimension.objects.filter(rubric=study.rubric, key=key).update(reversed=True)


def test_a_reversed_question_counts_the_other_way_and_stays_as_it_was_given() -> None:
    study = make_study("s")
    rating = make_rating(make_conversation(study, n_exchanges=3), quality=6).rating
    bot = rating.conversation.bot.bot_id

    def mean() -> float | None:
        return {bot.bot.bot_id: bot for bot in bot_summary(study).bots}[bot].intervals["quality"].mean

    assert mean() == 6
    turn(study, "quality")
    assert mean() == 2
    ratings = study_ratings(study)
    assert ratings.values("quality").tolist() == [2]
    assert ratings.dimension("quality").title.endswith(", reversed")
    rating.refresh_from_db()
    assert rating.answers["quality"] == 6


def test_the_rater_of_a_second_rating_is_known_by_name_and_slots_are_nobody(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    turns = '[{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "ho"}]'
    rated = '[{"rater": "ann", "fun": 2}, {"rater": "ann", "fun": 4}, {"rater": "slot1", "fun": 5}]'
    path.write_text(f'{{"dialogue_id": "1", "bot": "b", "turns": {turns}, "ratings": {rated}}}\n')
    import_conversations(path, study_key="k", scale=(1, 7))
    study = Study.objects.get(key="k")
    ratings = study_ratings(study)
    assert Rating.objects.filter(participant=None).count() == 2
    assert ratings.is_named.tolist() == [True, True, False]
    assert len(set(ratings.unit[:2])) == 1
    assert ratings.n_raters == raters_count(ratings_counted(study)) == 1
    assert study_whole(study) == ratings.headline == ("fun",)


def test_a_scripted_rating_freezes_nothing() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3, is_synthetic=True)
    make_rating(conversation)
    rubric = conversation.study.rubric
    rubric.refresh_from_db()
    assert rubric.frozen_at is None


@pytest.mark.parametrize("wrong", [{"quality": 0}, {"quality": 8}, {"quality": 3.5}, {"quality": float("nan")}])
def test_values_off_the_scale_are_refused_by_name(wrong: dict[str, float]) -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    with pytest.raises(Refused) as refused:
        make_rating(conversation, **wrong)
    assert list(refused.value.details["errors"]) == ["quality"]
    assert not Rating.objects.exists()
