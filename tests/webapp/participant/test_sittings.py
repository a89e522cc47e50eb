"""Parts with gaps: the same link leads to the part that is due, at the doors of participants."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

import confab
from chatbots.validation import ValuesError
from tests.builders import BY_PROLIFIC, exchange, first_exchanges, make_study, signed_in
from tests.webapp.api.programs import Program
from tests.webapp.transfer.test_package import packed
from webapp.conversations.models import Conversation
from webapp.conversations.reply_pipeline import reply_begin
from webapp.conversations.selectors import conversation_value
from webapp.conversations.services import conversation_complete, turn_add_human
from webapp.conversations.task_start import task_chats, task_start
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.pay.models import Decision
from webapp.pay.services import visits_of_all_parts
from webapp.pay.submissions import submissions_of
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_submit
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.recruitment.completion import pay_text
from webapp.studies.services import consent_record, participant_enter, task_complete, task_open
from webapp.studies.sitting_tasks import sitting_counts, sitting_miss
from webapp.studies.study_file import study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, table_of
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db
PARTS: list[dict[str, Any]] = [
    {"key": "first", "pay": 1},
    {"key": "second", "after_days": {"least": 2, "most": 4}},
    {"key": "third", "after_days": {"least": 1}, "pay": 3},
]
BOTS = ["eliza", "parrot", "generic"]
PANEL = {
    "platform": "panel",
    "id_parameter": "pid",
    **{f"link_{outcome}": f"https://panel.example/{outcome}?id={{id}}&code={{code}}" for outcome in Outcome},
}


def study_of_parts(**fields: Any) -> Study:
    return make_study(**{"bots": BOTS, "parts": PARTS, "min_exchanges": 1, "pay_each": 2.0, **fields})


def days_ago(participant: Participant, days: float) -> None:
    """Let the participant's parts have ended some days ago."""
    participant.tasks.update(ended_at=timezone.now() - timedelta(days=days))


def start(client: Client, query: str = "") -> Any:
    """Open the link and send the first page's form."""
    page = client.get(f"/s/s/{query}")
    assert page.status_code == 200
    entry = re.search(r'name="_entry" value="([^"]+)"', page.content.decode())
    assert entry, page.content.decode()
    return client.post("/s/s/start/", {"_entry": entry[1], "consent": "on"})


def do_part(client: Client, query: str = "") -> Task:
    """Begin the part that is due, chat, and rate it."""
    answer = start(client, query)
    assert answer.status_code == 302, answer.content.decode()
    chat = Conversation.objects.get(pk=answer["Location"].split("/")[2])
    assert chat.participant is not None
    first_exchanges(chat, 1)
    rating_submit(conversation=chat, participant=chat.participant, answers=dict.fromkeys(_scales(chat), 4))
    task = Task.objects.get(slots__chat=chat)
    assert (task.state, task.sitting) == ("completed", chat.sitting)
    return task


def _scales(chat: Conversation) -> list[str]:
    assert chat.study is not None
    return [dimension.key for dimension in chat.study.rubric.dimensions.all()]


def do_quickly(participant: Participant) -> Task:
    """Complete the participant's next part without its chat."""
    return task_complete(task=task_open(participant=participant))


def test_the_same_link_leads_to_the_part_that_is_due(client: Client) -> None:
    study_of_parts()
    first = do_part(client)
    person = first.participant
    early = client.get("/s/s/").content.decode()
    assert first.completion_code in early
    assert "Part 2 of 3 opens on" in early
    assert 'data-local="datetime"' in early
    assert client.post("/s/s/start/", {"consent": "on"}).status_code == 409
    days_ago(person, 3)
    assert 'aria-current="step">2 to 4 days after the previous part · £2.00' in client.get("/s/s/").content.decode()
    second = do_part(client)
    assert (second.participant, second.sitting) == (person, "second")
    days_ago(person, 1.5)
    third = do_part(client)
    assert len({task.completion_code for task in (first, second, third)}) == 3
    assert "You have done all parts" in client.get("/s/s/").content.decode()
    assert client.post("/s/s/start/", {"consent": "on"}).status_code == 409
    assert sorted(Task.objects.values_list("sitting", flat=True)) == ["first", "second", "third"]
    assert Participant.objects.count() == 1


