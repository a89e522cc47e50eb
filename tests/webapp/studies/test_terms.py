"""What people agreed to stays as it was: versions, kept texts, copies, studies that may open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tests.builders import exchange, fail_reply, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.services import conversation_swap
from webapp.core.errors import Refused
from webapp.studies.models import ConsentText, Dimension, Participant, Study, StudyVersion
from webapp.studies.privacy import AGREED_KEYS
from webapp.studies.rubrics import rubric_create, rubric_default
from webapp.studies.selectors import participant_token
from webapp.studies.services import study_copy, study_create
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def refused(study: Study, **changes: Any) -> dict[str, list[str]]:
    """Return what is said of the change; nothing is stored."""
    with transaction.atomic():
        try:
            study_edit(study=Study.objects.get(pk=study.pk), **changes)
        except ValidationError as error:
            return error.message_dict
        transaction.set_rollback(True)
    return {}


CHANGES: dict[str, Any] = {
    "bots": ["eliza"],
    "min_exchanges": 1,
    "consent_text": "Another one.",
    "title": "Something else",
    "payment": "£1.00 per chat",
    "promises_pay_on_failure": False,
    "n_conversations_wanted": 500,
    "code_rated": "C1A2B3C4",
}


@pytest.mark.parametrize("field", CHANGES)
def test_an_edit_after_somebody_agreed_makes_a_version_and_those_under_way_stay_on_theirs(field: str) -> None:
    study = make_study(payment="£1.40 per chat")
    assert study_edit(study=study, minutes=9).version.number == 1, "nobody agreed to the first"
    make_conversation(study, is_synthetic=True)  # a rehearsal is no agreement
    assert study_edit(study=study, minutes=10).version.number == 1
    before = make_conversation(study)
    edited = study_edit(study=study, **{field: CHANGES[field]})
    assert edited.version.number == 2
    assert study_edit(study=edited, state=Study.State.PAUSED).version.number == 2
    study_edit(study=edited, state=Study.State.COLLECTING)
    after = make_conversation(study)
    before.refresh_from_db()
    assert (before.task.version.number, after.task.version.number) == (1, 2)
    first, second = before.task.version, after.task.version
    assert first.values.flat()[field] == make_values(study, 1)[field] != CHANGES[field]
    assert second.values.flat()[field] == CHANGES[field]
    assert first.digest != second.digest
    assert first.frozen_at is not None


def make_values(study: Study, number: int) -> dict[str, Any]:
    """Return what a version said, as it is stored."""
    return StudyVersion.objects.get(study=study, number=number).values.flat()


def test_a_chat_under_way_keeps_its_limits_questions_and_promises(client: Client) -> None:
    study = make_study(payment="£1.40", min_exchanges=3, max_exchanges=4)
    conversation = make_conversation(study, n_exchanges=3, platform="", entry_nonce="n")
    token = participant_token(conversation.participant)
    edited = study_edit(study=study, min_exchanges=5, max_exchanges=9, title="New", promises_pay_on_failure=False)
    page = client.get(f"/chat/{conversation.pk}/?t={token}").content.decode()
    assert 'data-min-exchanges="3" data-max-exchanges="4"' in " ".join(page.split())
    assert "Finish early with pay" in page
    assert "<title>Step 2 of 4: Chat – New" not in page
    assert 'data-min-exchanges="3"' in page
    exchange(conversation, "one", "more")
    with pytest.raises(Refused) as closed:
        exchange(conversation, "and", "another")
    assert closed.value.code == "closed"
    assert make_rating(conversation).task.completion_code
    assert make_conversation(edited).version.values.chat.min_exchanges == 5


def test_another_bot_after_a_failure_is_of_the_same_version() -> None:
    study = make_study(bots=["eliza", "parrot"])
    conversation = make_conversation(study)
    edited = study_edit(study=study, bots=["generic"], min_exchanges=1)
    fail_reply(conversation)
    swapped = conversation_swap(conversation=conversation)
    assert swapped.task.version == conversation.task.version != edited.version
    assert set(swapped.task.bot_ids) < {"eliza", "parrot"}


@pytest.mark.parametrize("field", ["key", "protocol", "rubric"])
def test_what_makes_it_another_study_cannot_change(field: str) -> None:
    study = make_study()
    other = rubric_create(name="o", dimensions=[Dimension(key="k", title="K", question="K?")])
    change = {"key": "other", "protocol": "gone", "rubric": other}[field]
    Study.objects.filter(pk=study.pk).update(protocol="gone")
    Study.objects.filter(pk=study.pk).update(protocol="chat")
    make_participant(study, is_synthetic=True)
    if field != "protocol":
        assert refused(study, **{field: change}) == {}
    make_participant(study)
    said = refused(study, **{field: change})
    assert said.keys() == {field}
    assert said[field][0].startswith("1 person has agreed")
    assert "End this study, duplicate it" in said[field][0]


def test_questions_may_be_worded_anew() -> None:
    study = make_study()
    first = make_conversation(study, n_exchanges=3)
    older = rubric_default()
    newer = rubric_create(name=older.name, dimensions=list(older.dimensions.all()))
    study_edit(study=study, rubric=newer)
    second = make_conversation(study, n_exchanges=3)
    assert make_rating(first).rating.rubric == older
    assert make_rating(second).rating.rubric == newer


def test_everybody_keeps_the_texts_they_agreed_to() -> None:
    study = make_study(consent_text="First.", payment="£1", minutes=7)
    first, second = make_participant(study), make_participant(study)
    study = study_edit(study=study, payment="£2")
    third = make_participant(study)
    assert ConsentText.objects.count() == 2
    assert first.consent_id == second.consent_id != third.consent_id
    assert first.consent is not None
    assert first.consent.texts["consent_text"] == "First."
    assert (first.consent.texts["payment"], first.consent.texts["minutes"]) == ("£1", 7)
    assert first.consent.texts.keys() == set(AGREED_KEYS)
    assert first.consent.digest == first.consent_version


def test_a_form_read_before_a_change_is_shown_again(client: Client) -> None:
    study = make_study(consent_text="Before.")
    field = client.get("/s/s/").context["entry_field"]
    study_edit(study=study, consent_text="After.")
    answer = client.post("/s/s/start/", {"consent": "on", "_entry": field})
    assert "The study was changed since you opened this page" in answer.content.decode()
    assert "After." in answer.content.decode()
    assert not Participant.objects.exists()
    again = client.post("/s/s/start/", {"consent": "on", "_entry": answer.context["entry_field"]})
    assert again.status_code == 302
    consent = Participant.objects.get().consent
    assert consent is not None
    assert consent.texts["consent_text"] == "After."


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"bots": []}, "bots", "A study needs a bot to collect with."),
        ({"bots": ["eliza", "elyza"]}, "bots", "elyza"),
        ({"frame_ancestors": "https://ok.example nonsense"}, "frame_ancestors", "“nonsense”"),
        ({"frame_ancestors": "https://ok.example/path"}, "frame_ancestors", "/path”"),
        ({"min_exchanges": 9}, "min_exchanges", "At least 9 and at most 5 exchanges cannot be."),
    ],
)
def test_a_study_that_cannot_work_is_not_opened(fields: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ValidationError) as error:
        make_study(**fields)
    assert error.value.message_dict.keys() == {field}
    assert said in error.value.message_dict[field][0]


def test_a_draft_needs_no_bots_and_a_running_study_may_lose_one() -> None:
    draft = study_create(key="d", name="d", bots=["not-here"])
    assert refused(draft, state=Study.State.COLLECTING).keys() == {"bots"}
    Study.objects.filter(pk=draft.pk).update(state=Study.State.COLLECTING)
    assert refused(draft, name="renamed") == {}


def test_a_copy_is_a_draft_without_people_and_codes() -> None:
    study = make_study(consent_text="Mine.", code_rated="C1A2B3C4", seed=7)
    make_conversation(study, n_exchanges=3)
    copy, another = study_copy(study=study), study_copy(study=study)
    assert (copy.key, another.key) == ("s-2", "s-3")
    assert copy.state == Study.State.DRAFT
    assert (copy.values.texts.consent_text, copy.seed, copy.bots) == ("Mine.", 7, study.bots)
    assert copy.values.recruitment.code_rated == ""
    assert not copy.participants.exists()
    assert study_edit(study=copy, bots=["eliza"], min_exchanges=1).version.number == 1


def test_an_import_does_not_change_a_study_that_people_agreed_to(tmp_path: Path) -> None:
    def line(bot: str, value: int) -> str:
        turns = [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}]
        rating = {"rater": "r", "quality": value}
        return json.dumps({"dialogue_id": bot, "bot": bot, "turns": turns, "ratings": [rating]})

    path = tmp_path / "x.jsonl"
    path.write_text(line("a", 4))
    import_conversations(path, study_key="i", scale=(1, 7))
    path.write_text(line("b", 4))
    import_conversations(path, study_key="i", scale=(1, 7))
    study = Study.objects.get(key="i")
    assert study.bots == ["a", "b"]
    make_participant(study)
    path.write_text(line("c", 4))
    with pytest.raises(Refused, match="would change bots of study 'i'"):
        import_conversations(path, study_key="i", scale=(1, 7))
    study.refresh_from_db()
    assert study.bots == ["a", "b"]


@pytest.fixture
def chief() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("chief", password="x"))
    return client


def test_the_admin_shows_what_people_agreed_to(chief: Client) -> None:
    person = make_participant(make_study(consent_text="<b>Mine</b>"))
    assert chief.get(reverse("admin:studies_consenttext_changelist")).status_code == 200
    where = reverse("admin:studies_consenttext_change", args=[person.consent_id])
    assert "&lt;b&gt;Mine&lt;/b&gt;" in chief.get(where).content.decode()
    shown = chief.get(reverse("admin:studies_participant_change", args=[person.pk]))
    assert person.consent_version in shown.content.decode()
