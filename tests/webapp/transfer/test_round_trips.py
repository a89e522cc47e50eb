"""Every file that Confab writes is read again with the same conversations and ratings."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

import confab
from tests.builders import make_pairwise, make_participant
from webapp.ratings.models import Rating
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations
from webapp.transfer.import_mappings import imported_files

pytestmark = pytest.mark.django_db

TEXTS = ["=SUM(1;2)", "Zeile 1\nZeile 2: ja", "Grüße – “so” 🙂", "User: was said before", 'a "quoted", text', "-1"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of two bots that number their chats alike, with two raters of each chat."""
    records = [
        {
            "dialogue_id": f"c{number}",
            "bot": bot,
            "turns": [
                {"speaker": "human", "text": text},
                {"speaker": "bot", "text": f"{bot} {text}", "vote": 1},
                {"speaker": "human", "text": "and then?"},
                {"speaker": "bot", "text": f"{text} {bot}"},
            ],
            "ratings": [
                {"rater": "ann", "quality": 1 + number, "fun": 7 - number, "comment": f"because\n{text}"},
                {"rater": "bob", "quality": 4.5},
            ],
        }
        for bot in ("alpha", "beta")
        for number, text in enumerate(TEXTS)
    ]
    path = tmp_path_factory.mktemp("source") / "chats.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def published(source: Path, tmp_path: Path) -> Path:
    """Return the folder of the study's public data set."""
    import_conversations(source, study_key="round", scale=(1, 7))
    options: dict[str, Any] = {"licence": "cc-by-4.0", "unreviewed": True, "redistributable": True}
    call_command("publish", study="round", output=tmp_path / "d", stdout=io.StringIO(), **options)
    return tmp_path / "d"


def chats(study: confab.Study) -> Counter[Any]:
    return Counter(
        (dialogue.bot, tuple((turn.speaker, turn.text) for turn in dialogue.conversation.turns))
        for dialogue in study.dialogues
    )


def answers(study: confab.Study) -> Counter[Any]:
    """Count the answers of each bot's chats."""
    return Counter(
        (dialogue.bot, dialogue.conversation.turns[0].text, tuple(sorted(rating.answers.items())))
        for dialogue in study.dialogues
        for rating in dialogue.ratings
    )


def raters(study: confab.Study) -> set[str]:
    return {rating.rater for dialogue in study.dialogues for rating in dialogue.ratings}


@pytest.mark.parametrize(
    ("name", "n_raters"),
    [
        ("messages.jsonl", 2),
        ("data/messages.parquet", 2),
        ("argilla.json", 2),
        ("label_studio.json", 1),  # an id of a user of Label Studio would be needed
    ],
)
def test_a_published_file_is_read_again(name: str, n_raters: int, source: Path, published: Path) -> None:
    before, after = confab.read(source), confab.read(published / name)
    assert chats(after) == chats(before)
    assert answers(after) == answers(before)
    assert len(raters(after)) == n_raters
    assert after.skipped == ()
    report = import_conversations(published / name, study_key="again")
    assert (report.conversations, report.ratings) == (12, 24)
    assert import_conversations(published / name, study_key="again").ratings == 0
    again = Study.objects.get(key="again")
    assert imported_files(again).count() == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_published_turns_and_ratings_are_read_together(ending: str, source: Path, published: Path) -> None:
    folder = published / ("csv" if ending == "csv" else "data")
    before = confab.read(source)
    after = confab.read(folder / f"turns.{ending}", folder / f"ratings.{ending}")
    assert chats(after) == chats(before)
    assert answers(after) == answers(before)
    assert len(raters(after)) == 2


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("table", ["messages", "conversations"])
def test_an_exported_table_is_read_again(table: str, ending: str, source: Path, tmp_path: Path) -> None:
    import_conversations(source, study_key="round", scale=(1, 7))
    for what in (table, "ratings"):
        output = str(tmp_path / f"{what}.{ending}")
        arguments = ("--study", "round", "--what", what, "--format", ending, "--output", output)
        call_command("export", *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    ratings = tmp_path / f"ratings.{ending}" if table == "messages" else None
    before, after = confab.read(source), confab.read(tmp_path / f"{table}.{ending}", ratings)
    assert chats(after) == chats(before)
    assert answers(after) == answers(before)
    votes = [turn.vote for dialogue in after.dialogues for turn in dialogue.conversation.turns]
    assert sum(votes) == 12


def test_published_pairs_are_read_again(tmp_path: Path) -> None:
    study = make_pairwise(n_items=2)
    person = make_participant(study)
    question = study.rubric.dimensions.all()[0].key
    for item, answer in zip(study.items.order_by("pk"), (1, -1), strict=True):
        Rating.objects.create(
            item=item,
            participant=person,
            rubric=study.rubric,
            answers={question: answer},
            submitted_at=person.created_at,
        )
    options: dict[str, Any] = {"licence": "cc-by-4.0", "unreviewed": True}
    call_command("publish", study=study.key, output=tmp_path / "d", stdout=io.StringIO(), **options)
    expected = Counter()
    for item, better in zip(study.items.order_by("pk"), (0, 1), strict=True):
        for number, response in enumerate(item.responses):
            texts = (*item.context, response["text"])
            expected[response["model"], texts, float(number == better)] += 1
    for name in ("preferences.jsonl", "data/preferences.parquet"):
        after = confab.read(tmp_path / "d" / name)
        assert expected == Counter(
            (
                dialogue.bot,
                tuple(turn.text for turn in dialogue.conversation.turns),
                float(dialogue.ratings[0].answers["preferred"]),
            )
            for dialogue in after.dialogues
        )
        assert confab.rank(tmp_path / "d" / name).fit.n == 2
