"""The table of participants: everybody who agreed, with what they are to be paid by."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.builders import exchange, fail_reply, make_conversation, make_participant, make_rating, make_study
from tests.webapp.transfer.test_exporters import rows_of
from webapp.conversations.models import Conversation
from webapp.conversations.services import conversation_finish_failed, conversation_swap, conversation_withdraw
from webapp.conversations.task_start import conversation_start
from webapp.studies.models import Study
from webapp.studies.services import participant_enter
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db


@pytest.fixture
def study() -> Study:
    return make_study("pay", code_rated="CRATED1", code_bot_failed="CFAIL22")


def row_of(study: Study, conversation: Conversation, **options: bool) -> dict[str, Any]:
    rows = rows_of(study, "participants", **options)
    return next(row for row in rows if row["participant"] == str(conversation.participant_id))


def test_every_ending_has_its_outcome_and_the_code_that_was_shown(study: Study) -> None:
    rated = make_conversation(study, n_exchanges=3)
    make_rating(rated)
    failed = make_conversation(study)
    fail_reply(failed)
    conversation_finish_failed(conversation=failed)
    withdrawn = make_conversation(study)
    conversation_withdraw(conversation=withdrawn)
    still_open = make_conversation(study)
    swapped = make_conversation(study)
    fail_reply(swapped)
    second = conversation_swap(conversation=swapped)
    participant_enter(study=study)  # came, and did not agree

    found = {
        name: row_of(study, conversation)
        for name, conversation in [
            ("rated", rated),
            ("failed", failed),
            ("withdrawn", withdrawn),
            ("open", still_open),
            ("swapped", swapped),
        ]
    }
    assert len(rows_of(study, "participants")) == 5
    told = {name: (row["state"], row["outcome"], row["code"]) for name, row in found.items()}
    assert told == {
        "rated": ("completed", "rated", "CRATED1"),
        "failed": ("completed", "bot_failed", "CFAIL22"),
        "withdrawn": ("withdrawn", "withdrawn", ""),
        "open": ("open", "", ""),
        "swapped": ("open", "", ""),
    }
    assert found["swapped"]["bots"] == f"{swapped.bot.bot_id} {second.bot.bot_id}"
    assert found["swapped"]["n_chats"] == 2
    assert found["open"]["ended_at"] is None
    for name in ("rated", "failed", "withdrawn"):
        row = found[name]
        assert row["entered_at"] <= row["consented_at"] <= row["ended_at"]
    assert {row["study"] for row in found.values()} == {"pay"}
    texts = rows_of(study, "consent_texts")
    assert [row["n_participants"] for row in texts] == [5]
    assert {row["consent_version"] for row in found.values()} == {texts[0]["consent_version"]}
    assert texts[0]["consent_points"] == study.values.texts.consent_points


def test_a_second_chat_has_its_own_outcome_and_code() -> None:
    study = make_study("own")
    first = make_conversation(study, n_exchanges=3)
    one = make_rating(first).task
    assert first.participant is not None
    second = conversation_start(participant=first.participant)
    for n in range(3):
        exchange(second, f"m {n}", f"r {n}")
    second.refresh_from_db()
    two = make_rating(second).task
    row = row_of(study, first)
    assert row["outcome"] == "rated rated"
    assert row["code"] == f"{one.completion_code} {two.completion_code}"


def test_recruitment_ids_are_private_and_scripts_are_left_out(study: Study) -> None:
    sent = {"PROLIFIC_PID": "pid-1", "SESSION_ID": "session-1"}
    person = make_conversation(study, platform="prolific", external_id="pid-1", recruitment=sent)
    make_participant(study, is_synthetic=True)
    (row,) = rows_of(study, "participants")
    assert "pid-1" not in str(row)
    assert "session-1" not in str(row)
    private = row_of(study, person, include_private=True)
    assert (private["platform"], private["external_id"]) == ("prolific", "pid-1")
    assert (private["submissions"], private["recruitment"]) == ("session-1", sent)
    both = rows_of(study, "participants", include_synthetic=True)
    assert [row["is_synthetic"] for row in both] == [False, True]


def test_more_people_take_no_more_queries(study: Study) -> None:
    exporter = exporter_get("participants")

    def n_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            list(exporter.rows(study, ExportOptions(include_private=True)))
        return len(queries)

    make_rating(make_conversation(study, n_exchanges=3))
    few = n_queries()
    for _ in range(5):
        make_rating(make_conversation(study, n_exchanges=3))
    assert n_queries() == few
