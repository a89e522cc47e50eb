"""Whose opinion: weighted results on page, report and API, and no surface that gives small groups away."""

import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from tests.builders import make_study, signed_in
from tests.webapp.api.programs import Program
from tests.webapp.transfer.test_exporters import rows_of
from tests.webapp.transfer.test_package import opened, packed, rows
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.results.compute import study_population
from webapp.results.paper_benchmarks import _by_group
from webapp.results.study_data import study_data
from webapp.studies.models import Participant, QuestionAnswers, Study
from webapp.studies.plans import plan_document
from webapp.studies.selectors import participant_backgrounds
from webapp.studies.study_file import study_file_of, study_file_text
from webapp.studies.versions import study_edit
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.import_file import import_conversations

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]
QUESTIONS: list[dict[str, Any]] = [
    {"key": "group", "title": "Age?", "name": "Age", "kind": "choice", "options": ["young", "old", "oldest", "unborn"]},
    {"key": "job", "title": "Job?", "kind": "text", "required": False},
]
MARGINS = "question,answer,share\ngroup,young,0.2\ngroup,old,0.5\ngroup,oldest,0.2\ngroup,unborn,0.1"
AGES = ["young"] * 18 + ["old"] * 12 + ["oldest"] * 6 + [""] * 5
BOTS = {"a": {"young": 6, "old": 3, "oldest": 1, "": 4}, "b": {"young": 4, "old": 4, "oldest": 5, "": 4}}
HIDDEN = ("oldest: 6", "n = 6", "No answer: 5", "n = 5")


