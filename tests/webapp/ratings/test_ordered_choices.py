"""Choices of the best and the worst reply, as they are read for results."""

import pytest

from tests.builders import make_items, make_participant, make_study
from webapp.ratings.models import Rating
from webapp.ratings.ordered_choices import read_choices
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.models import Item, Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def test_choices_are_read_while_the_item_has_their_replies() -> None:
    study = make_study("a", protocol="best_worst", bots=[], state=Study.State.DRAFT, n_items=2)
    replies = [{"model": model, "text": f"reply of {model}"} for model in "abcd"]
    items = make_items(study, 2, responses=replies)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    task = task_open(participant=make_participant(study))
    for request in requested_ratings(task):
        rating_add(task=task, target=request.target, answers={"best": 2, "between_1": 0, "between_2": 3, "worst": 1})
    order = get_protocol(study).order
    choices = read_choices(Rating.objects.all(), order)
    assert [list(row) for row in choices.bot] == [["c", "a", "d", "b"]] * 2
    Item.objects.filter(pk=items[0].pk).update(responses=replies[:3])
    [names] = read_choices(Rating.objects.all(), order).reply.tolist()
    assert {name.partition("/")[0] for name in names} == {items[1].key}
