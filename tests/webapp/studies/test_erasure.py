"""Erasing a person: nothing of them stays, in no table and no export, and all else stays."""

import json
import threading
import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.metrics.base import MetricTable
from tests.builders import exchange, make_conversation, make_rating, make_study
from webapp.bots.selectors import text_store
from webapp.conversations import services
from webapp.conversations.models import Conversation, DistressMark, ReplyMark, Turn
from webapp.conversations.services import reply_report, vote_set
from webapp.core.errors import Refused
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.jobs.services.fits import metric_results_store
from webapp.pay.platform_status import WebhookEvent, event_take, platform_visits_store
from webapp.pay.prolific import ProlificSubmission
from webapp.pay.services import visits_approve
from webapp.pay.submissions import SubmissionKey
from webapp.ratings.models import Rating
from webapp.studies.messages import message_send
from webapp.studies.models import Participant, Study, Task
from webapp.studies.pre_task import question_answers_store
from webapp.studies.privacy import erasure_counts, participants_erase
from webapp.transfer.exporters.base import ExportOptions, exporter_list
from webapp.transfer.import_file import import_conversations

SECRET = "XSECRETX"


def make_person(study: Study, secret: str = SECRET) -> Participant:
    """Make somebody who chatted, voted and rated, whose every word holds `secret`."""
    conversation = make_conversation(
        study, platform="prolific", external_id=f"pid-{secret}", recruitment={"SESSION_ID": secret}
    )
    for n in range(3):
        exchange(conversation, f"{secret} says {n}", f"to {secret} {n}")
    vote_set(conversation_id=conversation.pk, turn_index=1, value=1)
    reply = Turn.objects.get(conversation=conversation, index=1)
    reply_report(participant=conversation.participant, turn=reply, reason="other", words=f"{secret} found")
    DistressMark.objects.create(turn=reply, source="phrases")
    ReplyMark.objects.create(turn=reply, filter="phrases", identity={}, found=[secret], reason="")
    question_answers_store(task=conversation.task, answers={"home": f"in {secret}"})
    message_send(participant=conversation.participant, text=f"{secret} asks")
    conversation.refresh_from_db()
    rating = make_rating(conversation).rating
    key = SubmissionKey(conversation.participant_id, conversation.participant.submission)
    visits_approve(study=study, keys=[key])
    submission = ProlificSubmission(conversation.participant.submission, "APPROVED", "C1")
    platform_visits_store(study=study, submissions=[submission])
    event = WebhookEvent(f"e-{secret}", f"s-{secret}", timezone.now(), submission.id, "APPROVED")
    assert event_take(study_key=study.key, event=event) == "taken"
    Rating.objects.filter(pk=rating.pk).update(comment=f"{secret} thinks")
    version, _ = MetricVersion.objects.get_or_create(key="k", name="words", version="1")
    MetricResult.objects.create(conversation=conversation, metric=version, values={"words_bot": 2})
    assert conversation.participant is not None
    return conversation.participant


def exported(study: Study) -> str:
    """Export all tables with everything that can be asked for."""
    options = ExportOptions(include_synthetic=True, include_failed=True, include_private=True)
    rows = [list(exporter.rows(study, options)) for exporter in exporter_list()]
    return json.dumps(rows, default=str)


@pytest.mark.django_db
def test_a_person_is_erased_everywhere_and_others_stay() -> None:
    study = make_study(questions=[{"key": "home", "title": "Where do you live?", "kind": "text"}])
    person, other = make_person(study), make_person(study, "YOTHERY")
    assert SECRET in exported(study)
    other_has = erasure_counts(Participant.objects.filter(pk=other.pk))
    removed = participants_erase(participants=Participant.objects.filter(pk=person.pk))
    assert removed == {
        "participants": 1,
        "platform_ids": 1,
        "pay_decisions": 1,
        "platform_visits": 1,
        "hook_events": 1,
        "tasks": 1,
        "breakages": 0,
        "whereabouts": 0,
        "question_answers": 1,
        "origin_marks": 0,
        "quiz_attempts": 0,
        "training_answers": 0,
        "messages": 1,
        "images": 0,
        "conversations": 1,
        "turns": 6,
        "typing": 0,
        "chat_check_answers": 0,
        "votes": 1,
        "flags": 1,
        "reports": 1,
        "distress": 1,
        "marks": 1,
        "reader_notes": 0,
        "ratings": 1,
        "metric_results": 1,
        "redaction_hits": 0,
    }
    result = exported(study)
    assert SECRET not in result
    assert str(person.pk) not in result
    assert "YOTHERY" in result
    assert erasure_counts(Participant.objects.filter(pk=other.pk)) == other_has
    assert (Conversation.objects.count(), Turn.objects.count(), Rating.objects.count()) == (1, 6, 1)
    assert (MetricResult.objects.count(), Task.objects.count()) == (1, 1)


@pytest.mark.django_db
def test_what_encoders_made_of_a_persons_texts_goes_too(django_capture_on_commit_callbacks: Any) -> None:
    person = make_person(make_study())
    turns = list(Turn.objects.filter(conversation__participant=person).values_list("text", flat=True))
    row = np.ones(3, dtype=np.float32)
    text_store().put("an encoder", {**dict.fromkeys(turns, row), "said by others": row})
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.all())
    assert text_store().get("an encoder", [*turns, "said by others"]).keys() == {"said by others"}


