"""What people agreed to stays as it was: refused changes, kept texts, copies, studies that may open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.admin_form import form_of
from tests.builders import make_conversation, make_participant, make_staff, make_study
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.studies.models import ConsentText, Participant, Rubric, Study
from webapp.studies.services import rubric_default, rubric_new_version, study_copy, study_create
from webapp.studies.terms import AGREED, changes_refused
from webapp.transfer.jobs import import_conversations

pytestmark = pytest.mark.django_db


def refused(study: Study, **changes: Any) -> dict[str, list[str]]:
    """What the model says of the change; nothing is stored."""
    again = Study.objects.get(pk=study.pk)
    for field, value in changes.items():
        setattr(again, field, value)
    try:
        again.full_clean()
    except ValidationError as error:
        return error.message_dict
    return {}


CHANGES: dict[str, Any] = {
    "bots": ["eliza"],
    "min_exchanges": 1,
    "max_exchanges": 9,
    "consent_text": "Another one.",
    "consent_points": "We keep your name.",
    "instructions_text": "Be rude.",
    "title": "Something else",
    "minutes": 90,
    "payment": "£1.00 per chat",
    "promises_pay_on_failure": False,
    "organisation": "Somebody else",
    "rule": "uniform",
    "key": "other",
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_somebody_agreed_to_cannot_change(field: str) -> None:
    study = make_study(payment="£1.40 per chat")
    change = {field: CHANGES[field]}
    make_participant(study, is_synthetic=True)  # a rehearsal is no agreement
    assert refused(study, **change) == {}
    make_participant(study)
    for state in Study.State.values:
        said = refused(study, **change, state=state)
        assert said.keys() == {field}
        assert said[field][0].startswith("1 person has agreed")
        assert "End this study, copy it" in said[field][0]


def test_the_rubric_is_part_of_it() -> None:
    study = make_study()
    make_participant(study)
    other = rubric_new_version(rubric=rubric_default())
    assert refused(study, rubric=other).keys() == {"rubric"}
    assert refused(study) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another name"},
        {"state": Study.State.PAUSED},
        {"payment": "£1.60 per chat"},
        {"n_conversations_wanted": 500},
        {"max_cost": 5.0},
        {"contact": "lab@example.org"},
        {"thanks_text": "Thanks!"},
        {"frame_ancestors": "https://a.example"},
    ],
)
def test_what_leaves_nobody_worse_off_can_change(change: dict[str, Any]) -> None:
    study = make_study(payment="£1.40 per chat")
    make_participant(study)
    assert refused(study, **change) == {}


@pytest.mark.parametrize(
    ("before", "after", "ok"),
    [
        ("£1.40 per chat", "£1.40 per chat", True),
        ("£1.40 per chat", "£2 per chat", True),
        ("£1.40 per chat", "£1.39 per chat", False),
        ("£1.40 per chat", "£3 per hour", False),
        ("£1.40 per chat", "", False),
        ("", "£1", True),
        ("1,5 € und 2 €", "2,5 € und 1 €", False),
    ],
)
def test_pay_may_rise_and_nothing_else(before: str, after: str, ok: bool) -> None:
    said = changes_refused(Study(payment=before), Study(payment=after), n_agreed=1)
    assert said.keys() == (set() if ok else {"payment"})


def test_everybody_keeps_the_texts_they_agreed_to() -> None:
    study = make_study(consent_text="First.", payment="£1", minutes=7)
    first, second = make_participant(study), make_participant(study)
    Study.objects.filter(pk=study.pk).update(payment="£2")
    study.refresh_from_db()
    third = make_participant(study)
    assert ConsentText.objects.count() == 2
    assert first.consent_id == second.consent_id != third.consent_id
    assert first.consent is not None
    assert first.consent.texts["consent_text"] == "First."
    assert (first.consent.texts["payment"], first.consent.texts["minutes"]) == ("£1", 7)
    assert first.consent.texts.keys() == set(AGREED)
    assert first.consent.digest == first.consent_version


def test_a_form_read_before_a_change_is_shown_again(client: Client) -> None:
    study = make_study(consent_text="Before.")
    field = client.get("/s/s/").context["entry_field"]
    Study.objects.filter(pk=study.pk).update(consent_text="After.")
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
def test_a_study_that_cannot_work_is_not_opened(
    fields: dict[str, Any], field: str, said: str
) -> None:
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
    study = make_study(consent_text="Mine.", prolific_rated="C1A2B3C4", seed=7)
    make_conversation(study, n_exchanges=3)
    copy, another = study_copy(study=study), study_copy(study=study)
    assert (copy.key, another.key) == ("s-2", "s-3")
    assert copy.state == Study.State.DRAFT
    assert (copy.consent_text, copy.seed, copy.bots) == ("Mine.", 7, study.bots)
    assert copy.prolific_rated == ""
    assert not copy.participants.exists()
    assert refused(copy, bots=["eliza"], min_exchanges=1) == {}


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


def test_the_admin_says_it_beside_the_field(chief: Client) -> None:
    study = make_study()
    make_participant(study)
    address = reverse("admin:studies_study_change", args=[study.pk])
    changed = {"min_exchanges": 9, "consent_text": "x", "frame_ancestors": "https://a b"}
    answer = chief.post(address, {**form_of(chief, address), **changed})
    errors = answer.context["adminform"].form.errors
    assert errors.keys() == changed.keys()
    html = answer.content.decode()
    assert "1 person has agreed to take part as it was" in html
    assert "study_min_up_to_max" not in html
    study.refresh_from_db()
    assert study.min_exchanges == 3
    assert chief.post(address, {**form_of(chief, address), "state": "paused"}).status_code == 302


def test_the_admin_copies_and_shows_what_people_agreed_to(chief: Client) -> None:
    study = make_study(consent_text="<b>Mine</b>")
    person = make_participant(study)
    listed = reverse("admin:studies_study_changelist")
    chosen = {"action": "copy", "_selected_action": [study.pk]}
    answer = chief.post(listed, chosen, follow=True)
    assert "is a draft like s" in answer.content.decode()
    assert Study.objects.get(key="s-2").state == Study.State.DRAFT
    assert chief.get(reverse("admin:studies_consenttext_changelist")).status_code == 200
    where = reverse("admin:studies_consenttext_change", args=[person.consent_id])
    assert "&lt;b&gt;Mine&lt;/b&gt;" in chief.get(where).content.decode()
    shown = chief.get(reverse("admin:studies_participant_change", args=[person.pk]))
    assert person.consent_version in shown.content.decode()
    reader = Client()
    reader.force_login(make_staff(Right.READ))
    assert reader.post(listed, chosen, follow=True).status_code in (200, 403)
    assert Study.objects.count() == 2


def test_a_rubric_is_fixed_as_soon_as_somebody_has_agreed(chief: Client) -> None:
    study = make_study()
    address = reverse("admin:studies_rubric_change", args=[study.rubric_id])
    assert 'name="low"' in chief.get(address).content.decode()
    make_participant(study)
    html = chief.get(address).content.decode()
    assert 'name="low"' not in html
    assert 'name="dimensions-0-question"' not in html
    assert Rubric.objects.get().frozen_at is None
