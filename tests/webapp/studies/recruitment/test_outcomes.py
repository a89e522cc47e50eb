"""Outcome, code and link of a chat, what exports say, and Prolific's codes as researchers paste them."""

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import BY_PROLIFIC, fail_reply, make_conversation, make_rating, make_study
from webapp.conversations import services
from webapp.conversations.models import Conversation
from webapp.studies.models import Outcome, Study, StudyVersion, Task
from webapp.studies.recruitment.completion import TaskEnding, ending_of, endings_of, tasks_with_endings
from webapp.studies.recruitment.settings import code_read, completion_link, link_code
from webapp.studies.services import task_end
from webapp.studies.settings import StudyValues
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


PROLIFIC = {"platform": "prolific", "external_id": "p1", "recruitment": {"SESSION_ID": "s1"}}
LINK = "https://app.prolific.com/submissions/complete?cc="


def rated(study: Study, **who: object) -> TaskEnding:
    conversation = make_conversation(study, n_exchanges=3, **who)
    return ended(make_rating(conversation).rating.conversation)


def bot_failed(study: Study, **who: object) -> TaskEnding:
    conversation = make_conversation(study, **who)
    fail_reply(conversation)
    services.conversation_finish_failed(conversation=conversation)
    return ended(conversation)


def withdrawn(study: Study, **who: object) -> TaskEnding:
    conversation = make_conversation(study, n_exchanges=1, **who)
    services.conversation_withdraw(conversation=conversation)
    return ended(conversation)


def ended(conversation: Conversation) -> TaskEnding:
    ending = ending_of(Task.objects.get(slots__chat=conversation))
    assert ending is not None
    return ending


def ended_by(outcome: str) -> Callable[..., TaskEnding]:
    def end(study: Study, **who: object) -> TaskEnding:
        conversation = make_conversation(study, n_exchanges=1, **who)
        for _twice in range(2):
            services.task_end_with_chats(task=conversation.task, outcome=outcome)
        conversation.refresh_from_db()
        assert (conversation.state, conversation.due_turn) == ("ended", None)
        return ended(conversation)

    return end


def test_a_failed_bot_without_a_code_of_its_own_pays_as_rated_and_withdrawing_does_not() -> None:
    study = make_study(code_rated="RATED1")
    assert bot_failed(study, **PROLIFIC).code == "RATED1"
    ending = withdrawn(study)
    assert (ending.code, ending.link) == ("", "")


def test_who_is_screened_out_takes_nobodys_place_and_one_ending_stays() -> None:
    study = make_study(n_conversations_wanted=1)
    ending = ended_by("screened_out")(study)
    assert ending.code == ending.task.completion_code, "no platform has a code: ours says who it was"
    assert task_end(task=ending.task, outcome="failed_check").outcome == "screened_out"
    assert rated(study).outcome == "rated", "the place is still free"
    with pytest.raises(ValueError, match="withdrawn"):
        task_end(task=ending.task, outcome="withdrawn")


def test_a_panel_has_a_way_back_for_every_outcome_with_ids_filled_in() -> None:
    panel = "https://panel.example/{outcome}?p={psid}&id={id}&s={session}&c={code}"
    study = make_study(
        state="draft",
        platform="panel",
        id_parameter="pid",
        session_parameter="sid",
        more_parameters="psid",
        link_rated=panel,
        code_rated="DONE7",
        link_withdrawn="https://panel.example/gone",
    )
    Study.objects.filter(pk=study.pk).update(state="collecting")
    study.refresh_from_db()
    sent = {"pid": "a b", "sid": "v1", "psid": "x&y"}
    who = {"platform": "panel", "external_id": "a b", "recruitment": sent}
    ending = rated(study, **who)
    assert ending.code == "DONE7"
    assert ending.link == "https://panel.example/rated?p=x%26y&id=a%20b&s=v1&c=DONE7"
    gone = withdrawn(study, **{**who, "external_id": "c"})
    assert (gone.code, gone.link) == ("", "https://panel.example/gone")