def test_whatever_belongs_to_a_person_goes_with_them() -> None:
    """A model that comes later and points at a person, or at their chat, must cascade."""
    for owner in (Participant, Conversation, Task):
        for relation in apps.get_model(owner._meta.label)._meta.related_objects:
            if (relation.related_model, owner) == (Conversation, Task):
                continue  # belongs to the participant itself
            assert relation.on_delete is models.CASCADE, relation


@pytest.mark.django_db
def test_an_imported_rater_goes_with_all_ratings_of_that_name(tmp_path: Path) -> None:
    line = {
        "dialogue_id": "1",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
        "ratings": [{"rater": name, "quality": 4} for name in ("ann", "ann", "bob")],
    }
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(line))
    import_conversations(path, study_key="i", scale=(1, 7))
    removed = erase("i", "--external-id", "ann")
    assert (removed["participants"], removed["ratings"], removed["turns"]) == (1, 2, 0)
    assert list(Rating.objects.values_list("rater", flat=True)) == ["bob"]


def erase(study: str, *who: str) -> dict[str, int]:
    out = StringIO()
    call_command("erase", "--study", study, *who, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())["removed"]


@pytest.mark.django_db
def test_the_command_names_whom_it_does_not_find() -> None:
    study = make_study()
    person = make_person(study)
    other = make_study("other")
    for who, said in [
        (("--participant", str(uuid.uuid4())), "study 's' has no participant with the id"),
        (("--external-id", "nobody"), "with the recruitment id 'nobody'"),
    ]:
        with pytest.raises(CommandError, match=said) as error:
            erase("s", *who)
        assert error.value.returncode == 1
    with pytest.raises(CommandError, match="there is no study 'nope'"):
        erase("nope", "--external-id", "x")
    with pytest.raises(CommandError, match="no participant"):
        erase(other.key, "--participant", str(person.pk))
    make_conversation(study)  # somebody without an id
    with pytest.raises(CommandError, match="is empty") as error:
        erase("s", "--external-id", "")
    assert error.value.returncode == 2
    assert Participant.objects.count() == 2
    assert erase("s", "--participant", str(person.pk))["turns"] == 6


def test_a_persons_page_counts_what_goes_and_erases_it(chief: Client) -> None:
    study, other = make_study(), make_study("t")
    person = make_person(study, "Z0Z")
    address = reverse("dashboard:study_person_erase", args=[study.key, person.pk])
    shown = chief.get(address)
    assert shown.status_code == 200
    assert "<dt>Messages and replies</dt><dd>6</dd>" in shown.content.decode()
    assert chief.post(reverse("dashboard:study_person_erase", args=[other.key, person.pk])).status_code == 404
    assert Participant.objects.count() == 1
    assert chief.post(address).status_code == 302
    assert "Z0Z" not in exported(study)
    for model in (Participant, Task, Conversation, Turn, Rating, MetricResult):
        assert not model.objects.exists(), model
    assert chief.post(address).status_code == 404


@pytest.mark.django_db
def test_what_comes_late_finds_nobody() -> None:
    conversation = make_conversation(make_study())
    services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hi")
    lease = uuid.uuid4()
    services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    participants_erase(participants=Participant.objects.all())
    assert services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="ho") is None
    assert services.reply_fail(conversation_id=conversation.pk, lease=lease, error="x") is None
    assert services.reply_give_up(conversation_id=conversation.pk) is None
    for late in (
        lambda: services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hi"),
        lambda: vote_set(conversation_id=conversation.pk, turn_index=1, value=1),
    ):
        with pytest.raises(Refused):
            late()
    version = MetricVersion.objects.create(key="k", name="words", version="1")
    rows = pd.DataFrame({"words_bot": [1.0]}, index=[str(conversation.pk)])
    turns = pd.DataFrame({"words": []}, index=pd.MultiIndex.from_arrays([[], []]))
    table = MetricTable(turns=turns, conversations=rows, reasons={})
    assert metric_results_store(version=version, table=table, n_turns={}) == 0


@pytest.mark.postgres  # the test database of SQLite is in memory, where writers do not wait for each other
@pytest.mark.django_db(transaction=True)
def test_a_person_who_writes_while_being_erased_leaves_nothing() -> None:
    conversation = make_conversation(make_study())
    errors: list[Exception] = []

    def write() -> None:
        try:
            for n in range(20):
                exchange_or_gone(conversation, n)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    participants_erase(participants=Participant.objects.all())
    writer.join()
    assert not errors
    assert not Turn.objects.exists()
    assert not Conversation.objects.exists()


def exchange_or_gone(conversation: Conversation, n: int) -> None:
    """Send a message, as long as the chat is there."""
    try:
        services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=f"message {n}")
    except Refused as refused:
        if refused.code == "not_found":
            return
        lease = uuid.uuid4()
        services.reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
        services.turn_add_bot(conversation_id=conversation.pk, lease=lease, text="ho")
