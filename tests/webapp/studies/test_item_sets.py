"""Sets of items and conversations are told apart, and taken out as far as no person has been given them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from evaluation.items import items_read
from tests.builders import make_items, make_participant, make_study
from webapp.conversations.imported_sets import imported_set_remove, imported_sets
from webapp.conversations.models import Conversation
from webapp.studies.examples import items_sample
from webapp.studies.items import gold_store, item_set_remove, item_sets, items_import, origin_of_file
from webapp.studies.lifecycle import items_bring
from webapp.studies.models import Item, Participant, Slot, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.study_file import FileItem
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.services import records_store

pytestmark = pytest.mark.django_db


def given(study: Study, *, is_synthetic: bool, **what: object) -> Slot:
    """Give somebody an item or a conversation."""
    person = make_participant(study, is_synthetic=is_synthetic)
    task = Task.objects.create(participant=person, version=study.version, kind="judge")
    return Slot.objects.create(task=task, **what)


def test_sets_are_told_apart_and_taken_out_but_for_what_people_were_given() -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft")
    sample = [FileItem.model_validate(one) for one in items_sample(protocols.get("annotate"))]
    items_bring(study, sample)
    make_items(study, 3)
    replies = [{"model": "m", "text": "yes"}]
    for key, origin in (
        ("grade/1", {}),
        ("chat/4/a", {"of_study": "talks"}),
        ("run/1/b", {"run": 7}),
        ("one", {"file": "monday.jsonl"}),
    ):
        Item.objects.create(study=study, key=key, responses=replies, origin=origin)
    assert [(one.name, one.n, one.n_given) for one in item_sets(study)] == [
        ("file", 3, 0),
        ("file:grade", 1, 0),
        ("file:monday.jsonl", 1, 0),
        ("run:7", 1, 0),
        ("sample", len(sample), 0),
        ("study:talks", 1, 0),
    ]

    mine, rehearsed, repeated = Item.objects.filter(key__startswith="example-").order_by("pk")[:3]
    given(study, is_synthetic=False, item=mine)
    given(study, is_synthetic=True, item=rehearsed)
    again = Item.objects.create(study=study, key="again", purpose="repeat", original=repeated, responses=replies)
    given(study, is_synthetic=False, item=again)
    Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING)
    with pytest.raises(ValidationError, match="Pause the study first"):
        item_set_remove(study=study, name="sample")
    Study.objects.filter(pk=study.pk).update(state=Study.State.PAUSED)
    assert item_set_remove(study=study, name="sample") == (len(sample) - 2, 2)
    assert [one.n_given for one in item_sets(study) if one.kind == "sample"] == [2]
    assert not Participant.objects.filter(is_synthetic=True).exists(), "its rehearsal went along"
    assert item_set_remove(study=study, name="file:grade") == (1, 0)
    with pytest.raises(ValidationError, match="gone already"):
        item_set_remove(study=study, name="file:grade")
    assert study.items.count() == 2 + 1 + 3 + 3


def test_another_file_of_the_same_name_is_another_set(tmp_path: Path) -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft")
    path = tmp_path / "items.jsonl"
    for key in ("a", "b", "a"):
        path.write_text(json.dumps({"id": key, "context": ["hi"], "response": "yes"}))
        origin = origin_of_file(study, path.name, path)
        items_import(study=study, lines=items_read(path), origin=origin)
    assert [(one.name, one.n) for one in item_sets(study)] == [("file:items.jsonl", 1), ("file:items.jsonl (2)", 1)]
    path.write_text("\n".join(json.dumps({"id": key, "context": ["hi"], "response": "yes"}) for key in "bc"))
    origin = origin_of_file(study, path.name, path)
    items_import(study=study, lines=items_read(path), origin=origin)
    assert [(one.name, one.n) for one in item_sets(study)][2:] == [("file:items.jsonl (3)", 1)]


def test_gold_items_of_what_is_not_asked_any_more_are_named() -> None:
    study = make_study("s", protocol="annotate", bots=[], state="draft", n_gold=1)
    [item] = make_items(study, 1)
    key = study.rubric.dimensions.first().key
    gold_store(item=item, expected={key: [1]})
    study_edit(study=study, n_gold=1)
    Item.objects.filter(pk=item.pk).update(expected={"warmth": [1]})
    with pytest.raises(ValidationError, match="Gold item “i0”: an answer to “warmth” is expected"):
        study_edit(study=study, n_gold=2)
    study_edit(study=study, n_gold=0)


def test_conversations_are_taken_out_but_for_those_that_something_hangs_on() -> None:
    study = make_study("s", protocol="turns", bots=[], state="draft")
    records_store(study=study, records=conversations_sample())
    mine, rehearsed, drawn = Conversation.objects.order_by("external_id")[:3]
    given(study, is_synthetic=False, conversation=mine)
    given(study, is_synthetic=True, conversation=rehearsed)
    other = make_study("o", protocol="annotate", bots=[], state="draft")
    replies = [{"model": "m", "text": "yes"}]
    Item.objects.create(study=other, key="1", responses=replies, conversation=drawn)
    [found] = imported_sets(study)
    assert (found.name, found.n, found.n_given) == ("sample", 6, 2)
    assert imported_set_remove(study=study, name="sample") == (4, 2)
    assert {*study.conversations.all()} == {mine, drawn}
    assert not Participant.objects.filter(is_synthetic=True).exists()