def test_the_own_link_of_the_last_page_leads_on_from_another_device(client: Client) -> None:
    study_of_parts()
    person = do_part(client).participant
    page = client.get("/s/s/").content.decode()
    link = re.search(r'id="part-link"[^>]* value="http://testserver([^"]+)"', page)
    assert link, page
    days_ago(person, 3)
    elsewhere = Client()
    asked = elsewhere.get(link[1])
    assert asked.status_code == 200
    fields = dict(re.findall(r'name="(_entry|_t)" value="([^"]+)"', asked.content.decode()))
    answer = elsewhere.post("/s/s/start/", {**fields, "consent": "on"})
    assert answer.status_code == 302
    assert person.tasks.get(state="open").sitting == "second"


def test_a_panel_without_ids_of_visits_knows_its_person_again() -> None:
    study_of_parts(**PANEL)
    person = do_part(Client(), "?pid=p1").participant
    days_ago(person, 2.5)
    assert do_part(Client(), "?pid=p1").sitting == "second"
    assert Participant.objects.count() == 1


def test_prolific_pays_one_part_in_each_visit() -> None:
    study_of_parts(**BY_PROLIFIC, code_late="LATE1")
    by = "?PROLIFIC_PID=p1&STUDY_ID=st&SESSION_ID="
    first = do_part(Client(), f"{by}one")
    early = Client().get(f"/s/s/{by}two").content.decode()
    assert "The next part is not open yet" in early
    assert "Part 2 of 3 opens on" in early
    days_ago(first.participant, 3)
    assert "RATED1" in Client().get(f"/s/s/{by}one").content.decode()
    assert do_part(Client(), f"{by}two").sitting == "second"
    assert {visit.key.submission for visit in submissions_of(first.participant.study).all} == {"one", "two"}


def test_who_comes_too_late_gets_an_end_of_their_own() -> None:
    study = study_of_parts(**PANEL, code_late="LATE1", pay_late=0.5)
    person = do_part(Client(), "?pid=p1").participant
    days_ago(person, 5)
    client = Client()
    page = client.get("/s/s/?pid=p1").content.decode()
    assert "The next part has closed" in page
    assert not Task.objects.filter(outcome=Outcome.LATE).exists()
    answer = start(client, "?pid=p1")
    assert answer.status_code == 302
    ended = client.get(answer["Location"]).content.decode()
    assert "LATE1" in ended
    assert "https://panel.example/late?id=p1&amp;code=LATE1" in ended
    assert "You are paid £0.50 for your time." in ended
    assert start_refused(client, "?pid=p1")
    [visit] = submissions_of(study).all
    assert visit.owed == Decimal("1.50"), "the part that was done, and the time"
    late = Task.objects.get(outcome=Outcome.LATE)
    assert (late.state, late.sitting) == ("ended", "second")
    assert sitting_miss(participant=late.participant).pk == late.pk
    [count] = [
        count for count in sitting_counts(study, include_synthetic=False, now=timezone.now()) if count.number == 2
    ]
    assert (count.n_begun, count.done, count.early, count.due, count.late) == (0, 0, 0, 0, 1)


def start_refused(client: Client, query: str) -> bool:
    """Return True if the link shows an end and no form to start by."""
    page = client.get(f"/s/s/{query}")
    assert page.status_code == 200
    return "/s/s/start/" not in page.content.decode()


def test_the_database_keeps_a_part_to_one_a_person() -> None:
    person = consent_record(participant=participant_enter(study=study_of_parts()))
    first = do_quickly(person)
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.create(participant=person, version=first.version, kind="chat", sitting="first")
    Task.objects.create(participant=person, version=first.version, kind="chat", sitting="first", state="failed")


def test_a_part_that_was_begun_in_time_does_not_close() -> None:
    study = study_of_parts()
    person = consent_record(participant=participant_enter(study=study))
    do_quickly(person)
    days_ago(person, 3)
    begun = task_open(participant=person)
    Task.objects.filter(pk=begun.pk).update(state="failed")
    person.tasks.filter(sitting="first").update(ended_at=timezone.now() - timedelta(days=9))
    assert task_open(participant=person).sitting == "second"


