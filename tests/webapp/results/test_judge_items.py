"""The database keeps test items out of a judge's examples, and one split for each question of a set."""

import pytest
from django.db import IntegrityError, transaction

from tests.builders import make_conversation, make_study
from webapp.core.models import Project
from webapp.core.project_scope import in_project
from webapp.results.judge_versions import corrections_erase
from webapp.results.models import JudgeDevelopment, JudgeItem
from webapp.studies.models import Study
from webapp.studies.project_moves import study_moved

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


def test_corrections_of_chats_and_of_their_replies_are_erased_with_the_chat() -> None:
    study = make_study("talk")
    chat, erased = make_conversation(study), make_conversation(study)
    development = develop(study=study, file="")
    keys = [key for pk in (chat.pk, erased.pk) for key in (str(pk), f"talk/{pk}/1 eliza")]
    for n, key in enumerate([*keys, "talk/imported"]):
        JudgeItem.objects.create(development=development, digest=str(n), key=key, part="development")
    erased.delete()
    corrections_erase([study.pk])
    assert list(development.items.values_list("key", flat=True)) == [*keys[:2], "talk/imported"]


def test_a_development_moves_to_the_new_project_of_its_study() -> None:
    Project.objects.create(key="lab", name="Lab")
    study = make_study("talk")
    development = develop(study=study, file="")
    study.project_id = "lab"
    study.save()
    study_moved.send(sender=Study, study=study)
    with in_project("lab"):
        assert JudgeDevelopment.objects.get() == development
    with in_project("default"):
        assert not JudgeDevelopment.objects.exists()
