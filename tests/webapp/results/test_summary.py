"""Summaries of ratings against the same numbers computed by hand."""

import numpy as np
import pytest
from django.core.cache import cache

from tests.builders import make_conversation, make_rating, make_study
from webapp.bots.services import bot_version_record_imported
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_bots
from webapp.results.bot_means import bot_summary

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


def test_means_counts_and_votes_are_those_of_the_rows() -> None:
    study = make_study("s")
    given: dict[str, list[int]] = {}
    for quality in (2, 5, 7, 3, 6, 1):
        conversation = make_conversation(study, n_exchanges=3)
        make_rating(conversation, quality=quality)
        Turn.objects.filter(conversation=conversation, index=1).update(vote=1)
        Turn.objects.filter(conversation=conversation, index=3).update(vote=-1)
        given.setdefault(conversation.bot.bot_id, []).append(quality)
    summary = bot_summary(study)
    assert summary.dimensions[0].key == "quality"
    assert {bot.bot.bot_id: bot.n_ratings for bot in summary.bots} == {
        bot_id: len(values) for bot_id, values in given.items()
    }
    for bot in summary.bots:
        values = given[bot.bot.bot_id]
        result = bot.intervals["quality"]
        assert result.mean == pytest.approx(np.mean(values))
        # Of the scale, and further than values of so few that happen to be close.
        assert 1 <= result.low < result.mean < result.high <= 7
        assert (bot.votes_up, bot.votes_down) == (len(values), len(values))
        assert bot.n_replies == 3 * len(values)
    means = [bot.intervals["quality"].mean for bot in summary.bots]
    assert means == sorted(means, reverse=True)


def test_failed_and_synthetic_conversations_count_only_when_asked_for() -> None:
    study = make_study("s")
    for kind in ("plain", "synthetic", "failed"):
        conversation = make_conversation(study, n_exchanges=3, is_synthetic=kind == "synthetic")
        make_rating(conversation)
        if kind == "failed":
            Conversation.objects.filter(pk=conversation.pk).update(state="failed")
    assert bot_summary(study).n_ratings == 1
    assert bot_summary(study, include_synthetic=True).n_ratings == 2
    assert bot_summary(study, include_failed=True).n_ratings == 2
    assert bot_summary(study, include_synthetic=True, include_failed=True).n_ratings == 3
    assert bot_summary(study).n_synthetic == 1


def test_a_new_rating_is_not_hidden_by_the_cache() -> None:
    study = make_study("s")
    make_rating(make_conversation(study, n_exchanges=3), quality=2)
    assert bot_summary(study).n_ratings == 1
    rating = make_rating(make_conversation(study, n_exchanges=3), quality=6).rating
    assert bot_summary(study).n_ratings == 2
    rating.delete()
    assert bot_summary(study).n_ratings == 1


def test_slots_follow_the_study_and_then_the_data() -> None:
    study = make_study("s", bots=["parrot", "eliza"])
    conversation = make_conversation(study, n_exchanges=3)
    Conversation.objects.filter(pk=conversation.pk).update(
        bot=bot_version_record_imported(bot_id="another", source="x")
    )
    bots = study_bots(study)
    assert [(bot.bot_id, bot.slot) for bot in bots.values()] == [("parrot", 1), ("eliza", 2), ("another", 3)]
    assert bots["parrot"].is_control


def test_bots_far_apart_are_ordered_and_close_ones_are_not() -> None:
    study = make_study("s", bots=["eliza"])
    versions = {name: bot_version_record_imported(bot_id=name, source="x") for name in ("low", "mid", "high")}
    given = {"low": [1, 2, 3] * 8, "mid": [5, 6, 7] * 8, "high": [5, 6, 7] * 8}
    for name, values in given.items():
        for value in values:
            conversation = Conversation.objects.create(
                source="import",
                state="completed",
                bot=versions[name],
                study=study,
                external_id=f"{name}{Conversation.objects.count()}",
            )
            Rating.objects.create(
                conversation=conversation,
                rubric=study.rubric,
                answers={"quality": value},
                submitted_at=conversation.created_at,
            )
    summary = bot_summary(study)
    assert summary.compared.too_close == [("high", "mid")]
    assert (summary.compared.n_told_apart, summary.compared.n_pairs) == (2, 3)


def test_unnamed_raters_are_not_taken_for_one_person() -> None:
    study = make_study("s", bots=["eliza"])
    version = bot_version_record_imported(bot_id="b", source="x")
    for number in range(6):
        conversation = Conversation.objects.create(
            source="import", state="completed", bot=version, study=study, external_id=str(number)
        )
        Rating.objects.create(
            conversation=conversation,
            rubric=study.rubric,
            rater="slot_1",
            answers={"quality": 1 + number},
            submitted_at=conversation.created_at,
        )
    (result,) = [bot for bot in bot_summary(study).bots if bot.bot.bot_id == "b"]
    interval = result.intervals["quality"]
    assert interval.low < 3.5 < interval.high