def test_an_address_elsewhere_is_a_link_without_code_and_a_placeholder_takes_ours() -> None:
    elsewhere = rated(make_study(link_rated="https://panel.example/back?study=7"))
    assert (elsewhere.code, elsewhere.link) == ("", "https://panel.example/back?study=7")
    filled = rated(make_study("t", link_rated="https://panel.example/back?code={code}"))
    assert filled.code == filled.task.completion_code
    assert filled.link == f"https://panel.example/back?code={filled.code}"


def test_without_link_the_code_is_ours_and_mechanical_turk_never_sees_prolifics() -> None:
    plain = rated(make_study())
    assert plain.code == plain.task.completion_code
    assert plain.link == ""
    for number, fields in enumerate((BY_PROLIFIC, {"link_rated": "https://panel.example/"})):
        worker = rated(make_study(f"m{number}", **fields), platform="mturk", external_id="w")
        assert (worker.code, worker.link) == (worker.task.completion_code, "")


def test_open_swapped_and_left_chats_have_no_ending() -> None:
    conversation = make_conversation(make_study())
    participant = conversation.participant
    assert endings_of(participant) == []
    fail_reply(conversation)
    other = services.conversation_swap(conversation=conversation)
    assert endings_of(participant) == []
    Task.objects.filter(slots__chat=other).update(state=Task.State.EXPIRED)
    assert endings_of(participant) == []
    services.conversation_withdraw(conversation=other)
    assert [ending.outcome for ending in endings_of(participant)] == ["withdrawn"]


def test_endings_of_many_people_take_one_query() -> None:
    study = make_study()
    for _ in range(3):
        rated(study)
        bot_failed(study)
    with CaptureQueriesContext(connection) as queries:
        results = [ending_of(a) for a in tasks_with_endings(Task.objects.order_by("pk"))]
    assert len(results) == 6
    assert len(queries) == 1


def test_a_code_that_is_corrected_is_for_those_who_come_later() -> None:
    study = make_study(**BY_PROLIFIC)
    first = rated(study, **PROLIFIC)
    study = study_edit(study=Study.objects.get(pk=study.pk), code_rated="MENDED1")
    later = rated(study, **{**PROLIFIC, "external_id": "p2"})
    assert (later.code, later.link) == ("MENDED1", f"{LINK}MENDED1")
    assert (ended(first.task.slots.get().chat).code, first.link) == ("RATED1", f"{LINK}RATED1")
    # Of an earlier release, which kept nothing: what the study says now.
    Task.objects.filter(pk=first.task.pk).update(told={})
    assert ended(first.task.slots.get().chat).code == "MENDED1"


def test_no_id_of_a_platform_is_kept_with_what_somebody_was_told() -> None:
    panel = {"platform": "panel", "id_parameter": "pid"}
    back = "https://panel.example/end?who={id}&code={code}"
    study = make_study(**panel, **{f"link_{outcome}": back for outcome in Outcome.values})
    ending = rated(study, platform="panel", external_id="x 7", recruitment={"pid": "x 7"})
    assert ending.link == f"https://panel.example/end?who=x%207&code={ending.code}"
    assert ending.task.told["link"] == back


NO_WAY_BACK = {f"link_{outcome}": "https://panel.example/" for outcome in Outcome.values if outcome != "withdrawn"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", ""),
        ("  C1ABC ", "C1ABC"),
        (LINK + "C1ABC", "C1ABC"),
        (f" {LINK}C1ABC\n", "C1ABC"),
        ("https://app.prolific.co/submissions/complete?cc=5DF12A&x=1", "5DF12A"),
    ],
)
def test_code_or_link_may_be_pasted(text: str, code: str) -> None:
    assert code_read(text) == code


@pytest.mark.parametrize(
    "text", ["two words", LINK, LINK + "{code}", "https://evil.example/?cc=C1", "https://[", "app/C1", "<b>"]
)
def test_what_holds_no_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="There is no completion code in"):
        code_read(text)


