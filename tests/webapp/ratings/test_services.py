from __future__ import annotations

import pytest

from tests.builders import make_conversation, make_participant, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.services import rating_submit
from webapp.studies.models import Task

pytestmark = pytest.mark.django_db


def test_rating_closes_the_chat_and_gives_a_code() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    outcome = make_rating(conversation, quality=6)
    conversation.refresh_from_db()
    assert outcome.rating.answers["quality"] == 6
    assert conversation.state == Conversation.State.COMPLETED
    assert outcome.task.state == Task.State.COMPLETED
    assert len(outcome.task.completion_code) == 7
    conversation.study.rubric.refresh_from_db()
    assert conversation.study.rubric.frozen_at is not None


def test_a_scripted_rating_freezes_nothing() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3, is_synthetic=True)
    make_rating(conversation)
    rubric = conversation.study.rubric
    rubric.refresh_from_db()
    assert rubric.frozen_at is None


def test_second_submission_changes_nothing() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    first = make_rating(conversation, quality=6)
    second = make_rating(conversation, quality=1)
    assert not second.created
    assert second.rating == first.rating
    assert second.rating.answers["quality"] == 6
    assert second.task.completion_code == first.task.completion_code
    assert Rating.objects.count() == 1


def test_too_early_and_not_mine() -> None:
    study = make_study()
    early = make_conversation(study, n_exchanges=2)
    with pytest.raises(Refused) as refused:
        make_rating(early)
    assert refused.value.code == "too_early"
    ready = make_conversation(study, n_exchanges=3)
    with pytest.raises(Refused) as refused:
        rating_submit(conversation=ready, participant=make_participant(study), answers={})
    assert refused.value.code == "not_found"


@pytest.mark.parametrize("wrong", [{"quality": 0}, {"quality": 8}, {"quality": 3.5}, {"quality": float("nan")}])
def test_values_off_the_scale_are_refused_by_name(wrong: dict[str, float]) -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    with pytest.raises(Refused) as refused:
        make_rating(conversation, **wrong)
    assert list(refused.value.details["errors"]) == ["quality"]
    assert not Rating.objects.exists()


def test_missing_and_unknown_questions_are_refused() -> None:
    conversation = make_conversation(make_study(), n_exchanges=3)
    with pytest.raises(Refused) as refused:
        rating_submit(
            conversation=conversation, participant=conversation.participant, answers={"quality": 4, "beauty": 2}
        )
    assert set(refused.value.details["errors"]) == {"beauty", "fluency", "diversity", "contingency", "empathy"}
