"""Direction of a scale: asked for at import, shown by an arrow, never guessed; attention checks are no scale."""

import json
import random
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from pydantic import ValidationError

import confab
from evaluation.data.ratings import MEAN_KEY
from tests.builders import make_conversation, make_study, signed_in
from webapp.core.rights import Right
from webapp.insights.narrative.phrases import direction_sentences
from webapp.ratings.selectors import dimensions_led, study_dimensions, study_ratings, study_whole
from webapp.ratings.services import rating_submit
from webapp.studies.models import Dimension, Study
from webapp.studies.questions import Question

pytestmark = pytest.mark.django_db

CHECKED = [
    {"key": "quality", "title": "Good?", "kind": "scale", "direction": "higher"},
    {"key": "dull", "title": "Dull?", "kind": "scale", "direction": "lower"},
    {"key": "warm", "title": "Warm?", "kind": "scale"},
    {"key": "attn", "title": "Choose 2.", "kind": "scale", "expected": [2]},
]


def conversations(n: int) -> list[dict[str, Any]]:
    draw = random.Random(4)
    rows = []
    for number in range(n):
        quality = draw.randint(1, 7)
        ratings = [
            {"rater": f"r{number}", "quality": quality, "dull": min(max(8 - quality + draw.randint(-1, 1), 1), 7)}
        ]
        turns = [{"speaker": "human", "text": "hello"}, {"speaker": "bot", "text": "hi"}]
        rows.append({"dialogue_id": f"d{number}", "bot": f"b{number % 2}", "turns": turns, "ratings": ratings})
    return rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in conversations(40)))
    return path


def run_import(file: Path, *options: str) -> str:
    messages = StringIO()
    call_command(
        "import_conversations",
        str(file),
        "--study",
        "k",
        "--scale",
        "1:7",
        *options,
        stdout=StringIO(),
        stderr=messages,
    )
    return messages.getvalue()


def test_an_import_asks_for_the_direction_of_a_question_that_contradicts_the_others(file: Path) -> None:
    messages = run_import(file)
    assert "'dull' correlates −." in messages
    assert "--lower dull" in messages
    study = Study.objects.get(key="k")
    assert set(study.rubric.dimensions.values_list("reversed", flat=True)) == {None}
    means = study_ratings(study).values(["quality", "dull"])
    assert means.std() < 1, "an unknown direction changes no mean"
    assert "correlates" not in run_import(file, "--lower", "dull", "--higher", "quality")
    assert dict(study.rubric.dimensions.values_list("key", "reversed")) == {"quality": False, "dull": True}
    assert study_ratings(study).values(["quality", "dull"]).std() > 1
    with pytest.raises(CommandError, match="no question 'dul'"):
        run_import(file, "--lower", "dul")


def test_the_page_of_an_import_asks_too(file: Path, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    client = signed_in(*Right)
    sent = {"file": SimpleUploadedFile("chats.jsonl", file.read_bytes())}
    where = client.post(reverse("dashboard:imports"), sent)["Location"]
    page = client.get(where).content.decode()
    assert page.count("If low answers are better") == 2
    form = client.get(where).context["form"]
    assert {row["key"] for row in form.questions() if row["opposed"]} == {"quality", "dull"}


def test_column_heads_have_an_arrow_and_a_note_names_what_is_not_known(file: Path) -> None:
    run_import(file, "--lower", "dull", "--higher", "quality")
    client = signed_in(Right.READ)
    board = client.get(reverse("dashboard:study_results", args=["k"])).context["board"]
    assert board.title.startswith("Mean of all dimensions ↑, 1 to 7") or board.title.startswith("Quality ↑, 1 to 7")
    assert "is unknown" not in board.note
    Dimension.objects.filter(key="quality").update(reversed=None)
    board = client.get(reverse("dashboard:study_results", args=["k"])).context["board"]
    assert "↑" not in board.title
    assert "The direction of “Quality” is unknown" in board.note


def test_a_mean_of_dimensions_has_a_direction_if_all_of_them_have_one() -> None:
    study = make_study("s", after=CHECKED)
    dimensions = study_dimensions(study)
    assert [dimension.reversed for dimension in dimensions] == [False, True, None]
    assert [dimension.key for dimension in dimensions] == ["quality", "dull", "warm"]
    led = dimensions_led(dimensions, ["quality", "dull", "warm"])
    assert (led[0].key, led[0].reversed) == (MEAN_KEY, None)
    assert dimensions_led(dimensions[:2], ["quality", "dull"])[0].head.endswith(" ↑")
    assert "“Warm”" in direction_sentences(dimensions)[0]
    assert not direction_sentences(dimensions[:2])
    assert study_whole(study)


def test_attention_checks_are_no_dimensions_of_a_package(tmp_path: Path) -> None:
    study = make_study("s", after=CHECKED)
    for number in range(3):
        chat = make_conversation(study, n_exchanges=3)
        answers = {"quality": 3 + number, "dull": 2, "warm": 4, "attn": 2}
        rating_submit(conversation=chat, participant=chat.participant, answers=answers)
    path = tmp_path / "s.zip"
    call_command("export", study="s", what="package", format="csv", output=path, stdout=StringIO(), stderr=StringIO())
    read = confab.read(path)
    assert set(read.dimensions) == {"quality", "dull", "warm"}
    assert "attn" in read.tables["ratings"].columns
    directions = {dimension.key: dimension.reversed for dimension in read.answers.dimensions}
    assert directions == {"quality": False, "dull": True, "warm": None}


def test_a_question_says_its_direction_in_words_or_as_before() -> None:
    scale = {"key": "q", "title": "Q?", "kind": "scale"}
    assert Question.model_validate({**scale, "direction": "lower"}).reversed is True
    assert Question.model_validate({**scale, "reversed": True}).reversed is True
    assert Question.model_validate(scale).reversed is None
    higher = Question.model_validate({**scale, "direction": "higher"})
    assert higher.to_plain()["direction"] == "higher"
    assert Question.model_validate(higher.to_plain()) == higher
    with pytest.raises(ValidationError, match="must be one of higher, lower, unknown"):
        Question.model_validate({**scale, "direction": "up"})
    with pytest.raises(ValidationError, match="contradict"):
        Question.model_validate({**scale, "direction": "higher", "reversed": True})


def test_settings_of_an_imported_study_have_both_directions(file: Path) -> None:
    run_import(file)
    client: Client = signed_in(*Right)
    url = reverse("dashboard:study_build_step", args=["k", "general"])
    sent = {"name": "K", "key": "k", "seed": "1", "kappa_items": "9", "higher": ["quality"], "reversed": ["dull"]}
    context = client.get(url).context
    hidden = {field.html_name: field.value() for field in context["form"].hidden_fields()}
    client.post(url, {**hidden, **sent})
    result = dict(Study.objects.get(key="k").rubric.dimensions.values_list("key", "reversed"))
    assert result == {"quality": False, "dull": True}