@pytest.fixture(scope="module")
def asked_study(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Make a study whose 41 participants rated both bots, six of them of the oldest group."""
    path = tmp_path_factory.mktemp("asked") / "asked.jsonl"
    with path.open("w") as file:
        for n, age in enumerate(AGES):
            for bot, means in BOTS.items():
                turns = [{"speaker": "human", "text": "hello"}, {"speaker": "bot", "text": "hi"}]
                quality = min(max(means[age] + n // (1 + (bot == "b")) % 3 - 1, 1), 7)
                rating = {"rater": f"w{n:02}", "quality": quality}
                record = {"dialogue_id": f"{bot}{n}", "bot": bot, "turns": turns, "ratings": [rating]}
                file.write(json.dumps(record) + "\n")
    import_conversations(path, study_key="asked", scale=(1, 7))
    study = study_edit(study=Study.objects.get(key="asked"), questions=QUESTIONS, margins=MARGINS)
    people = Participant.objects.filter(study=study).select_related("platform_ids")
    people.update(consented_at=timezone.now())
    QuestionAnswers.objects.bulk_create(
        QuestionAnswers(participant=person, version=study.version, answers={"group": age, "job": "spy"} if age else {})
        for person in people
        for age in [AGES[int(person.external_id[1:])]]
    )
    return study


@pytest.fixture
def study(asked_study: Study, db: None, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr("webapp.results.cache.DIRECT_RATINGS", 1000)
    return Study.objects.get(pk=asked_study.pk)


def test_the_leaderboard_begins_with_whose_order_it_is(study: Study) -> None:
    page = signed_in(Right.READ).get(reverse("dashboard:study_results", args=["asked"]))
    said = page.content.decode()
    assert (
        "Weighted to your population, the order of the bots changes: b moves from 2 to 1 and a moves from 1 to 2."
        in said
    )
    assert "No participant gave these answers of the population: unborn (Age)." in said
    assert "41 participants count like 32 with equal weights (design effect 1.27)" in said
    assert "Differences between bots depend on the participant’s answer to Age" in said
    [fold] = [fold for fold in page.context["folds"] if fold.id == "population"]
    assert [header.text for header in fold.content.tables[2].table.headers] == ["Bot", "young", "old", "Other answers"]
    assert not [hidden for hidden in HIDDEN if hidden in said]


def test_no_surface_gives_a_small_group_away(study: Study, tmp_path: Path) -> None:
    """Report, its numbers, API, datasheet and package: no group is smaller than ten, and no sum gives one away."""
    call_command("report", study="asked", output=tmp_path / "report.html", sections="comparisons,population,raters")
    report = (tmp_path / "report.html").read_text()
    assert "Whose opinion? Population and groups" in report
    program = Program(Right.READ)
    document = program.get("studies/asked/results/population").json()["document"]
    assert [(group["group"], group["n_raters"]) for group in document["groups"]] == [
        ("young", 18), ("old", 12), ("Other answers", 11),
    ]  # fmt: skip
    assert min(n for level in document["by_group"]["levels"] for n in level["n_conversations"].values()) == 11
    [heds] = [entry.from_study for entry in datasheet_of(study) if entry.question.number == "3.2.5"]
    assert heds.startswith("Age? young: 18, old: 12, unborn: 0, Other answers: 11.")
    answers = opened(packed(study))
    text = b"".join(data for name, data in answers.items() if not name.startswith("study/")).decode()
    assert not [hidden for hidden in HIDDEN for place in (report, heds, text, json.dumps(document)) if hidden in place]
    groups = _by_group(study, study_ratings(study))
    assert {name: ratings.n_raters for name, ratings in groups.items()} == {
        "asked: young": 18, "asked: old": 12, "asked: Other answers": 11,
    }  # fmt: skip


def test_background_answers_are_private_in_rows_and_coarse_in_packages(study: Study) -> None:
    plain = rows_of(study, "participants")
    assert not [name for name in plain[0] if name.startswith(("question_", "group_"))]
    private = rows_of(study, "participants", include_private=True)
    assert Counter(row["question_group"] for row in private) == {"young": 18, "old": 12, "oldest": 6, "": 5}
    package = opened(packed(study))
    assert not [name for name in rows(package, "participants")[0] if name.startswith("question_")]
    packed_rows = rows(package, "participants")
    assert Counter(row["group_group"] for row in packed_rows) == {"young": 18, "old": 12, "Other answers": 11}
    assert "spy" not in zipfile_text(packed(study))
    assert "coarsened columns `group_…`" in package["README.md"].decode()
    assert "spy" in zipfile_text(packed(study, include_private=True))
    reader = Program(Right.READ, Right.PAY, name="reader")
    refused = reader.get("studies/asked/tables/participants", include_private=True)
    assert refused.status_code == 403
    allowed = reader.get("studies/asked/tables/participants", format="csv")
    assert allowed.status_code == 200
    assert b"question_group" not in b"".join(allowed.streaming_content)


def zipfile_text(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist() if name.startswith("data/"))


def test_population_is_part_of_the_file_and_the_plan(study: Study) -> None:
    assert "group,old,0.5" in study_file_text(study_file_of(study))
    plan = plan_document(study)
    assert (plan["population"][1], plan["smallest_group"]) == ("group,young,0.2", 10)
    assert set(participant_backgrounds(study)) == {"group"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"margins": "question,answer,share\ngroup,young,0.2"}, "the shares of group sum to 0.2"),
        ({"margins": "question,answer,share\ngroup,Young,1"}, "'Young' is not an answer to group"),
        ({"margins": "question,answer,share\njob,spy,1"}, "There is no question 'job'"),
        ({"smallest_group": 2}, "3"),
    ],
)
def test_a_wrong_population_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, ValueError), match=message):
        make_study("wrong", questions=QUESTIONS, **changes)


def test_scripted_participants_make_no_group_large_enough(study: Study) -> None:
    """Ten scripted participants are oldest, too; readers know them, so six people stay too few."""
    scripted = Participant.objects.bulk_create(
        Participant(study=study, is_synthetic=True, platform="test", consented_at=timezone.now()) for _ in range(10)
    )
    QuestionAnswers.objects.bulk_create(
        QuestionAnswers(participant=person, version=study.version, answers={"group": "oldest"}) for person in scripted
    )
    packed_rows = rows(opened(packed(study, include_synthetic=True)), "participants")
    assert Counter(row["group_group"] for row in packed_rows) == {
        "young": 18, "old": 12, "Other answers": 11, "": 10,
    }  # fmt: skip
    chats = Conversation.objects.filter(study=study, bot__bot_id="a").order_by("pk")[:10]
    [template] = Rating.objects.filter(conversation=chats[0])
    Rating.objects.bulk_create(
        Rating(
            conversation=chat,
            participant=person,
            rubric=template.rubric,
            answers={"quality": 1},
            submitted_at=template.submitted_at,
        )
        for chat, person in zip(chats, scripted, strict=True)
    )
    data = study_data(study, include_synthetic=True)
    assert data is not None
    assert len(data.ratings) == 92
    assert [(group.group, group.n_raters) for group in study_population(data).groups] == [
        ("young", 18), ("old", 12), ("Other answers", 11),
    ]  # fmt: skip
