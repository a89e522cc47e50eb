"""Confidence level of a study: it governs intervals, tests and models, and is named wherever they are."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from django.urls import reverse

import confab
from evaluation.analysis.bot_means import bot_means
from evaluation.analysis.comparisons import compare
from evaluation.analysis.leaderboard import ranking_progress
from evaluation.analysis.rating_models import rating_models
from evaluation.data.study import compare as notebook_compare
from tests.builders import make_participant, make_study, signed_in
from webapp.core.rights import Right
from webapp.insights.narrative.verdicts import smallest_sentences
from webapp.ratings.selectors import study_ratings
from webapp.studies.lifecycle import study_import, study_read
from webapp.studies.models import Study
from webapp.studies.services import study_copy
from webapp.studies.study_file import study_file_of
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = []
    for number in range(60):
        bot, quality = f"b{number % 2}", 3 + number % 3 + (number % 2) * (number % 4 == 1)
        rows.append(f"c{number},{bot},hello,hi,r{number},{quality}")
    path = tmp_path / "chats.csv"
    path.write_text("conversation,bot,user,response,rater,quality\n" + "\n".join(rows) + "\n")
    return path


def imported(file: Path, key: str = "k") -> Study:
    call_command(
        *("import_conversations", str(file), "--study", key, "--scale", "1:7"), stdout=StringIO(), stderr=StringIO()
    )
    return Study.objects.get(key=key)


def test_new_studies_have_95_percent_and_05_and_the_level_governs_intervals_tests_and_models(file: Path) -> None:
    study = imported(file)
    assert study.values.quotas.level == 0.95
    ratings = study_ratings(study)
    assert bot_means(ratings).level == 0.95
    compared = compare(ratings)
    assert (compared.alpha, compared.to_json()["alpha"]) == (0.05, 0.05)
    models = rating_models(ratings)
    assert (models.level, models.alpha) == (0.95, 0.05)
    assert ranking_progress(ratings).compared.alpha == 0.05
    wide = study_edit(study=study, level=0.99)
    ratings = study_ratings(wide)
    [at_99], [at_95] = compare(ratings).pairs, compared.pairs
    assert at_99.high - at_99.low > at_95.high - at_95.low
    assert rating_models(ratings).alpha == 0.01
    assert [pair.ordered for pair in compare(ratings).pairs] == [at_99.p_holm < 0.01]
    assert compare(ratings).is_equal(at_99) == compared.is_equal(at_95), "equality keeps its 90 % interval"


def test_studies_of_before_keep_all_their_levels(file: Path) -> None:
    study = study_edit(study=imported(file), level=None)
    ratings = study_ratings(study)
    models = rating_models(ratings)
    assert (bot_means(ratings).level, compare(ratings).alpha, models.level, models.alpha) == (0.90, 0.10, 0.90, 0.05)
    assert study_copy(study=study).values.quotas.level is None
    assert study_file_of(study).to_plain()["quotas"]["level"] is None


def test_a_file_read_without_a_study_keeps_todays_levels_and_takes_one(file: Path) -> None:
    read = confab.read(file, scale=(1, 7))
    assert confab.compare(read).alpha == 0.10
    result = confab.compare(read, level=0.95)
    assert result.alpha == 0.05
    assert result.pairs[0].p == confab.compare(read).pairs[0].p
    assert notebook_compare(read, level=0.99).alpha == 0.01
    assert confab.models(read, level=0.99).alpha == 0.01
    assert (confab.models(read).level, confab.models(read).alpha) == (0.90, 0.05)
    with pytest.raises(ValueError, match=r"level is 95; it must be from 0\.5 to 0\.999"):
        confab.compare(read, level=95)


FILE = {"confab_study": 1, "key": "f", "name": "F", "protocol": "chat", "bots": ["eliza"]}


@pytest.mark.parametrize(("given", "stored"), [({}, 0.95), ({"level": 0.9}, 0.9), ({"level": None}, None)])
def test_a_study_file_has_the_level(given: dict[str, float | None], stored: float | None) -> None:
    plain = {**study_file_of(make_study("x")).to_plain(), "key": "f"}
    plain["quotas"].pop("level")
    plain["quotas"] |= given
    study = study_import(file=study_read(yaml.safe_dump(plain))).study
    assert study.values.quotas.level == stored
    plain["quotas"].pop("level", None)
    again = study_import(file=study_read(yaml.safe_dump(plain)))
    assert again.study.values.quotas.level == stored, "a file that names no level changes none"
    assert not again.changes


def test_a_change_after_people_have_begun_is_shown_and_logged() -> None:
    study = make_study("s")
    make_participant(study)
    assert not any("confidence level was changed" in sentence for sentence in smallest_sentences(study, 0.6, 1))
    study = study_edit(study=study, level=0.9)
    assert any(
        "changed after the first participants had started: from 95 % to 90 %" in sentence
        for sentence in smallest_sentences(study, 0.6, 1)
    )
    assert study.versions.count() == 2


def test_pages_name_the_level(file: Path) -> None:

    imported(file)
    client = signed_in(Right.READ)
    board = client.get(reverse("dashboard:study_results", args=["k"])).context["board"]
    assert "95 % interval" in board.caption
    assert "p < .05" in board.method
    assert "1 − 2α" in board.note
