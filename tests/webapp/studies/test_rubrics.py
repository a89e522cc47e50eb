"""Versions: the rubric that questions make, what people agreed to stays as it was, and differences in words."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tests.builders import exchange, fail_reply, make_conversation, make_participant, make_rating, make_study
from webapp.conversations.services import conversation_swap
from webapp.core.errors import Refused
from webapp.ratings.services import rating_submit
from webapp.studies import rubrics
from webapp.studies.models import ConsentText, Dimension, Participant, Rubric, Study, StudyVersion
from webapp.studies.privacy import AGREED_KEYS
from webapp.studies.questions import Question
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.rubrics import post_task_questions, questions_of, rubric_create, rubric_default, rubric_freeze
from webapp.studies.selectors import participant_token
from webapp.studies.services import study_copy, study_create
from webapp.studies.versions import study_edit, values_diff, values_made, version_diff
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


GOOD = {"key": "good", "title": "How good?", "kind": "scale", "labels": {1: "bad", 7: "good"}}
CLEAR: dict[str, Any] = {
    "key": "clear",
    "name": "Clarity",
    "title": "How clear?",
    "kind": "scale",
    "low": 0,
    "high": 3,
    "labels": {0: "bad", 1: "poor", 2: "fair", 3: "fine"},
    "required": False,
    "reversed": True,
}
AGAIN = {"key": "again", "title": "Again?", "kind": "choice", "options": ["Yes", "No"]}


def keys_of(study: Study) -> list[str]:
    return [question.key for question in post_task_questions(study.version)]


def test_scales_become_rows_with_their_points_and_words() -> None:
    study = make_study(after=[GOOD, AGAIN, CLEAR])
    assert study.rubric.name == "s"
    good, clear = study.rubric.dimensions.all()
    assert (good.key, good.title, good.question) == ("good", "Good", "How good?")
    assert (good.low_label, good.high_label, good.scale) == ("bad", "good", (1, 7))
    assert (clear.title, clear.scale, clear.required, clear.reversed) == (*("Clarity", (0, 3), False, True),)
    assert clear.labels == {"0": "bad", "1": "poor", "2": "fair", "3": "fine"}
    assert keys_of(study) == ["good", "again", "clear"]
    stored = StudyVersion.objects.get(pk=study.version_id)
    assert stored.values.after == study.values.after
    assert stored.values.after[2].labels[3] == "fine"


def test_without_questions_the_rubric_says_what_is_asked() -> None:
    study = make_study()
    assert study.values.after == ()
    assert study.rubric == rubric_default()
    assert post_task_questions(study.version) == DEFAULT_QUESTIONS
    assert questions_of(rubric_default()) == DEFAULT_QUESTIONS
    same = study_edit(study=study, after=DEFAULT_QUESTIONS)
    assert same.rubric == rubric_default(), "the same questions need no other rows"


def test_until_somebody_agrees_the_rows_change_in_place() -> None:
    study = make_study(after=[GOOD])
    first = study.rubric
    make_participant(study, is_synthetic=True)
    study = study_edit(study=study, after=[{**GOOD, "title": "How very good?"}, CLEAR])
    assert (study.version.number, study.rubric.pk) == (1, first.pk)
    assert [d.question for d in study.rubric.dimensions.all()] == ["How very good?", "How clear?"]
    assert (study.rubric.low, study.rubric.high) == (0, 7)
    study = study_edit(study=study, after=[])
    assert keys_of(study) == []
    study = study_edit(study=study, minutes=3)
    assert keys_of(study) == []
    assert study_edit(study=study, after=[GOOD]).rubric.pk == first.pk
    assert Rubric.objects.filter(name="s").count() == 1


def test_afterwards_other_words_make_another_rubric_and_other_scales_are_refused() -> None:
    study = make_study(after=[GOOD, AGAIN])
    first = study.rubric
    chat = make_conversation(study, n_exchanges=3)
    edited = study_edit(study=study, after=[{**GOOD, "title": "How fine?"}])
    assert edited.version.number == 2
    assert edited.rubric.pk != first.pk
    assert chat.participant is not None
    answers = {"good": 3, "again": "No"}
    rating = rating_submit(conversation=chat, participant=chat.participant, answers=answers).rating
    assert rating.rubric_id == first.pk
    assert rating.rubric.dimensions.get().question == "How good?"
    with pytest.raises(ValidationError) as refused:
        study_edit(study=edited, after=[{**GOOD, "high": 5, "labels": {}}])
    assert "1 participant has already consented" in refused.value.message_dict["after"][0]
    with pytest.raises(ValidationError, match="You can still reword questions on the same scales"):
        study_edit(study=edited, after=[])
    assert study_edit(study=edited, after=[GOOD, AGAIN]).version.number == 2


def test_a_rubric_chosen_by_hand_takes_the_place_of_the_questions() -> None:
    study = make_study(after=[GOOD])
    study = study_edit(study=study, rubric=rubric_default())
    assert study.values.after == ()
    assert make_rating(make_conversation(study, n_exchanges=3)).created


def test_a_copy_shares_the_rows_until_it_is_changed() -> None:
    study = make_study(after=[GOOD])
    copied = study_copy(study=study)
    assert copied.rubric == study.rubric
    copied = study_edit(study=copied, after=[CLEAR])
    assert keys_of(Study.objects.get(key="s")) == ["good"]
    assert [d.key for d in study.rubric.dimensions.all()] == ["good"]
    assert [d.key for d in copied.rubric.dimensions.all()] == ["clear"]


def test_all_that_is_wrong_is_said_at_once_with_its_path() -> None:
    wrong = [
        {**GOOD, "low": 7},
        {**GOOD, "key": "a", "labels": {9: "x"}},
        {**GOOD, "key": "b", "labels": {"one": "x"}},
        {**GOOD, "key": "c", "options": ["a", "b"]},
        {**AGAIN, "key": "d", "reversed": True},
        {**GOOD, "key": "e", "lables": {}},
    ]
    with pytest.raises(ValidationError) as error:
        make_study(after=wrong, after_order="random")
    text = "\n".join(error.value.message_dict["after"])
    for part in (
        "after[0].low is 7; it must be below high, which is 7",
        "after[1].labels has words at 9; the scale has points from 1 to 7",
        "after[2].labels has the key 'one'",
        "after[3].options must be left out: a scale has points",
        "after[4].reversed must be left out: only a 'scale' has it",
        "after[5].lables is an unknown key; did you mean labels?",
    ):
        assert part in text, text
    assert "asking.after_order is 'random'" in error.value.message_dict["after_order"][0]
    with pytest.raises(ValidationError, match=r"after\[1\].key is 'good', the same as after\[0\]"):
        make_study(after=[GOOD, GOOD])
    with pytest.raises(ValidationError, match="a name that the form itself uses"):
        make_study(after=[{**GOOD, "key": "comments"}])


def test_a_question_is_written_as_people_write_it() -> None:
    assert Question.model_validate(CLEAR).to_plain() == CLEAR
    assert Question.model_validate(AGAIN).to_plain() == AGAIN
    assert Question.model_validate({**GOOD, "labels": {"1": "bad"}}).labels == {1: "bad"}


def test_the_default_follows_the_code_and_frozen_versions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rubric_default()
    study = make_study("kept-study")
    rubric_freeze(rubric_id=before.pk)
    first, *others = DEFAULT_QUESTIONS
    changed = (first.model_copy(update={"title": "How good was it?"}), *others)
    monkeypatch.setattr(rubrics, "DEFAULT_QUESTIONS", changed)
    after = rubric_default()
    assert (after.name, after.version) == (before.name, before.version + 1)
    assert questions_of(after) == changed
    assert rubric_default() == after, "made once"
    assert make_study("other-study").rubric == after
    study.refresh_from_db()
    assert study.rubric == before
    assert questions_of(before) == DEFAULT_QUESTIONS
    monkeypatch.undo()
    assert rubric_default() == before


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
    assert "Finish early and get paid" in page
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
    assert said[field][0].startswith("1 participant has already consented")
    assert "Close the study, duplicate it" in said[field][0]


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
    assert first.consent.texts["consent_text"] == "First."
    assert (first.consent.texts["payment"], first.consent.texts["minutes"]) == ("£1", 7)
    assert first.consent.texts.keys() == set(AGREED_KEYS)
    assert first.consent.digest == first.consent_version


def test_a_form_read_before_a_change_is_shown_again(client: Client) -> None:
    study = make_study(consent_text="Before.")
    field = client.get("/s/s/").context["entry_field"]
    study_edit(study=study, consent_text="After.")
    answer = client.post("/s/s/start/", {"consent": "on", "_entry": field})
    assert "The study has changed since you opened this page" in answer.content.decode()
    assert "After." in answer.content.decode()
    assert not Participant.objects.exists()
    again = client.post("/s/s/start/", {"consent": "on", "_entry": answer.context["entry_field"]})
    assert again.status_code == 302
    consent = Participant.objects.get().consent
    assert consent.texts["consent_text"] == "After."


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"bots": []}, "bots", "The study has no bot."),
        ({"bots": ["eliza", "elyza"]}, "bots", "elyza"),
        ({"frame_ancestors": "https://ok.example nonsense"}, "frame_ancestors", "“nonsense”"),
        ({"frame_ancestors": "https://ok.example/path"}, "frame_ancestors", "/path”"),
        ({"min_exchanges": 9}, "min_exchanges", "The minimum of 9 exchanges is above the maximum of 5."),
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


def test_the_admin_shows_what_people_agreed_to(chief: Client) -> None:
    person = make_participant(make_study(consent_text="<b>Mine</b>"))
    assert chief.get(reverse("admin:studies_consenttext_changelist")).status_code == 200
    url = reverse("admin:studies_consenttext_change", args=[person.consent_id])
    assert "&lt;b&gt;Mine&lt;/b&gt;" in chief.get(url).content.decode()
    shown = chief.get(reverse("admin:studies_participant_change", args=[person.pk]))
    assert person.consent_version in shown.content.decode()


WORDS: dict[str, Any] = {"key": "good", "title": "How good?", "kind": "scale"}
JOB = {"key": "job", "title": "What do you do?", "kind": "text"}


def said(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [str(one) for one in values_diff(values_made({}, before), values_made({}, after))]


def test_questions_are_added_taken_out_moved_and_changed_by_their_keys() -> None:
    again = {"key": "again", "title": "Again?", "kind": "choice", "options": ["Yes", "No"]}
    before = {"after": [WORDS, again], "questions": [JOB]}
    reworded = {**WORDS, "title": "How very good?", "high": 5, "labels": {1: "bad"}}
    after = {"after": [{**again, "required": False}, reworded, JOB], "questions": []}
    assert said(before, after) == [
        "Before the task: gone: What do you do?",
        "After the task: new: What do you do?",
        "After the task, order: good, again → again, good",
        "After the task, Again, Required: yes → no",
        "After the task, Good, Question: How good? → How very good?",
        "After the task, Good, Highest point: 7 → 5",
        "After the task, Good, Point labels: nothing → 1: bad",
    ]


def test_bots_settings_and_long_texts() -> None:
    before = {"bots": ["a", "b", "c"], "consent_points": "One.\nTwo.\n" + "Long. " * 20}
    after = {"bots": ["c", "b", "d"], "max_cost": 2.5, "consent_points": "One.\nThree.\n" + "Long. " * 20}
    changes = values_diff(values_made({}, before), values_made({}, after))
    assert [change.path for change in changes] == [*("bots", "bots", "bots", "texts.consent_points", "quotas.max_cost")]
    assert [str(change) for change in changes[:3]] == [
        *("Bots: new: d", "Bots: gone: a", "Order of the bots: a, b, c → c, b, d")
    ]
    assert ("-", "Two.") in changes[3].lines
    assert ("+", "Three.") in changes[3].lines
    assert "  - Two.\n  + Three." in str(changes[3])
    assert str(changes[4]).endswith(": nothing → 2.5")


@pytest.mark.django_db
def test_versions_differ_in_what_they_ask_even_where_one_asks_a_rubric() -> None:
    study = make_study()
    make_participant(study)
    first = study.version
    asked = [one.to_plain() for one in study_asked(study)]
    study = study_edit(study=study, after=[*asked, JOB])
    [change] = version_diff(first, study.version)
    assert (change.path, change.before, change.after) == ("after.job", "", "What do you do?")


def study_asked(study: Any) -> Any:
    from webapp.studies.rubrics import post_task_questions

    return post_task_questions(study.version)
