"""A study imported once for all tests of the analysis: four bots, named raters, votes, metrics of turns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.metrics.registry import metric_get
from webapp.conversations.models import Conversation
from webapp.insights.narrative.phrases import Section
from webapp.insights.report_sections import SECTIONS
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.results.compute import PARTS
from webapp.results.study_data import StudyData, study_data, study_frame
from webapp.studies.bot_columns import bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store
from webapp.transfer.import_file import import_conversations

BOTS = {"alpha": 5.2, "beta": 5.2, "gamma": 3.6, "bad": 1.6}
N_RATERS = 16
TABLE = (
    b"bot,ppl,corpus,EI,control\nalpha,20,reddit,EI,no\nbeta,25,reddit,plain,no\n"
    b"gamma,40,cornell,plain,no\nbad,,,,yes\n"
)


def records(seed: int = 3) -> list[dict[str, Any]]:
    """Make records in which every rater talks to every bot; good bots get more words and up-votes."""
    rng = np.random.default_rng(seed)
    results = []
    for rater in range(N_RATERS):
        kind = rng.normal(0, 0.6)
        for bot, quality in BOTS.items():
            level = quality + kind + rng.normal(0, 0.7)
            good = level > 4
            turns = []
            for n in range(3 + int(good)):
                words = "I really like this nice talk" if good else "no"
                vote = int(rng.integers(0, 2)) if good else -int(rng.integers(0, 2))
                turns.append({"speaker": "human", "text": f"{words} {n}"})
                turns.append({"speaker": "bot", "text": "Why is that so?", "vote": vote})
            answers = {name: int(np.clip(round(level + rng.normal(0, 0.5)), 1, 7)) for name in ("quality", "fluency")}
            results.append(
                {
                    "dialogue_id": f"{rater}-{bot}",
                    "bot": bot,
                    "source": "test",
                    "turns": turns,
                    "ratings": [{"rater": f"w{rater}", **answers}],
                }
            )
    return results


def measure(study: Study) -> None:
    """Store words and questions of every turn, as a metric run would."""
    for name, speaker, column, value in (
        ("words", "human", "words_user", lambda text: float(len(text.split()))),
        ("question", "bot", "question_bot", lambda text: 1.0),
    ):
        identity = metric_get(name).identity
        version, _made = MetricVersion.objects.get_or_create(
            key=identity.key, defaults={"name": name, "version": identity.version}
        )
        rows = []
        for conversation in Conversation.objects.filter(study=study).prefetch_related("turns"):
            turns = [
                value(turn.text) if turn.speaker == speaker else None
                for turn in sorted(conversation.turns.all(), key=lambda turn: turn.index)
            ]
            known = [v for v in turns if v is not None]
            rows.append(
                MetricResult(
                    conversation=conversation,
                    metric=version,
                    values={column: sum(known) / len(known)},
                    turns={column: turns},
                )
            )
        MetricResult.objects.bulk_create(rows)


def study_make(folder: Path) -> Study:
    """Make the study, imported by way of a file in the folder, and measured."""
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records()))
    import_conversations(path, study_key="analysed", scale=(1, 7))
    result = Study.objects.get(key="analysed")
    measure(result)
    bot_columns_store(study=result, columns=bot_columns_read(TABLE, list(BOTS), "bots.csv"))
    return result


@pytest.fixture(scope="module")
def analysed(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make the study once for the file; return its primary key."""
    return study_make(tmp_path_factory.mktemp("analysed")).pk


@pytest.fixture
def study(analysed: int, db: Any) -> Study:
    """Return the study of the file, read anew."""
    return Study.objects.get(pk=analysed)


@pytest.fixture
def data(study: Study) -> StudyData:
    """Return the study as the analysis reads it."""
    result = study_data(study)
    assert result is not None
    return result


def section_of(data: StudyData, part: str, **links: Any) -> Section:
    """Make a part of the analysis of these data and put it into words."""
    frame = study_frame(data.study, data.facts, **links)
    return SECTIONS[part](frame, PARTS[part].make(data, None))