def test_nobody_is_sent_away_from_the_next_part_because_the_study_is_full() -> None:
    study = study_of_parts(n_conversations_wanted=3, max_per_bot=1, bots=BOTS[:1])
    person = consent_record(participant=participant_enter(study=study))
    do_quickly(person)
    days_ago(person, 3)
    with pytest.raises(Refused) as full:
        task_open(participant=consent_record(participant=participant_enter(study=study)))
    assert full.value.code == "full"
    assert do_quickly(person).sitting == "second"


@pytest.mark.parametrize("same", [True, False])
def test_bots_stay_or_come_again_only_after_the_others(same: bool) -> None:
    parts = [{"key": f"p{n}", **({"after_days": {"least": 0}} if n else {})} for n in range(4)]
    study = study_of_parts(parts=parts, same_bot=same)
    person = consent_record(participant=participant_enter(study=study))
    had = [do_quickly(person).slots.get().bot_id for _part in parts]
    assert len(set(had[:3])) == (1 if same else 3)
    assert len(set(had)) == (1 if same else 3)
    with pytest.raises(Refused) as done:
        task_open(participant=person)
    assert done.value.code == "all_sittings"


def test_every_cell_comes_once_before_any_comes_again() -> None:
    factor = {"key": "mood", "varies": "within", "levels": [{"key": k, "topic": k} for k in ("glad", "sad")]}
    parts = [{"key": f"p{n}"} for n in range(4)]
    study = study_of_parts(parts=parts, bots=BOTS[:2], factors=[factor])
    for _person in range(3):
        person = consent_record(participant=participant_enter(study=study))
        slots = [do_quickly(person).slots.get() for _part in parts]
        assert len({(slot.bot_id, slot.condition["mood"]) for slot in slots}) == 4


FILE = """
confab_study: 1
key: talk
name: Everyday talk
protocol: chat
bots: [eliza, parrot]
after:
  - {key: quality, title: "How good was it?", kind: scale, labels: {1: bad, 7: good}}
sittings:
"""


def test_a_file_brings_parts_in_and_is_written_again() -> None:
    text = "  parts:\n  - {key: a}\n  - {key: b, after_days: {least: 2, most: 4}, pay: 2.5}\n  same_bot: true\n"
    study = study_import(file=study_file_read(FILE + text)).study
    written = study_file_text(study_file_of(study))
    assert study_file_read(written).sittings == study.values.sittings
    assert "    - key: a\n    - key: b\n      after_days:\n        least: 2.0\n" in written
    study_edit(study=study, parts=(), same_bot=False)
    assert "sittings" not in study_file_text(study_file_of(study))


def test_all_mistakes_of_parts_are_told_at_once_with_their_paths() -> None:
    text = (
        "  parts:\n  - {key: a, after_days: {least: 1}}\n  - {key: A, after_days: {least: 4, most: 2}}\n"
        "  - {key: c, after_days: {least: -1}, pay: -2}\n"
    )
    with pytest.raises(ValuesError) as wrong:
        study_import(file=study_file_read(FILE + text))
    told = {mistake.path: mistake.message for mistake in wrong.value.mistakes}
    assert {"sittings.parts[2].after_days.least", "sittings.parts[2].pay"} <= told.keys()
    with pytest.raises(ValuesError) as wrong:
        study_import(file=study_file_read(FILE + text.replace("-1", "1").replace("-2", "2")))
    told = {mistake.path: mistake.message for mistake in wrong.value.mistakes}
    assert told.keys() == {"sittings.parts[0].after_days", "sittings.parts[1].key", "sittings.parts[1].after_days"}
    assert "4 to 2 days ends before it starts" in told["sittings.parts[1].after_days"]


