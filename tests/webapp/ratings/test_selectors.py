"""A study's ratings as every analysis reads them: which way a question counts, and who is one rater."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import make_conversation, make_rating, make_study
from webapp.ratings.models import Rating
from webapp.ratings.selectors import raters_count, ratings_counted, study_ratings, study_whole
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Dimension, Study
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def turn(study: Study, key: str) -> None:
    Dimension.objects.filter(rubric=study.rubric, key=key).update(reversed=True)


def test_a_reversed_question_counts_the_other_way_and_stays_as_it_was_given() -> None:
    study = make_study("s")
    rating = make_rating(make_conversation(study, n_exchanges=3), quality=6).rating
    bot = rating.conversation.bot.bot_id

    def mean() -> float | None:
        return {one.bot.bot_id: one for one in bot_summary(study).bots}[bot].intervals["quality"].mean

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
    assert ratings.named.tolist() == [True, True, False]
    assert len(set(ratings.unit[:2])) == 1
    assert ratings.n_raters == raters_count(ratings_counted(study)) == 1
    assert study_whole(study) == ratings.headline == ("fun",)