def test_links() -> None:
    assert completion_link("C1ABC") == LINK + "C1ABC"
    assert link_code(LINK + "C1ABC") == "C1ABC"
    assert link_code(LINK + "{code}") == ""
    assert link_code("https://prolific.com.evil.example/?cc=C1") == ""
    assert link_code("https://panel.example/?cc=GB") == ""


@pytest.mark.django_db
def test_a_study_keeps_the_codes_and_refuses_what_cannot_work() -> None:
    study = make_study(code_rated=LINK + "R1", code_bot_failed=" F1 ")
    codes = study.values.recruitment
    assert (codes.code_rated, codes.code_bot_failed) == ("R1", "F1")
    for fields, field, words in (
        ({"code_rated": "R1", "code_withdrawn": LINK + "R1"}, "code_withdrawn", "R1"),
        ({"code_bot_failed": "no code"}, "code_bot_failed", "“no code”"),
        ({"link_rated": "https://panel.example/?x={psid}"}, "link_rated", "{psid}"),
        ({"link_rated": "panel"}, "link_rated", "https://"),
        ({"more_parameters": "psid PROLIFIC_PID"}, "more_parameters", "PROLIFIC_PID"),
        ({**BY_PROLIFIC, "code_no_consent": ""}, "code_no_consent", "Did not agree"),
        ({"platform": "panel", **NO_WAY_BACK}, "link_withdrawn", "Withdrawn"),
    ):
        with pytest.raises(ValidationError) as refused:
            make_study("t", **fields)
        assert list(refused.value.message_dict) == [field]
        assert words in refused.value.message_dict[field][0]


@pytest.mark.django_db
def test_a_draft_may_lack_codes_and_a_study_that_collects_may_be_changed_without() -> None:
    study = make_study(state="draft", platform="prolific", code_rated="R1")
    with pytest.raises(ValidationError) as refused:
        study_edit(study=study, state="collecting")
    assert set(refused.value.message_dict) == {
        f"code_{outcome}" for outcome in Outcome.values if outcome not in ("rated", "late")
    }
    study.refresh_from_db()
    type(study).objects.filter(pk=study.pk).update(state="collecting")
    study.refresh_from_db()
    assert study_edit(study=study, minutes=3).values.texts.minutes == 3


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        (
            {"prolific_rated": "R1", "prolific_bot_failed": "", "prolific_withdrawn": "W1"},
            {"platform": "prolific", "code_rated": "R1", "code_withdrawn": "W1"},
        ),
        ({"completion_url": LINK + "R1"}, {"platform": "prolific", "code_rated": "R1"}),
        ({"completion_url": LINK + "R1", "prolific_rated": "R1"}, {"platform": "prolific", "code_rated": "R1"}),
        ({"completion_url": LINK + "{code}"}, {"platform": "prolific", "link_rated": LINK + "{code}"}),
        ({"completion_url": "https://panel.example/?c={code}"}, {"link_rated": "https://panel.example/?c={code}"}),
        ({"completion_url": "", "prolific_rated": ""}, {}),
    ],
)
def test_what_earlier_releases_stored_is_read(stored: dict, now: dict) -> None:
    stored = {"auto_return": True, "frame_ancestors": "https://a.example", **stored}
    values = StudyValues.model_validate({"recruitment": stored})
    said = values.recruitment.model_dump(exclude_defaults=True)
    assert said == {"auto_return": True, "frame_ancestors": "https://a.example", **now}


@pytest.mark.django_db
def test_a_study_of_an_earlier_release_is_read_and_saved_without_a_new_version() -> None:
    study = make_study()
    plain = study.values.to_json()
    plain["recruitment"] = {"prolific_rated": "R1", "auto_return": False, "frame_ancestors": ""}
    kept = StudyVersion.objects.filter(pk=study.version_id)
    kept.update(values=plain, frozen_at=study.created_at)
    digest = kept.get().digest
    study.refresh_from_db()
    assert study.values.recruitment.code_rated == "R1"
    same = study_edit(study=study, **study.values.flat())
    assert (same.version_id, kept.get().digest) == (study.version_id, digest)
