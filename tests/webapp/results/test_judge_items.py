"""The database keeps test items out of a judge's examples, and one split for each question of a set."""

import pytest
from django.db import IntegrityError, transaction

from webapp.results.models import JudgeDevelopment, JudgeItem

pytestmark = pytest.mark.django_db


def develop(**fields: object) -> JudgeDevelopment:
    named = {"file": "a.jsonl", "title": "a", "most": 300, "seed": "s", "test_share": 0.5}
    return JudgeDevelopment.objects.create(**{**named, **fields})


def test_a_test_item_cannot_be_corrected() -> None:
    development = develop()
    rows = [
        JudgeItem.objects.create(development=development, digest=part, part=part) for part in ("development", "test")
    ]
    JudgeItem.objects.filter(pk=rows[0].pk).update(score=3)
    with pytest.raises(IntegrityError), transaction.atomic():
        JudgeItem.objects.filter(pk=rows[1].pk).update(score=3)
    with pytest.raises(IntegrityError), transaction.atomic():
        JudgeItem.objects.filter(pk=rows[0].pk).update(part="test")


@pytest.mark.parametrize("fields", [{}, {"file": "", "question": "q"}, {"question": "q", "test_share": 0.05}])
def test_a_second_split_and_one_without_data_or_parts_are_refused(fields: dict[str, object]) -> None:
    develop()
    with pytest.raises(IntegrityError), transaction.atomic():
        develop(**fields)