def test_exports_packages_and_the_api_name_the_part(tmp_path: Path) -> None:
    study = study_of_parts(parts=[{"key": "1"}, {"key": "2"}])
    client = Client()
    do_part(client)
    do_part(client)
    for name in ("conversations", "messages", "ratings"):
        table = table_of(study, name, ExportOptions())
        assert table.columns[-1].name == "sitting"
        n_each = 2 if name == "messages" else 1
        assert sorted(row[-1] for row in table.rows) == ["1"] * n_each + ["2"] * n_each
    path = tmp_path / "study.zip"
    path.write_bytes(packed(study))
    report = import_conversations(path, study_key="again")
    assert report.skipped == []
    there = Study.objects.get(key="again")
    assert sorted(there.conversations.values_list("sitting", flat=True)) == ["1", "2"]
    assert there.values.sittings == study.values.sittings
    assert list(confab.read(path).dimensions) == list(study_ratings(study).answers), "a part “1” is no answer"
    answer = Program(Right.READ).get("studies/s/conversations")
    assert answer.status_code == 200
    assert sorted(row["sitting"] for row in answer.json()["items"]) == ["1", "2"]


def test_who_did_all_parts_gets_their_bonus_once() -> None:
    study = study_of_parts(**PANEL, parts=[{"key": "a"}, {"key": "b", "after_days": {"least": 1}}], pay_for_all=2.5)
    person = do_part(Client(), "?pid=p1").participant
    assert visits_of_all_parts(submissions_of(study)) == []
    staff = signed_in(Right.READ, Right.PAY)
    people = staff.get("/dashboard/studies/s/people/")
    assert people.status_code == 200
    assert "Opens later" in people.content.decode()
    assert "Give them the bonus" not in people.content.decode()
    days_ago(person, 2)
    do_part(Client(), "?pid=p1")
    assert "Give them the bonus" in staff.get("/dashboard/studies/s/people/").content.decode()
    for _click in range(2):
        answer = staff.post("/dashboard/studies/s/people/decide/", {"action": "bonus_all"})
        assert answer.status_code == 302
    assert [decision.amount for decision in Decision.objects.filter(participant=person)] == [Decimal("2.50")]
    counts = sitting_counts(study, include_synthetic=False, now=timezone.now())
    assert [(count.n_begun, count.done, count.share) for count in counts] == [(1, 1, None), (1, 1, 1.0)]


def test_the_first_page_says_what_each_part_pays() -> None:
    study = study_of_parts(parts=[{"key": "first"}, {**PARTS[2], "pay": 3}], pay_each=0, currency="GBP")
    page = Client().get("/s/s/").content.decode()
    assert "Now · no pay for this part" in page
    assert "or later · £3.00" in page
    assert re.search(r">£3\.00</strong>\s*<span>for all parts together<", page)
    study_edit(study=study, payment="£3 by voucher")
    assert re.search(r">£3 by voucher</strong>\s*<span>for taking part<", Client().get("/s/s/").content.decode())


def test_each_part_pays_its_own_amount() -> None:
    study = study_of_parts(**PANEL)
    person = do_part(Client(), "?pid=p1").participant
    days_ago(person, 3)
    do_part(Client(), "?pid=p1")
    [visit] = submissions_of(study).all  # the panel has no ids of visits
    assert (visit.sittings, visit.to_pay.work) == (["first", "second"], Decimal(3))
    assert pay_text(study.values) == "£6.00"
    people = signed_in(Right.READ, Right.PAY).get("/dashboard/studies/s/people/")
    assert people.status_code == 200
    assert "£3.00" in people.content.decode(), "cost so far"
    assert submissions_of(study).to_pay.work == 3


def test_a_bot_remembers_its_earlier_conversations_with_the_person() -> None:
    study = study_of_parts(same_bot=True, bots_remember=True)
    person = consent_record(participant=participant_enter(study=study))
    first = task_start(participant=person)
    [chat] = task_chats(task=first)
    exchange(chat, "My cat is called Tom.", "A fine name.")
    conversation_complete(conversation=chat)
    task_complete(task=first)
    days_ago(person, 3)
    [chat] = task_chats(task=task_start(participant=person))
    alone = conversation_value(chat).with_turn("human", "Do you know my cat?").reply_seed
    turn_add_human(conversation_id=chat.pk, client_id=uuid4(), text="Do you know my cat?")
    due = reply_begin(chat.pk, uuid4())
    assert due is not None
    assert due.context.texts == ("My cat is called Tom.", "A fine name.", "Do you know my cat?")
    assert due.context.reply_seed == alone
