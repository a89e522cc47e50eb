"""Reported and marked replies: among people, in the reader, among the needs, and of bots."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatbots import Turn as Said
from tests.builders import make_annotated, make_conversation, make_participant, make_study
from tests.markup import flat
from webapp.conversations.filtering import FilterLabel, marks_store
from webapp.conversations.models import Conversation, ReplyReport, Turn
from webapp.conversations.services import reply_report
from webapp.dashboard.action_items import action_items
from webapp.dashboard.data_quality import marks_of_bots
from webapp.studies.models import Item, Study
from webapp.studies.services import task_open
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db


def reported(study: Study, n: int = 1) -> Conversation:
    """Make a chat whose replies are reported, the first with words."""
    chat = make_conversation(study, n_exchanges=n)
    for turn in Turn.objects.filter(conversation=chat, speaker="bot"):
        reply_report(participant=chat.participant, turn=turn, reason="other", words="<i>odd</i>")
    return chat


def marked(chat: Conversation, *, withheld: Sequence[int] = ()) -> None:
    turns = list(Turn.objects.filter(conversation=chat, speaker="bot"))
    for turn in turns:
        if turn.index in withheld:
            Turn.objects.filter(pk=turn.pk).update(withheld_text="I am GPT-4.")
    marks_store(
        turns,
        [
            [FilterLabel("names_model", {"name": "x"}, "It says so.", ("GPT-4",), turn.index in withheld)]
            for turn in turns
        ],
    )


def test_a_report_is_seen_on_the_page_in_the_reader_and_among_the_needs(staff: Client) -> None:
    study = make_study("s")
    chat = reported(study)
    marked(chat, withheld=[1])
    address = f"/dashboard/studies/{study.key}/people/reports/"
    people = f"/dashboard/studies/{study.key}/people/"
    make_conversation(study)
    listed = flat(staff.get(people, {"show": "reported"}).content.decode())
    assert "1 report by people is not seen yet." in listed
    assert "1 of 1" in listed, "replies that a filter found"
    assert listed.count("/people/" + str(chat.participant_id)) == listed.count('class="person-id"') == 1
    page = staff.get(f"{people}{chat.participant_id}/").content.decode()
    assert "Something else" in page
    assert "&lt;i&gt;odd&lt;/i&gt;" in page
    assert "I am GPT-4." in page  # staff read what was withheld
    assert f"/dashboard/conversations/{chat.pk}/?turn=1" in page
    assert any("reported by people" in one.rest for one in action_items())
    reader = staff.get(f"/dashboard/conversations/{chat.pk}/", follow=True).content.decode()
    assert "Reported: Something else. “&lt;i&gt;odd&lt;/i&gt;”" in reader
    assert "Names its model: It says so. “GPT-4”" in reader
    assert "Withheld; the bot said" in reader
    [report] = ReplyReport.objects.all()
    assert staff.post(address, {"seen": "nonsense"}).status_code == 302
    assert not ReplyReport.objects.exclude(seen_at=None).exists()
    back = staff.post(address, {"seen": str(report.pk), "person": chat.participant_id.hex})
    assert back["Location"] == f"{people}{chat.participant_id}/"
    report.refresh_from_db()
    assert report.seen_by
    assert not any("reported by people" in one.rest for one in action_items())
    assert "Mark all as seen" not in staff.get(people).content.decode()


def test_reports_of_items_name_the_item_and_its_model(staff: Client) -> None:
    study = make_annotated("a")
    item = Item.objects.filter(study=study).first()
    person = task_open(participant=make_participant(study)).participant
    reply_report(participant=person, item=item, response=0, reason="sexual", words="")
    page = staff.get(f"/dashboard/studies/{study.key}/people/{person.pk}/").content.decode()
    assert f"Item {item.key}" in page
    [row] = exporter_get("reports").rows(study, ExportOptions())
    assert row[3:9] == ["", None, item.key, 0, item.responses[0]["model"], "sexual"]


def test_the_pages_ask_no_more_with_more_reports(staff: Client) -> None:
    study = make_study("s")
    counts = []
    for _time in range(3):
        marked(reported(study, n=3))
        with CaptureQueriesContext(connection) as queries:
            staff.get(f"/dashboard/studies/{study.key}/people/?show=reported")
        counts.append(len(queries))
    assert counts[1] == counts[2]


def test_bots_show_how_often_they_name_their_model(staff: Client) -> None:
    chat = reported(make_study("s", bots=["eliza"]), n=2)
    turn = Turn.objects.filter(conversation=chat, index=1)
    marks_store(list(turn), [[FilterLabel("names_model", {}, "It says so.", ("ELIZA",))]])
    found = marks_of_bots(["eliza", "parrot"])
    assert {(key, one.marked, one.replies) for key, one in found.items()} == {("eliza", 1, 2)}
    for address in ("/dashboard/bots/", "/dashboard/bots/eliza/"):
        assert "1 of 2 replies name its model" in flat(staff.get(address).content.decode())
    [row] = exporter_get("reply_marks").rows(chat.study, ExportOptions())
    assert row[4:8] == [1, "names_model", {}, ["ELIZA"]]


def test_self_play_is_marked_and_withholds_nothing() -> None:
    from evaluation.selfplay import SelfPlayed
    from webapp.bots.selectors import bot_find
    from webapp.bots.services import bot_version_record
    from webapp.jobs.services.selfplay import run_create, selfplay_store

    run = run_create(bots=["eliza"], n_conversations=1, n_turns=2)
    said = (Said("human", "I am GPT-4"), Said("bot", "As an AI language model, I am ELIZA."))
    from chatbots import Conversation as Dialogue

    played = SelfPlayed(Dialogue(id="d", turns=said, seed=1))
    version = bot_version_record(bot=bot_find("eliza"))
    selfplay_store(run=run, version=version, ordinals=[0], played=[played])
    turn = Turn.objects.get(speaker="bot")
    assert turn.text.startswith("As an AI")
    assert turn.marks.get().found == ["As an AI language model", "I am ELIZA"]
    assert json.dumps(turn.marks.get().identity)
