"""Results by condition: the leaderboard within conditions, one level of it, its table, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.urls import reverse

from tests.builders import make_conversation, make_rating, make_study, signed_in
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.transfer.datasheet import datasheet_of

pytestmark = pytest.mark.django_db

FACTORS: list[dict[str, Any]] = [
    {
        "key": "scenario",
        "label": "Scenario",
        "levels": [
            {"key": "good", "label": "Good news", "goal": "x"},
            {"key": "bad", "label": "Bad news", "goal": "y"},
        ],
    }
]
CHATS = {("eliza", "good"): [6, 7], ("eliza", "bad"): [3, 4, 3, 4, 3, 4], ("parrot", "good"): [5, 6, 5, 6, 5, 6, 5]}
CHATS |= {("parrot", "bad"): [2, 1]}


@pytest.fixture(scope="module")
def varied_study(rows_of_file: None) -> Study:
    """Make a study in which the better bot had the worse scenario more often; nobody is a control there."""
    study = make_study("varied", bots=["eliza", "generic"], factors=FACTORS)
    n = 0
    for (bot, level), qualities in CHATS.items():
        for quality in qualities:
            n += 1
            chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{n}")
            make_rating(chat, quality=quality)
            version = _version("eliza" if bot == "eliza" else "generic")
            Conversation.objects.filter(pk=chat.pk).update(condition={"scenario": level}, bot=version)
    return study


def _version(bot: str) -> Any:
    from webapp.bots.services import bot_version_record_imported

    return bot_version_record_imported(bot_id=bot, source="")


@pytest.fixture
def study(varied_study: Study, db: None) -> Study:
    return Study.objects.get(pk=varied_study.pk)


def test_the_leaderboard_compares_within_conditions_and_shows_one_level(study: Study) -> None:
    client, address = signed_in(Right.READ), reverse("dashboard:study_results", args=["varied"])
    page = client.get(address)

    assert page.status_code == 200
    text = page.content.decode()
    assert "Bots are compared within 2 conditions, which have equal weight in every mean" in text
    rows = {row.bot.bot_id: row for row in page.context["board"].rows}
    assert float(rows["eliza"].mean) == pytest.approx(np.mean([6.5, 3.5]))
    assert "Mean of the conditions’ means" in text
    good = client.get(address, {"level": "scenario.good"})
    assert good.status_code == 200
    rows = {row.bot.bot_id: row for row in good.context["board"].rows}
    assert (rows["eliza"].n, float(rows["eliza"].mean)) == ("2", 6.5)
    assert [level.title for level in good.context["levels"] if level.is_open] == ["Scenario: Good news"]


def test_a_table_has_the_mean_and_the_number_of_every_cell(study: Study) -> None:
    page = signed_in(Right.READ).get(reverse("dashboard:study_results", args=["varied"]), {"part": "conditions"})

    assert page.status_code == 200
    [fold] = [fold for fold in page.context["folds"] if fold.id == "conditions"]
    [table] = fold.content.tables
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in table.table.rows}
    assert [header.text for header in table.table.headers] == ["Bot", "Good news", "Bad news"]
    [(_bot, (good, bad))] = [(bot, cell) for bot, cell in cells.items() if "iza" in bot]
    assert good.startswith("6.5")
    assert good.endswith("n = 2")
    assert bad.endswith("n = 6")


def test_a_report_tells_factors_and_conversations_in_each_cell(study: Study, tmp_path: Path) -> None:
    call_command("report", study="varied", output=tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Bots by condition" in text
    assert "The chats differ by Scenario (Good news, Bad news)." in text
    assert "n = 6" in text


def test_the_datasheet_counts_conversations_in_each_cell(study: Study) -> None:
    [said] = [entry.from_study for entry in datasheet_of(study) if entry.question.number == "3.1.2"]
    assert "Chats differ by Scenario, between participants (Good news, Bad news)." in said
    assert "Rated conversations in each cell: eliza with bad: 6; eliza with good: 2; generic with bad: 2;" in said


def test_a_study_without_factors_says_nothing_of_conditions() -> None:
    make_rating(make_conversation(make_study("plain"), n_exchanges=3))
    page = signed_in(Right.READ).get(reverse("dashboard:study_results", args=["plain"]))
    assert page.status_code == 200
    assert page.context["levels"] == []
    assert "condition" not in page.content.decode().lower().replace("unconditional", "")
